// Control flow inside a warp: who runs next, who waits for whom. Faults never return (see fault.h).
#pragma once

#include "emu/warp.h"

namespace emu {

// Lanes that share the lowest pc among those able to run, and that pc. Lanes parked in a collective
// at the same pc join them. 0: nobody can run; then `return stalled(w)`.
Mask pick(Warp* w, uint32_t* pc);

// Why nobody can run: all exited, all at a barrier; anything else is a fault (a collective or
// aligned barrier that some of its lanes never reach).
Status stalled(Warp* w);

// Sends lanes to a basic block; they run when `pick` finds them.
void send(Warp* w, Mask lanes, uint32_t pc);

// Lanes leave the kernel. Barriers and collectives wait for the lanes that have not left: those that
// others wait for in vain no longer count.
void leave(Warp* w, Mask lanes);

// A warp collective stands alone at the head of basic block `pc`. Returns the lanes whose member
// masks are complete among `lanes` (exited members do not count); parks the others. 0: goto pick.
// A lane that is not in its own member mask is a fault.
Mask join(Warp* w, uint32_t site, Mask lanes, const uint32_t* members, uint32_t pc);

// The lanes have met in a collective: what each did before is ordered before what all do next.
void met(Warp* w, Mask lanes);

// The lanes that execute an activemask together: nothing keeps the lanes of a warp together, so where
// races are looked for some of those that came may be sent to come again.
Mask split(Warp* w, Mask lanes, uint32_t pc);
inline Mask together(Warp* w, Mask lanes, uint32_t pc) {
  return w->watched ? split(w, lanes, pc) : lanes;
}

// shfl from a member that has exited reads nothing defined: a fault naming the reader.
[[noreturn]] void read_of_absent_lane(Warp* w, uint32_t site, int reader, int source);

// Fence (`membar`, `fence`) of a block, or of the device and wider.
void fence(Warp* w, Mask lanes, bool block_scope);

enum class Reduce : uint32_t { none, popc, all, any };

// Block barrier `id` (count 0: all threads). The lanes continue at `next`; the result of a reducing
// barrier is in `Warp::barrier_result` then. `arrive_only` (bar.arrive) does not wait.
void barrier(Warp* w, uint32_t site, Mask lanes, uint32_t id, uint32_t count, bool aligned,
             bool arrive_only, Reduce reduce, Mask predicate, uint32_t next);

// True when the turn is over: send the lanes on and return Status::yielded.
inline bool out_of_fuel(Warp* w) { return --w->fuel < 0; }

// Is an outermost loop to be left here, of which `block` ends an iteration? Where a block is executed
// in part, to see what it shares with others.
inline bool cuts_loop(Warp* w, uint32_t block) {
  return w->trips != nullptr && ++w->trips[block] >= w->most_trips;
}

// `trap`, `__assertfail`: device code gave up.
[[noreturn]] void trap(Warp* w, uint32_t site, Mask lanes, const char* what);

// `call __assertfail`: the texts are generic addresses, one a lane.
[[noreturn]] void assert_failed(Warp* w, uint32_t site, Mask lanes, const uint64_t* message,
                                const uint64_t* file, const uint32_t* line);

// `call.choose`: sets for each lane which of `count` addresses of functions its pointer is; a fault where
// it is none.
void choose_function(Warp* w, uint32_t site, Mask lanes, const uint64_t* pointer,
                     const uint64_t* functions, uint32_t count, uint32_t* number);

// A function that is called through a pointer from itself.
[[noreturn]] void refuse_recursion(Warp* w, uint32_t site, Mask lanes);

// `call vprintf`: format and argument block are generic addresses, one a lane.
void print(Warp* w, uint32_t site, Mask lanes, const uint64_t* format, const uint64_t* arguments);

// Counts up, each time it is asked.
uint64_t clock(Warp* w);

// The place that an undefined value comes from: a shuffle that reads from a lane outside its mask.
uint32_t origin_of_shuffle(Warp* w, uint32_t site, int lane);

}  // namespace emu
