// Costs of single operations and access patterns on one GPU, one JSON object a line.
//
// `clk` figures are clocks of the SM's own counter. Throughput: 1,024 threads on one SM, so `per_clk`
// is results per clock and SM. Latency: one warp, each operation waiting for the one before.
// Whole-chip patterns are timed by events, the median of nine runs.

#include <algorithm>
#include <cooperative_groups.h>
#include <cstdio>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <vector>

#define CHECK(call)                                                                      \
  do {                                                                                   \
    cudaError_t status = (call);                                                         \
    if (status != cudaSuccess) {                                                         \
      std::printf("{\"error\": \"%s\", \"line\": %d}\n", cudaGetErrorString(status), __LINE__); \
      return 1;                                                                          \
    }                                                                                    \
  } while (0)

constexpr int kTurns = 256;

// Each operation takes its last result and an operand that the compiler does not know.
#define OPERATION(name, T, expression)                        \
  struct name {                                               \
    using type = T;                                           \
    static __device__ __forceinline__ T run(T x, T b) { return expression; } \
  };
OPERATION(fp32_add, float, x + b)
OPERATION(fp32_fma, float, fmaf(x, b, b))
OPERATION(fp32_div, float, __fdiv_rn(b, x))
OPERATION(fp32_div_fast, float, __fdividef(b, x))
OPERATION(fp32_rcp, float, __frcp_rn(x))
OPERATION(fp32_sqrt, float, __fsqrt_rn(x))
OPERATION(fp32_rsqrt_add, float, rsqrtf(x) + b)
OPERATION(fp32_exp, float, expf(-x))
OPERATION(fp32_exp_fast, float, __expf(-x))
OPERATION(fp32_log, float, logf(x) + b)
OPERATION(fp32_log_fast, float, __logf(x) + b)
OPERATION(fp32_sin, float, sinf(x) + b)
OPERATION(fp32_sin_fast, float, __sinf(x) + b)
OPERATION(fp32_tanh, float, tanhf(x) + b)
OPERATION(fp32_pow, float, powf(x, b))
OPERATION(fp32_erf, float, erff(x) + b)
OPERATION(fp64_add, double, x + b)
OPERATION(fp64_fma, double, fma(x, b, b))
OPERATION(fp64_div, double, b / x)
OPERATION(fp64_sqrt, double, sqrt(x))
OPERATION(fp64_exp, double, exp(-x))
OPERATION(s32_add, int, x + b)
OPERATION(s32_mad, int, x * b + b)
OPERATION(s32_div, int, b - b / (x | 1))
OPERATION(s32_rem, int, b - b % (x | 1))
OPERATION(u32_div, unsigned, b - b / (x | 1))
OPERATION(u32_rem, unsigned, b - b % (x | 1))
OPERATION(u32_mulhi, unsigned, __umulhi(x, b) + b)
OPERATION(s64_mad, long long, x * b + b)
OPERATION(s64_div, long long, b - b / (x | 1))
OPERATION(u64_div_small, unsigned long long, b - b / (x | 1))
OPERATION(u64_rem_small, unsigned long long, b - b % (x | 1))
OPERATION(dot_of_bytes, int, __dp4a(x, b, x))
OPERATION(count_bits, unsigned, __popc(x) + b)
OPERATION(leading_zeros, int, __clz(x) + b)
OPERATION(reverse_bits, unsigned, __brev(x) + b)
OPERATION(f2i, float, float(int(x)) + b)
OPERATION(shuffle, int, __shfl_xor_sync(0xffffffffu, x, 1) + b)
OPERATION(vote, unsigned, __ballot_sync(0xffffffffu, x > b) + b)
OPERATION(syncwarp, int, (__syncwarp(), x + b))

template <class Op>
__global__ void one_by_one(long long* clocks, typename Op::type* sink, typename Op::type b, int turns) {
  typename Op::type x = b;
  for (int k = 0; k < 16; ++k) x = Op::run(x, b);
  long long start = clock64();
#pragma unroll 1
  for (int k = 0; k < turns; k += 16) {
#pragma unroll
    for (int j = 0; j < 16; ++j) x = Op::run(x, b);
  }
  long long end = clock64();
  if (threadIdx.x == 0) clocks[0] = end - start;
  sink[threadIdx.x] = x;
}

