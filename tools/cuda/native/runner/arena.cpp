#include "arena.h"

#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

#include "replies.h"

namespace {

void* map_host(int file, uint64_t bytes) {
  void* host = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (host == MAP_FAILED) runner::give_up("host-shared memory", std::strerror(errno));
  close(file);
  return host;
}

bool by_ipc(const gpu::StartFrame& start) {
  return static_cast<gpu::SharedBy>(start.shared_by) == gpu::SharedBy::ipc;
}

CUdeviceptr open_shared(const runner::Gpu& gpu, const uint8_t* bytes) {
  CUdeviceptr base = 0;
  CUipcMemHandle handle;
  static_assert(sizeof handle.reserved == gpu::kHandleBytes);
  std::memcpy(handle.reserved, bytes, gpu::kHandleBytes);
  expect(gpu, gpu.driver->cuIpcOpenMemHandle(&base, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS),
         "CUDA IPC");
  return base;
}

}  // namespace

namespace runner {

Arena open_arena(const Gpu& gpu, const gpu::StartFrame& start, int host_file) {
  Arena arena{0, start.arena_bytes, nullptr};
  if (by_ipc(start)) {
    arena.base = open_shared(gpu, start.handle);
  } else {
    if (host_file < 0) give_up("host-shared memory", "no file was handed over");
    arena.host = map_host(host_file, start.arena_bytes);
    expect(gpu, gpu.driver->cuMemAlloc(&arena.base, start.arena_bytes), "arena");
  }
  return arena;
}

Flush open_flush(const Gpu& gpu, const gpu::StartFrame& start) {
  Flush flush{0, start.flush_bytes};
  if (flush.bytes == 0) return flush;
  if (by_ipc(start))
    flush.base = open_shared(gpu, start.flush_handle);
  else
    expect(gpu, gpu.driver->cuMemAlloc(&flush.base, flush.bytes), "flush");
  return flush;
}

CUdeviceptr at(const Arena& arena, uint64_t offset, uint64_t bytes) {
  if (offset > arena.bytes || bytes > arena.bytes - offset) give_up("frame", "outside the arena");
  return arena.base + offset;
}

void copy_in(const Gpu& gpu, const Arena& arena, uint64_t bytes) {
  if (arena.host == nullptr || bytes == 0) return;
  expect(gpu,
         gpu.driver->cuMemcpyHtoDAsync(at(arena, 0, bytes), arena.host, bytes, gpu.stream),
         "copying in");
}

void copy_out(const Gpu& gpu, const Arena& arena, uint64_t bytes) {
  if (arena.host == nullptr || bytes == 0) return;
  expect(gpu, gpu.driver->cuMemcpyDtoHAsync(arena.host, at(arena, 0, bytes), bytes, gpu.stream),
         "copying out");
  settle(gpu);
}

}  // namespace runner
