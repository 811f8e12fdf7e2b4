// Layer norm over channels: how often channels are read, and how many positions and who share the work.

#include <cuda_runtime.h>

#define HOLD 0      // tunable: 0 1; channels are read three times, few of them once into registers
#define DEEP 0      // tunable: 0 1; more channels by one thread, by all warps of a block
#define WIDTH 1     // tunable: 1 2 4; neighbouring positions that one load fetches
#define ITEMS 1     // tunable: 1 2; such vectors of positions a thread has
#define NARROW 0    // tunable: 0 1; positions too few for the chip are taken one a thread
#define THREADS 256 // tunable: 64 128 256 512; of a block
#define STREAM 0    // tunable: 0 1; caches are told that what is held is not needed again

// tunable-if: HOLD == 1 or WIDTH == 1 and ITEMS == 1 and STREAM == 0
// tunable-if: WIDTH * ITEMS > 1 or NARROW == 0

// tunable-hint: dram_bandwidth HOLD=1
// tunable-hint: dram_bandwidth HOLD=1 STREAM=1
// tunable-hint: l2_bandwidth HOLD=1
// tunable-hint: l1_bandwidth HOLD=1 WIDTH=4
// tunable-hint: uncoalesced_global DEEP=1
// tunable-hint: issue HOLD=1 WIDTH=4
// tunable-hint: latency DEEP=1
// tunable-hint: latency HOLD=1 WIDTH=4 ITEMS=2
// tunable-hint: tail HOLD=1 WIDTH=4 NARROW=1
// tunable-hint: low_occupancy ITEMS=1
// tunable-hint: int WIDTH=4

struct Shape {
    int channels;
    size_t image;     // positions of an image
    size_t positions; // of all images
    float eps;
};

// Where channel 0 of a position lies; the next channel is an image further.
__device__ size_t place_of(size_t position, Shape shape)
{
    return position / shape.image * shape.image * shape.channels + position % shape.image;
}

#if DEEP == 0
// Idea: neighbouring threads have neighbouring positions, so every load of a warp is one piece of memory.
// The squares are those of differences from the mean: a mean of squares less the square of the mean
// would cancel where the mean is large.
__global__ void __launch_bounds__(THREADS) read_again(const float* __restrict__ x, float* __restrict__ y, Shape shape)
{
    size_t position = (size_t)blockIdx.x * THREADS + threadIdx.x;
    if (position >= shape.positions) {
        return;
    }
    const float* from = x + place_of(position, shape);
    float* to = y + place_of(position, shape);
    float sum = 0.0f;
#pragma unroll 4
    for (int c = 0; c < shape.channels; ++c) {
        sum += from[c * shape.image];
    }
    float mean = sum / shape.channels;
    float squares = 0.0f;
#pragma unroll 4
    for (int c = 0; c < shape.channels; ++c) {
        float difference = from[c * shape.image] - mean;
        squares = fmaf(difference, difference, squares);
    }
    float factor = rsqrtf(squares / shape.channels + shape.eps);
#pragma unroll 4
    for (int c = 0; c < shape.channels; ++c) {
        to[c * shape.image] = (from[c * shape.image] - mean) * factor;
    }
}
#else
constexpr int kLanes = 32;
constexpr int kWarps = THREADS / kLanes;

// Sum over the warps of a block, for each of its lanes.
__device__ float sum_warps(float value)
{
    __shared__ float values[kWarps][kLanes];
    __syncthreads(); // what was summed before has been read
    values[threadIdx.y][threadIdx.x] = value;
    __syncthreads();
    float sum = 0.0f;
#pragma unroll
    for (int warp = 0; warp < kWarps; ++warp) {
        sum += values[warp][threadIdx.x];
    }
    return sum;
}

// Idea: where positions are few and channels many, warps take turns at the channels of 32 positions.
__global__ void __launch_bounds__(THREADS) share_channels(const float* __restrict__ x, float* __restrict__ y, Shape shape)
{
    size_t position = (size_t)blockIdx.x * kLanes + threadIdx.x;
    int count = position < shape.positions ? shape.channels : 0;
    size_t place = count > 0 ? place_of(position, shape) : 0;
    float sum = 0.0f;
#pragma unroll 4
    for (int c = threadIdx.y; c < count; c += kWarps) {
        sum += x[place + c * shape.image];
    }
    float mean = sum_warps(sum) / shape.channels;
    float squares = 0.0f;
#pragma unroll 4
    for (int c = threadIdx.y; c < count; c += kWarps) {
        float difference = x[place + c * shape.image] - mean;
        squares = fmaf(difference, difference, squares);
    }
    float factor = rsqrtf(sum_warps(squares) / shape.channels + shape.eps);
#pragma unroll 4
    for (int c = threadIdx.y; c < count; c += kWarps) {
        y[place + c * shape.image] = (x[place + c * shape.image] - mean) * factor;
    }
}
#endif

#if HOLD == 1
template <int kWidth>
struct alignas(sizeof(float) * kWidth) Vector {
    float at[kWidth];
};

