// 3D max pooling: who reads a tap, from where, and how the planes of a channel arrive.

#include <cmath>
#include <cstdint>
#include <cuda_runtime.h>

#define VARIANT 0    // tunable: 0 1 2 3; a thread an output, the same with a window known to the compiler, planes in shared memory, windows along the planes first
#define THREADS 128  // tunable: 64 128 256 320; of a block, at most
#define ITEMS 4      // tunable: 1 2 4; of a plane: outputs that a thread keeps, variant 2; vectors of four inputs, variant 3
#define SHARED 36    // tunable: 16 36 56 72; KiB of planes of a block, variants 2 and 3
#define WIDTH 1      // tunable: 1 4; elements that one asynchronous copy moves, variant 2
#define CACHED 0     // tunable: 0 1; outputs pass the cache by, or stay

// tunable-if: VARIANT >= 2 or ITEMS == 4 and SHARED == 36
// tunable-if: VARIANT == 2 or WIDTH == 1
// tunable-if: THREADS * ITEMS >= 128

// tunable-hint: int VARIANT=1
// tunable-hint: issue VARIANT=1
// tunable-hint: issue WIDTH=4
// tunable-hint: l1_bandwidth VARIANT=2
// tunable-hint: shared_bandwidth VARIANT=3
// tunable-hint: issue VARIANT=3
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

#if VARIANT == 3
// Two neighbours, the second of which may lie beyond the row.
__device__ void store_pair(float* to, float left, float right, bool aligned, bool both)
{
    if (aligned) {
#if CACHED == 1
        *reinterpret_cast<float2*>(to) = {left, right};
#else
        __stcs(reinterpret_cast<float2*>(to), {left, right});
#endif
    } else {
        store(to, left);
        if (both) {
            store(to + 1, right);
        }
    }
}
#endif

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

#if VARIANT >= 2
#if VARIANT == 2
constexpr int kWidth = WIDTH;
#else
constexpr int kWidth = 4;
#endif

struct alignas(sizeof(float) * kWidth) Vector {
    float at[kWidth];
};

