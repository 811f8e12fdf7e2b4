// atom and red: lanes act one after another.
#include <bit>
#include <cstring>

#include "device/account.h"
#include "device/certain.h"
#include "device/checks.h"
#include "device/cluster.h"
#include "device/races.h"
#include "device/strong_accesses.h"
#include "emu/memory.h"

namespace emu {
namespace {

uint32_t width_of(AtomType type) {
  switch (type) {
    case AtomType::b16:
    case AtomType::f16:
    case AtomType::bf16: return 2;
    case AtomType::b64:
    case AtomType::u64:
    case AtomType::s64:
    case AtomType::f64: return 8;
    default: return 4;
  }
}

// Sums that are not a number, as recorded on an H200.
constexpr uint16_t kNanHalf = 0x7fff;
constexpr uint32_t kNanFloat = 0x7fffffff;

float from_half(uint16_t bits) { return static_cast<float>(std::bit_cast<_Float16>(bits)); }
uint16_t to_half(float value) {
  return value != value ? kNanHalf : std::bit_cast<uint16_t>(static_cast<_Float16>(value));
}

float from_bfloat(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }
uint16_t to_bfloat(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if (value != value) return kNanHalf;
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float combine(AtomOp op, float old, float a) {
  switch (op) {
    case AtomOp::min: return a != a || old < a ? old : a;
    case AtomOp::max: return a != a || old > a ? old : a;
    default: return old + a;
  }
}

uint16_t combine_half(AtomOp op, uint16_t old, uint16_t a, bool brain) {
  // A float holds the sum of two halves well enough that rounding twice changes nothing.
  return brain ? to_bfloat(combine(op, from_bfloat(old), from_bfloat(a)))
               : to_half(combine(op, from_half(old), from_half(a)));
}

uint32_t combine_pair(AtomOp op, uint32_t old, uint32_t a, bool brain) {
  uint32_t low = combine_half(op, static_cast<uint16_t>(old), static_cast<uint16_t>(a), brain);
  uint32_t high =
      combine_half(op, static_cast<uint16_t>(old >> 16), static_cast<uint16_t>(a >> 16), brain);
  return high << 16 | low;
}

// atom.add.f32 on global memory flushes subnormal inputs and results; on shared memory it does not.
float flushed(float value) {
  return value != 0 && value < 0x1p-126f && value > -0x1p-126f ? value * 0.0f : value;
}

template <class T>
T integer(AtomOp op, T old, T a, T b) {
  using U = std::make_unsigned_t<T>;
  switch (op) {
    case AtomOp::add: return static_cast<T>(static_cast<U>(old) + static_cast<U>(a));
    case AtomOp::min: return a < old ? a : old;
    case AtomOp::max: return a > old ? a : old;
    case AtomOp::inc: return old >= a ? T{0} : static_cast<T>(old + 1);
    case AtomOp::dec: return old == 0 || old > a ? a : static_cast<T>(old - 1);
    case AtomOp::and_: return old & a;
    case AtomOp::or_: return old | a;
    case AtomOp::xor_: return old ^ a;
    case AtomOp::exch: return a;
    case AtomOp::cas: return old == a ? b : old;
  }
  return old;
}

bool is_arithmetic(AtomOp op) {
  return op == AtomOp::add || op == AtomOp::min || op == AtomOp::max;
}

uint64_t combined(AtomOp op, AtomType type, uint64_t old, uint64_t a, uint64_t b, bool global) {
  auto old32 = static_cast<uint32_t>(old);
  auto a32 = static_cast<uint32_t>(a);
  if (is_arithmetic(op)) {
    switch (type) {
      case AtomType::s32:
        return static_cast<uint32_t>(
            integer(op, static_cast<int32_t>(old32), static_cast<int32_t>(a32), 0));
      case AtomType::s64:
        return static_cast<uint64_t>(
            integer<int64_t>(op, static_cast<int64_t>(old), static_cast<int64_t>(a), 0));
      case AtomType::f32: {
        auto x = std::bit_cast<float>(old32);
        auto y = std::bit_cast<float>(a32);
        float sum = global && op == AtomOp::add ? flushed(flushed(x) + flushed(y))
                                                : combine(op, x, y);
        return sum != sum ? kNanFloat : std::bit_cast<uint32_t>(sum);
      }
      case AtomType::f64:
        return std::bit_cast<uint64_t>(std::bit_cast<double>(old) + std::bit_cast<double>(a));
      case AtomType::f16:
      case AtomType::bf16:
        return combine_half(op, static_cast<uint16_t>(old), static_cast<uint16_t>(a),
                            type == AtomType::bf16);
      case AtomType::f16x2:
      case AtomType::bf16x2: return combine_pair(op, old32, a32, type == AtomType::bf16x2);
      default: break;
    }
  }
  switch (width_of(type)) {
    case 2:
      return integer<uint16_t>(op, static_cast<uint16_t>(old), static_cast<uint16_t>(a),
                               static_cast<uint16_t>(b));
    case 4: return integer<uint32_t>(op, old32, a32, static_cast<uint32_t>(b));
    default: return integer<uint64_t>(op, old, a, b);
  }
}

uint64_t item(const void* lanes, int lane, uint32_t width) {
  uint64_t value = 0;
  if (lanes != nullptr) {
    std::memcpy(&value, static_cast<const uint8_t*>(lanes) + static_cast<uint32_t>(lane) * width,
                width);
  }
  return value;
}

struct LaneAtomics {
  AtomOp op;
  AtomType type;
  const void* a;
  const void* b;
  void* out;
};

// True when some lane changed memory; otherwise the warp may be waiting for somebody.
template <class U>
bool perform(const LaneAtomics& r, uint8_t* memory, const Lanes<U>& at, Mask lanes, bool global) {
  uint32_t width = width_of(r.type);
  bool changed = false;
  for (Mask rest = lanes; rest != 0; rest &= rest - 1) {
    int lane = __builtin_ctz(rest);
    uint8_t* where = memory + at.address[lane];
    uint64_t old = item(where, 0, width);
    uint64_t value =
        combined(r.op, r.type, old, item(r.a, lane, width), item(r.b, lane, width), global);
    std::memcpy(where, &value, width);
    changed = changed || value != old;
    if (r.out != nullptr) {
      std::memcpy(static_cast<uint8_t*>(r.out) + static_cast<uint32_t>(lane) * width, &old, width);
    }
  }
  return changed;
}

// Blocks share out work by what an atomic returns: whoever asks for more lets the others ask first.
void take_turns(Warp* w, uint32_t site) {
  BlockRun& block = *run_of(w).block;
  if (!w->block->counted || block.slices > 0) return;
  if (block.asked_site == site) {
    block.gives_way = true;
    polled(w, kTurn);
  }
  block.asked_site = site;
}

// Does the kernel go by the result? nvcc names a register for it in any case.
bool observes(const Warp* w, uint32_t site, const LaneAtomics& r) {
  return r.out != nullptr && w->launch->kernel->sites[site].steers;
}

void atomic_global(Warp* w, uint32_t site, Mask lanes, const LaneAtomics& r, const uint64_t* address,
                   int64_t offset) {
  uint32_t width = width_of(r.type);
  Lanes<uint64_t> at(address, offset, lanes, width);
  const Allocation* one = check_global(w, site, lanes, at, width, AccessNumber::atomic);
  if (r.op == AtomOp::exch && r.out == nullptr) {
    mark_global_known(lanes, at, width, one);
  } else if (r.op != AtomOp::exch || !w->tracked) {
    check_global_known(w, site, lanes, at, width, one, AccessNumber::atomic);
  }
  if (watches_races(w, one)) {
    check_race_atomic(w, site, lanes, at, width, observes(w, site, r));
    release_lanes(w, site, lanes, at, true);
    keep_earlier(w, lanes, at, width);
    if (r.out != nullptr) acquire_lanes(w, site, lanes, at);
  }
  if (r.out != nullptr && run_of(w).block->launch->sampling.partial &&
      w->launch->kernel->sites[site].steers) {
    raise_dependent(w, site, __builtin_ctz(lanes));
  }
  blur(w, at, lanes, one);
  if (r.out != nullptr) be_uncertain(w, observes(w, site, r));
  const bool changed = perform(r, reinterpret_cast<uint8_t*>(w->launch->delta), at, lanes, true);
  if (!changed) polled(w, kTurn / 64);
  if (w->block->counted) account_global(w, site, lanes, at, AccessNumber::atomic, !changed);
  if (changed && r.out != nullptr && w->launch->kernel->sites[site].steers) take_turns(w, site);
}

void atomic_shared(Warp* w, uint32_t site, Mask lanes, const LaneAtomics& r, const uint32_t* address,
                   int64_t offset) {
  uint32_t width = width_of(r.type);
  Lanes<uint32_t> at(address, offset, lanes, width);
  check_window(w, site, lanes, at, width, w->block->shared_bytes, AccessNumber::atomic,
               SpaceNumber::shared);
  if (r.op == AtomOp::exch && r.out == nullptr) {
    mark_shared_known(w, site, lanes, at, width);
  } else if (r.op != AtomOp::exch || !w->tracked) {
    check_shared_known(w, site, lanes, at, width, AccessNumber::atomic);
  }
  if ((site_traits(w, site) & kAcquire) != 0) order_warp(w);
  if (watches_races(w)) check_race_atomic(w, site, lanes, at, width, observes(w, site, r));
  const bool changed = perform(r, w->block->shared, at, lanes, false);
  if (!changed) polled(w, kTurn / 64);
  if (w->block->counted) {
    account_shared(w, site, lanes, at, width, AccessNumber::atomic, !changed);
  }
}

void atomic_cluster(Warp* w, uint32_t site, Mask lanes, const LaneAtomics& r, const uint32_t* address,
                    int64_t offset) {
  each_block(w, site, lanes, address, offset, width_of(r.type), AccessNumber::atomic,
             [&](BlockRun& target, Mask some, const uint32_t* inside) {
               Visit visit(w, target);
               atomic_shared(w, site, some, r, inside, 0);
               wait_for_cluster(w, site, target);
             });
}

}  // namespace

void combine_bytes(uint8_t* memory, const uint8_t* values, uint64_t bytes, AtomOp op, AtomType type,
                   bool global) {
  const uint32_t width = width_of(type);
  for (uint64_t at = 0; at + width <= bytes; at += width) {
    const uint64_t value =
        combined(op, type, item(memory + at, 0, width), item(values + at, 0, width), 0, global);
    std::memcpy(memory + at, &value, width);
  }
}

void atomic(Warp* w, uint32_t site, Mask lanes, Space space, AtomOp op, AtomType type,
            const uint64_t* address, int64_t offset, const void* a, const void* b, void* out) {
  LaneAtomics request{op, type, a, b, out};
  Mask shared = space == Space::shared ? lanes : 0;
  Mask elsewhere = 0;
  alignas(64) uint32_t low[kLanes];
  for (int i = 0; i < kLanes; ++i) {
    low[i] = static_cast<uint32_t>(address[i]);
    if (space == Space::generic && (lanes >> i & 1) != 0 &&
        ((address[i] + static_cast<uint64_t>(offset)) & kWindowMask) == kSharedWindow) {
      shared |= Mask{1} << i;
    }
    elsewhere |= static_cast<Mask>(low[i] + static_cast<uint32_t>(offset) > kOffsetMask) << i;
  }
  elsewhere &= shared;
  if (elsewhere != 0) atomic_cluster(w, site, elsewhere, request, low, offset);
  if (shared != elsewhere) atomic_shared(w, site, shared & ~elsewhere, request, low, offset);
  if (lanes != shared) atomic_global(w, site, lanes & ~shared, request, address, offset);
}

}  // namespace emu
