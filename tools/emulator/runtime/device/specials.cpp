// What special registers say of where and when a warp runs: what a GPU of this profile might, other
// for each launch, and the same again for the same schedule seeds.
#include "emu/specials.h"

#include <algorithm>
#include <numeric>

#include "device/order.h"
#include "device/run.h"

namespace emu {
namespace {

constexpr uint64_t kCyclesPerBlock = 24;  // an execution of a basic block, roughly
constexpr uint64_t kCyclesPerRead = 18;
constexpr uint64_t kEpochNs = 1763000000000000000;  // a timer counts from 1970
constexpr uint64_t kTimerStepNs = 32;

const LaunchRun& launch_of(Warp* w) { return *run_of(w).block->launch; }

// Another number for each launch.
uint64_t seed_of(const LaunchRun& launch) {
  return mixed(launch.seed ^ mixed(launch.first_serial));
}

uint64_t started_before(Warp* w) {
  const BlockRun& block = *run_of(w).block;
  return block.serial - block.launch->first_serial;
}

// Warp executions of basic blocks so far, of this warp and those counted with it.
uint64_t work_done(Warp* w) {
  const uint32_t blocks = w->launch->kernel->block_count;
  return std::accumulate(w->block_warps, w->block_warps + blocks, uint64_t{0});
}

// Where the clock of the present launch began, and the latest that was read.
struct Clock {
  uint32_t launch = 0;
  uint64_t begin = 0;
  uint64_t latest = 0;
};

uint64_t pause_before(const LaunchRun& launch) {
  const uint64_t seed = seed_of(launch);
  return (uint64_t{4000} << (seed % 12)) + (seed >> 8) % 4000;
}

uint64_t resident_blocks(const LaunchRun& launch) {
  return std::max<uint64_t>(1, launch.wave_blocks / multiprocessors());
}

// How many blocks in turn get one multiprocessor: nothing says that each gets one of its own while
// there are enough.
uint64_t dealt_together(const LaunchRun& launch) {
  return resident_blocks(launch) > 1 && seed_of(launch) % 4 == 0 ? 2 : 1;
}

}  // namespace

uint32_t multiprocessors() { return std::max(1u, device().facts.sm_count); }

uint32_t multiprocessor(Warp* w) {
  const uint64_t count = multiprocessors();
  const uint64_t shuffle = seed_of(launch_of(w)) | 2;  // neither ascending nor descending
  const uint64_t dealt = started_before(w) / dealt_together(launch_of(w));
  return static_cast<uint32_t>(permuted(shuffle, count, dealt % count));
}

uint32_t warp_slots() { return std::max(1u, device().facts.max_threads_per_sm / kLanes); }

uint32_t warp_slot(Warp* w) {
  const LaunchRun& launch = launch_of(w);
  const BlockRun& block = *run_of(w).block;
  const uint64_t count = multiprocessors(), together = dealt_together(launch);
  const uint64_t started = started_before(w);
  const uint64_t place =
      (started / together / count * together + started % together) % resident_blocks(launch);
  const uint64_t first = seed_of(launch) >> 16;
  return static_cast<uint32_t>((first + place * block.warp_count + w->index) % warp_slots());
}

uint64_t grid_number(Warp* w) { return launch_of(w).first_serial; }

uint64_t cycles(Warp* w) {
  static Clock clock;
  const LaunchRun& launch = launch_of(w);
  if (clock.launch != launch.first_serial) {
    clock.launch = launch.first_serial;
    clock.begin = clock.latest + pause_before(launch);
  }
  run_of(w).clock += kCyclesPerRead;
  const uint64_t now = clock.begin + kCyclesPerBlock * work_done(w) + run_of(w).clock;
  clock.latest = std::max(clock.latest, now);
  return now;
}

uint64_t timer_ns(Warp* w) {
  const uint64_t mhz = std::max(1u, device().facts.clock_khz / 1000);
  return (kEpochNs + cycles(w) * 1000 / mhz) / kTimerStepNs * kTimerStepNs;
}

}  // namespace emu
