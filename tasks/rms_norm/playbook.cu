// RMS norm of rows: how often a row is read, who shares a row, and when weights are fetched.

#include <cuda_runtime.h>

#define HOLD 0      // tunable: 0 1; a row is read twice, once into registers
#define SHORT 0     // tunable: 0 1; a short row by a block, by a warp
#define FEW 0       // tunable: 0 1; rows too few for the chip by more threads, of fewer elements each
#define THREADS 256 // tunable: 128 256 512; of a block
#define VECTORS 4   // tunable: 2 4 8; of four elements that a thread holds
#define EARLY 0     // tunable: 0 1; weights are fetched when the sum is known, with the row
#define STREAM 0    // tunable: 0 1; caches are told that a row is not needed again

// tunable-if: HOLD == 1 or FEW == 0 and VECTORS == 4 and EARLY == 0 and STREAM == 0

// tunable-hint: dram_bandwidth HOLD=1
// tunable-hint: dram_bandwidth HOLD=1 STREAM=1
// tunable-hint: l2_bandwidth HOLD=1
// tunable-hint: issue HOLD=1
// tunable-hint: latency SHORT=1
// tunable-hint: latency HOLD=1 EARLY=1
// tunable-hint: latency HOLD=1 FEW=1
// tunable-hint: tail HOLD=1 VECTORS=2
// tunable-hint: low_occupancy HOLD=1 EARLY=0
// tunable-hint: launch_overhead HOLD=1 FEW=1

constexpr int kWarp = 32;
constexpr unsigned kWholeWarp = 0xffffffffu;

__device__ float warp_sum(float value)
{
#pragma unroll
    for (int distance = kWarp / 2; distance > 0; distance /= 2) {
        value += __shfl_xor_sync(kWholeWarp, value, distance);
    }
    return value;
}

// Idea: warps add up in registers, and every warp adds up the warps, so one barrier is enough. All
// threads of a row get the sum.
template <int kGroup>
__device__ float group_sum(float value)
{
    value = warp_sum(value);
    if constexpr (kGroup > kWarp) {
        constexpr int kWarps = kGroup / kWarp;
        __shared__ float values[kWarps];
        int lane = threadIdx.x % kWarp;
        if (lane == 0) {
            values[threadIdx.x / kWarp] = value;
        }
        __syncthreads();
        value = warp_sum(lane < kWarps ? values[lane] : 0.0f);
    }
    return value;
}

// One division a row. What is normalised is multiplied by its result.
__device__ float reciprocal_root(float sum, int cols, float eps)
{
    return rsqrtf(sum / cols + eps);
}

// Any row: by kGroup threads, which read it again for the products.
template <int kGroup>
__global__ void __launch_bounds__(THREADS) read_twice(
    const float* __restrict__ x, const float* __restrict__ weight, float* __restrict__ y, int rows, int cols, float eps)
{
    constexpr int kRows = THREADS / kGroup;
    size_t row = (size_t)blockIdx.x * kRows + threadIdx.x / kGroup;
    if (row >= rows) {
        return;
    }
    const float* from = x + row * cols;
    float* to = y + row * cols;
    float sum = 0.0f;
#pragma unroll 8
    for (int i = threadIdx.x % kGroup; i < cols; i += kGroup) {
        sum = fmaf(from[i], from[i], sum);
    }
    float factor = reciprocal_root(group_sum<kGroup>(sum), cols, eps);
#pragma unroll 8
    for (int i = threadIdx.x % kGroup; i < cols; i += kGroup) {
        to[i] = from[i] * factor * weight[i];
    }
}

#if HOLD == 1
__device__ float4 read_vector(const float4* from)
{
#if STREAM == 1
    return __ldcs(from);
#else
    return *from;
#endif
}

__device__ void write_vector(float4* to, float4 value)
{
#if STREAM == 1
    __stcs(to, value);
#else
    *to = value;
#endif
}

