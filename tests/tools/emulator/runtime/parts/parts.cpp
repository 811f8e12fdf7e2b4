// Pure parts of the runtime behind plain C, for property tests.
#include "device/account.h"
#include "device/order.h"
#include "device/state.h"

extern "C" {

uint32_t sectors(const uint64_t* address, uint32_t lanes) {
  return emu::count_sectors(address, lanes);
}

void passes(const uint32_t* address, uint32_t lanes, uint32_t bytes, int is_load,
            uint32_t* taken_and_ideal) {
  const emu::AccessNumber access = is_load != 0 ? emu::AccessNumber::read : emu::AccessNumber::write;
  const emu::Passes passes =
      emu::count_passes(emu::Lanes<uint32_t>(address, 0, lanes, bytes), lanes, bytes, access);
  taken_and_ideal[0] = passes.taken;
  taken_and_ideal[1] = passes.ideal;
}

uint32_t serial(const uint64_t* address, uint32_t lanes) {
  return emu::count_serial(address, lanes);
}

void change_bits(uint8_t* bits, uint64_t first, uint64_t count, int set) {
  (set != 0 ? emu::set_bits : emu::clear_bits)(bits, first, count);
}

int all_bits(const uint8_t* bits, uint64_t first, uint64_t count) {
  return emu::all_set(bits, first, count) ? 1 : 0;
}

uint64_t position(uint64_t seed, uint64_t n, uint64_t i) { return emu::permuted(seed, n, i); }
}