template <class Op>
__global__ void side_by_side(long long* clocks, typename Op::type* sink, typename Op::type b, int turns) {
  using T = typename Op::type;
  T x0 = b, x1 = b + T(1), x2 = b + T(2), x3 = b + T(3);
  x0 = Op::run(x0, b);
  __syncthreads();
  long long start = clock64();
#pragma unroll 1
  for (int k = 0; k < turns; k += 4) {
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      x0 = Op::run(x0, b);
      x1 = Op::run(x1, b);
      x2 = Op::run(x2, b);
      x3 = Op::run(x3, b);
    }
  }
  __syncthreads();
  long long end = clock64();
  if (threadIdx.x == 0) clocks[0] = end - start;
  sink[threadIdx.x] = x0 + x1 + x2 + x3;
}

long long* g_clocks;
void* g_sink;

template <class Op>
int operation(const char* name, typename Op::type b) {
  using T = typename Op::type;
  long long clocks[2] = {};
  for (int round = 0; round < 3; ++round) {
    one_by_one<Op><<<1, 32>>>(g_clocks, static_cast<T*>(g_sink), b, kTurns);
    CHECK(cudaMemcpy(&clocks[0], g_clocks, sizeof(long long), cudaMemcpyDeviceToHost));
    side_by_side<Op><<<1, 1024>>>(g_clocks, static_cast<T*>(g_sink), b, kTurns);
    CHECK(cudaMemcpy(&clocks[1], g_clocks, sizeof(long long), cudaMemcpyDeviceToHost));
  }
  std::printf("{\"operation\": \"%s\", \"latency_clk\": %.2f, \"per_clk\": %.3f}\n", name,
              double(clocks[0]) / kTurns, 1024.0 * 4 * kTurns / double(clocks[1]));
  std::fflush(stdout);
  return 0;
}

// Barriers of blocks of different sizes on one SM.
__global__ void barriers(long long* clocks, int turns) {
  __syncthreads();
  long long start = clock64();
#pragma unroll 1
  for (int k = 0; k < turns; ++k) __syncthreads();
  long long end = clock64();
  if (threadIdx.x == 0) clocks[blockIdx.x] = end - start;
}
// Barriers of a cluster, and of the whole grid.
__global__ void cluster_barriers(long long* clocks, int turns) {
  auto cluster = cooperative_groups::this_cluster();
  cluster.sync();
  long long start = clock64();
#pragma unroll 1
  for (int k = 0; k < turns; ++k) cluster.sync();
  if (threadIdx.x == 0) clocks[blockIdx.x] = clock64() - start;
}
__global__ void grid_barriers(int turns) {
  for (int k = 0; k < turns; ++k) cooperative_groups::this_grid().sync();
}
// Loads of shared memory, each waiting for the one before.
__global__ void shared_chain(long long* clocks, int* sink, int turns) {
  __shared__ int next[64];
  if (threadIdx.x < 64) next[threadIdx.x] = int(threadIdx.x) ^ 1;
  __syncthreads();
  int at = sink[0] & 63;
  long long start = clock64();
#pragma unroll 4
  for (int k = 0; k < turns; ++k) at = next[at];
  clocks[0] = clock64() - start;
  sink[1] = at;
}
// A store to shared memory, a barrier and a load on each turn: a step of a tree.
__global__ void tree_steps(long long* clocks, float* sink, int turns) {
  __shared__ float place[1024];
  float x = threadIdx.x;
  __syncthreads();
  long long start = clock64();
#pragma unroll 1
  for (int k = 0; k < turns; ++k) {
    place[threadIdx.x] = x;
    __syncthreads();
    x += place[threadIdx.x ^ 32];
    __syncthreads();
  }
  long long end = clock64();
  if (threadIdx.x == 0) clocks[blockIdx.x] = end - start;
  sink[threadIdx.x] = x;
}

