// Matrix copy: how wide an access is, how many are under way, and who fills the chip.

#include <cuda_runtime.h>

#define GRID 0      // tunable: 0 1 2 3; a block a tile, smaller tiles where they are few, blocks that loop, bulk copies
#define THREADS 256 // tunable: 128 256 512; of a block
#define VECTORS 1   // tunable: 1 2 4 8; vectors a thread loads before it needs the first
#define WIDTH 1     // tunable: 1 4; elements of one access
#define STREAM 0    // tunable: 0 1 2; lines to keep as usual, written and read once, written once

// tunable-if: GRID != 3 or WIDTH == 4 and STREAM == 0 and THREADS * VECTORS <= 2048

// tunable-hint: latency VECTORS=4
// tunable-hint: dram_bandwidth VECTORS=4
// tunable-hint: issue WIDTH=4
// tunable-hint: int WIDTH=4
// tunable-hint: l1_bandwidth WIDTH=4
// tunable-hint: l2_bandwidth STREAM=1
// tunable-hint: low_occupancy THREADS=256
// tunable-hint: launch_overhead GRID=1
// tunable-hint: tail GRID=2

#include "shared/streams.cuh"

// Idea: neighbouring threads access neighbouring vectors, and the loads of a thread do not wait for
// each other.
template <int kVectors>
__device__ void copy_tile(const Vector* __restrict__ A, Vector* __restrict__ B, size_t vectors, size_t first)
{
    Vector loaded[kVectors];
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
        size_t at = first + i * blockDim.x;
        if (at < vectors) {
            loaded[i] = load(A + at);
        }
    }
#pragma unroll
    for (int i = 0; i < kVectors; ++i) {
        size_t at = first + i * blockDim.x;
        if (at < vectors) {
            store(B + at, loaded[i]);
        }
    }
}

template <int kVectors>
__global__ void __launch_bounds__(THREADS)
    copy(const float* __restrict__ A, float* __restrict__ B, size_t elements)
{
    size_t vectors = elements / WIDTH;
    unsigned tile = blockDim.x * kVectors;
    size_t first = (size_t)blockIdx.x * tile + threadIdx.x;
    const Vector* from = reinterpret_cast<const Vector*>(A);
    Vector* to = reinterpret_cast<Vector*>(B);
#if GRID >= 2
    for (; first < vectors; first += (size_t)gridDim.x * tile) {
        copy_tile<kVectors>(from, to, vectors, first);
    }
#else
    copy_tile<kVectors>(from, to, vectors, first);
#endif
#if WIDTH > 1
    size_t rest = vectors * WIDTH + threadIdx.x; // what fills no vector
    if (blockIdx.x == 0 && rest < elements) {
        B[rest] = A[rest];
    }
#endif
}

#if GRID == 3
constexpr int kStages = 4;
constexpr int kMostShared = 192 * 1024; // bytes of a multiprocessor that its blocks share
constexpr unsigned kChunk = THREADS * VECTORS * 16; // bytes of a bulk copy

__device__ unsigned shared_address(const void* pointer)
{
    return static_cast<unsigned>(__cvta_generic_to_shared(pointer));
}

// Idea: one thread a block keeps the copy engine of its multiprocessor busy; no data in registers.
// A stage is filled again when the store that reads it has done so.
__global__ void copy_in_bulk(const float* __restrict__ A, float* __restrict__ B, size_t elements)
{
#if __CUDA_ARCH__ >= 900
    extern __shared__ __align__(128) char stages[];
    __shared__ unsigned long long filled[kStages];
    size_t chunks = elements * sizeof(float) / kChunk;
    const char* from = reinterpret_cast<const char*>(A);
    char* to = reinterpret_cast<char*>(B);
    if (threadIdx.x > 0) {
        for (size_t i = chunks * (kChunk / sizeof(float)) + threadIdx.x - 1 + blockIdx.x * (blockDim.x - 1);
             i < elements; i += gridDim.x * (blockDim.x - 1)) {
            B[i] = A[i];
        }
        return;
    }
    for (int stage = 0; stage < kStages; ++stage) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(filled + stage)) : "memory");
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    asm volatile("fence.proxy.async;" ::: "memory");

    auto fill = [&](size_t turn) {
        size_t chunk = blockIdx.x + turn * gridDim.x;
        if (chunk >= chunks) {
            return;
        }
        unsigned stage = turn % kStages;
        unsigned barrier = shared_address(filled + stage);
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(kChunk) : "memory");
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                shared_address(stages + stage * kChunk)),
            "l"(from + chunk * kChunk), "r"(kChunk), "r"(barrier)
            : "memory");
    };
    for (size_t turn = 0; turn + 1 < kStages; ++turn) {
        fill(turn);
    }
    for (size_t turn = 0; blockIdx.x + turn * gridDim.x < chunks; ++turn) {
        // The stage that is filled next is the one that the store before this one reads.
        asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        fill(turn + kStages - 1);
        unsigned stage = turn % kStages;
        asm volatile(
            "{\n"
            ".reg .pred done;\n"
            "again:\n"
            "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
            "@!done bra again;\n"
            "}" ::"r"(shared_address(filled + stage)),
            "r"((unsigned)(turn / kStages) & 1)
            : "memory");
        asm volatile(
            "cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(
                to + (blockIdx.x + turn * gridDim.x) * kChunk),
            "r"(shared_address(stages + stage * kChunk)), "r"(kChunk)
            : "memory");
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    }
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
#endif
}
#endif

size_t count_blocks(size_t elements, int threads, int vectors)
{
    return (elements - 1) / (threads * vectors * WIDTH) + 1;
}

#if GRID > 0
int attribute(cudaDeviceAttr name)
{
    int device = 0;
    int value = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&value, name, device);
    return value;
}
#endif

extern "C" void solve(const float* A, float* B, int n)
{
    size_t elements = (size_t)n * n;
    size_t blocks = count_blocks(elements, THREADS, VECTORS);
#if GRID == 1
    // Latency decides where a chip is not filled: as many multiprocessors as possible take part.
    int processors = attribute(cudaDevAttrMultiProcessorCount);
    if (blocks < 2 * processors) {
        int threads = THREADS;
        while (threads > 64 && count_blocks(elements, threads, 1) < processors) {
            threads /= 2;
        }
        copy<1><<<count_blocks(elements, threads, 1), threads>>>(A, B, elements);
        cudaDeviceSynchronize();
        return;
    }
#elif GRID >= 2
#if GRID == 3
    if (attribute(cudaDevAttrComputeCapabilityMajor) >= 9) {
        int shared = kStages * kChunk;
        int each = kMostShared / shared < 8 ? kMostShared / shared : 8;
        size_t most = attribute(cudaDevAttrMultiProcessorCount) * each;
        size_t chunks = elements * sizeof(float) / kChunk + 1;
        cudaFuncSetAttribute(copy_in_bulk, cudaFuncAttributeMaxDynamicSharedMemorySize, shared);
        copy_in_bulk<<<chunks < most ? chunks : most, 64, shared>>>(A, B, elements);
        cudaDeviceSynchronize();
        return;
    }
#endif
    int each = 0;
    cudaOccupancyMaxActiveBlocksPerMultiprocessor(&each, copy<VECTORS>, THREADS, 0);
    size_t resident = attribute(cudaDevAttrMultiProcessorCount) * each;
    blocks = blocks < resident ? blocks : resident;
#endif
    copy<VECTORS><<<blocks, THREADS>>>(A, B, elements);
    cudaDeviceSynchronize();
}
