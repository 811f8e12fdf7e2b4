// What `<<<...>>>` sets before the kernel's stub asks for it: the same in both of our CUDA runtimes.
#pragma once

#include <cuda_runtime_api.h>

namespace cudart {

// The caller's stream, whatever it is called.
inline bool is_default_stream(cudaStream_t stream) {
  return stream == nullptr || stream == cudaStreamLegacy || stream == cudaStreamPerThread;
}

struct CallConfiguration {
  dim3 grid, block;
  size_t shared_bytes;
  cudaStream_t stream;
};

// `f<<<...>>>(g<<<...>>>(...))` cannot be written, but arguments may launch: a short stack.
class CallConfigurations {
 public:
  // Zero lets the generated code go on to the kernel's stub.
  unsigned push(const CallConfiguration& one) {
    if (depth_ == kNesting) return 1;
    pushed_[depth_++] = one;
    return 0;
  }

  cudaError_t pop(dim3* grid, dim3* block, size_t* shared_bytes, void* stream) {
    if (depth_ == 0) return cudaErrorMissingConfiguration;
    const CallConfiguration& top = pushed_[--depth_];
    *grid = top.grid;
    *block = top.block;
    *shared_bytes = top.shared_bytes;
    *static_cast<cudaStream_t*>(stream) = top.stream;
    return cudaSuccess;
  }

 private:
  static constexpr int kNesting = 8;
  CallConfiguration pushed_[kNesting];
  int depth_ = 0;
};

}  // namespace cudart
