// 3D max pooling: who reads a tap, from where, and how the planes of a channel arrive.

#include <cmath>
#include <cstdint>
#include <cuda_runtime.h>

#define VARIANT 0    // tunable: 0 1 2; a thread an output, the same with a window known to the compiler, planes in shared memory
#define THREADS 128  // tunable: 64 128 256; of a block
#define ITEMS 4      // tunable: 1 2 4; outputs of a plane that a thread keeps, variant 2
#define SHARED 36    // tunable: 16 36 56 72; KiB of planes of a block, variant 2
#define WIDTH 1      // tunable: 1 4; elements that one asynchronous copy moves, variant 2
#define CACHED 0     // tunable: 0 1; outputs pass the cache by, or stay

// tunable-if: VARIANT == 2 or ITEMS == 4 and SHARED == 36 and WIDTH == 1
// tunable-if: THREADS * ITEMS >= 128

// tunable-hint: int VARIANT=1
// tunable-hint: issue VARIANT=1
// tunable-hint: issue WIDTH=4
// tunable-hint: l1_bandwidth VARIANT=2
// tunable-hint: uncoalesced_global VARIANT=2
// tunable-hint: dram_bandwidth VARIANT=2 WIDTH=4
// tunable-hint: latency SHARED=56
// tunable-hint: low_occupancy SHARED=36
// tunable-hint: tail THREADS=128

struct Volume {
    int channels; // of all volumes together
    int D, H, W;
    int OD, OH, OW;
};

__device__ void store(float* to, float value)
{
#if CACHED == 1
    *to = value;
#else
    __stcs(to, value);
#endif
}

// Window of any shape. Idea: neighbours read neighbouring windows; L1 holds what they share.
__global__ void __launch_bounds__(THREADS)
    pool(const float* __restrict__ input, float* __restrict__ output, Volume v, int kernel, int stride,
         int padding, int dilation)
{
    size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (i >= (size_t)v.channels * v.OD * v.OH * v.OW) {
        return;
    }
    size_t row = i / v.OW;
    size_t plane = row / v.OH;
    size_t channel = plane / v.OD;
    int w0 = (int)(i - row * v.OW) * stride - padding;
    int h0 = (int)(row - plane * v.OH) * stride - padding;
    int d0 = (int)(plane - channel * v.OD) * stride - padding;
    float largest = -INFINITY;
    for (int z = 0; z < kernel; ++z) {
        int d = d0 + z * dilation;
        for (int y = 0; y < kernel; ++y) {
            int h = h0 + y * dilation;
            if (d < 0 || d >= v.D || h < 0 || h >= v.H) {
                continue;
            }
            const float* from = input + ((channel * v.D + d) * v.H + h) * v.W;
            for (int x = 0; x < kernel; ++x) {
                int w = w0 + x * dilation;
                if (w >= 0 && w < v.W) {
                    largest = fmaxf(largest, from[w]);
                }
            }
        }
    }
    store(output + i, largest);
}

#if VARIANT > 0
// A window that the compiler knows.
template <int kKernel, int kStride, int kPadding, int kDilation>
struct Window {
    static constexpr int kernel = kKernel;
    static constexpr int stride = kStride;
    static constexpr int padding = kPadding;
    static constexpr int dilation = kDilation;
    static constexpr int reach = kDilation * (kKernel - 1) + 1;
};
#endif

