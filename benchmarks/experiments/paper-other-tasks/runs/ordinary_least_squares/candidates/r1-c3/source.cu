// Lane pairs share a row's products; cp.async rings, last block solves.

#include <cuda_runtime.h>

namespace {

// ---------------------------------------------------------------- ten features, many samples

constexpr int F = 10;
constexpr int WARPS = 16;
constexpr int THREADS = 32 * WARPS;
constexpr int BLOCKS = 132;
constexpr int STAGES = 4;
constexpr int ROWS = 32;                              // rows of a warp's tile
constexpr int TILE = ROWS * F + ROWS;                 // X, then y: 352 floats
constexpr int RING_BYTES = WARPS * STAGES * TILE * 4;
constexpr int SLOTS = 70;                             // 35 sums for each of the two lanes of a pair

__device__ double g_sums[SLOTS];                      // zero between calls
__device__ unsigned g_count;                          // zero between calls

__device__ __forceinline__ void copy16(unsigned to, const void* from, int bytes)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(from), "r"(bytes) : "memory");
}

__device__ __forceinline__ void commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// What lies beyond the last row is filled with zeros.
__device__ __forceinline__ void issue(unsigned to, const float* X, const float* y, int t, int n, int lane)
{
    const int rows = min(ROWS, n - t * ROWS);
    const int xbytes = rows * (F * 4);
    const char* xs = reinterpret_cast<const char*>(X) + (size_t)t * (ROWS * F * 4);
    const char* ys = reinterpret_cast<const char*>(y) + (size_t)t * (ROWS * 4);
#pragma unroll
    for (int k = 0; k < 2; ++k) {
        const int at = 16 * (lane + 32 * k);
        const int bytes = max(0, min(16, xbytes - at));
        copy16(to + at, bytes > 0 ? xs + at : xs, bytes);
    }
    if (lane < 16) {
        const int at = 16 * (lane + 64);
        const int bytes = max(0, min(16, xbytes - at));
        copy16(to + at, bytes > 0 ? xs + at : xs, bytes);
    } else if (lane < 24) {
        const int at = 16 * (lane - 16);
        const int bytes = max(0, min(16, rows * 4 - at));
        copy16(to + ROWS * F * 4 + at, bytes > 0 ? ys + at : ys, bytes);
    }
}

// The columns lie on a ring of ten positions; the lanes of a pair start five positions apart.
__device__ __forceinline__ int position(int column)
{
    return column < 5 ? column : column == 5 ? 9 : column - 1;
}

__device__ __forceinline__ int slot_of(int row, int column)
{
    int p = position(row);
    int k;
    if (column >= F) {
        k = -1;
    } else {
        const int q = position(column);
        k = q - p;
        if (k < 0) k += 10;
        if (k > 5) {
            p = q;
            k = 10 - k;
        }
        if (k == 5 && p >= 5) p -= 5;
    }
    const int h = p >= 5 ? 1 : 0;
    const int i = p - 5 * h;
    return h * 35 + (k < 0 ? 30 + i : i * 6 + k);
}

__device__ __forceinline__ double reciprocal(double p)
{
    double r;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(r) : "d"(p));
    double e = fma(-p, r, 1.0);
    e = fma(e, e, e);
    return fma(r, e, r);
}