template <bool kFloat, bool kSame>
__global__ void shared_atomics(long long* clocks, float* sink, int turns) {
  __shared__ float floats[1024];
  __shared__ int ints[1024];
  floats[threadIdx.x] = 0;
  ints[threadIdx.x] = 0;
  int place = kSame ? int(threadIdx.x) / 32 * 32 : int(threadIdx.x);
  __syncthreads();
  long long start = clock64();
#pragma unroll 1
  for (int k = 0; k < turns; ++k) {
    if (kFloat) atomicAdd(&floats[place], 1.0f);
    else atomicAdd(&ints[place], int(threadIdx.x));
  }
  __syncthreads();
  long long end = clock64();
  if (threadIdx.x == 0) clocks[0] = end - start;
  sink[threadIdx.x] = kFloat ? floats[threadIdx.x] : float(ints[threadIdx.x]);
}

// int8 products on tensor cores, and those of halves.
__global__ void imma(long long* clocks, int* sink, int turns) {
  int c[4][4] = {};
  unsigned a[4] = {threadIdx.x, 1, 2, 3}, b[2] = {4, 5};
  __syncthreads();
  long long start = clock64();
#pragma unroll 1
  for (int k = 0; k < turns; ++k) {
#pragma unroll
    for (int j = 0; j < 4; ++j)
      asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                   : "+r"(c[j][0]), "+r"(c[j][1]), "+r"(c[j][2]), "+r"(c[j][3])
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
  __syncthreads();
  long long end = clock64();
  if (threadIdx.x == 0) clocks[0] = end - start;
  int sum = 0;
  for (int j = 0; j < 4; ++j) for (int i = 0; i < 4; ++i) sum += c[j][i];
  sink[threadIdx.x] = sum;
}
__global__ void hmma(long long* clocks, float* sink, int turns) {
  float c[4][4] = {};
  unsigned a[4] = {threadIdx.x, 1, 2, 3}, b[2] = {4, 5};
  __syncthreads();
  long long start = clock64();
#pragma unroll 1
  for (int k = 0; k < turns; ++k) {
#pragma unroll
    for (int j = 0; j < 4; ++j)
      asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
                   : "+f"(c[j][0]), "+f"(c[j][1]), "+f"(c[j][2]), "+f"(c[j][3])
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
  }
  __syncthreads();
  long long end = clock64();
  if (threadIdx.x == 0) clocks[0] = end - start;
  float sum = 0;
  for (int j = 0; j < 4; ++j) for (int i = 0; i < 4; ++i) sum += c[j][i];
  sink[threadIdx.x] = sum;
}

// An array in local memory at a place that the compiler does not know, `kWords` words a thread.
template <int kWords>
__global__ void local_words(const int* __restrict__ step, float* sink, int turns) {
  float words[kWords];
  int by = step[0];
#pragma unroll 1
  for (int k = 0; k < kWords; ++k) words[(k * by) % kWords] = float(k + threadIdx.x);
  float sum = 0;
#pragma unroll 1
  for (int turn = 0; turn < turns; ++turn) {
#pragma unroll 4
    for (int k = 0; k < kWords; ++k) sum += words[(k * by + turn) & (kWords - 1)];
#pragma unroll 4
    for (int k = 0; k < kWords; ++k) words[(k * by) & (kWords - 1)] = sum + k;
  }
  sink[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}

// Every thread sums a row of its own, word by word; `kLoads` loads stand side by side.
template <int kLoads>
__global__ void rows_by_threads(const float* __restrict__ x, float* sums, int rows, int cols) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  const float* from = x + size_t(row) * cols;
  float sum[kLoads] = {};
#pragma unroll 1
  for (int c = 0; c < cols; c += kLoads) {
#pragma unroll
    for (int k = 0; k < kLoads; ++k) sum[k] += from[c + k];
  }
  for (int k = 1; k < kLoads; ++k) sum[0] += sum[k];
  sums[row] = sum[0];
}
__global__ void rows_by_warps(const float* __restrict__ x, float* sums, int rows, int cols) {
  int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  const float* from = x + size_t(row) * cols;
  float sum = 0;
#pragma unroll 4
  for (int c = lane; c < cols; c += 32) sum += from[c];
  for (int k = 16; k; k /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, k);
  if (lane == 0) sums[row] = sum;
}
// The same with stores: every thread writes a row of its own.
__global__ void stores_by_threads(float* y, int rows, int cols) {
  int row = blockIdx.x * blockDim.x + threadIdx.x;
  if (row >= rows) return;
  float* to = y + size_t(row) * cols;
#pragma unroll 4
  for (int c = 0; c < cols; ++c) to[c] = float(c);
}
__global__ void stores_by_warps(float* y, int rows, int cols) {
  int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32, lane = threadIdx.x % 32;
  if (row >= rows) return;
  float* to = y + size_t(row) * cols;
#pragma unroll 4
  for (int c = lane; c < cols; c += 32) to[c] = float(c);
}
// One SM's threads read a set of `words` words again and again, a 128-byte line a lane or side by side.
__global__ void again_and_again(const float* __restrict__ x, long long* clocks, float* sink, int words, int stride, int turns) {
  float sum = 0;
  int mask = words - 1;
  for (int k = threadIdx.x; k < words / stride; k += blockDim.x) sum += x[(k * stride) & mask];
  __syncthreads();
  long long start = clock64();
#pragma unroll 1
  for (int turn = 0; turn < turns; ++turn) {
#pragma unroll 4
    for (int k = threadIdx.x; k < words / stride; k += blockDim.x) sum += x[((k * stride) & mask) + 0];
  }
  __syncthreads();
  long long end = clock64();
  if (threadIdx.x == 0) clocks[0] = end - start;
  sink[threadIdx.x] = sum;
}
// A pointer chase of one lane: the latency of the level that holds `words`.
__global__ void chase(const int* __restrict__ next, long long* clocks, int* sink, int steps) {
  int at = 0;
  for (int k = 0; k < steps; ++k) at = next[at];
  long long start = clock64();
#pragma unroll 1
  for (int k = 0; k < steps; ++k) at = next[at];
  long long end = clock64();
  clocks[0] = end - start;
  sink[0] = at;
}
// Blocks that wait for the one before: a flag in global memory goes from block to block.
template <bool kFence>
__global__ void relay(volatile int* flag, float* data) {
  if (threadIdx.x == 0) {
    while (flag[0] != int(blockIdx.x)) {}
    if (kFence) {
      __threadfence();
      data[blockIdx.x + 1] = data[blockIdx.x] + 1;
      __threadfence();
    }
    flag[0] = int(blockIdx.x) + 1;
  }
}
__global__ void fences(long long* clocks, float* data, int turns) {
  long long start = clock64();
#pragma unroll 1
  for (int k = 0; k < turns; ++k) {
    data[blockIdx.x * blockDim.x + threadIdx.x] = k;
    __threadfence();
  }
  long long end = clock64();
  if (threadIdx.x == 0) clocks[0] = end - start;
}
// Global atomics whose results nobody reads: all to one word, or each warp or lane to words of its own.
template <class T>
__global__ void global_atomics(T* place, int words, int turns) {
  int thread = blockIdx.x * blockDim.x + threadIdx.x;
#pragma unroll 1
  for (int k = 0; k < turns; ++k) atomicAdd(&place[unsigned(thread + k * 4099) % unsigned(words)], T(1));
}
__global__ void kept_atomics(long long* clocks, int* place, int turns) {
  int x = 0;
  long long start = clock64();
#pragma unroll 1
  for (int k = 0; k < turns; ++k) x = atomicAdd(&place[x & 1], 2);
  long long end = clock64();
  clocks[0] = end - start;
  place[8] = x;
}
__global__ void nothing() {}
// A word a thread: what a launch of a small grid takes beside its own latencies.
__global__ void touch(const float* __restrict__ x, float* y) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  y[i] = x[i] + 1;
}
// `kWords` loads of a thread stand side by side, then as many stores; neighbours touch neighbours.
template <int kWords>
__global__ void copy_words(const float* __restrict__ x, float* y) {
  size_t first = size_t(blockIdx.x) * blockDim.x * kWords + threadIdx.x;
  float kept[kWords];
#pragma unroll
  for (int k = 0; k < kWords; ++k) kept[k] = x[first + size_t(k) * blockDim.x];
#pragma unroll
  for (int k = 0; k < kWords; ++k) y[first + size_t(k) * blockDim.x] = kept[k];
}

