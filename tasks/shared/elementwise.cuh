// `solve` of an array y whose elements are `value_of` those of x: how tiles are read and written, and by how many
// blocks. The playbook defines `value_of`, GRID, THREADS, VECTORS and what streams.cuh needs.

#include "shared/streams.cuh"

__device__ Vector values_of(Vector x)
{
#if WIDTH == 1
    return value_of(x);
#else
    return make_float4(value_of(x.x), value_of(x.y), value_of(x.z), value_of(x.w));
#endif
}

// Idea: neighbouring threads access neighbouring vectors, and the loads of a thread do not wait for
// each other.
template <int kVectors>
__device__ void apply_to_tile(const Vector* __restrict__ x, Vector* __restrict__ y, unsigned vectors, unsigned first)
{
    Vector loaded[kVectors];
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
        unsigned at = first + i * blockDim.x;
        if (at < vectors) {
            loaded[i] = load(x + at);
        }
    }
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
        unsigned at = first + i * blockDim.x;
        if (at < vectors) {
            store(y + at, values_of(loaded[i]));
        }
    }
}

template <int kVectors>
__global__ void __launch_bounds__(THREADS)
    apply(const float* __restrict__ x, float* __restrict__ y, unsigned n)
{
    unsigned vectors = n / WIDTH;
    unsigned tile = blockDim.x * kVectors;
    unsigned first = blockIdx.x * tile + threadIdx.x;
    const Vector* from = reinterpret_cast<const Vector*>(x);
    Vector* to = reinterpret_cast<Vector*>(y);
#if GRID == 2
    for (; first < vectors; first += gridDim.x * tile) {
        apply_to_tile<kVectors>(from, to, vectors, first);
    }
#else
    apply_to_tile<kVectors>(from, to, vectors, first);
#endif
#if WIDTH > 1
    unsigned rest = vectors * WIDTH + threadIdx.x; // what fills no vector
    if (blockIdx.x == 0 && rest < n) {
        y[rest] = value_of(x[rest]);
    }
#endif
}

int count_blocks(int n, int threads, int vectors)
{
    return (n - 1) / (threads * vectors * WIDTH) + 1;
}

#if GRID > 0
int count_multiprocessors()
{
    int device = 0;
    int count = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
    return count;
}
#endif

extern "C" void solve(const float* x, float* y, int n)
{
    int blocks = count_blocks(n, THREADS, VECTORS);
#if GRID == 1
    // Latency decides where a chip is not filled: as many multiprocessors as possible take part.
    int processors = count_multiprocessors();
    if (blocks < 2 * processors) {
        int threads = THREADS;
        while (threads > 64 && count_blocks(n, threads, 1) < processors) {
            threads /= 2;
        }
        apply<1><<<count_blocks(n, threads, 1), threads>>>(x, y, n);
        cudaDeviceSynchronize();
        return;
    }
#elif GRID == 2
    int each = 0;
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, apply<VECTORS>, THREADS, 0);
    int resident = count_multiprocessors() * each;
    blocks = blocks < resident ? blocks : resident;
#endif
    apply<VECTORS><<<blocks, THREADS>>>(x, y, n);
    cudaDeviceSynchronize();
}
