// cp.async tiles per warp, all products per row in doubles

#include <cuda_runtime.h>
#include <cstddef>

// ---- ten features: 65 sums, of which row i has columns i..9 and, as the last, y ----

constexpr int kF = 10;
constexpr int kSums = 65;
constexpr int kWarps = 8;
constexpr int kStages = 4;
constexpr int kXBytes = 32 * kF * 4;        // 1280: 32 rows
constexpr int kTileBytes = kXBytes + 32 * 4; // and 32 elements of y
constexpr int kWarpBytes = kStages * kTileBytes;

__device__ double slots[kSums];      // zero between calls
__device__ unsigned int tickets = 0; // zero between calls

__host__ __device__ constexpr int sum_index(int i, int j) // i <= j
{
    return 11 * i - i * (i - 1) / 2 + (j - i);
}

__device__ __forceinline__ void copy16(unsigned target, const char* base, size_t offset, size_t total)
{
    unsigned bytes = 0;
    const char* source = base;
    if (offset < total) {
        source = base + offset;
        bytes = total - offset < 16 ? (unsigned)(total - offset) : 16u;
    }
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(target), "l"(source), "r"(bytes) : "memory");
}

// 88 pieces of 16 bytes; what lies beyond the end becomes zero and adds nothing.
__device__ __forceinline__ void fetch_tile(unsigned target, const char* X, const char* y, size_t tile, size_t xTotal,
                                           size_t yTotal, int lane)
{
    const size_t xAt = tile * kXBytes;
    copy16(target + lane * 16, X, xAt + lane * 16, xTotal);
    copy16(target + 512 + lane * 16, X, xAt + 512 + lane * 16, xTotal);
    if (lane < 16)
        copy16(target + 1024 + lane * 16, X, xAt + 1024 + lane * 16, xTotal);
    else if (lane < 24)
        copy16(target + kXBytes + (lane - 16) * 16, y, tile * 128 + (lane - 16) * 16, yTotal);
}

// The 2 * H sums of each lane become H, those of half the lanes.
template <int H>
__device__ __forceinline__ void halve(double (&acc)[kSums], int lane)
{
    constexpr int distance = H / 2;
    const bool up = (lane & distance) != 0;
#pragma unroll
    for (int i = 0; i < H; ++i) {
        double send = up ? acc[i] : acc[i + H];
        double stay = up ? acc[i + H] : acc[i];
        acc[i] = stay + __shfl_xor_sync(0xffffffffu, send, distance);
    }
}