template <int kWidth>
__device__ Vector<kWidth> read_vector(const float* from)
{
    Vector<kWidth> vector;
#if STREAM == 1
    if constexpr (kWidth == 4) {
        float4 value = __ldcs(reinterpret_cast<const float4*>(from));
        vector = {{value.x, value.y, value.z, value.w}};
    } else if constexpr (kWidth == 2) {
        float2 value = __ldcs(reinterpret_cast<const float2*>(from));
        vector = {{value.x, value.y}};
    } else {
        vector.at[0] = __ldcs(from);
    }
#else
    vector = *reinterpret_cast<const Vector<kWidth>*>(from);
#endif
    return vector;
}

template <int kWidth>
__device__ void write_vector(float* to, Vector<kWidth> vector)
{
#if STREAM == 1
    if constexpr (kWidth == 4) {
        __stcs(reinterpret_cast<float4*>(to), float4{vector.at[0], vector.at[1], vector.at[2], vector.at[3]});
    } else if constexpr (kWidth == 2) {
        __stcs(reinterpret_cast<float2*>(to), float2{vector.at[0], vector.at[1]});
    } else {
        __stcs(to, vector.at[0]);
    }
#else
    *reinterpret_cast<Vector<kWidth>*>(to) = vector;
#endif
}

template <int kChannels, int kWidth>
__device__ void normalise(Vector<kWidth> (&held)[kChannels], Shape shape)
{
    float inverse = 1.0f / shape.channels;
#pragma unroll
    for (int j = 0; j < kWidth; ++j) {
        float sum = 0.0f;
#pragma unroll
        for (int c = 0; c < kChannels; ++c) {
            sum += c < shape.channels ? held[c].at[j] : 0.0f;
        }
        float mean = sum * inverse;
        float squares = 0.0f;
#pragma unroll
        for (int c = 0; c < kChannels; ++c) {
            held[c].at[j] -= mean;
            squares += c < shape.channels ? held[c].at[j] * held[c].at[j] : 0.0f;
        }
        float factor = rsqrtf(fmaf(squares, inverse, shape.eps));
#pragma unroll
        for (int c = 0; c < kChannels; ++c) {
            held[c].at[j] *= factor;
        }
    }
}

// Idea: all channels of some positions stay in registers, so memory is read once; all loads are under way
// before the first element is needed. Images are a multiple of kWidth.
template <int kChannels, int kWidth, int kItems>
__global__ void __launch_bounds__(THREADS) hold_channels(const float* __restrict__ x, float* __restrict__ y, Shape shape)
{
    size_t first = ((size_t)blockIdx.x * THREADS * kItems + threadIdx.x) * kWidth;
    Vector<kWidth> held[kItems][kChannels] = {};
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
        size_t position = first + i * THREADS * kWidth;
        if (position < shape.positions) {
            const float* from = x + place_of(position, shape);
#pragma unroll
            for (int c = 0; c < kChannels; ++c) {
                if (c < shape.channels) {
                    held[i][c] = read_vector<kWidth>(from + c * shape.image);
                }
            }
        }
    }
#pragma unroll
    for (int i = 0; i < kItems; ++i) {
        size_t position = first + i * THREADS * kWidth;
        if (position < shape.positions) {
            float* to = y + place_of(position, shape);
            normalise(held[i], shape);
#pragma unroll
            for (int c = 0; c < kChannels; ++c) {
                if (c < shape.channels) {
                    write_vector<kWidth>(to + c * shape.image, held[i][c]);
                }
            }
        }
    }
}

template <int kChannels, int kWidth, int kItems>
void launch_hold(const float* x, float* y, Shape shape)
{
    constexpr size_t kEach = (size_t)THREADS * kWidth * kItems;
    hold_channels<kChannels, kWidth, kItems><<<(shape.positions - 1) / kEach + 1, THREADS>>>(x, y, shape);
}

// Launches what holds channels in registers; false where they are too many.
bool hold(const float* x, float* y, Shape shape)
{
    if (shape.channels > 16) {
        return false;
    }
    if (shape.channels > 4) {
        launch_hold<16, 1, 1>(x, y, shape);
        return true;
    }
#if WIDTH * ITEMS > 1
    bool whole = shape.image % WIDTH == 0;
#if NARROW == 1
    int device = 0;
    int processors = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    constexpr int kResident = 512; // threads of a multiprocessor that hide what a load takes
    whole = whole && shape.positions >= (size_t)processors * kResident * WIDTH * ITEMS;
#endif
    if (!whole) {
        launch_hold<4, 1, 1>(x, y, shape);
        return true;
    }
#endif
    launch_hold<4, WIDTH, ITEMS>(x, y, shape);
    return true;
}
#endif

extern "C" void solve(const float* x, float* y, int N, int C, int H, int W, float eps)
{
    size_t image = (size_t)H * W;
    Shape shape = {C, image, N * image, eps};
#if HOLD == 1
    if (hold(x, y, shape)) {
        cudaDeviceSynchronize();
        return;
    }
#endif
#if DEEP == 0
    read_again<<<(shape.positions - 1) / THREADS + 1, THREADS>>>(x, y, shape);
#else
    share_channels<<<(shape.positions - 1) / kLanes + 1, dim3(kLanes, kWarps)>>>(x, y, shape);
#endif
    cudaDeviceSynchronize();
}
