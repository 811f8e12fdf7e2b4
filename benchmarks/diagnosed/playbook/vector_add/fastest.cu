// Vector addition: how wide an access is, how many are under way, and who fills the chip.

#include <cstdint>
#include <cuda_runtime.h>

#define THREADS 512  // of a block
#define VECTORS 1  // vectors a thread loads before it needs the first
#define WIDTH 2  // elements of one access

constexpr int kTile = THREADS * VECTORS; // vectors of a block and step

struct alignas(sizeof(float) * WIDTH) Vector {
    float at[WIDTH];
};

__device__ bool is_aligned(const void* pointer)
{
    return reinterpret_cast<uintptr_t>(pointer) % sizeof(Vector) == 0;
}

// Idea: neighbouring threads access neighbouring vectors, and the loads of a thread do not wait for
// each other.
__device__ void add_tile(
    const Vector* __restrict__ A, const Vector* __restrict__ B, Vector* __restrict__ C, unsigned vectors,
    unsigned first)
{
    Vector a[VECTORS];
    Vector b[VECTORS];
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
        unsigned at = first + i * THREADS;
        if (at < vectors) {
            a[i] = A[at];
            b[i] = B[at];
        }
    }
#pragma unroll
    for (int i = 0; i < VECTORS; ++i) {
        unsigned at = first + i * THREADS;
        if (at < vectors) {
#pragma unroll
            for (int j = 0; j < WIDTH; ++j) {
                a[i].at[j] += b[i].at[j];
            }
            C[at] = a[i];
        }
    }
}

__global__ void __launch_bounds__(THREADS)
    vector_add(const float* __restrict__ A, const float* __restrict__ B, float* __restrict__ C, unsigned n)
{
    bool wide = is_aligned(A) && is_aligned(B) && is_aligned(C);
    unsigned vectors = wide ? n / WIDTH : 0;
    const Vector* a = reinterpret_cast<const Vector*>(A);
    const Vector* b = reinterpret_cast<const Vector*>(B);
    Vector* c = reinterpret_cast<Vector*>(C);
    unsigned first = blockIdx.x * kTile + threadIdx.x;
    for (; first < vectors; first += gridDim.x * kTile) {
        add_tile(a, b, c, vectors, first);
    }
    // What fills no vector, or everything where the arrays do not begin at one.
    unsigned step = gridDim.x * THREADS;
    for (unsigned i = vectors * WIDTH + blockIdx.x * THREADS + threadIdx.x; i < n; i += step) {
        C[i] = A[i] + B[i];
    }
}

extern "C" void solve(const float* A, const float* B, float* C, int n)
{
    int blocks = (n - 1) / (kTile * WIDTH) + 1;
    int device = 0;
    int processors = 0;
    int each = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, vector_add, THREADS, 0);
    blocks = blocks < processors * each ? blocks : processors * each;
    vector_add<<<blocks, THREADS>>>(A, B, C, n);
    cudaDeviceSynchronize();
}