__global__ void __launch_bounds__(kWarps * 32, 1)
fit_ten(const float* X, const float* y, float* beta, int n)
{
    __shared__ __align__(128) unsigned char buffer[kWarps * kWarpBytes];
    __shared__ bool last;

    const int lane = threadIdx.x % 32;
    const int warp = threadIdx.x / 32;
    const size_t tiles = ((size_t)n + 31) / 32;
    const size_t stride = (size_t)gridDim.x * kWarps;
    const size_t xTotal = (size_t)n * (kF * 4);
    const size_t yTotal = (size_t)n * 4;
    const char* xBytes = reinterpret_cast<const char*>(X);
    const char* yBytes = reinterpret_cast<const char*>(y);
    unsigned char* mine = buffer + warp * kWarpBytes;
    const unsigned mineAddress = (unsigned)__cvta_generic_to_shared(mine);
    const size_t firstTile = (size_t)warp * gridDim.x + blockIdx.x;

    if (firstTile < tiles) {
        double acc[kSums];
#pragma unroll
        for (int i = 0; i < kSums; ++i)
            acc[i] = 0.0;

        size_t ahead = firstTile;
#pragma unroll
        for (int s = 0; s < kStages - 1; ++s) {
            if (ahead < tiles)
                fetch_tile(mineAddress + s * kTileBytes, xBytes, yBytes, ahead, xTotal, yTotal, lane);
            asm volatile("cp.async.commit_group;" ::: "memory");
            ahead += stride;
        }
        int stage = 0;
        int aheadStage = kStages - 1;
#pragma unroll 1
        for (size_t tile = firstTile; tile < tiles; tile += stride) {
            asm volatile("cp.async.wait_group %0;" ::"n"(kStages - 2) : "memory");
            __syncwarp();
            // the stage filled next was read before this barrier
            if (ahead < tiles)
                fetch_tile(mineAddress + aheadStage * kTileBytes, xBytes, yBytes, ahead, xTotal, yTotal, lane);
            asm volatile("cp.async.commit_group;" ::: "memory");
            ahead += stride;
            aheadStage = aheadStage + 1 == kStages ? 0 : aheadStage + 1;

            const unsigned char* at = mine + stage * kTileBytes;
            stage = stage + 1 == kStages ? 0 : stage + 1;
            const float2* row = reinterpret_cast<const float2*>(at + lane * (kF * 4));
            double v[kF + 1];
#pragma unroll
            for (int i = 0; i < kF / 2; ++i) {
                float2 pair = row[i];
                v[2 * i] = (double)pair.x;
                v[2 * i + 1] = (double)pair.y;
            }
            v[kF] = (double)reinterpret_cast<const float*>(at + kXBytes)[lane];
#pragma unroll
            for (int i = 0; i < kF; ++i) {
#pragma unroll
                for (int j = i; j <= kF; ++j)
                    acc[sum_index(i, j)] = fma(v[i], v[j], acc[sum_index(i, j)]);
            }
        }
        asm volatile("cp.async.wait_group 0;" ::: "memory");
        __syncwarp();

        // a lane ends with the sums 2 * lane and 2 * lane + 1 of its warp
        double odd = acc[64];
#pragma unroll
        for (int d = 16; d >= 1; d /= 2)
            odd += __shfl_xor_sync(0xffffffffu, odd, d);
        halve<32>(acc, lane);
        halve<16>(acc, lane);
        halve<8>(acc, lane);
        halve<4>(acc, lane);
        halve<2>(acc, lane);
        double* sums = reinterpret_cast<double*>(mine);
        sums[2 * lane] = acc[0];
        sums[2 * lane + 1] = acc[1];
        if (lane == 0)
            sums[64] = odd;
    }
    __syncthreads();

    if (threadIdx.x < kSums) {
        double sum = 0.0;
#pragma unroll
        for (int w = 0; w < kWarps; ++w) {
            if ((size_t)w * gridDim.x + blockIdx.x < tiles)
                sum += reinterpret_cast<const double*>(buffer + w * kWarpBytes)[threadIdx.x];
        }
        atomicAdd(&slots[threadIdx.x], sum);
        __threadfence();
    }
    __syncthreads();
    if (threadIdx.x == 0)
        last = atomicAdd(&tickets, 1u) == gridDim.x - 1;
    __syncthreads();
    if (!last || warp != 0)
        return;

    // one warp of the last block solves: a lane has a column, that of y in lane 10
    __threadfence();
    double a[kF];
    const int column = lane < kF ? lane : kF;
#pragma unroll
    for (int r = 0; r < kF; ++r) {
        int i = r < column ? r : column;
        int j = r < column ? column : r;
        a[r] = __ldcg(&slots[sum_index(i, j)]);
    }
    __syncwarp();
    for (int i = lane; i < kSums; i += 32)
        slots[i] = 0.0;
    if (lane == 0)
        tickets = 0;
#pragma unroll
    for (int k = 0; k < kF; ++k) {
        double inverse = 1.0 / __shfl_sync(0xffffffffu, a[k], k);
        double scaled = a[k] * inverse;
#pragma unroll
        for (int r = 0; r < kF; ++r) {
            if (r != k) {
                double factor = __shfl_sync(0xffffffffu, a[r], k);
                a[r] = fma(-factor, scaled, a[r]);
            }
        }
        a[k] = scaled;
    }
    if (lane == kF) {
#pragma unroll
        for (int r = 0; r < kF; ++r)
            beta[r] = (float)a[r];
    }
}

