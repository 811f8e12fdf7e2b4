// What the runner and our libcudart call. libemulator.so does it; libcudart.so.13, in the process of
// the candidate's host part, asks for it over the link (link.h).
#pragma once

#include <cstddef>
#include <cstdint>

#include "emu/fault.h"
#include "emu/warp.h"

namespace emu {

// Facts of the GPU that is being stood in for, from its hardware profile.
struct DeviceFacts {
  char name[64];
  uint32_t compute_major, compute_minor;
  uint32_t sm_count;
  uint32_t max_threads_per_block, max_threads_per_sm, max_blocks_per_sm;
  uint32_t registers_per_sm, registers_per_block;
  uint32_t shared_bytes_per_block, shared_bytes_per_block_optin, shared_bytes_per_sm;
  uint32_t shared_bytes_reserved;
  uint32_t l2_bytes;
  uint32_t l1_bytes;  // of an SM, shared memory among them
  uint32_t clock_khz, memory_clock_khz, memory_bus_bits;
  uint64_t memory_bytes;
  // What the time model assumes of it: clocks of waiting, and words a clock of L1 and shared memory.
  uint32_t latency_alu, latency_shared, latency_l1, latency_l2, latency_dram;
  uint32_t load_store;
  // Operations a clock of an SM by wgmma, by the type of its factors; 0: it has none.
  uint32_t wgmma_fp16, wgmma_tf32, wgmma_fp8, wgmma_int8;
};

enum class BufferRole : uint32_t { in, out, inout };

struct CallBuffer {
  uint64_t offset;  // in the arena
  uint64_t bytes;
  uint32_t role;  // BufferRole
  uint32_t index; // position among the call's buffers, for reports
  // Contents that pages are filled from when they are first touched, at an offset of the arena; 0
  // bytes: the caller has filled the buffer.
  uint64_t pool_offset;
  uint64_t pool_bytes;  // a multiple of 4096
};

struct CallOptions {
  uint32_t level;          // 0 check, 1 account, 2 full, 3 sample
  uint32_t buffer_count;
  uint64_t schedule_seed;  // 0: blocks and warps ascend
  uint64_t scratch_bytes;  // quota of cudaMalloc within the call
  uint64_t fuel;           // back-edges a launch may take before it counts as endless
  uint32_t device_to_host; // 1: cudaMemcpyDeviceToHost is allowed
  uint64_t sample_cost;    // level sample: instructions and requests of warps a launch may take
  // Where the call reports which bytes of the outputs it is sure of (device/certain.h); 0 bytes: nowhere.
  uint64_t certain_offset;  // in the arena
  uint64_t certain_bytes;
  const CallBuffer* buffers;
};

}  // namespace emu

extern "C" {

// Maps both memfds. The arena appears twice: at device addresses without any access rights, so that
// host code touching it is caught, and privately for the emulator.
void emu_attach(int arena_fd, uint64_t arena_bytes, int report_fd, uint64_t report_bytes,
                const emu::DeviceFacts* facts);
void emu_load(const emu::Module* module);
// Device address of an arena offset.
uint64_t emu_address(uint64_t arena_offset);
void emu_begin(const emu::CallOptions* options);
void emu_end(void);
// Async-signal-safe: the launch that is running, if any, ends as Fault::endless_loop at its next
// back-edge, so that a call out of time still says where it was.
void emu_expire(void);

// Tells the host part where device memory lies and what device this is.
void emu_greet(int link);
// Answers requests until something else arrives: a packet of `capacity` bytes, copied to `other`.
// Returns its size; 0 when the host part has hung up; -1 when it asks what libcudart never would.
long emu_serve(int link, void* other, size_t capacity);
// The host part dereferenced a device pointer: ends the process with that fault, if it is one.
void emu_touched(uint64_t address);

// In libcudart: takes the link up and waits for the greeting.
void emu_connect(int link);
}

namespace emu {

using CudaError = int;  // numeric value of cudaError_t
constexpr CudaError kSuccess = 0;
constexpr CudaError kInvalidValue = 1;

// For the API. Errors are CUDA's numbers; the first failed launch is kept in the report.
// The blocks of a cluster, and whether more than eight of them were allowed. 0: the kernel's own.
struct ClusterShape {
  uint32_t blocks[3] = {0, 0, 0};
  bool large = false;
};
constexpr uint32_t kPortableCluster = 8;
constexpr uint32_t kLargestCluster = 16;

// Streams of the candidate's own; 0 is the default stream. Opening answers 0 where there are too many.
uint32_t open_stream(bool blocking);
void close_stream(uint32_t stream);
// Launches, fills, copies and releases are asked of this stream from now on: they are done at once, or
// when something waits for them.
void use_stream(uint32_t stream);
// How many pieces of work the stream has been asked for.
uint64_t record_stream(uint32_t stream);
// What the stream is asked for from now on waits for the first `end` pieces of another.
void wait_for_stream(uint32_t stream, uint32_t other, uint64_t end);
constexpr uint64_t kWholeStream = ~uint64_t{0};
constexpr uint32_t kEveryStream = ~uint32_t{0};
// The host waits. Returns an error of work that was done late.
CudaError synchronise(uint32_t stream, uint64_t end);

CudaError check_launch(uint32_t kernel, const uint32_t grid[3], const uint32_t block[3],
                       uint64_t dynamic_shared_bytes, bool cooperative,
                       const ClusterShape& cluster);
CudaError launch(uint32_t kernel, const uint32_t grid[3], const uint32_t block[3], void** arguments,
                 uint64_t dynamic_shared_bytes, bool cooperative, const ClusterShape& cluster = {});
const Kernel& kernel(uint32_t index);
int find_kernel(const char* symbol);    // -1: unknown
int find_variable(const char* symbol);  // -1: unknown
uint64_t variable_address(uint32_t variable);
uint64_t variable_bytes(uint32_t variable);
CudaError set_dynamic_shared_limit(uint32_t kernel, uint32_t bytes);
int max_active_blocks(uint32_t kernel, uint32_t threads, uint64_t dynamic_shared_bytes);
const DeviceFacts& facts();

// Notes that a function of the API returned an error to solve; `kernel`: that it is about, or -1.
void note_failed_call(const char* call, CudaError error, int kernel);

// Ends the process with a fault that stands outside any kernel.
[[noreturn]] void refuse(Fault fault, const char* detail);
// The same for a copy that no candidate may make; `most_bytes` may be copied, where some may.
[[noreturn]] void refuse_copy(Fault fault, uint64_t most_bytes);

uint64_t device_malloc(uint64_t bytes);  // 0: quota or arena exhausted
bool device_free(uint64_t address);
bool is_device_address(uint64_t address);
// Ranges must lie in one live allocation; otherwise cudaErrorInvalidValue.
// `part`: of an operation already counted, as the later rows of a two-dimensional copy are.
CudaError device_set(uint64_t address, int value, uint64_t bytes, bool part = false);
CudaError copy_to_device(uint64_t to, const void* from, uint64_t bytes, bool part = false);
CudaError copy_from_device(void* to, uint64_t from, uint64_t bytes, bool part = false);
CudaError copy_on_device(uint64_t to, uint64_t from, uint64_t bytes, bool part = false);

}  // namespace emu
