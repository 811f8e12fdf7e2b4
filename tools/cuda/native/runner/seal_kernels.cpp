#include "seal_kernels.h"

#include <algorithm>
#include <fcntl.h>
#include <string>
#include <unistd.h>

#include "replies.h"
#include "seal.h"

namespace {

using namespace runner;

constexpr unsigned kThreads = 256;
constexpr unsigned kBlocksPerSm = 8;
constexpr unsigned kTagBlocks = gpu::kTagWords / kThreads / 4;

std::string read_file(const char* path) {
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) give_up("cubin", "not readable");
  std::string content;
  char part[1 << 14];
  for (ssize_t got; (got = read(file, part, sizeof part)) > 0;)
    content.append(part, static_cast<size_t>(got));
  close(file);
  return content;
}

void add_kernel(const Gpu& gpu, Chain& chain, CUfunction function, unsigned x, unsigned y,
                void** arguments) {
  CUDA_KERNEL_NODE_PARAMS node{};
  node.func = function;
  node.gridDimX = x;
  node.gridDimY = y;
  node.gridDimZ = 1;
  node.blockDimX = kThreads;
  node.blockDimY = node.blockDimZ = 1;
  node.kernelParams = arguments;
  CUgraphNode added = nullptr;
  expect(gpu,
         gpu.driver->cuGraphAddKernelNode(&added, chain.graph, &chain.last,
                                          chain.last == nullptr ? 0 : 1, &node),
         "kernel node");
  chain.last = added;
}

// Enough blocks for 16 bytes a thread, but no more than are resident.
unsigned blocks_for(const Gpu& gpu, uint64_t bytes) {
  const uint64_t wanted = (bytes / 16 + kThreads - 1) / kThreads;
  return static_cast<unsigned>(
      std::clamp<uint64_t>(wanted, 1, uint64_t{gpu.sms} * kBlocksPerSm));
}

}  // namespace