// ---- any number of features ----

__global__ void clear(double* matrix, size_t count)
{
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += (size_t)gridDim.x * blockDim.x)
        matrix[i] = 0.0;
}

__global__ void __launch_bounds__(256)
products(const float* X, const float* y, double* matrix, int n, int features, int columnTiles)
{
    __shared__ float left[16][17];
    __shared__ float right[16][17];
    const int tx = threadIdx.x % 16;
    const int ty = threadIdx.x / 16;
    const int i0 = (int)(blockIdx.x / columnTiles) * 16;
    const int j0 = (int)(blockIdx.x % columnTiles) * 16;
    double sum = 0.0;
    for (size_t k0 = (size_t)blockIdx.y * 16; k0 < (size_t)n; k0 += (size_t)gridDim.y * 16) {
        const size_t k = k0 + ty;
        float l = 0.0f;
        float r = 0.0f;
        if (k < (size_t)n) {
            if (i0 + tx < features)
                l = X[k * features + i0 + tx];
            if (j0 + tx < features)
                r = X[k * features + j0 + tx];
            else if (j0 + tx == features)
                r = y[k];
        }
        left[ty][tx] = l;
        right[ty][tx] = r;
        __syncthreads();
#pragma unroll
        for (int q = 0; q < 16; ++q)
            sum = fma((double)left[q][ty], (double)right[q][tx], sum);
        __syncthreads();
    }
    if (i0 + ty < features && j0 + tx <= features)
        atomicAdd(&matrix[(size_t)(i0 + ty) * (features + 1) + j0 + tx], sum);
}

__global__ void __launch_bounds__(1024)
eliminate(double* matrix, float* beta, int features)
{
    const size_t width = (size_t)features + 1;
    const int tx = threadIdx.x % 32;
    const int ty = threadIdx.x / 32;
    for (int k = 0; k < features; ++k) {
        const double* pivot = matrix + k * width;
        for (int r = k + 1 + ty; r < features; r += 32) {
            double* row = matrix + r * width;
            double factor = row[k] / pivot[k];
            for (int c = k + 1 + tx; c <= features; c += 32)
                row[c] -= factor * pivot[c];
        }
        __syncthreads();
    }
    for (int k = features - 1; k >= 0; --k) {
        double value = matrix[k * width + features] / matrix[k * width + k];
        if (threadIdx.x == 0)
            beta[k] = (float)value;
        for (int r = threadIdx.x; r < k; r += 1024)
            matrix[r * width + features] -= matrix[r * width + k] * value;
        __syncthreads();
    }
}

extern "C" void solve(const float* X, const float* y, float* beta, int n_samples, int n_features)
{
    if (n_features == kF) {
        long long tiles = ((long long)n_samples + 31) / 32;
        int blocks = tiles < 132 ? (int)tiles : 132;
        fit_ten<<<blocks, kWarps * 32>>>(X, y, beta, n_samples);
        return;
    }
    const size_t count = (size_t)n_features * ((size_t)n_features + 1);
    double* matrix = nullptr;
    cudaMallocAsync(reinterpret_cast<void**>(&matrix), count * sizeof(double), 0);
    size_t clearBlocks = (count + 255) / 256;
    clear<<<(unsigned)(clearBlocks < 1024 ? clearBlocks : 1024), 256>>>(matrix, count);
    const int rowTiles = (n_features - 1) / 16 + 1;
    const int columnTiles = n_features / 16 + 1;
    const long long tiles = (long long)rowTiles * columnTiles;
    long long splits = 2112 / tiles + 1;
    long long most = ((long long)n_samples - 1) / 128 + 1;
    if (splits > most)
        splits = most;
    products<<<dim3((unsigned)tiles, (unsigned)splits), 256>>>(X, y, matrix, n_samples, n_features, columnTiles);
    eliminate<<<1, 1024>>>(matrix, beta, n_features);
    cudaFreeAsync(matrix, 0);
}