#if VARIANT > 0
// Idea: all taps are loaded before the first is needed; loops and products are gone.
template <class Known>
__global__ void __launch_bounds__(THREADS)
    pool_known(const float* __restrict__ input, float* __restrict__ output, Volume v)
{
    constexpr int kTaps = Known::kernel;
    unsigned outputs = v.OD * v.OH * v.OW;
    unsigned i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= outputs) {
        return;
    }
    unsigned row = i / v.OW;
    unsigned plane = row / v.OH;
    int w0 = (int)(i - row * v.OW) * Known::stride - Known::padding;
    int h0 = (int)(row - plane * v.OH) * Known::stride - Known::padding;
    int d0 = (int)plane * Known::stride - Known::padding;
    for (size_t channel = blockIdx.y; channel < v.channels; channel += gridDim.y) {
        const float* from = input + channel * v.D * v.H * v.W;
        float taps[kTaps][kTaps][kTaps];
#pragma unroll
        for (int z = 0; z < kTaps; ++z) {
#pragma unroll
            for (int y = 0; y < kTaps; ++y) {
#pragma unroll
                for (int x = 0; x < kTaps; ++x) {
                    int d = d0 + z * Known::dilation;
                    int h = h0 + y * Known::dilation;
                    int w = w0 + x * Known::dilation;
                    // A negative place is a large unsigned one.
                    bool inside = (unsigned)d < v.D && (unsigned)h < v.H && (unsigned)w < v.W;
                    taps[z][y][x] = inside ? from[((size_t)d * v.H + h) * v.W + w] : -INFINITY;
                }
            }
        }
        float largest = -INFINITY;
#pragma unroll
        for (int z = 0; z < kTaps; ++z) {
#pragma unroll
            for (int y = 0; y < kTaps; ++y) {
#pragma unroll
                for (int x = 0; x < kTaps; ++x) {
                    largest = fmaxf(largest, taps[z][y][x]);
                }
            }
        }
        store(output + channel * outputs + i, largest);
    }
}
#endif

#if VARIANT == 2
struct alignas(sizeof(float) * WIDTH) Vector {
    float at[WIDTH];
};

// A part of shared memory to global memory's next elements, past the registers where the chip can.
__device__ void copy_async(float* to, const float* from)
{
#if __CUDA_ARCH__ >= 800
    unsigned shared = (unsigned)__cvta_generic_to_shared(to);
#if WIDTH == 4
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared), "l"(from) : "memory");
#else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(shared), "l"(from) : "memory");
#endif
#else
    *reinterpret_cast<Vector*>(to) = *reinterpret_cast<const Vector*>(from);
#endif
}

__device__ void end_group()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

template <int kPending>
__device__ void wait_group()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
#endif
}

constexpr int kFewPlaces = 64; // of an output plane
constexpr int kBorder = 4;      // columns of padding left of a row: the next row's are right of it

// How the output is cut: a block pools `band` rows of `section` planes of one channel.
struct Cut {
    int band, bands;
    int section, sections;
    int rows, pitch; // of a plane in shared memory
};