template <class Call>
double median_us(Call call, int runs = 9) {
  cudaEvent_t begin, end;
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  std::vector<float> times;
  call();
  for (int k = 0; k < runs; ++k) {
    cudaEventRecord(begin);
    call();
    cudaEventRecord(end);
    cudaEventSynchronize(end);
    float ms = 0;
    cudaEventElapsedTime(&ms, begin, end);
    times.push_back(ms);
  }
  std::sort(times.begin(), times.end());
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  return times[runs / 2] * 1e3;
}

// Microseconds of a launch among 200 of one captured graph.
template <class Launch>
double graph_us(Launch launch) {
  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t exec;
  cudaStreamCreate(&stream);
  cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
  for (int k = 0; k < 200; ++k) launch(stream, k);
  cudaStreamEndCapture(stream, &graph);
  cudaGraphInstantiate(&exec, graph, 0);
  cudaGraphLaunch(exec, stream);
  cudaStreamSynchronize(stream);
  cudaEvent_t begin, end;
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  std::vector<float> times;
  for (int k = 0; k < 9; ++k) {
    cudaEventRecord(begin, stream);
    cudaGraphLaunch(exec, stream);
    cudaEventRecord(end, stream);
    cudaEventSynchronize(end);
    float ms = 0;
    cudaEventElapsedTime(&ms, begin, end);
    times.push_back(ms);
  }
  std::sort(times.begin(), times.end());
  cudaGraphExecDestroy(exec);
  cudaGraphDestroy(graph);
  cudaStreamDestroy(stream);
  return times[4] * 1e3 / 200;
}

