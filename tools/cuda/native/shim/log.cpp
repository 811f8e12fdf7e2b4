#include "log.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstring>

namespace {

gpu::Report& report() { return *shim::link().report; }

uint32_t text(const char* name) {
  gpu::Report& r = report();
  const size_t bytes = std::strlen(name) + 1;
  // Most calls launch the same kernel again and again.
  for (uint32_t i = 0; i < r.logged; ++i)
    if (r.log[i].name < r.text_used && std::strcmp(r.text + r.log[i].name, name) == 0)
      return r.log[i].name;
  if (bytes > sizeof r.text - r.text_used) return gpu::kNoText;
  const uint32_t at = r.text_used;
  std::memcpy(r.text + at, name, bytes);
  r.text_used += static_cast<uint32_t>(bytes);
  return at;
}

// Copies leave room for kernels: the log shows whether there was one.
gpu::LogEntry* entry(gpu::EntryKind kind, const char* name) {
  gpu::Report& r = report();
  ++r.entries;
  const uint32_t room = kind == gpu::EntryKind::kernel ? gpu::kLogEntries : gpu::kLogEntries / 2;
  if (r.logged >= room) return nullptr;
  gpu::LogEntry& one = r.log[r.logged];
  one = {};
  one.kind = static_cast<uint32_t>(kind);
  one.name = text(name);
  ++r.logged;
  return &one;
}

void put(uint32_t (&to)[3], dim3 from) {
  to[0] = from.x;
  to[1] = from.y;
  to[2] = from.z;
}

bool quiet() { return !shim::call().logged; }

}  // namespace

namespace shim {

void clear_log() {
  gpu::Report& r = report();
  std::memset(&r, 0, offsetof(gpu::Report, log));
  r.magic = gpu::kReportMagic;
  r.bytes = sizeof r;
}

void note_launch(const Kernel& kernel, const Launch& launch) {
  if (quiet()) return;
  ++report().launches;
  gpu::LogEntry* one = entry(gpu::EntryKind::kernel, kernel.name.c_str());
  if (one == nullptr) return;
  put(one->grid, launch.grid);
  put(one->block, launch.block);
  put(one->cluster, launch.cluster);
  one->static_shared_bytes = static_cast<uint32_t>(kernel.static_shared_bytes);
  one->dynamic_shared_bytes = static_cast<uint32_t>(launch.shared_bytes);
  one->registers = static_cast<uint32_t>(kernel.registers);
  one->local_bytes = static_cast<uint32_t>(kernel.local_bytes);
  one->cooperative = launch.cooperative ? 1 : 0;
  int blocks = 0;
  const unsigned threads = launch.block.x * launch.block.y * launch.block.z;
  driver().cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
      &blocks, kernel.function, static_cast<int>(threads), launch.shared_bytes, 0);
  one->blocks_per_sm = static_cast<uint32_t>(blocks);
}

void note_copy(const char* name, size_t bytes, bool between_host_and_device) {
  if (quiet()) return;
  ++report().copies;
  if (between_host_and_device) report().host_bytes += bytes;
  if (gpu::LogEntry* one = entry(gpu::EntryKind::copy, name)) one->bytes = bytes;
}

void note_set(const char* name, size_t bytes) {
  if (quiet()) return;
  ++report().copies;
  if (gpu::LogEntry* one = entry(gpu::EntryKind::set, name)) one->bytes = bytes;
}

void note_refusal(CUresult error, const Kernel& kernel, const Launch& launch,
                  const gpu::RefusedCall& why) {
  gpu::RefusedCall& first = report().refused;
  if (quiet() || first.error != 0) return;
  first = why;
  first.error = 0;
  first.static_shared_bytes = static_cast<uint32_t>(kernel.static_shared_bytes);
  first.dynamic_shared_bytes = launch.shared_bytes;
  const uint32_t grid[3] = {launch.grid.x, launch.grid.y, launch.grid.z};
  const uint32_t block[3] = {launch.block.x, launch.block.y, launch.block.z};
  std::copy_n(grid, 3, first.grid);
  std::copy_n(block, 3, first.block);
  std::snprintf(first.kernel, sizeof first.kernel, "%s", kernel.name.c_str());
  first.error = static_cast<uint32_t>(error);
}

void note_allocation_failure(size_t bytes) {
  if (quiet() || report().allocation_failed != 0) return;
  report().allocation_failed = 1;
  report().refused_bytes = bytes;
  report().allowed_bytes = shim::call().scratch_quota;
}

}  // namespace shim
