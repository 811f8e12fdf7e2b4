// Lane arithmetic of warp collectives. `lanes` have joined; everything else about meeting and
// waiting is the scheduler's. Member masks are lane arrays or `Same`, a constant. What is long stays
// out of line: a kernel may hold a hundred shuffles, and g++ should see each kind once.
#pragma once

#include "emu/schedule.h"
#include "emu/warp.h"

namespace emu {

// A constant in the place of a lane array.
struct Same {
  uint32_t value;
  uint32_t operator[](int) const { return value; }
};

// The lanes that execute the collective at `pc` now; 0 when all of them have to wait.
[[gnu::noinline]] inline Mask meet(Warp* w, uint32_t site, Mask lanes, const uint32_t* members,
                                   uint32_t pc) {
  const uint32_t first = members[__builtin_ctz(lanes)];
  bool same = true;
  for (int i = 0; i < kLanes; ++i) same &= members[i] == first || !(lanes >> i & 1);
  if (same && (first & w->alive) == lanes) {
    if (w->watched) met(w, lanes);
    return lanes;
  }
  return join(w, site, lanes, members, pc);
}
[[gnu::noinline]] inline Mask join_same(Warp* w, uint32_t site, Mask lanes, uint32_t members,
                                        uint32_t pc) {
  if ((members & w->alive) == lanes) {
    met(w, lanes);
    return lanes;
  }
  uint32_t each[kLanes];
  for (uint32_t& mask : each) mask = members;
  return join(w, site, lanes, each, pc);
}
[[gnu::always_inline]] inline Mask meet(Warp* w, uint32_t site, Mask lanes, uint32_t members,
                                        uint32_t pc) {
  if ((members & w->alive) == lanes && !w->watched) return lanes;
  return join_same(w, site, lanes, members, pc);
}

struct ShuffleSource {
  int lane;
  bool valid;
};

// What a lane reads from one outside its member mask is undefined, which does no harm where nobody
// uses it (the upper half of a reduction of 8 lanes). It is chosen to spoil sums, maxima and minima.
inline uint32_t undefined_value(Warp* w) {
  constexpr uint32_t kValues[] = {0x7fc0dead, 0x7f7fffff, 0xff7fffff};  // NaN, the largest floats
  return kValues[clock(w) / 32 % 3];
}

// A lane that was named as a member and is not there has exited: reading from it is a fault.
template <class Members>
[[gnu::noinline]] void read_absent(Warp* w, uint32_t site, Mask readers, const int* from,
                                   Members members, uint32_t* got) {
  for (Mask rest = readers; rest; rest &= rest - 1) {
    const int i = __builtin_ctz(rest);
    if (members[i] >> from[i] & 1) read_of_absent_lane(w, site, i, from[i]);
    switch (w->pass) {
      case Pass::values: got[i] = undefined_value(w); break;
      case Pass::undefined: got[i] = ~uint32_t{0}; break;
      case Pass::origins: got[i] = origin_of_shuffle(w, site, i); break;
    }
  }
}

// Gathers `value` from the lanes that `find` names; lanes without a source keep their own. Returns
// who had one. Computed for all lanes, so that it becomes vector code; `lanes` alone count.
template <class By, class Clamp, class Members, class Find>
[[gnu::always_inline]] inline Mask shuffle(Warp* w, uint32_t site, Mask lanes,
                                           const uint32_t* value, By by, Clamp clamp,
                                           Members members, uint32_t* out, Find find) {
  alignas(64) int from[kLanes];
  alignas(64) uint32_t got[kLanes];
  Mask valid = 0;
  Mask absent = 0;
  for (int i = 0; i < kLanes; ++i) {
    const int segment = int(clamp[i] >> 8 & 31);
    const int last = (i & segment) | (int(clamp[i] & 31) & ~segment);
    const ShuffleSource source = find(i, int(by[i] & 31), segment, last);
    from[i] = source.valid ? source.lane & 31 : i;
    valid |= Mask(source.valid) << i;
    absent |= (~(lanes & members[i]) >> from[i] & 1) << i;
  }
  for (int i = 0; i < kLanes; ++i) got[i] = value[from[i]];
  if (absent &= lanes) read_absent(w, site, absent, from, members, got);
  if (out) {
    for (int i = 0; i < kLanes; ++i) out[i] = lanes >> i & 1 ? got[i] : out[i];
  }
  return valid & lanes;
}

template <class By, class Clamp, class Members>
[[gnu::noinline]] Mask shuffle_up(Warp* w, uint32_t site, Mask lanes, const uint32_t* value, By by,
                       Clamp clamp, Members members, uint32_t* out) {
  return shuffle(w, site, lanes, value, by, clamp, members, out, [](int i, int b, int, int last) {
    return ShuffleSource{i - b, i - b >= last};
  });
}
template <class By, class Clamp, class Members>
[[gnu::noinline]] Mask shuffle_down(Warp* w, uint32_t site, Mask lanes, const uint32_t* value, By by,
                         Clamp clamp, Members members, uint32_t* out) {
  return shuffle(w, site, lanes, value, by, clamp, members, out, [](int i, int b, int, int last) {
    return ShuffleSource{i + b, i + b <= last};
  });
}
template <class By, class Clamp, class Members>
[[gnu::noinline]] Mask shuffle_bfly(Warp* w, uint32_t site, Mask lanes, const uint32_t* value, By by,
                         Clamp clamp, Members members, uint32_t* out) {
  return shuffle(w, site, lanes, value, by, clamp, members, out, [](int i, int b, int, int last) {
    return ShuffleSource{i ^ b, (i ^ b) <= last};
  });
}
template <class By, class Clamp, class Members>
[[gnu::noinline]] Mask shuffle_idx(Warp* w, uint32_t site, Mask lanes, const uint32_t* value, By by,
                        Clamp clamp, Members members, uint32_t* out) {
  return shuffle(w, site, lanes, value, by, clamp, members, out, [](int i, int b, int segment, int last) {
    const int from = (i & segment) | (b & ~segment);
    return ShuffleSource{from, from <= last};
  });
}

// Calls `act(i, group)` for every lane with the lanes of its own member mask.
template <class Members, class Action>
[[gnu::always_inline]] inline void each_group(Mask lanes, Members members, Action act) {
  for (Mask rest = lanes; rest; rest &= rest - 1) {
    const int i = __builtin_ctz(rest);
    act(i, members[i] & lanes);
  }
}

template <class Members>
inline void ballot(Mask lanes, Mask predicate, Members members, uint32_t* out) {
  each_group(lanes, members, [&](int i, Mask group) { out[i] = predicate & group; });
}
template <class Members>
inline Mask vote_all(Mask lanes, Mask predicate, Members members) {
  Mask result = 0;
  each_group(lanes, members, [&](int i, Mask group) {
    result |= Mask((predicate & group) == group) << i;
  });
  return result;
}
template <class Members>
inline Mask vote_any(Mask lanes, Mask predicate, Members members) {
  Mask result = 0;
  each_group(lanes, members, [&](int i, Mask group) {
    result |= Mask((predicate & group) != 0) << i;
  });
  return result;
}
template <class Members>
inline Mask vote_uni(Mask lanes, Mask predicate, Members members) {
  return vote_all(lanes, predicate, members) | ~vote_any(lanes, predicate, members);
}

// Lanes of the group that hold the same value.
template <class T, class Members>
inline Mask match_any(Mask lanes, const T* value, Members members, uint32_t* out) {
  uint32_t found[kLanes];
  each_group(lanes, members, [&](int i, Mask group) {
    Mask equal = 0;
    for (int j = 0; j < kLanes; ++j) equal |= Mask(value[j] == value[i]) << j;
    found[i] = equal & group;
  });
  if (out) each_group(lanes, members, [&](int i, Mask) { out[i] = found[i]; });
  return lanes;
}
// The whole group where all values agree, else 0. Returns who agreed.
template <class T, class Members>
inline Mask match_all(Mask lanes, const T* value, Members members, uint32_t* out) {
  uint32_t found[kLanes];
  match_any(lanes, value, members, found);
  Mask agreed = 0;
  each_group(lanes, members, [&](int i, Mask group) {
    const bool all = found[i] == group;
    if (out) out[i] = all ? group : 0;
    agreed |= Mask(all) << i;
  });
  return agreed;
}

enum class Combine { add_, min_, max_, and_, or_, xor_ };

template <class T, Combine Operation, class Members>
inline void redux(Mask lanes, const uint32_t* value, Members members, uint32_t* out) {
  uint32_t result[kLanes];
  each_group(lanes, members, [&](int i, Mask group) {
    T sum = T(value[__builtin_ctz(group)]);
    for (Mask rest = group & (group - 1); rest; rest &= rest - 1) {
      const T next = T(value[__builtin_ctz(rest)]);
      switch (Operation) {
        case Combine::add_: sum = T(uint32_t(sum) + uint32_t(next)); break;
        case Combine::min_: sum = next < sum ? next : sum; break;
        case Combine::max_: sum = next > sum ? next : sum; break;
        case Combine::and_: sum &= next; break;
        case Combine::or_: sum |= next; break;
        case Combine::xor_: sum ^= next; break;
      }
    }
    result[i] = uint32_t(sum);
  });
  each_group(lanes, members, [&](int i, Mask) { out[i] = result[i]; });
}

// One leader per group, its lowest lane. Returns the leaders.
template <class Members>
inline Mask elect(Mask lanes, Members members, uint32_t* out) {
  Mask leaders = 0;
  each_group(lanes, members, [&](int i, Mask group) {
    const int leader = __builtin_ctz(group);
    if (out) out[i] = uint32_t(leader);
    leaders |= Mask(leader == i) << i;
  });
  return leaders;
}

}  // namespace emu