namespace runner {

SealKernels load_seal_kernels(const Gpu& gpu, const char* cubin) {
  const std::string image = read_file(cubin);
  CUmodule module = nullptr;
  SealKernels kernels{};
  expect(gpu, gpu.driver->cuModuleLoadData(&module, image.data()), "seal kernels");
  expect(gpu, gpu.driver->cuModuleGetFunction(&kernels.open, module, "open_inputs"), "open_inputs");
  expect(gpu, gpu.driver->cuModuleGetFunction(&kernels.flush, module, "flush"), "flush");
  expect(gpu, gpu.driver->cuModuleGetFunction(&kernels.tag, module, "tag_outputs"), "tag_outputs");
  expect(gpu, gpu.driver->cuModuleGetFunction(&kernels.hand_over, module, "hand_over"),
         "hand_over");
  expect(gpu, gpu.driver->cuModuleGetFunction(&kernels.ask, module, "ask_for_key"), "ask_for_key");
  return kernels;
}

Chain begin_chain(const Gpu& gpu) {
  Chain chain{};
  expect(gpu, gpu.driver->cuGraphCreate(&chain.graph, 0), "graph");
  return chain;
}

void add_clear_tags(const Gpu& gpu, const Arena& arena, const gpu::ArmFrame& frame, Chain& chain) {
  const uint64_t words = uint64_t{frame.steps} * frame.output_count * 2;
  if (words == 0) return;
  CUDA_MEMSET_NODE_PARAMS node{};
  node.dst = at(arena, frame.tag_offset, words * 4);
  node.elementSize = 4;
  node.width = words;
  node.height = 1;
  CUgraphNode added = nullptr;
  CUcontext context = nullptr;
  expect(gpu, gpu.driver->cuCtxGetCurrent(&context), "context");
  expect(gpu,
         gpu.driver->cuGraphAddMemsetNode(&added, chain.graph, &chain.last,
                                          chain.last == nullptr ? 0 : 1, &node, context),
         "memset node");
  chain.last = added;
}

void add_open(const Gpu& gpu, const SealKernels& kernels, const Arena& arena,
              const gpu::ArmFrame& frame, uint32_t step, Chain& chain) {
  const uint32_t slot = frame.order[step];
  gpu::SealCall call{};
  uint64_t longest = 0;
  for (uint32_t i = 0; i < frame.input_count; ++i) {
    const gpu::SealedInput& input = frame.inputs[i];
    const uint64_t moved = slot * frame.slot_stride;
    call.regions[i] = {at(arena, input.offset + moved, input.bytes),
                       at(arena, input.sealed_offset + moved, input.bytes), input.bytes,
                       input.index, 0};
    longest = std::max(longest, input.bytes);
  }
  if (longest == 0) return;
  call.key[0] = frame.key[0];
  call.key[1] = frame.key[1];
  call.slot = slot;
  call.count = frame.input_count;
  call.handed = frame.flags & gpu::kStepwise;
  void* arguments[] = {&call};
  add_kernel(gpu, chain, kernels.open, blocks_for(gpu, longest), call.count, arguments);
}

void add_flush(const Gpu& gpu, const SealKernels& kernels, const Flush& flush, uint32_t value,
               Chain& chain) {
  CUdeviceptr to = flush.base;
  uint64_t blocks = flush.bytes / 16;
  if (blocks == 0) return;
  void* arguments[] = {&to, &blocks, &value};
  add_kernel(gpu, chain, kernels.flush, gpu.sms * kBlocksPerSm, 1, arguments);
}

void add_captured(const Gpu& gpu, CUgraph captured, Chain& chain) {
  CUgraphNode added = nullptr;
  expect(gpu,
         gpu.driver->cuGraphAddChildGraphNode(&added, chain.graph, &chain.last,
                                              chain.last == nullptr ? 0 : 1, captured),
         "child graph");
  chain.last = added;
}

void add_tags(const Gpu& gpu, const SealKernels& kernels, const Arena& arena,
              const gpu::ArmFrame& frame, uint32_t step, Chain& chain, bool ignored) {
  const uint32_t slot = frame.order[step];
  gpu::SealCall call{};
  uint64_t longest = 0;
  for (uint32_t o = 0; o < frame.output_count; ++o) {
    const gpu::TaggedOutput& output = frame.outputs[o];
    const uint64_t word = uint64_t{step} * frame.output_count + o;
    call.regions[o] = {ignored ? 0 : at(arena, frame.tag_offset + word * 8, 8),
                       at(arena, output.offset + slot * frame.slot_stride, output.bytes),
                       output.bytes, output.index, 0};
    longest = std::max(longest, output.bytes);
  }
  if (longest == 0) return;
  call.key[0] = frame.key[2];
  call.key[1] = frame.key[3];
  call.slot = slot;
  call.count = frame.output_count;
  call.handed = frame.flags & gpu::kStepwise;
  const uint64_t wanted = (longest / 4 + kThreads - 1) / kThreads;
  const auto blocks = static_cast<unsigned>(std::clamp<uint64_t>(wanted, 1, kTagBlocks));
  void* arguments[] = {&call};
  add_kernel(gpu, chain, kernels.tag, blocks, call.count, arguments);
}

void add_question(const Gpu& gpu, const SealKernels& kernels, const Arena& arena,
                  const gpu::ArmFrame& frame, const SharedReport& shared_report, uint64_t number,
                  Chain& chain) {
  gpu::KeyQuestion call{shared_report.key_release, number, 0, 0, 0};
  if (number % 2 == 1 && number > 1) {
    const uint64_t first = (number / 2 - 1) * frame.output_count * 8;
    call.tags_to = shared_report.tags + first;
    call.tags_from = at(arena, frame.tag_offset + first, frame.output_count * 8);
    call.tag_count = frame.output_count;
  }
  void* arguments[] = {&call};
  add_kernel(gpu, chain, kernels.ask, 1, 1, arguments);
}

void add_hand_over(const Gpu& gpu, const SealKernels& kernels, const Arena& arena,
                   const gpu::ArmFrame& frame, Chain& chain) {
  uint64_t count = uint64_t{frame.steps} * frame.output_count;
  if (count == 0) return;
  uint64_t* to = gpu.tags;
  CUdeviceptr from = at(arena, frame.tag_offset, count * 8);
  void* arguments[] = {&to, &from, &count};
  add_kernel(gpu, chain, kernels.hand_over, 1, 1, arguments);
}

}  // namespace runner
