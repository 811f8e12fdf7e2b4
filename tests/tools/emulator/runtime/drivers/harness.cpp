#include "harness.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

namespace test {
namespace {

constexpr uint64_t kArenaBytes = uint64_t{1} << 30;
constexpr uint64_t kReportBytes = uint64_t{1} << 20;

Site sites[kSites];
Param params[8];
Kernel slot{};
const uint8_t kInitial[8] = {1, 0, 0, 0, 2, 0, 0, 0};
const Variable kVariables[] = {{"counter", 4, 4, false, nullptr, 0},
                               {"table", 8, 4, true, kInitial, 8},
                               {"pointer", 8, 8, false, nullptr, 0}};
const Relocation kRelocations[] = {{2, 0, 1, 4}};
Module module{kAbi, 1, &slot, 3, kVariables, 1, kRelocations};

DeviceFacts small_gpu() {
  DeviceFacts f{};
  std::strcpy(f.name, "test");
  f.compute_major = 9;
  f.sm_count = 4;
  f.max_threads_per_block = 1024;
  f.max_threads_per_sm = 1536;
  f.max_blocks_per_sm = 16;
  f.registers_per_sm = f.registers_per_block = 65536;
  f.shared_bytes_per_block = 48 << 10;
  f.shared_bytes_per_block_optin = 99 << 10;
  f.shared_bytes_per_sm = 100 << 10;
  f.shared_bytes_reserved = 1024;
  f.l2_bytes = 6 << 20;
  f.memory_bytes = uint64_t{24} << 30;
  return f;
}

void declare_kernel() {
  for (uint32_t i = 0; i < kSites; ++i) sites[i] = {declared.opcodes[i], 10 * (i + 1), 0, 4, 0, 0, 0, i == 0 && declared.steers, declared.updates[i]};
  for (uint32_t i = 0; i < 8; ++i) params[i] = {8 * i, 8};
  slot.symbol = "kernel";
  slot.register_bytes = sizeof(Regs);
  slot.local_bytes = declared.local;
  slot.static_shared_bytes = declared.static_shared;
  slot.param_bytes = 64;
  slot.max_threads = declared.max_threads;
  slot.hardware_registers = declared.registers;
  slot.block_count = kBlocks;
  slot.site_count = kSites;
  slot.sites = sites;
  slot.params = params;
}

}  // namespace

Settings settings;
Declared declared;

std::map<std::string, Scenario>& scenarios() {
  static std::map<std::string, Scenario> all;
  return all;
}

uint64_t Call::buffer(uint64_t bytes, BufferRole role) {
  uint64_t offset = (end_ + 4096 + 255) / 256 * 256;
  end_ = offset + bytes;
  buffers_.push_back(
      {offset, bytes, static_cast<uint32_t>(role), static_cast<uint32_t>(buffers_.size()), 0, 0});
  return emu_address(offset);
}

void Call::fill_from_the_one_before() {
  const CallBuffer& pool = buffers_[buffers_.size() - 2];
  buffers_.back().pool_offset = pool.offset;
  buffers_.back().pool_bytes = pool.bytes;
}

void Call::begin() {
  declare_kernel();
  CallOptions options{};
  options.level = settings.level;
  options.buffer_count = static_cast<uint32_t>(buffers_.size());
  options.schedule_seed = settings.seed;
  options.scratch_bytes = 1 << 20;
  options.fuel = settings.fuel;
  options.device_to_host = 1;
  options.sample_cost = declared.sample_cost;
  options.buffers = buffers_.data();
  emu_begin(&options);
}

CudaError Call::launch(Status (*run)(Warp*), uint32_t blocks, uint32_t threads,
                       std::initializer_list<uint64_t> arguments, uint32_t dynamic_shared,
                       bool cooperative, const ClusterShape& cluster) {
  slot.run = run;
  slot.param_count = static_cast<uint32_t>(arguments.size());
  std::vector<uint64_t> values(arguments);
  std::vector<void*> pointers;
  for (uint64_t& value : values) pointers.push_back(&value);
  uint32_t grid[3] = {blocks, 1, 1};
  uint32_t block[3] = {threads, 1, 1};
  return emu::launch(0, grid, block, pointers.data(), dynamic_shared, cooperative, cluster);
}

}  // namespace test

// driver SCENARIO ARENA_FD REPORT_FD LEVEL SEED FUEL
int main(int count, char** words) {
  using namespace test;
  if (count != 7 || scenarios().count(words[1]) == 0) {
    std::fprintf(stderr, "no such scenario: %s\n", count > 1 ? words[1] : "");
    return 2;
  }
  settings.level = static_cast<uint32_t>(std::atoi(words[4]));
  settings.seed = std::strtoull(words[5], nullptr, 10);
  settings.fuel = std::strtoull(words[6], nullptr, 10);
  DeviceFacts facts = small_gpu();
  emu_attach(std::atoi(words[2]), kArenaBytes, std::atoi(words[3]), kReportBytes, &facts);
  std::string name = words[1];
  declared.local = 32;
  declare_kernel();
  emu_load(&module);
  Call call;
  scenarios()[name](call);
  emu_end();
  return 0;
}
