// Where undefined values come from, where they stand in memory, and the fault when one decides.
#include "device/undefined.h"

#include <algorithm>

#include "device/fault.h"
#include "emu/undefined.h"

namespace emu {
namespace {

// An instruction of a thread.
struct Place {
  uint32_t kernel, site;
  uint32_t block[3], thread[3];
  SpaceNumber space;
  uint32_t bytes;
  uint64_t address, space_bytes;
  CopyUnderWay copy{};
};

// Of a word of global memory: which bits are undefined, where they come from, who stored them.
struct UndefinedWord {
  uint32_t bits;
  uint32_t origin, stored;
};

struct Tracking {
  std::vector<Place> places;
  std::unordered_map<uint64_t, uint32_t> by_site;       // the last place of each
  std::unordered_map<uint64_t, UndefinedWord> words;    // by address
};

Tracking& tracking() {
  static Tracking one;
  return one;
}

constexpr size_t kMostPlaces = size_t{1} << 21;

uint64_t space_bytes(Warp* w, SpaceNumber space) {
  return space == SpaceNumber::shared ? w->block->shared_bytes
         : space == SpaceNumber::local ? w->launch->kernel->local_bytes
                                       : 0;
}

// Beyond the most places, those of an instruction share its last one.
uint32_t number_of(Warp* w, uint32_t site, int lane, SpaceNumber space, uint64_t address,
                   uint32_t bytes) {
  Tracking& t = tracking();
  const uint64_t key = uint64_t{w->launch->kernel_index} << 32 | site;
  if (t.places.size() >= kMostPlaces) {
    const auto known = t.by_site.find(key);
    if (known != t.by_site.end()) return known->second;
  }
  Place place{w->launch->kernel_index, site, {}, {}, space, bytes, address, space_bytes(w, space), {}};
  for (int axis = 0; axis < 3; ++axis) {
    place.block[axis] = run_of(w).home->block.ctaid[axis];
    place.thread[axis] = w->tid[axis][lane];
  }
  if (space == SpaceNumber::shared) {
    place.copy = copy_under_way(*run_of(w).block, static_cast<uint32_t>(address), bytes);
  }
  t.places.push_back(place);
  return t.by_site[key] = static_cast<uint32_t>(t.places.size() - 1);
}

// `at` is where the value decides; it is read there too where no place is known.
[[noreturn]] void raise_at(uint32_t origin, const Place& at, Use use) {
  const bool known = origin < tracking().places.size();
  const Place& from = known ? tracking().places[origin] : at;
  raise({.fault = Fault::uninitialised,
         .kernel = from.kernel,
         .site = known ? from.site : kNone,
         .other_site = at.site,
         .other_kernel = at.kernel,
         .space = known ? from.space : SpaceNumber::none,
         .access = known && from.bytes != 0 ? AccessNumber::read : AccessNumber::none,
         .bytes = known ? from.bytes : 0,
         .address = from.address,
         .space_bytes = from.space_bytes,
         .reason = static_cast<ReasonNumber>(static_cast<uint32_t>(ReasonNumber::decides_address) +
                                             static_cast<uint32_t>(use)),
         .copy_site = known ? from.copy.site : kNone,
         .copy_state = known ? from.copy.state : CopyNumber::none,
         .block = from.block,
         .thread = from.thread});
}

}  // namespace

uint32_t origin_of_read(Warp* w, uint32_t site, int lane, SpaceNumber space, uint64_t address,
                        uint32_t bytes) {
  return number_of(w, site, lane, space, address, bytes);
}

uint32_t origin_of_shuffle(Warp* w, uint32_t site, int lane) {
  return number_of(w, site, lane, SpaceNumber::none, 0, 0);
}

void raise_undefined(Warp* w, uint32_t site, int lane, uint32_t origin, Use use) {
  if (!w->tracked) return;
  Place at{w->launch->kernel_index, site, {}, {}, SpaceNumber::none, 0, 0, 0, {}};
  for (int axis = 0; axis < 3; ++axis) {
    at.block[axis] = run_of(w).home->block.ctaid[axis];
    at.thread[axis] = w->tid[axis][lane];
  }
  raise_at(origin, at, use);
}

void remember_origins(std::unordered_map<uint32_t, uint32_t>& origins, uint32_t address,
                      uint32_t bytes, uint32_t origin) {
  for (uint32_t word = address / 4; word <= (address + bytes - 1) / 4; ++word) origins[word] = origin;
}

uint32_t known_origin(const std::unordered_map<uint32_t, uint32_t>& origins, uint32_t address,
                      uint32_t bytes) {
  for (uint32_t word = address / 4; word <= (address + bytes - 1) / 4; ++word) {
    const auto found = origins.find(word);
    if (found != origins.end()) return found->second;
  }
  return kNone;
}

uint8_t undefined_byte(uint64_t address, uint32_t* origin) {
  const Device& d = device();
  if (all_set(d.initialised, address - d.base, 1)) return 0;
  const auto& words = tracking().words;
  const auto found = words.find(address / 4);
  const auto bits =
      found == words.end() ? uint8_t{0} : static_cast<uint8_t>(found->second.bits >> 8 * (address % 4));
  if (bits == 0) return 0xff;
  *origin = found->second.origin;
  return bits;
}

void undefine_byte(Warp* w, uint32_t site, int lane, uint64_t address, uint8_t bits, uint32_t origin) {
  Device& d = device();
  auto* one = const_cast<Allocation*>(find_allocation(address));
  if (one == nullptr) return;
  if (!one->tracked) {
    set_bits(d.initialised, one->begin - d.base, one->end - one->begin);
    one->tracked = true;
  }
  clear_bits(d.initialised, address - d.base, 1);
  UndefinedWord& word = tracking().words[address / 4];
  const uint32_t shift = 8 * (address % 4);
  const uint32_t stored = word.bits == 0 || word.origin != origin
                              ? number_of(w, site, lane, SpaceNumber::global, address, 0)
                              : word.stored;
  word = {(word.bits & ~(0xffu << shift)) | uint32_t{bits} << shift, origin, stored};
}

void copy_undefined(uint64_t to, uint64_t from, uint64_t bytes) {
  auto& words = tracking().words;
  if (words.empty()) return;
  for (uint64_t i = 0; i < bytes; ++i) {
    const auto found = words.find((from + i) / 4);
    if (found == words.end()) continue;
    const UndefinedWord source = found->second;
    const uint32_t shift = 8 * ((to + i) % 4);
    UndefinedWord& word = words[(to + i) / 4];
    word.bits = (word.bits & ~(0xffu << shift)) | (source.bits >> 8 * ((from + i) % 4) & 0xff) << shift;
    word.origin = source.origin;
    word.stored = source.stored;
  }
}

void forget_undefined() { tracking() = {}; }

void check_outputs() {
  const Device& d = device();
  const Tracking& t = tracking();
  uint64_t first = ~uint64_t{0};
  for (const auto& [word, undefined] : t.words) {
    for (uint64_t address = 4 * word; address < 4 * word + 4; ++address) {
      if (address >= first || (undefined.bits >> 8 * (address % 4) & 0xff) == 0) continue;
      const Allocation* one = find_allocation(address);
      if (one == nullptr || !one->tracked || one->kind != AllocationKind::buffer) continue;
      if (!one->watched || all_set(d.initialised, address - d.base, 1)) continue;
      first = address;
    }
  }
  if (first == ~uint64_t{0} || d.options.level == kSampleLevel) return;
  const UndefinedWord& word = t.words.at(first / 4);
  raise_at(word.origin, t.places[word.stored], Use::output);
}

namespace {

template <class T>
void exchange(Warp* w, uint32_t site, Mask lanes, Space space, const uint64_t* address,
              int64_t offset, const T* in, T* out) {
  alignas(64) uint64_t generic[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    generic[i] = address[i] | (space == Space::shared ? kSharedWindow : 0);
  }
  alignas(64) T held[kLanes] = {};
  alignas(64) uint32_t given[kLanes];
  std::copy(w->origins, w->origins + kLanes, given);
  T* const to[1] = {held};
  const T* const from[1] = {in};
  load_generic<T, 1>(w, site, lanes, generic, offset, to);
  std::swap(w->origins, given);
  store_generic<T, 1>(w, site, lanes, generic, offset, from);
  std::swap(w->origins, given);
  for (Mask rest = out == nullptr ? 0 : lanes; rest != 0; rest &= rest - 1) {
    const int i = __builtin_ctz(rest);
    out[i] = held[i];
  }
}

}  // namespace

void exchange_undefined(Warp* w, uint32_t site, Mask lanes, Space space, const uint64_t* address,
                        int64_t offset, const uint32_t* in, uint32_t* out) {
  exchange(w, site, lanes, space, address, offset, in, out);
}
void exchange_undefined(Warp* w, uint32_t site, Mask lanes, Space space, const uint64_t* address,
                        int64_t offset, const uint64_t* in, uint64_t* out) {
  exchange(w, site, lanes, space, address, offset, in, out);
}

}  // namespace emu
