// Pure parts of the runtime behind plain C, for property tests.
#include "device/account.h"
#include "device/order.h"
#include "device/state.h"

extern "C" {

uint32_t sectors(const uint64_t* address, uint32_t lanes) {
  return emu::count_sectors(address, lanes);
}

uint32_t wavefronts(const uint32_t* address, uint32_t lanes, uint32_t bytes) {
  return emu::count_wavefronts(emu::Lanes<uint32_t>(address, 0, lanes, bytes), lanes, bytes);
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

int sampled(uint64_t i, uint64_t n, uint64_t count) { return emu::is_sampled(i, n, count) ? 1 : 0; }
}