__global__ void __launch_bounds__(THREADS, 1)
fit10(const float* __restrict__ X, const float* __restrict__ y, float* __restrict__ beta, int n)
{
    extern __shared__ __align__(128) float ring[];
    __shared__ double red[WARPS][SLOTS];
    __shared__ int is_last;

    const int tid = threadIdx.x;
    const int lane = tid & 31;
    const int warp = tid >> 5;
    const int h = lane & 1;
    const int tiles = (n - 1) / ROWS + 1;
    const int grid = gridDim.x;
    const int first = warp * grid + (int)blockIdx.x;
    const int stride = WARPS * grid;

    if (first < tiles) {
        float* mine = ring + warp * (STAGES * TILE);
        const unsigned base = (unsigned)__cvta_generic_to_shared(mine);
        float a[32];
        double b[8];
#pragma unroll
        for (int k = 0; k < 32; ++k) a[k] = 0.0f;
#pragma unroll
        for (int k = 0; k < 8; ++k) b[k] = 0.0;

#pragma unroll
        for (int s = 0; s < STAGES - 1; ++s) {
            const int t = first + s * stride;
            if (t < tiles) issue(base + s * (TILE * 4), X, y, t, n, lane);
            commit();
        }

        const int near = h != 0 ? 6 : 0;
        const int far = 6 - near;
        int stage = 0;
#pragma unroll 1
        for (int t = first; t < tiles; t += stride) {
            asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 2) : "memory");
            __syncwarp();
            const int ahead = t + (STAGES - 1) * stride;
            if (ahead < tiles) {
                issue(base + ((stage + STAGES - 1) % STAGES) * (TILE * 4), X, y, ahead, n, lane);
            }
            commit();

            const float* tile = mine + stage * TILE;
#pragma unroll
            for (int half = 0; half < 2; ++half) {
                const int row = half * 16 + (lane >> 1);
                const float* p = tile + row * F;
                const float2 v01 = *reinterpret_cast<const float2*>(p + near);
                const float2 v23 = *reinterpret_cast<const float2*>(p + near + 2);
                const float2 v56 = *reinterpret_cast<const float2*>(p + far);
                const float2 v78 = *reinterpret_cast<const float2*>(p + far + 2);
                float x[10];
                x[0] = v01.x;
                x[1] = v01.y;
                x[2] = v23.x;
                x[3] = v23.y;
                x[4] = p[4 + h];
                x[5] = v56.x;
                x[6] = v56.y;
                x[7] = v78.x;
                x[8] = v78.y;
                x[9] = p[5 - h];
                const double target = (double)tile[ROWS * F + row];
#pragma unroll
                for (int i = 0; i < 5; ++i) {
#pragma unroll
                    for (int k = 0; k < 6; ++k) a[i * 6 + k] = fmaf(x[i], x[i + k], a[i * 6 + k]);
                    b[i] = fma((double)x[i], target, b[i]);
                }
            }
            stage = (stage + 1) % STAGES;
        }

        // Sums over the 16 lanes of equal parity; each lane ends with two of a and one of b.
#pragma unroll
        for (int w = 16; w >= 2; w >>= 1) {
            const bool up = (lane & w) != 0;
#pragma unroll
            for (int q = 0; q < w; ++q) {
                const float send = up ? a[q] : a[q + w];
                const float keep = up ? a[q + w] : a[q];
                a[q] = keep + __shfl_xor_sync(0xffffffffu, send, w);
            }
        }
#pragma unroll
        for (int w = 4; w >= 1; w >>= 1) {
            const bool up = (lane & (4 * w)) != 0;
#pragma unroll
            for (int q = 0; q < w; ++q) {
                const double send = up ? b[q] : b[q + w];
                const double keep = up ? b[q + w] : b[q];
                b[q] = keep + __shfl_xor_sync(0xffffffffu, send, 4 * w);
            }
        }
        b[0] += __shfl_xor_sync(0xffffffffu, b[0], 2);

        const int s = lane & 30;
        if (s < 30) {
            red[warp][h * 35 + s] = (double)a[0];
            red[warp][h * 35 + s + 1] = (double)a[1];
        }
        const int i = lane >> 2;                      // bits 16, 8, 4 chose b[4], b[2], b[1]
        if ((lane & 2) == 0 && i < 5) red[warp][h * 35 + 30 + i] = b[0];
    }
    __syncthreads();

    if (tid < SLOTS) {
        const int active = min(WARPS, (tiles - (int)blockIdx.x + grid - 1) / grid);
        double sum = 0.0;
        for (int w = 0; w < active; ++w) sum += red[w][tid];
        atomicAdd(&g_sums[tid], sum);
        __threadfence();
    }
    __syncthreads();
    if (tid == 0) {
        is_last = atomicAdd(&g_count, 1u) == (unsigned)grid - 1u ? 1 : 0;
    }
    __syncthreads();
    if (is_last == 0 || warp != 0) return;

    // Gauss-Jordan by one warp: a lane holds a column, lane 10 the right side.
    __threadfence();
    const int column = min(lane, F);
    double m[F];
#pragma unroll
    for (int r = 0; r < F; ++r) m[r] = __ldcg(&g_sums[slot_of(r, column)]);
    __syncwarp();
    for (int k = lane; k < SLOTS; k += 32) g_sums[k] = 0.0;
    if (lane == 0) g_count = 0u;

#pragma unroll
    for (int k = 0; k < F; ++k) {
        double q[F];
#pragma unroll
        for (int r = 0; r < F; ++r) q[r] = __shfl_sync(0xffffffffu, m[r], k);
        const double t = m[k] * reciprocal(q[k]);
#pragma unroll
        for (int r = 0; r < F; ++r) {
            if (r != k) m[r] = fma(-q[r], t, m[r]);
        }
        m[k] = t;
    }
    if (lane == F) {
#pragma unroll
        for (int r = 0; r < F; ++r) beta[r] = (float)m[r];
    }
}

// ---------------------------------------------------------------- any size, in double precision

constexpr int SIDE = 16;

