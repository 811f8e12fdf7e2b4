// Who runs next inside a warp.
#include "emu/schedule.h"

#include <algorithm>

#include "device/fault.h"
#include "device/order.h"
#include "device/run.h"

namespace emu {
namespace {

// Picks that may pass lanes over before those get their turn, and how long the turn is. A lock
// holder behind its own spinning warp comes through; a loop of uneven trip counts stays together.
constexpr uint32_t kPatience = 2048;
constexpr uint32_t kFavour = 256;

uint16_t lowest_pc(const Warp* w, Mask lanes) {
  uint16_t best = 0xffff;
  for (int i = 0; i < kLanes; ++i) {
    uint16_t pc = static_cast<uint16_t>(w->pc[i] | -static_cast<int>(~(lanes >> i) & 1));
    best = std::min(best, pc);
  }
  return best;
}

Mask lanes_at(const Warp* w, uint16_t pc) {
  Mask at = 0;
  for (int i = 0; i < kLanes; ++i) at |= static_cast<Mask>(w->pc[i] == pc) << i;
  return at;
}

Mask fair_choice(WarpRun& run, Mask able) {
  if (run.favoured_turns > 0) {
    --run.favoured_turns;
    Mask chosen = able & run.favoured;
    if (chosen != 0) return chosen;
    run.favoured_turns = 0;
  }
  return able;
}

[[noreturn]] void raise_partial_mask(Warp* w, int lane) {
  const WarpRun& run = run_of(w);
  FaultAt at{.fault = Fault::partial_mask, .warp = w, .lane = lane, .site = run.parked_site[lane]};
  at.reason = ReasonNumber::missing_lanes;
  at.address = run.members[lane];
  at.space_bytes = lanes_at(w, w->pc[lane]) & w->parked;
  raise(at);
}

// Calls `act` for the lanes of each member mask.
template <class Action>
void each_meeting(const uint32_t* members, Mask lanes, Action act) {
  while (lanes != 0) {
    const Mask together = members[lowest(lanes)] & lanes;
    if (together == 0) return;
    act(together);
    lanes &= ~together;
  }
}

// __syncwarp is the one collective that lanes may execute at different places.
bool release_warp_syncs(Warp* w) {
  WarpRun& run = run_of(w);
  Mask at_sync = 0;
  for (Mask rest = w->parked; rest != 0; rest &= rest - 1) {
    int lane = lowest(rest);
    if ((run.traits[run.parked_site[lane]] & kWarpSync) != 0) at_sync |= Mask{1} << lane;
  }
  Mask complete = 0;
  for (Mask rest = at_sync; rest != 0; rest &= rest - 1) {
    int lane = lowest(rest);
    if ((run.members[lane] & w->alive & ~at_sync) == 0) complete |= Mask{1} << lane;
  }
  w->parked &= ~complete;
  run.released |= complete;
  if (w->watched) each_meeting(run.members, complete, [&](Mask lanes) { lanes_meet(w, lanes); });
  return complete != 0;
}

}  // namespace

Mask pick(Warp* w, uint32_t* pc) {
  Mask able = w->alive & ~w->at_barrier & ~w->parked;
  if (able == 0) {
    if (w->parked == 0 || !release_warp_syncs(w)) return 0;
    able = w->alive & ~w->at_barrier & ~w->parked;
  }
  WarpRun& run = run_of(w);
  Mask choice = run.favoured_turns == 0 ? able : fair_choice(run, able);
  uint16_t next = lowest_pc(w, choice);
  Mask there = lanes_at(w, next) & w->alive & ~w->at_barrier;
  Mask chosen = there & (choice | w->parked);
  w->parked &= ~chosen;
  if ((able & ~chosen) == 0) {
    run.starved = 0;
  } else if (++run.starved > kPatience && run.favoured_turns == 0) {
    run.starved = 0;
    run.favoured = able & ~chosen;
    run.favoured_turns = kFavour;
  }
  *pc = next;
  return chosen;
}

Status stalled(Warp* w) {
  if (w->alive == 0) return Status::exited;
  WarpRun& run = run_of(w);
  if (w->parked != 0 && (w->at_barrier & w->alive & ~run.gathering) == 0) {
    raise_partial_mask(w, lowest(w->parked));
  }
  if (w->parked != 0 && run.gathering != 0) raise_partial_mask(w, lowest(w->parked));
  return Status::waiting;
}

void send(Warp* w, Mask lanes, uint32_t pc) {
  uint16_t value = static_cast<uint16_t>(pc);
  if (lanes == ~Mask{0}) {
    for (int i = 0; i < kLanes; ++i) w->pc[i] = value;
    return;
  }
  for (int i = 0; i < kLanes; ++i) {
    if ((lanes >> i & 1) != 0) w->pc[i] = value;
  }
}

void leave(Warp* w, Mask lanes) {
  WarpRun& run = run_of(w);
  if (w->watched) {
    lanes_leave(w, lanes);
    run.block->has_left = true;
  }
  w->alive &= ~lanes;
  // A collective, as a barrier, waits for the threads that have not exited, in whatever order the
  // two happen: who waits for a leaving lane meets again. Reading what it would have given is the
  // fault then (read_of_absent_lane).
  for (Mask rest = w->parked; rest != 0; rest &= rest - 1) {
    int lane = lowest(rest);
    if ((run.members[lane] & lanes) != 0) w->parked &= ~(Mask{1} << lane);
  }
  if (w->alive == 0) leave_group(w);
  arrive_if_gathered(w);
  if (w->alive == 0 || w->at_barrier != 0) release_complete_barriers(*run.block);
}

Mask join(Warp* w, uint32_t site, Mask lanes, const uint32_t* members, uint32_t pc) {
  WarpRun& run = run_of(w);
  Mask ready = 0;
  if (lanes == w->alive) {
    // Everybody is here: only the masks themselves can be wrong.
    for (Mask rest = lanes; rest != 0; rest &= rest - 1) {
      int lane = lowest(rest);
      if ((members[lane] >> lane & 1) == 0) {
        raise({.fault = Fault::partial_mask, .warp = w, .lane = lane, .site = site,
               .address = members[lane], .reason = ReasonNumber::not_a_member});
      }
    }
    run.released &= ~lanes;
    if (w->watched) each_meeting(members, lanes, [&](Mask some) { lanes_meet(w, some); });
    return lanes;
  }
  for (Mask rest = lanes; rest != 0; rest &= rest - 1) {
    int lane = lowest(rest);
    Mask bit = Mask{1} << lane;
    if ((members[lane] & bit) == 0) {
      raise({.fault = Fault::partial_mask, .warp = w, .lane = lane, .site = site,
             .address = members[lane], .reason = ReasonNumber::not_a_member});
    }
    if ((members[lane] & w->alive & ~lanes) == 0 || (run.released & bit) != 0) {
      ready |= bit;
      continue;
    }
    run.members[lane] = members[lane];
    run.parked_site[lane] = site;
  }
  if (w->watched) {
    each_meeting(members, ready & ~run.released, [&](Mask some) { lanes_meet(w, some); });
  }
  run.released &= ~lanes;
  Mask waiting = lanes & ~ready;
  w->parked |= waiting;
  send(w, waiting, pc);
  return ready;
}

void met(Warp* w, Mask lanes) { lanes_meet(w, lanes); }

Mask split(Warp* w, Mask lanes, uint32_t pc) {
  WarpRun& run = run_of(w);
  const uint64_t drawn = mixed(run.block->launch->seed ^ mixed(uint64_t{w->block->linear} << 32 |
                                                                uint64_t{w->index} << 24 | ++run.splits));
  const Mask some = lanes & static_cast<Mask>(drawn);
  if (some == 0 || drawn >> 62 == 0) return lanes;
  send(w, lanes & ~some, pc);
  return some;
}

void fence(Warp* w, Mask lanes, bool block_scope) {
  if (w->watched) fence_lanes(w, lanes, block_scope);
}

void read_of_absent_lane(Warp* w, uint32_t site, int reader, int source) {
  raise({.fault = Fault::absent_lane, .warp = w, .lane = reader, .site = site,
         .address = static_cast<uint64_t>(source)});
}

uint64_t clock(Warp* w) { return run_of(w).clock += 32; }

}  // namespace emu