// Idea: planes stream through shared memory, each read once. A thread pools every plane for its places as
// it arrives, and keeps so many results that a window along the planes is complete.
template <class Known, int kStages>
__global__ void __launch_bounds__(THREADS)
    pool_planes(const float* __restrict__ input, float* __restrict__ output, Volume v, Cut cut)
{
    extern __shared__ __align__(16) float planes[];
    constexpr int kStride = Known::stride;
    unsigned index = blockIdx.x;
    int section = index % cut.sections;
    index /= cut.sections;
    int band = index % cut.bands;
    size_t channel = index / cut.bands;

    int plane_size = cut.rows * cut.pitch + kBorder;
    plane_size = (plane_size + 3) / 4 * 4;
    int first_row = band * cut.band * kStride - Known::padding;
    int first_out = section * cut.section;
    int last_out = min(first_out + cut.section, v.OD);
    int rows_out = min(cut.band, v.OH - band * cut.band);
    int places = rows_out * v.OW;

    const float* from = input + channel * v.D * v.H * v.W;
    int top = max(first_row, 0);
    int rows_in = min(first_row + cut.rows, v.H) - top;
    int row_vectors = v.W / WIDTH;
    // A thread's vectors are THREADS apart: so many rows and columns further, without a division each.
    int my_row = threadIdx.x / row_vectors;
    int my_column = threadIdx.x - my_row * row_vectors;
    int row_step = THREADS / row_vectors;
    int column_step = THREADS - row_step * row_vectors;
    // The planes that complete output plane `out`: the last of its window.
    auto load = [&](int out, int stage) {
#pragma unroll
        for (int p = 0; p < kStride; ++p) {
            int d = out * kStride - Known::padding + Known::reach - kStride + p;
            float* to = planes + (stage * kStride + p) * plane_size + (top - first_row) * cut.pitch + kBorder;
            if (d >= 0 && d < v.D) {
                const float* plane = from + ((size_t)d * v.H + top) * v.W;
                int row = my_row;
                int column = my_column;
#pragma unroll 4
                for (int i = threadIdx.x; row < rows_in; i += THREADS) {
                    copy_async(to + row * cut.pitch + column * WIDTH, plane + i * WIDTH);
                    row += row_step;
                    column += column_step;
                    if (column >= row_vectors) {
                        column -= row_vectors;
                        ++row;
                    }
                }
            }
        }
        end_group();
    };

    int corners[ITEMS];
#pragma unroll
    for (int item = 0; item < ITEMS; ++item) {
        int place = threadIdx.x + item * THREADS;
        int row = place / v.OW;
        corners[item] = row * kStride * cut.pitch + (place - row * v.OW) * kStride + kBorder - Known::padding;
    }

    float pooled[ITEMS][Known::reach];
    // Steps before the first output only fill `pooled`.
    constexpr int kAhead = (Known::reach - 1) / kStride;
    int step = first_out - kAhead;
    float* to = output + ((channel * v.OD + first_out) * v.OH + (size_t)band * cut.band) * v.OW;
#pragma unroll
    for (int stage = 0; stage < kStages - 1; ++stage) {
        load(step + stage, stage);
    }

    // What no copy reaches: left and right of each row, and whole rows above and below.
    int all_rows = kStages * kStride * cut.rows;
    for (int i = threadIdx.x; i < all_rows; i += THREADS) {
        int row = i % cut.rows;
        float* begin = planes + i / cut.rows * plane_size + row * cut.pitch;
        bool outside = row < top - first_row || row >= top - first_row + rows_in;
#pragma unroll
        for (int column = 0; column < kBorder; ++column) {
            begin[column] = -INFINITY;
        }
        for (int column = outside ? kBorder : kBorder + v.W; column < cut.pitch; ++column) {
            begin[column] = -INFINITY;
        }
        if (row == cut.rows - 1) {
#pragma unroll
            for (int column = 0; column < kBorder; ++column) {
                begin[cut.pitch + column] = -INFINITY;
            }
        }
    }

    int stage = 0;
    for (; step < last_out; ++step) {
        wait_group<kStages - 2>();
        __syncthreads();
        int free_stage = stage == 0 ? kStages - 1 : stage - 1;
        if (step + kStages - 1 < last_out) {
            load(step + kStages - 1, free_stage);
        } else {
            end_group();
        }
#pragma unroll
        for (int item = 0; item < ITEMS; ++item) {
            if (threadIdx.x + item * THREADS < places) {
#pragma unroll
                for (int i = 0; i < Known::reach - kStride; ++i) {
                    pooled[item][i] = pooled[item][i + kStride];
                }
#pragma unroll
                for (int p = 0; p < kStride; ++p) {
                    int d = step * kStride - Known::padding + Known::reach - kStride + p;
                    const float* corner = planes + (stage * kStride + p) * plane_size + corners[item];
                    float largest = -INFINITY;
                    if (d >= 0 && d < v.D) {
#pragma unroll
                        for (int y = 0; y < Known::kernel; ++y) {
#pragma unroll
                            for (int x = 0; x < Known::kernel; ++x) {
                                int tap = y * Known::dilation * cut.pitch + x * Known::dilation;
                                largest = fmaxf(largest, corner[tap]);
                            }
                        }
                    }
                    pooled[item][Known::reach - kStride + p] = largest;
                }
                if (step >= first_out) {
                    float largest = pooled[item][0];
#pragma unroll
                    for (int z = 1; z < Known::kernel; ++z) {
                        largest = fmaxf(largest, pooled[item][z * Known::dilation]);
                    }
                    store(to + threadIdx.x + item * THREADS, largest);
                }
            }
        }
        to += step >= first_out ? (size_t)v.OH * v.OW : 0;
        stage = stage == kStages - 1 ? 0 : stage + 1;
    }
}

