// Captures calls of `solve` in a graph and times the graph by the host's clock.
#include <cuda_runtime.h>

#include <chrono>

// Pointers and integers alike travel in 64-bit registers.
extern "C" void solve(long, long, long, long, long, long, long, long);

// `arguments`: eight numbers for each of `sets` buffer sets, taken in turn. Null where it failed.
extern "C" void* capture(const long* arguments, int sets, int calls) {
  cudaStream_t stream = cudaStreamPerThread;
  cudaGraph_t graph;
  cudaGraphExec_t made;
  if (cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed)) return nullptr;
  for (int i = 0; i < calls; ++i) {
    const long* a = arguments + 8 * (i % sets);
    solve(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]);
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