// A part of shared memory to global memory's next elements, past the registers where the chip can.
__device__ void copy_async(float* to, const float* from)
{
#if __CUDA_ARCH__ >= 800
    unsigned shared = (unsigned)__cvta_generic_to_shared(to);
#if VARIANT == 3 || WIDTH == 4
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
#endif

#if VARIANT == 2
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
#endif

#if VARIANT == 3
__device__ float4 larger(float4 a, float4 b)
{
    return {fmaxf(a.x, b.x), fmaxf(a.y, b.y), fmaxf(a.z, b.z), fmaxf(a.w, b.w)};
}

// Idea: maxima may be taken in any order. Each input is read from shared memory once, by the thread that
// fetched it, which keeps the windows along the planes in registers; what is left, one plane an output plane,
// is exchanged through shared memory for the windows within it.
template <class Known, int kStages>
__global__ void __launch_bounds__(THREADS)
    pool_columns(const float* __restrict__ input, float* __restrict__ output, Volume v, Cut cut)
{
    static_assert(Known::kernel == 3 && Known::stride == 2 && Known::padding == 1 && Known::dilation == 3, "");
    extern __shared__ __align__(16) float shared[];
    constexpr float4 kNothing = {-INFINITY, -INFINITY, -INFINITY, -INFINITY};
    constexpr int kTurns = ITEMS < 2 ? 1 : ITEMS / 2;
    unsigned index = blockIdx.x;
    int section = index % cut.sections;
    index /= cut.sections;
    int band = index % cut.bands;
    size_t channel = index / cut.bands;

    int plane_size = cut.rows * cut.pitch + kBorder;
    float4* slots = reinterpret_cast<float4*>(shared + 2 * plane_size) + threadIdx.x; // own ones
    int first_row = band * cut.band * 2 - 1;
    int first_out = section * cut.section;
    int last_out = min(first_out + cut.section, v.OD);
    int rows_out = min(cut.band, v.OH - band * cut.band);
    int top = max(first_row, 0);
    int rows_in = min(first_row + cut.rows, v.H) - top;
    int row_vectors = v.W / 4;
    int vectors = rows_in * row_vectors;
    const float* from = input + channel * v.D * v.H * v.W + (size_t)top * v.W;

    int places[ITEMS]; // -1: none, or of a row that no window has
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
        int at = threadIdx.x + i * blockDim.x;
        int row = at / row_vectors;
        bool needed = at < vectors && ((top + row) % 2 == 1 || top + row > 0 && top + row <= 2 * v.OH);
        places[i] = needed ? (top - first_row + row) * cut.pitch + kBorder + 4 * (at - row * row_vectors) : -1;
    }

    // A step brings an even plane, the middle of one window, and an odd one, first of a window and last of
    // another: three windows are under way.
    auto needs = [&](int step, int p) {
        int d = 2 * step + p;
        return d >= 0 && d < v.D && step <= last_out + 1 && (p == 1 || step > first_out && step <= last_out);
    };
    auto load = [&](int step, int stage) {
#pragma unroll
        for (int p = 0; p < 2; ++p) {
            int d = 2 * step + p;
            if (needs(step, p)) {
#pragma unroll
                for (int i = 0; i < ITEMS; ++i) {
                    int at = threadIdx.x + i * blockDim.x;
                    if (places[i] >= 0) {
                        float4* to = slots + ((stage * 2 + p) * ITEMS + i) * blockDim.x;
                        copy_async(reinterpret_cast<float*>(to), from + (size_t)d * v.H * v.W + 4 * at);
                    }
                }
            }
        }
        end_group();
    };
    int step = first_out - 1;
#pragma unroll
    for (int stage = 0; stage < kStages; ++stage) {
        load(step + stage, stage);
    }

    // Borders stay as they are.
    for (int i = threadIdx.x; i < 2 * plane_size; i += blockDim.x) {
        shared[i] = -INFINITY;
    }
    int pairs = (v.OW + 1) / 2;
    int corners[kTurns];
    int targets[kTurns];
#pragma unroll
    for (int i = 0; i < kTurns; ++i) {
        int at = threadIdx.x + i * blockDim.x;
        int row = at / pairs;
        int pair = at - row * pairs;
        corners[i] = 2 * row * cut.pitch + kBorder + 4 * pair;
        targets[i] = row < rows_out ? row * v.OW + 2 * pair : -1;
    }
    float* to = output + ((channel * v.OD + first_out) * v.OH + (size_t)band * cut.band) * v.OW;
    bool even = v.OW % 2 == 0;
    __syncthreads();

    float4 first[ITEMS];  // lacks its last plane
    float4 second[ITEMS]; // has its first plane
    float4 third[ITEMS];
#pragma unroll
    for (int i = 0; i < ITEMS; ++i) {
        first[i] = second[i] = third[i] = kNothing;
    }
    int stage = 0;
    for (; step <= last_out + 1; ++step) {
        wait_group<kStages - 1>();
        float* plane = shared + (step & 1) * plane_size;
        bool has_even = needs(step, 0);
        bool has_odd = needs(step, 1);
#pragma unroll
        for (int i = 0; i < ITEMS; ++i) {
            bool own = places[i] >= 0;
            float4 middle = own && has_even ? slots[(stage * 2 * ITEMS + i) * blockDim.x] : kNothing;
            float4 odd = own && has_odd ? slots[((stage * 2 + 1) * ITEMS + i) * blockDim.x] : kNothing;
            if (own) {
                *reinterpret_cast<float4*>(plane + places[i]) = larger(first[i], odd);
            }
            first[i] = larger(second[i], middle);
            second[i] = third[i];
            third[i] = odd;
        }
        load(step + kStages, stage);
        stage = stage == kStages - 1 ? 0 : stage + 1;
        if (step < first_out + 2) {
            continue; // no window is complete
        }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < kTurns; ++i) {
            if (targets[i] < 0) {
                continue;
            }
            const float* corner = plane + corners[i];
            float before = corner[-1];
            float4 here = *reinterpret_cast<const float4*>(corner);
            float4 after = *reinterpret_cast<const float4*>(corner + 4);
#pragma unroll
            for (int y = 1; y < 3; ++y) {
                corner += 3 * cut.pitch;
                before = fmaxf(before, corner[-1]);
                here = larger(here, *reinterpret_cast<const float4*>(corner));
                after = larger(after, *reinterpret_cast<const float4*>(corner + 4));
            }
            float left = fmaxf(fmaxf(before, here.z), after.y);
            float right = fmaxf(fmaxf(here.y, after.x), after.w);
            store_pair(to + targets[i], left, right, even, targets[i] % v.OW + 1 < v.OW);
        }
        to += (size_t)v.OH * v.OW;
    }
}
#endif