template <int kWords>
void copies(const float* x, float* y, size_t words) {
  double us = median_us([&] { copy_words<kWords><<<unsigned(words / 256 / kWords), 256>>>(x, y); });
  std::printf("{\"copy_words_a_thread\": %d, \"words\": %zu, \"us\": %.2f, \"gb_s\": %.0f}\n", kWords, words, us,
              8e-3 * double(words) / us);
  std::fflush(stdout);
}

template <int kWords>
int local(int sms, const int* step) {
  for (int threads : {128, 256, 512, 1024, 2048}) {
    int blocks = threads == 2048 ? 2 * sms : sms, size = std::min(threads, 1024), turns = 64;
    double us = median_us([&] { local_words<kWords><<<blocks, size>>>(step, static_cast<float*>(g_sink), turns); });
    CHECK(cudaGetLastError());
    // Warps of an SM times loads and stores, over the time.
    double accesses = double(threads) / 32 * turns * kWords * 2;
    std::printf("{\"local_words\": %d, \"threads_per_sm\": %d, \"us\": %.2f, \"warp_accesses_per_us_and_sm\": %.2f}\n",
                kWords, threads, us, accesses / us);
    std::fflush(stdout);
  }
  return 0;
}

int main() {
  cudaDeviceProp prop;
  CHECK(cudaGetDeviceProperties(&prop, 0));
  int sms = prop.multiProcessorCount, khz = 0;
  CHECK(cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, 0));
  std::printf("{\"device\": \"%s\", \"sms\": %d, \"clock_mhz\": %d, \"l2_bytes\": %d}\n", prop.name, sms, khz / 1000, prop.l2CacheSize);
  size_t big = size_t(1) << 30;
  float *x, *y;
  int* step;
  CHECK(cudaMalloc(&g_clocks, 1 << 20));
  CHECK(cudaMalloc(&g_sink, 64 << 20));
  CHECK(cudaMalloc(&x, big));
  CHECK(cudaMalloc(&y, big));
  CHECK(cudaMalloc(&step, 64));
  CHECK(cudaMemset(x, 0, big));
  CHECK(cudaMemset(y, 0, big));
  int one = 1;
  CHECK(cudaMemcpy(step, &one, 4, cudaMemcpyHostToDevice));
  // Warm up the clocks.
  for (int k = 0; k < 200; ++k) CHECK(cudaMemsetAsync(x, 0, big));
  CHECK(cudaDeviceSynchronize());

  int failed = 0;