template <class Known, int kStages>
bool launch_planes(const float* input, float* output, const Volume& v, const Cut& cut, size_t bytes)
{
    auto kernel = pool_planes<Known, kStages>;
    if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes) != cudaSuccess) {
        cudaGetLastError(); // this chip has less; the caller goes another way
        return false;
    }
    kernel<<<(unsigned)v.channels * cut.bands * cut.sections, THREADS, bytes>>>(input, output, v, cut);
    return true;
}

// Returns false where a row is too long for a block.
template <class Known>
bool pool_by_planes(const float* input, float* output, const Volume& v)
{
    static_assert(Known::reach >= Known::stride && Known::padding <= kBorder, "planes would be skipped");
    int device = 0;
    int processors = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    Cut cut;
    cut.pitch = (v.W + kBorder + 3) / 4 * 4;
    int fit = SHARED * 256 / 2 / Known::stride / cut.pitch - 1; // rows of one of at least two stages
    int most = (fit - Known::reach) / Known::stride + 1;
    most = most < THREADS * ITEMS / v.OW ? most : THREADS * ITEMS / v.OW;
    if (v.W % WIDTH != 0 || v.OW > THREADS * ITEMS || fit < Known::reach || most < 1) {
        return false;
    }
    cut.bands = (v.OH - 1) / most + 1;
    cut.band = (v.OH - 1) / cut.bands + 1;
    cut.rows = (cut.band - 1) * Known::stride + Known::reach;
    // Few channels are cut along their planes too, though sections share planes.
    long long blocks = (long long)v.channels * cut.bands;
    long long wanted = 2ll * processors / blocks;
    wanted = wanted < 1 ? 1 : wanted > v.OD ? v.OD : wanted;
    cut.section = (v.OD - 1) / (int)wanted + 1;
    cut.sections = (v.OD - 1) / cut.section + 1;
    if (blocks * cut.sections > 0x7fffffff) {
        return false;
    }
    size_t stage = sizeof(float) * Known::stride * ((cut.rows * cut.pitch + kBorder + 3) / 4 * 4);
    int stages = (int)(SHARED * 1024 / stage);
    if (stages >= 8) {
        return launch_planes<Known, 8>(input, output, v, cut, 8 * stage);
    }
    if (stages >= 4) {
        return launch_planes<Known, 4>(input, output, v, cut, 4 * stage);
    }
    if (stages >= 3) {
        return launch_planes<Known, 3>(input, output, v, cut, 3 * stage);
    }
    return launch_planes<Known, 2>(input, output, v, cut, 2 * stage);
}
#endif

extern "C" void solve(const float* input, float* output, int N, int C, int D, int H, int W, int kernel, int stride,
                      int padding, int dilation)
{
    int reach = dilation * (kernel - 1) + 1;
    Volume v = {N * C, D, H, W, 0, 0, 0};
    v.OD = (D + 2 * padding - reach) / stride + 1;
    v.OH = (H + 2 * padding - reach) / stride + 1;
    v.OW = (W + 2 * padding - reach) / stride + 1;
#if VARIANT > 0
    bool is_known = kernel == 3 && stride == 2 && padding == 1 && dilation == 3;
#endif
#if VARIANT == 2
    // Of small planes too few are under way.
    if (is_known && v.OH * v.OW >= kFewPlaces && pool_by_planes<Window<3, 2, 1, 3>>(input, output, v)) {
        cudaDeviceSynchronize();
        return;
    }
#endif
#if VARIANT > 0
    size_t outputs = (size_t)v.OD * v.OH * v.OW;
    if (is_known && outputs < 0x7fffffff) {
        dim3 blocks((unsigned)((outputs - 1) / THREADS + 1), v.channels < 65535 ? v.channels : 65535);
        pool_known<Window<3, 2, 1, 3>><<<blocks, THREADS>>>(input, output, v);
        cudaDeviceSynchronize();
        return;
    }
#endif
    size_t count = (size_t)v.channels * v.OD * v.OH * v.OW;
    pool<<<(unsigned)((count - 1) / THREADS + 1), THREADS>>>(input, output, v, kernel, stride, padding, dilation);
    cudaDeviceSynchronize();
}