// Idea: a row stays in registers, so memory is read once; all loads are under way before the first
// element is needed. `vectors` make a row, at most kGroup * kVectors.
template <int kGroup, int kVectors>
__global__ void __launch_bounds__(kGroup < THREADS ? THREADS : kGroup) hold_rows(
    const float4* __restrict__ x, const float4* __restrict__ weight, float4* __restrict__ y, int rows, int vectors, float eps)
{
    constexpr int kRows = kGroup < THREADS ? THREADS / kGroup : 1;
    size_t row = (size_t)blockIdx.x * kRows + threadIdx.x / kGroup;
    if (row >= rows) {
        return;
    }
    int first = threadIdx.x % kGroup;
    const float4* from = x + row * vectors;
    float4* to = y + row * vectors;

    float4 held[kVectors];
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
        int at = first + i * kGroup;
        held[i] = at < vectors ? read_vector(from + at) : float4{0.0f, 0.0f, 0.0f, 0.0f};
    }
#if EARLY == 1
    // Idea: weights come while the row does. For a single row their way is as long as the row's.
    float4 weights[kVectors];
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
        int at = first + i * kGroup;
        weights[i] = at < vectors ? weight[at] : float4{0.0f, 0.0f, 0.0f, 0.0f};
    }
#endif
    float sum = 0.0f;
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
        float4 value = held[i];
        sum += fmaf(value.x, value.x, value.y * value.y) + fmaf(value.z, value.z, value.w * value.w);
    }
    float factor = reciprocal_root(group_sum<kGroup>(sum), 4 * vectors, eps);
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
        int at = first + i * kGroup;
        if (at < vectors) {
            float4 value = held[i];
#if EARLY == 1
            float4 by = weights[i];
#else
            float4 by = weight[at];
#endif
            write_vector(
                to + at,
                {value.x * factor * by.x, value.y * factor * by.y, value.z * factor * by.z, value.w * factor * by.w});
        }
    }
}

struct Call {
    const float* x;
    const float* weight;
    float* y;
    int rows;
    int cols;
    float eps;
};

template <int kGroup, int kVectors>
void launch_hold(const Call& call)
{
    constexpr int kRows = kGroup < THREADS ? THREADS / kGroup : 1;
    auto x = reinterpret_cast<const float4*>(call.x);
    auto weight = reinterpret_cast<const float4*>(call.weight);
    auto y = reinterpret_cast<float4*>(call.y);
    int blocks = (call.rows - 1) / kRows + 1;
    hold_rows<kGroup, kVectors><<<blocks, kGroup * kRows>>>(x, weight, y, call.rows, call.cols / 4, call.eps);
}

// Launches what holds rows in registers; false where none can.
bool hold(const Call& call)
{
    int vectors = call.cols / 4;
    constexpr int kWide = 1024;
    if (call.cols % 4 != 0 || vectors > kWide * 4) {
        return false;
    }
#if FEW == 1
    int device = 0;
    int processors = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    if (call.rows < processors && vectors > kWide / 4) {
        if (vectors <= kWide * 2) {
            launch_hold<kWide, 2>(call);
        } else {
            launch_hold<kWide, 4>(call);
        }
        return true;
    }
#endif
#if SHORT == 1
    if (vectors <= kWarp * 8) {
        launch_hold<kWarp, 8>(call);
        return true;
    }
#endif
    if (vectors <= THREADS * VECTORS) {
        launch_hold<THREADS, VECTORS>(call);
    } else if (vectors <= 2 * THREADS * VECTORS) {
        launch_hold<2 * THREADS, VECTORS>(call);
    } else {
        launch_hold<kWide, 4>(call);
    }
    return true;
}
#endif

extern "C" void solve(const float* x, const float* weight, float* y, int rows, int cols, float eps)
{
#if HOLD == 1
    if (hold({x, weight, y, rows, cols, eps})) {
        cudaDeviceSynchronize();
        return;
    }
#endif
#if SHORT == 1
    if (cols <= 1024) {
        constexpr int kRows = THREADS / kWarp;
        read_twice<kWarp><<<(rows - 1) / kRows + 1, THREADS>>>(x, weight, y, rows, cols, eps);
        cudaDeviceSynchronize();
        return;
    }
#endif
    read_twice<THREADS><<<rows, THREADS>>>(x, weight, y, rows, cols, eps);
    cudaDeviceSynchronize();
}