#define RUN(name, b) failed |= operation<name>(#name, b)
  RUN(fp32_add, 1.5f); RUN(fp32_fma, 0.5f); RUN(fp32_div, 1.5f); RUN(fp32_div_fast, 1.5f);
  RUN(fp32_rcp, 1.5f); RUN(fp32_sqrt, 1.5f); RUN(fp32_rsqrt_add, 1.5f); RUN(fp32_exp, 0.7f);
  RUN(fp32_exp_fast, 0.7f); RUN(fp32_log, 2.5f); RUN(fp32_log_fast, 2.5f); RUN(fp32_sin, 1.1f);
  RUN(fp32_sin_fast, 1.1f); RUN(fp32_tanh, 0.3f); RUN(fp32_pow, 0.9f); RUN(fp32_erf, 0.3f);
  RUN(fp64_add, 1.5); RUN(fp64_fma, 0.5); RUN(fp64_div, 1.5); RUN(fp64_sqrt, 1.5); RUN(fp64_exp, 0.7);
  RUN(s32_add, 3); RUN(s32_mad, 3); RUN(s32_div, 1000003); RUN(s32_rem, 1000003); RUN(u32_div, 1000003u);
  RUN(u32_rem, 1000003u); RUN(u32_mulhi, 2863311531u); RUN(s64_mad, 3ll); RUN(s64_div, 1000000000003ll);
  RUN(u64_div_small, 1000003ull); RUN(u64_rem_small, 1000003ull); RUN(dot_of_bytes, 0x01020304); RUN(count_bits, 77u);
  RUN(leading_zeros, 77); RUN(reverse_bits, 77u); RUN(f2i, 1.5f); RUN(shuffle, 3); RUN(vote, 3u); RUN(syncwarp, 3);

  long long clocks = 0;
#define READ() CHECK(cudaMemcpy(&clocks, g_clocks, sizeof clocks, cudaMemcpyDeviceToHost))
  for (int threads : {32, 64, 128, 256, 512, 1024}) {
    barriers<<<1, threads>>>(g_clocks, 256);
    READ();
    double alone = double(clocks) / 256;
    tree_steps<<<1, threads>>>(g_clocks, static_cast<float*>(g_sink), 256);
    READ();
    double step_clk = double(clocks) / 256;
    int resident = 2048 / threads > 32 ? 32 : 2048 / threads;
    barriers<<<sms * resident, threads>>>(g_clocks, 256);
    READ();
    std::printf("{\"barrier_threads\": %d, \"clk\": %.2f, \"full_sm_clk\": %.2f, \"store_barrier_load_barrier_clk\": %.2f}\n",
                threads, alone, double(clocks) / 256, step_clk);
  }
  for (int blocks : {2, 4, 8}) {
    for (int threads : {128, 256, 1024}) {
      cudaLaunchConfig_t config = {};
      config.gridDim = dim3(blocks * 8);
      config.blockDim = dim3(threads);
      cudaLaunchAttribute shape;
      shape.id = cudaLaunchAttributeClusterDimension;
      shape.val.clusterDim.x = blocks;
      shape.val.clusterDim.y = shape.val.clusterDim.z = 1;
      config.attrs = &shape;
      config.numAttrs = 1;
      CHECK(cudaLaunchKernelEx(&config, cluster_barriers, g_clocks, 1000));
      READ();
      std::printf("{\"cluster_blocks\": %d, \"threads\": %d, \"clk\": %.1f}\n", blocks, threads, double(clocks) / 1000);
    }
  }
  for (int blocks : {16, sms, 2 * sms}) {
    double us[2];
    for (int many : {0, 1}) {
      int turns = many ? 1001 : 1;
      void* arguments[] = {&turns};
      us[many] = median_us([&] { cudaLaunchCooperativeKernel(reinterpret_cast<void*>(grid_barriers), blocks, 256, arguments, 0, nullptr); });
    }
    CHECK(cudaGetLastError());
    std::printf("{\"grid_blocks\": %d, \"barrier_us\": %.3f}\n", blocks, (us[1] - us[0]) / 1000);
  }
  shared_chain<<<1, 64>>>(g_clocks, static_cast<int*>(g_sink), 1024);
  READ();
  std::printf("{\"shared_chain_clk\": %.2f}\n", double(clocks) / 1024);
