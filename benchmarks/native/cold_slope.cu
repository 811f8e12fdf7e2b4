// Captures calls of `solve` in a graph, each behind a flush of L2, and times the graph by the host's
// clock.
#include <cuda_runtime.h>

#include <chrono>

// Pointers and integers alike travel in 64-bit registers.
extern "C" void solve(long, long, long, long, long, long, long, long);
extern "C" {
void* reserved;
}

namespace {
void* flushed;
size_t flushed_bytes;
}  // namespace

// Where `solve`'s own allocations lie, and memory to write through L2.
extern "C" void reserve(long scratch, long flush, long flush_bytes) {
  reserved = reinterpret_cast<void*>(scratch);
  flushed = reinterpret_cast<void*>(flush);
  flushed_bytes = static_cast<size_t>(flush_bytes);
}

// A graph of `calls` times: L2 written through where `flush`, then `solve` where `with`. Null where
// it failed.
extern "C" void* capture(const long* a, int calls, int flush, int with) {
  cudaStream_t stream = cudaStreamPerThread;
  cudaGraph_t graph;
  cudaGraphExec_t made;
  if (cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed)) return nullptr;
  for (int i = 0; i < calls; ++i) {
    if (flush) cudaMemsetAsync(flushed, i, flushed_bytes, stream);
    if (with) solve(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]);
  }
  if (cudaStreamEndCapture(stream, &graph) || cudaGraphInstantiate(&made, graph, 0)) {
    cudaGetLastError();
    return nullptr;
  }
  cudaGraphDestroy(graph);
  return made;
}

// Seconds of one launch of a graph; negative where it failed.
extern "C" double seconds(void* graph) {
  cudaStream_t stream = cudaStreamPerThread;
  if (cudaStreamSynchronize(stream)) return -1;
  auto from = std::chrono::steady_clock::now();
  if (cudaGraphLaunch(static_cast<cudaGraphExec_t>(graph), stream)) return -1;
  if (cudaStreamSynchronize(stream)) return -1;
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - from).count();
}

extern "C" void forget(void* graph) { cudaGraphExecDestroy(static_cast<cudaGraphExec_t>(graph)); }

// One call as it is, so that results can be looked at. 0 where it failed.
extern "C" int once(const long* a) {
  solve(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]);
  return cudaStreamSynchronize(cudaStreamPerThread) == cudaSuccess;
}