#if VARIANT >= 2
template <class Known, int kStages>
bool launch_planes(const float* input, float* output, const Volume& v, const Cut& cut, int threads, size_t bytes)
{
#if VARIANT == 2
    auto kernel = pool_planes<Known, kStages>;
#else
    auto kernel = pool_columns<Known, kStages>;
#endif
    if (cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes) != cudaSuccess) {
        cudaGetLastError(); // this chip has less; the caller goes another way
        return false;
    }
    kernel<<<(unsigned)v.channels * cut.bands * cut.sections, threads, bytes>>>(input, output, v, cut);
    return true;
}

// With as many stages as fit beside `fixed` bytes.
template <class Known>
bool launch_stages(const float* input, float* output, const Volume& v, const Cut& cut, int threads, size_t fixed,
                   size_t stage)
{
    int stages = (int)((SHARED * 1024 - fixed) / stage);
    if (stages >= 8) {
        return launch_planes<Known, 8>(input, output, v, cut, threads, fixed + 8 * stage);
    }
    if (stages >= 4) {
        return launch_planes<Known, 4>(input, output, v, cut, threads, fixed + 4 * stage);
    }
    if (stages >= 3) {
        return launch_planes<Known, 3>(input, output, v, cut, threads, fixed + 3 * stage);
    }
    return launch_planes<Known, 2>(input, output, v, cut, threads, fixed + 2 * stage);
}

// Few channels are cut along their planes too, though sections share planes. Returns whether a grid can be so long.
bool cut_sections(const Volume& v, Cut& cut)
{
    int device = 0;
    int processors = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    long long blocks = (long long)v.channels * cut.bands;
    long long wanted = 2ll * processors / blocks;
    wanted = wanted < 1 ? 1 : wanted > v.OD ? v.OD : wanted;
    cut.section = (v.OD - 1) / (int)wanted + 1;
    cut.sections = (v.OD - 1) / cut.section + 1;
    return blocks * cut.sections <= 0x7fffffff;
}
#endif

#if VARIANT == 2
// Returns false where a row is too long for a block.
template <class Known>
bool pool_by_planes(const float* input, float* output, const Volume& v)
{
    static_assert(Known::reach >= Known::stride && Known::padding <= kBorder, "planes would be skipped");
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
    size_t stage = sizeof(float) * Known::stride * ((cut.rows * cut.pitch + kBorder + 3) / 4 * 4);
    return cut_sections(v, cut) && launch_stages<Known>(input, output, v, cut, THREADS, 0, stage);
}
#elif VARIANT == 3
// Returns false where rows are no whole vectors, or too long for a block.
template <class Known>
bool pool_by_planes(const float* input, float* output, const Volume& v)
{
    Cut cut;
    cut.pitch = v.W + kBorder;
    for (cut.bands = 1; v.W % 4 == 0 && cut.bands <= v.OH; ++cut.bands) {
        cut.band = (v.OH - 1) / cut.bands + 1;
        cut.rows = (cut.band - 1) * Known::stride + Known::reach;
        int vectors = (cut.rows < v.H ? cut.rows : v.H) * (v.W / 4);
        int threads = ((vectors - 1) / ITEMS / 32 + 1) * 32;
        size_t fixed = sizeof(float) * 2 * (cut.rows * cut.pitch + kBorder);
        size_t stage = sizeof(float4) * 2 * ITEMS * threads;
        if (threads <= THREADS && fixed + 2 * stage <= SHARED * 1024) {
            cut.bands = (v.OH - 1) / cut.band + 1;
            return cut_sections(v, cut) && launch_stages<Known>(input, output, v, cut, threads, fixed, stage);
        }
    }
    return false;
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
#if VARIANT >= 2
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