#define ATOMIC(f, s, name)                                                                        \
  shared_atomics<f, s><<<1, 1024>>>(g_clocks, static_cast<float*>(g_sink), 128);                  \
  READ();                                                                                         \
  std::printf("{\"shared_atomics\": \"%s\", \"clk_per_warp_request\": %.2f}\n", name, double(clocks) / 128 / 32)
  ATOMIC(false, false, "int, words apart");
  ATOMIC(false, true, "int, one word a warp");
  ATOMIC(true, false, "float, words apart");
  ATOMIC(true, true, "float, one word a warp");
  imma<<<1, 1024>>>(g_clocks, static_cast<int*>(g_sink), 256);
  READ();
  std::printf("{\"tensor\": \"s8 m16n8k32\", \"operations_per_clk\": %.1f}\n", 32.0 * 256 * 4 * 16 * 8 * 32 * 2 / double(clocks));
  hmma<<<1, 1024>>>(g_clocks, static_cast<float*>(g_sink), 256);
  READ();
  std::printf("{\"tensor\": \"f16 m16n8k16\", \"operations_per_clk\": %.1f}\n", 32.0 * 256 * 4 * 16 * 8 * 16 * 2 / double(clocks));
  std::fflush(stdout);

  failed |= local<16>(sms, step) | local<64>(sms, step) | local<256>(sms, step);

  for (int cols : {64, 1024, 4096}) {
    for (int threads : {32, 64, 128, 256, 384, 512, 768, 1024, 1536, 2048}) {
      int size = threads > 1024 ? threads / 2 : threads, blocks = threads > 1024 ? 2 * sms : sms;
      int rows = size * blocks;
      if (size_t(rows) * cols * 4 > big) continue;
      double us[4];
      us[0] = median_us([&] { rows_by_threads<1><<<blocks, size>>>(x, y, rows, cols); });
      us[1] = median_us([&] { rows_by_threads<4><<<blocks, size>>>(x, y, rows, cols); });
      us[2] = median_us([&] { rows_by_threads<8><<<blocks, size>>>(x, y, rows, cols); });
      us[3] = median_us([&] { rows_by_warps<<<(rows + 7) / 8, 256>>>(x, y, rows, cols); });
      double stores[2];
      stores[0] = median_us([&] { stores_by_threads<<<blocks, size>>>(y, rows, cols); });
      stores[1] = median_us([&] { stores_by_warps<<<(rows + 7) / 8, 256>>>(y, rows, cols); });
      CHECK(cudaGetLastError());
      std::printf("{\"rows_cols\": %d, \"threads_per_sm\": %d, \"bytes\": %zu, \"one_load_us\": %.2f, \"four_us\": %.2f, \"eight_us\": %.2f, \"by_warps_us\": %.2f, \"stores_us\": %.2f, \"stores_by_warps_us\": %.2f}\n",
                  cols, threads, size_t(rows) * cols * 4, us[0], us[1], us[2], us[3], stores[0], stores[1]);
      std::fflush(stdout);
    }
  }
  for (int stride : {1, 8, 32}) {
    for (int kib = 32; kib <= 1024; kib *= 2) {
      int words = kib * 256, turns = 64;
      again_and_again<<<1, 1024>>>(x, g_clocks, static_cast<float*>(g_sink), words, stride, turns);
      READ();
      double requests = double(words / stride) / 32 * turns;
      std::printf("{\"set_kib\": %d, \"stride_words\": %d, \"clk_per_request\": %.3f}\n", kib, stride, double(clocks) / requests);
    }
  }
  for (int kib : {16, 128, 192, 240, 320, 4096, 32768, 262144}) {
    size_t words = size_t(kib) * 256, lines = words / 32;
    std::vector<int> next(words);
    for (size_t k = 0; k < lines; ++k) next[k * 32] = int((k + 233) % lines * 32);
    CHECK(cudaMemcpy(x, next.data(), words * 4, cudaMemcpyHostToDevice));
    // What the copy left in L2 has to go where DRAM is meant.
    if (kib == 262144) CHECK(cudaMemset(y, 0, big));
    int steps = int(std::min<size_t>(lines, 4096));
    int lap = kib <= 320 ? int(lines) : steps;
    chase<<<1, 1>>>(reinterpret_cast<int*>(x), g_clocks, static_cast<int*>(g_sink), lap);
    READ();
    std::printf("{\"chase_kib\": %d, \"clk\": %.2f}\n", kib, double(clocks) / lap);
    std::fflush(stdout);
  }
  CHECK(cudaMemset(x, 0, big));
  {
    int* flag = reinterpret_cast<int*>(g_sink);
    for (int blocks : {132, 1024, 8192}) {
      double us[2];
      us[0] = median_us([&] { cudaMemsetAsync(flag, 0, 4); relay<false><<<blocks, 32>>>(flag, x); });
      us[1] = median_us([&] { cudaMemsetAsync(flag, 0, 4); relay<true><<<blocks, 32>>>(flag, x); });
      double empty = median_us([&] { cudaMemsetAsync(flag, 0, 4); nothing<<<blocks, 32>>>(); });
      std::printf("{\"relay_blocks\": %d, \"flag_us\": %.4f, \"with_fences_us\": %.4f, \"empty_us\": %.4f}\n", blocks,
                  us[0] / blocks, us[1] / blocks, empty);
    }
    for (int blocks : {1, sms, 8 * sms}) {
      fences<<<blocks, 256>>>(g_clocks, y, 64);
      READ();
      std::printf("{\"fence_blocks\": %d, \"store_and_fence_clk\": %.1f}\n", blocks, double(clocks) / 64);
    }
    kept_atomics<<<1, 1>>>(g_clocks, flag, 256);
    READ();
    std::printf("{\"kept_atomic_clk\": %.1f}\n", double(clocks) / 256);
    for (int words : {1, 8, 32, 256, 4096, 1 << 20}) {
      double ints = median_us([&] { global_atomics<int><<<4 * sms, 512>>>(flag, words, 16); });
      double floats = median_us([&] { global_atomics<float><<<4 * sms, 512>>>(y, words, 16); });
      double lanes = 4.0 * sms * 512 * 16;
      std::printf("{\"atomic_words\": %d, \"int_lanes_per_us\": %.1f, \"float_lanes_per_us\": %.1f}\n", words, lanes / ints, lanes / floats);
    }
    for (int blocks : {1, 128, 1024}) {
      double empty = graph_us([&](cudaStream_t stream, int) { nothing<<<blocks, 256, 0, stream>>>(); });
      double warm = graph_us([&](cudaStream_t stream, int) { touch<<<blocks, 256, 0, stream>>>(x, y); });
      double cold = graph_us([&](cudaStream_t stream, int k) {
        size_t at = size_t(k) * 262144;
        touch<<<blocks, 256, 0, stream>>>(x + at, y + at);
      });
      std::printf("{\"graph_of_blocks\": %d, \"empty_us\": %.3f, \"touch_same_us\": %.3f, \"touch_fresh_us\": %.3f}\n", blocks, empty, warm, cold);
    }
    for (int threads : {32, 128, 256, 1024}) {
      double us = median_us([&] { nothing<<<1 << 20, threads>>>(); });
      std::printf("{\"empty_blocks\": %d, \"threads\": %d, \"us\": %.2f}\n", 1 << 20, threads, us);
    }
    for (size_t words : {size_t(1) << 26, size_t(1) << 28}) {
      copies<1>(x, y, words); copies<2>(x, y, words); copies<4>(x, y, words); copies<8>(x, y, words);
      copies<16>(x, y, words); copies<32>(x, y, words); copies<64>(x, y, words);
    }
    for (int threads : {1, 1024}) {
      double many = median_us([&] { for (int k = 0; k < 200; ++k) nothing<<<1, threads>>>(); });
      std::printf("{\"launches_of\": %d, \"us_each\": %.3f}\n", threads, many / 200);
    }
  }
  return failed;
}
