// Launching a kernel: CUDA's own checks of the configuration, then the grid.
#include <algorithm>
#include <cstring>

#include <sys/mman.h>

#include "device/account.h"
#include "device/fault.h"
#include "device/grid.h"
#include "device/l1.h"
#include "device/occupancy.h"
#include "device/races.h"
#include "device/run.h"
#include "device/sample.h"
#include "device/traits.h"

namespace emu {
namespace {

constexpr CudaError kInvalidConfiguration = 9;
constexpr CudaError kInvalidDeviceFunction = 98;
constexpr CudaError kOutOfResources = 701;
constexpr CudaError kCooperativeTooLarge = 720;
constexpr CudaError kInvalidClusterSize = 912;

constexpr uint64_t kSlotMemory = uint64_t{1} << 30;  // all resident blocks together
constexpr int64_t kFuel = int64_t{1} << 32;          // where the caller sets none

struct LaunchRequest {
  uint32_t kernel;
  const uint32_t* grid;
  const uint32_t* block;
  uint64_t dynamic_shared_bytes;
  bool cooperative;
  ClusterShape cluster{};
};

// Remembers the first refusal: of a launch, or of raising a limit where `r.grid` is null.
CudaError failed(CudaError error, const LaunchRequest& r, const LaunchError& why) {
  LaunchError& first = device().report->launch_error;
  if (first.error != 0) return error;
  first = why;
  first.kernel = r.kernel;
  if (r.grid != nullptr) {
    first.dynamic_shared_bytes = r.dynamic_shared_bytes;
    std::copy(r.grid, r.grid + 3, first.grid);
    std::copy(r.block, r.block + 3, first.block);
  }
  first.error = static_cast<uint32_t>(error);
  return error;
}

LaunchError beyond(LimitNumber limit, uint64_t asked, uint64_t allowed, int axis = 0) {
  LaunchError why{};
  why.limit = static_cast<uint32_t>(limit);
  why.axis = static_cast<uint32_t>(axis);
  why.asked = asked;
  why.allowed = allowed;
  return why;
}

CudaError check_shape(const LaunchRequest& r) {
  const DeviceFacts& f = device().facts;
  static constexpr uint32_t kGridLimit[3] = {0x7fffffff, 65535, 65535};
  static constexpr uint32_t kBlockLimit[3] = {1024, 1024, 64};
  for (int axis = 0; axis < 3; ++axis) {
    if (r.grid[axis] == 0 || r.grid[axis] > kGridLimit[axis]) {
      return failed(kInvalidConfiguration, r,
                    beyond(LimitNumber::grid_extent, r.grid[axis], kGridLimit[axis], axis));
    }
    if (r.block[axis] == 0 || r.block[axis] > kBlockLimit[axis]) {
      return failed(kInvalidConfiguration, r,
                    beyond(LimitNumber::block_extent, r.block[axis], kBlockLimit[axis], axis));
    }
  }
  uint64_t threads = uint64_t{r.block[0]} * r.block[1] * r.block[2];
  if (threads > f.max_threads_per_block) {
    return failed(kInvalidConfiguration, r,
                  beyond(LimitNumber::threads_per_block, threads, f.max_threads_per_block));
  }
  const Kernel& k = kernel(r.kernel);
  if (k.max_threads != 0 && threads > k.max_threads) {
    return failed(kInvalidValue, r, beyond(LimitNumber::launch_bounds, threads, k.max_threads));
  }
  return kSuccess;
}

// The cluster that a launch has: its kernel's own, or what the launch asks for. They have to agree, to
// divide the grid, and to be of a size the chip takes.
CudaError check_cluster(LaunchRequest& r) {
  const Kernel& k = kernel(r.kernel);
  uint32_t* size = r.cluster.blocks;
  for (int axis = 0; axis < 3; ++axis) {
    const uint32_t own = k.cluster[axis];
    if (own != 0 && size[axis] != 0 && own != size[axis]) {
      return failed(kInvalidClusterSize, r,
                    beyond(LimitNumber::cluster_extent, size[axis], own, axis));
    }
    size[axis] = own != 0 ? own : size[axis] != 0 ? size[axis] : 1;
    if (r.grid[axis] % size[axis] != 0) {
      return failed(kInvalidClusterSize, r,
                    beyond(LimitNumber::cluster_extent, r.grid[axis], size[axis], axis));
    }
  }
  const uint64_t blocks = uint64_t{size[0]} * size[1] * size[2];
  const uint64_t allowed = device().facts.compute_major < 9 ? 1
                           : r.cluster.large                ? kLargestCluster
                                                            : kPortableCluster;
  if (blocks <= allowed) return kSuccess;
  return failed(kInvalidClusterSize, r, beyond(LimitNumber::cluster_blocks, blocks, allowed));
}

CudaError check_resources(const LaunchRequest& r) {
  const Device& d = device();
  const Kernel& k = kernel(r.kernel);
  uint32_t threads = r.block[0] * r.block[1] * r.block[2];
  uint64_t limit = d.dynamic_shared_limits[r.kernel];
  if (r.dynamic_shared_bytes > limit) {
    LaunchError why = beyond(LimitNumber::shared_memory, r.dynamic_shared_bytes, limit);
    why.static_shared_bytes = k.static_shared_bytes;
    why.most_shared_bytes = d.facts.shared_bytes_per_block_optin;
    return failed(kInvalidValue, r, why);
  }
  uint64_t registers = registers_of_block(k, threads);
  if (registers > d.facts.registers_per_block) {
    return failed(kOutOfResources, r,
                  beyond(LimitNumber::registers, registers, d.facts.registers_per_block));
  }
  if (!r.cooperative) return kSuccess;
  uint64_t blocks = uint64_t{r.grid[0]} * r.grid[1] * r.grid[2];
  uint64_t room = uint64_t{d.facts.sm_count} *
                  static_cast<uint64_t>(max_active_blocks(r.kernel, threads, r.dynamic_shared_bytes));
  if (blocks > room) {
    return failed(kCooperativeTooLarge, r, beyond(LimitNumber::resident_blocks, blocks, room));
  }
  return kSuccess;
}

CudaError check_request(LaunchRequest& r) {
  const Device& d = device();
  if (d.module == nullptr || r.kernel >= d.module->kernel_count) {
    LaunchRequest unknown = r;
    unknown.kernel = kNone;
    return failed(kInvalidDeviceFunction, unknown, LaunchError{});
  }
  if (CudaError error = check_shape(r); error != kSuccess) return error;
  if (CudaError error = check_cluster(r); error != kSuccess) return error;
  return check_resources(r);
}

void pack_arguments(LaunchRun& launch, void** arguments) {
  const Kernel& k = *launch.launch.kernel;
  launch.params.assign(k.param_bytes + 64, 0);
  for (uint32_t i = 0; i < k.param_count; ++i) {
    std::memcpy(launch.params.data() + k.params[i].offset, arguments[i], k.params[i].bytes);
  }
  launch.launch.params = launch.params.data();
}

// How long an execution of each basic block takes: it issues one instruction a clock at best.
void take_ticks(LaunchRun& launch) {
  const Kernel& k = *launch.launch.kernel;
  const DeviceFacts& f = device().facts;
  launch.block_ticks.resize(k.block_count + 1);
  launch.sector_ticks = 8 * kTicks / std::max(1u, f.load_store);
  for (uint32_t i = 0; i < k.block_count && k.costs != nullptr; ++i) {
    const BlockCost& cost = k.costs[i];
    const uint32_t issued = cost.pipes[static_cast<uint32_t>(Pipe::issue)];
    launch.block_ticks[i] =
        kTicks * (std::max(issued, cost.chain * f.latency_alu) +
                  cost.shared_waits * f.latency_shared + cost.cached_waits * f.latency_l1);
  }
}

// Stamps are never cleared between launches; each launch uses fresh numbers.
void take_stamps(LaunchRun& launch) {
  static uint64_t next = 1;
  uint64_t needed = 2 * launch.blocks_total + 4096;
  if (next + needed > 0xffffffff) {
    const Device& d = device();
    madvise(d.block_stamps, d.bytes / 8, MADV_DONTNEED);
    madvise(d.wave_stamps, d.bytes / 8, MADV_DONTNEED);
    madvise(d.dirty_stamps, d.bytes / 8, MADV_DONTNEED);
    madvise(d.line_fills, d.bytes / 128 * sizeof(LineFill), MADV_DONTNEED);
    next = 1;
  }
  static uint32_t launches = 0;
  launch.serial = ++launches;
  launch.first_serial = launch.first_wave = static_cast<uint32_t>(next);
  next += needed;
}

void set_up(LaunchRun& launch, const LaunchRequest& r, void** arguments) {
  Device& d = device();
  const Kernel& k = kernel(r.kernel);
  Launch& l = launch.launch;
  l.kernel = &k;
  l.kernel_index = r.kernel;
  std::copy(r.grid, r.grid + 3, l.grid);
  std::copy(r.block, r.block + 3, l.block);
  l.dynamic_shared_bytes = static_cast<uint32_t>(r.dynamic_shared_bytes);
  l.cooperative = r.cooperative;
  l.level = d.options.level;
  l.variables = d.variable_addresses.data();
  l.delta = d.delta;
  l.workspace = r.cooperative ? d.workspace : 0;
  std::memset(d.host(d.workspace), 0, kWorkspaceBytes);
  pack_arguments(launch, arguments);

  launch.threads = r.block[0] * r.block[1] * r.block[2];
  std::copy(r.cluster.blocks, r.cluster.blocks + 3, launch.cluster);
  launch.blocks_total = uint64_t{r.grid[0]} * r.grid[1] * r.grid[2];
  launch.traits = traits_of_sites(k);
  launch.races = l.level == 2;
  launch.order.begin = next_order_time();
  launch.seed = d.options.schedule_seed;
  launch.fuel = d.options.fuel == 0 ? kFuel : static_cast<int64_t>(d.options.fuel);
  uint64_t per_sm = std::max(
      1, max_active_blocks(r.kernel, launch.threads, r.dynamic_shared_bytes));
  uint64_t wave = std::max<uint64_t>(1, per_sm * d.facts.sm_count);
  launch.wave_blocks = static_cast<uint32_t>(wave);
  launch.l1_share = l1_share(launch, per_sm);
  uint64_t slot = uint64_t{launch.threads + kLanes} * (k.register_bytes / kLanes + k.local_bytes) +
                  6 * (k.static_shared_bytes + r.dynamic_shared_bytes) + 16384;
  launch.resident_blocks = static_cast<uint32_t>(std::clamp<uint64_t>(kSlotMemory / slot, 1, wave));
  const uint32_t together = cluster_blocks(launch);
  launch.resident_blocks = std::max(launch.resident_blocks / together * together, together);
  if (r.cooperative && launch.resident_blocks < launch.blocks_total) {
    refuse(Fault::infrastructure, "a cooperative grid needs more memory than the emulator takes");
  }
  launch.counters.block_warps.resize(k.block_count + 1);
  launch.counters.block_lanes.resize(k.block_count + 1);
  launch.counters.sites.resize(k.site_count + 1);
  launch.counters.site_sectors_first.resize(k.site_count + 1);
  launch.counters.site_sectors_wave.resize(k.site_count + 1);
  take_ticks(launch);
  take_stamps(launch);
}

}  // namespace

CudaError set_dynamic_shared_limit(uint32_t index, uint32_t bytes) {
  Device& d = device();
  uint64_t total = uint64_t{bytes} + kernel(index).static_shared_bytes;
  if (total > d.facts.shared_bytes_per_block_optin) {
    LaunchError why = beyond(LimitNumber::shared_memory, bytes,
                             d.facts.shared_bytes_per_block_optin - kernel(index).static_shared_bytes);
    why.static_shared_bytes = kernel(index).static_shared_bytes;
    return failed(kInvalidValue, {index, nullptr, nullptr, 0, false, {}}, why);
  }
  d.dynamic_shared_limits[index] = bytes;
  return kSuccess;
}

CudaError check_launch(uint32_t index, const uint32_t grid[3], const uint32_t block[3],
                       uint64_t dynamic_shared_bytes, bool cooperative,
                       const ClusterShape& cluster) {
  LaunchRequest request{index, grid, block, dynamic_shared_bytes, cooperative, cluster};
  return check_request(request);
}

CudaError launch(uint32_t index, const uint32_t grid[3], const uint32_t block[3], void** arguments,
                 uint64_t dynamic_shared_bytes, bool cooperative, const ClusterShape& cluster) {
  Device& d = device();
  LaunchRequest request{index, grid, block, dynamic_shared_bytes, cooperative, cluster};
  if (const CudaError error = check_request(request); error != kSuccess) return error;
  Progress& progress = d.report->progress;
  progress = {1, index, kNone, 0};
  d.transfer = {};
  if (kernel(index).run == nullptr) {
    raise({.fault = Fault::unsupported, .kernel = index, .detail = kernel(index).symbol});
  }
  LaunchRun run;
  set_up(run, request, arguments);
  run.launch.level == kSampleLevel ? run_sample(run) : run_grid(run);
  report_launch(run);
  progress.in_kernel = 0;
  return kSuccess;
}

}  // namespace emu