// A slice of the rows adds up a tile of X^T [X y].
__global__ void gram(const float* X, const float* y, double* partial, int n, int d, int tiles_j)
{
    __shared__ float A[SIDE][SIDE + 1];
    __shared__ float B[SIDE][SIDE + 1];
    const int tx = threadIdx.x;
    const int ty = threadIdx.y;
    const int ti = blockIdx.x / tiles_j;
    const int tj = blockIdx.x % tiles_j;
    const long long per = ((long long)n + gridDim.y - 1) / gridDim.y;
    const long long start = per * blockIdx.y;
    const long long end = min(start + per, (long long)n);
    const int ia = ti * SIDE + tx;
    const int jb = tj * SIDE + tx;
    double acc = 0.0;
    for (long long k0 = start; k0 < end; k0 += SIDE) {
        const long long k = k0 + ty;
        float va = 0.0f;
        float vb = 0.0f;
        if (k < end) {
            if (ia < d) va = X[(size_t)k * d + ia];
            if (jb < d) vb = X[(size_t)k * d + jb];
            else if (jb == d) vb = y[k];
        }
        A[ty][tx] = va;
        B[ty][tx] = vb;
        __syncthreads();
#pragma unroll
        for (int kk = 0; kk < SIDE; ++kk) acc = fma((double)A[kk][ty], (double)B[kk][tx], acc);
        __syncthreads();
    }
    const int i = ti * SIDE + ty;
    if (i < d && jb <= d) {
        partial[((size_t)blockIdx.y * d + i) * ((size_t)d + 1) + jb] = acc;
    }
}

// Adds the other slices to the first.
__global__ void add_slices(double* partial, size_t elements, int slices)
{
    for (size_t e = (size_t)blockIdx.x * blockDim.x + threadIdx.x; e < elements; e += (size_t)gridDim.x * blockDim.x) {
        double sum = 0.0;
        for (int s = 0; s < slices; ++s) sum += partial[s * elements + e];
        partial[e] = sum;
    }
}

__global__ void eliminate_step(double* M, int d, int k)
{
    const int c = k + 1 + blockIdx.x * blockDim.x + threadIdx.x;
    const int r = k + 1 + blockIdx.y * blockDim.y + threadIdx.y;
    if (r < d && c <= d) {
        const size_t stride = (size_t)d + 1;
        M[r * stride + c] -= M[r * stride + k] / M[k * stride + k] * M[k * stride + c];
    }
}

__global__ void substitute(double* M, float* beta, int d)
{
    const size_t stride = (size_t)d + 1;
    for (int k = d - 1; k >= 0; --k) {
        __syncthreads();
        const double value = M[k * stride + d] / M[k * stride + k];
        if (threadIdx.x == 0) beta[k] = (float)value;
        for (int r = threadIdx.x; r < k; r += blockDim.x) {
            M[r * stride + d] -= M[r * stride + k] * value;
        }
    }
}

} // namespace

extern "C" void solve(const float* X, const float* y, float* beta, int n_samples, int n_features)
{
    const int n = n_samples;
    const int d = n_features;
    if (n <= 0 || d <= 0) return;

    if (d == F && n >= 4096) {
        const int tiles = (n - 1) / ROWS + 1;
        const int blocks = tiles < BLOCKS ? tiles : BLOCKS;
        cudaFuncSetAttribute(fit10, cudaFuncAttributeMaxDynamicSharedMemorySize, RING_BYTES);
        fit10<<<blocks, THREADS, RING_BYTES>>>(X, y, beta, n);
        return;
    }

    const int tiles_i = (d + SIDE - 1) / SIDE;
    const int tiles_j = (d + SIDE) / SIDE;
    const long long tiles = (long long)tiles_i * tiles_j;
    long long slices = 2048 / tiles;
    if (slices > 128) slices = 128;
    if (slices > ((long long)n + 63) / 64) slices = ((long long)n + 63) / 64;
    if (slices < 1) slices = 1;

    const size_t elements = (size_t)d * ((size_t)d + 1);
    double* M = nullptr;
    cudaMallocAsync(reinterpret_cast<void**>(&M), (size_t)slices * elements * sizeof(double), 0);
    gram<<<dim3((unsigned)tiles, (unsigned)slices), dim3(SIDE, SIDE)>>>(X, y, M, n, d, tiles_j);
    if (slices > 1) {
        size_t blocks = (elements + 255) / 256;
        if (blocks > 4096) blocks = 4096;
        add_slices<<<(unsigned)blocks, 256>>>(M, elements, (int)slices);
    }
    for (int k = 0; k + 1 < d; ++k) {
        const dim3 threads(32, 8);
        const dim3 grid((d - k + 31) / 32, (d - 1 - k + 7) / 8);
        eliminate_step<<<grid, threads>>>(M, d, k);
    }
    substitute<<<1, 256>>>(M, beta, d);
    cudaFreeAsync(M, 0);
}
