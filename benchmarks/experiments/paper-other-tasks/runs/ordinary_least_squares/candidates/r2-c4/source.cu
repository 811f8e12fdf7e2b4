// fp64 mma Gram, cp.async rings, one-fence publication, paired pivots.

#include <cuda_runtime.h>

constexpr int SLOTS = 112; // 8x8 first columns, 4x8 extra by first, 4x4 extra by extra
constexpr int COPIES = 4;
constexpr int MAX_WARPS = 16;
constexpr int BLOCKS = 132;
constexpr unsigned ALL = 0xffffffffu;

// The ring of a warp, for ten features.
constexpr int RING_WARPS = 16;
constexpr int STAGES = 4;
constexpr int RING_ROWS = 32;
constexpr int TILE = RING_ROWS * 10 + RING_ROWS; // X, then y
constexpr int RING_BYTES = RING_WARPS * STAGES * TILE * 4;

// Every call finds these zero and leaves them zero.
__device__ double g_sums[COPIES][SLOTS];
__device__ unsigned g_ticket;

__device__ __forceinline__ void mma16(double (&c)[4], double a0, double a1, double b0)
{
    asm volatile("mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
                 : "+d"(c[0]), "+d"(c[1]), "+d"(c[2]), "+d"(c[3])
                 : "d"(a0), "d"(a1), "d"(b0));
}

__device__ __forceinline__ void mma8(double (&c)[2], double a, double b)
{
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
                 : "+d"(c[0]), "+d"(c[1])
                 : "d"(a), "d"(b));
}

__device__ __forceinline__ double rough_reciprocal(double p)
{
    double y;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(p));
    return y;
}

__device__ __forceinline__ double reciprocal(double p)
{
    double y = rough_reciprocal(p);
    double e = fma(-p, y, 1.0);
    y = fma(y, e, y);
    e = fma(-p, y, 1.0);
    return fma(y, e, y);
}

// Slot of columns i and j; 8, 9, 10 are extra columns, 11 is y.
__device__ __forceinline__ int slot(int i, int j)
{
    int low = min(i, j), high = max(i, j);
    if (high < 8)
        return low * 8 + high;
    if (low < 8)
        return 64 + (high - 8) * 8 + low;
    return 96 + (low - 8) * 4 + (high - 8);
}

// Brings the words that blocks add to into L2 while the samples are on their way.
__device__ __forceinline__ void warm_sums()
{
    if (gridDim.x > 1 && threadIdx.x < 8) {
        const void* p = threadIdx.x < 7
            ? (const void*)(&g_sums[blockIdx.x % COPIES][0] + threadIdx.x * 16)
            : (const void*)&g_ticket;
        asm volatile("prefetch.global.L2 [%0];" :: "l"(__cvta_generic_to_global(p)));
    }
}

// Gauss-Jordan in one warp, a row a lane, two pivots a step; the matrix is positive definite.
// Rows are scaled by det * (rough 1 / det), so the reciprocal need not be exact.
template <int FT>
__device__ __forceinline__ void eliminate_in_warp(const double* sys, float* beta, int F, int lane)
{
    constexpr int K = FT ? (FT + 1) / 2 * 2 : 12;
    double a[K + 1];
#pragma unroll
    for (int j = 0; j < K; ++j) {
        a[j] = 0.0;
        if (lane < F && j < F)
            a[j] = sys[slot(lane, j)];
        else if (lane == j)
            a[j] = 1.0;
    }
    a[K] = lane < F ? sys[slot(lane, 11)] : 0.0;
    double own = 1.0;
#pragma unroll
    for (int k = 0; k < K; k += 2) {
        const double p = __shfl_sync(ALL, a[k], k);
        const double b = __shfl_sync(ALL, a[k + 1], k);
        const double d = __shfl_sync(ALL, a[k + 1], k + 1);
        const double det = fma(p, d, -(b * b));
        const double r = rough_reciprocal(det);
        double n1 = fma(a[k], d, -(a[k + 1] * b));
        double n2 = fma(a[k + 1], p, -(a[k] * b));
        const double scale = det * r;
        double s = scale;
        own *= scale;
        if (lane == k) {
            n1 = -d;
            n2 = b;
        }
        if (lane == k + 1) {
            n1 = b;
            n2 = -p;
        }
        if (lane == k || lane == k + 1) {
            s = 0.0;
            own = scale;
        }
        const double f1 = n1 * r;
        const double f2 = n2 * r;
#pragma unroll
        for (int j = k + 2; j <= K; ++j) {
            const double u = __shfl_sync(ALL, a[j], k);
            const double v = __shfl_sync(ALL, a[j], k + 1);
            a[j] = fma(-f2, v, fma(-f1, u, s * a[j]));
        }
    }
    if (lane < F)
        beta[lane] = (float)(a[K] * reciprocal(own));
}

// From the sums of the warps to beta; every thread of the block comes here.
template <int FT>
__device__ __forceinline__ void finish(const double (&even)[4], const double (&odd)[4], const double (&corner)[2],
                                       double (*part)[SLOTS], double* sys, float* beta, int F)
{
    const int lane = threadIdx.x & 31;
    const int warp = threadIdx.x >> 5;
    const int warps = blockDim.x >> 5;
    const int g = lane >> 2;
    const int t = lane & 3;
    const int set = g >> 2;

    {
        double* p = part[warp];
        double w0 = set == 0 ? even[2] : odd[2];
        double w1 = set == 0 ? even[3] : odd[3];
        w0 += __shfl_xor_sync(ALL, w0, 16);
        w1 += __shfl_xor_sync(ALL, w1, 16);
        double z0 = corner[0] + __shfl_down_sync(ALL, corner[0], 18);
        double z1 = corner[1] + __shfl_down_sync(ALL, corner[1], 18);
        p[g * 8 + 2 * t] = even[0] + odd[0];
        p[g * 8 + 2 * t + 1] = even[1] + odd[1];
        if (g < 4) {
            p[64 + g * 8 + 2 * t] = w0;
            p[64 + g * 8 + 2 * t + 1] = w1;
            if (t < 2) {
                p[96 + g * 4 + 2 * t] = z0;
                p[96 + g * 4 + 2 * t + 1] = z1;
            }
        }
    }
    __syncthreads();

    const int id = threadIdx.x;
    if (id < SLOTS) {
        double s0 = 0.0, s1 = 0.0, s2 = 0.0, s3 = 0.0;
        for (int w = 0; w < warps; w += 4) { // a multiple of 4
            s0 += part[w][id];
            s1 += part[w + 1][id];
            s2 += part[w + 2][id];
            s3 += part[w + 3][id];
        }
        const double s = (s0 + s1) + (s2 + s3);
        const bool wanted = id < 64 ? (id >> 3) <= (id & 7) : id < 96 ? true : ((id - 96) >> 2) <= (id & 3);
        if (gridDim.x == 1)
            sys[id] = s;
        else if (wanted && s != 0.0)
            atomicAdd(&g_sums[blockIdx.x % COPIES][id], s);
    }
    __syncthreads();
    if (warp != 0)
        return;

    if (gridDim.x > 1) {
        // The barrier above makes this release cover the additions of the whole block.
        unsigned ticket = 0;
        if (lane == 0) {
            asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
                         : "=r"(ticket)
                         : "l"(__cvta_generic_to_global(&g_ticket)), "r"(gridDim.x - 1)
                         : "memory");
        }
        ticket = __shfl_sync(ALL, ticket, 0);
        if (ticket != gridDim.x - 1)
            return;
        __syncwarp();
        double got[4][COPIES];
#pragma unroll
        for (int r = 0; r < 4; ++r) {
            const int at = lane + 32 * r;
#pragma unroll
            for (int c = 0; c < COPIES; ++c)
                got[r][c] = at < SLOTS ? __ldcg(&g_sums[c][at]) : 0.0;
        }
#pragma unroll
        for (int r = 0; r < 4; ++r) {
            const int at = lane + 32 * r;
            if (at < SLOTS) {
                sys[at] = (got[r][0] + got[r][1]) + (got[r][2] + got[r][3]);
#pragma unroll
                for (int c = 0; c < COPIES; ++c)
                    g_sums[c][at] = 0.0;
            }
        }
        __syncwarp();
    }
    eliminate_in_warp<FT>(sys, beta, F, lane);
}

// Up to 11 features, samples straight into registers. FT: the features, or 0 for any.
// A chunk has 8 * QN rows; without LOOP a warp has one chunk at most.
template <int FT, int QN, bool LOOP>
__global__ void __launch_bounds__(32 * MAX_WARPS, 1)
fit(const float* __restrict__ X, const float* __restrict__ y, float* __restrict__ beta, int n, int features)
{
    constexpr int ROWS = 8 * QN;
    const int F = FT ? FT : features;

    __shared__ double part[MAX_WARPS][SLOTS];
    __shared__ double sys[SLOTS];

    const int lane = threadIdx.x & 31;
    const int warp = threadIdx.x >> 5;
    const int warps = blockDim.x >> 5;
    const int g = lane >> 2;
    const int t = lane & 3;
    const int set = g >> 2;
    const int extra = g & 3;
    const bool main_ok = g < F;
    const bool extra_ok = extra == 3 || 8 + extra < F;

    // Extra operand: columns 8, 9, 10 of X, or y.
    const float* extra_base = extra == 3 ? y : X + 8 + extra;
    const int extra_stride = extra == 3 ? 1 : F;

    double even[4] = {0.0, 0.0, 0.0, 0.0};
    double odd[4] = {0.0, 0.0, 0.0, 0.0};
    double corner[2] = {0.0, 0.0};

    warm_sums();

    const long long step = (long long)warps * gridDim.x * ROWS;
    for (long long r0 = ((long long)warp * gridDim.x + blockIdx.x) * ROWS; r0 < n; r0 += step) {
        float m[2 * QN];
        float v[QN];
        const float* mp = X + (size_t)(r0 + t) * F + g;
        const float* vp = extra_base + (size_t)(r0 + 4 * set + t) * extra_stride;
        const int left = (int)(n - r0);
#pragma unroll
        for (int q = 0; q < QN; ++q) {
            m[2 * q] = main_ok && 8 * q + t < left ? __ldg(mp + (8 * q) * F) : 0.0f;
            m[2 * q + 1] = main_ok && 8 * q + 4 + t < left ? __ldg(mp + (8 * q + 4) * F) : 0.0f;
            v[q] = extra_ok && 8 * q + 4 * set + t < left ? __ldg(vp + 8 * q * extra_stride) : 0.0f;
        }
#pragma unroll
        for (int q = 0; q < QN; ++q) {
            const double a = (double)m[2 * q];
            const double b = (double)m[2 * q + 1];
            const double e = (double)v[q];
            mma16(even, a, e, a); // rows 8..11 of the result are right
            mma16(odd, b, e, b);  // rows 12..15 of the result are right
            mma8(corner, e, e);   // the diagonal 4x4 blocks are right
        }
        if (!LOOP)
            break;
    }

    finish<FT>(even, odd, corner, part, sys, beta, F);
}

__device__ __forceinline__ void copy16(unsigned to, const void* from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(to), "l"(from) : "memory");
}

// Copies the first bytes of 16 and fills the others with zeros.
__device__ __forceinline__ void copy_some(unsigned to, const void* from, int bytes)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(from), "r"(bytes) : "memory");
}

__device__ __forceinline__ void commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

// A warp's tile of 32 rows: 1280 bytes of X, then 128 of y.
__device__ __forceinline__ void issue(unsigned to, const float* X, const float* y, int tile, int n, int lane)
{
    const char* xs = reinterpret_cast<const char*>(X) + (size_t)tile * (RING_ROWS * 40);
    const char* ys = reinterpret_cast<const char*>(y) + (size_t)tile * (RING_ROWS * 4);
    const int rows = n - tile * RING_ROWS;
    const int at = 16 * lane;
    if (rows >= RING_ROWS) {
        copy16(to + at, xs + at);
        copy16(to + 512 + at, xs + 512 + at);
        if (lane < 24)
            copy16(to + 1024 + at, lane < 16 ? xs + 1024 + at : ys + (at - 256));
    } else {
        const int xbytes = rows * 40;
        const int ybytes = rows * 4;
#pragma unroll
        for (int k = 0; k < 2; ++k) {
            const int o = at + 512 * k;
            const int bytes = max(0, min(16, xbytes - o));
            copy_some(to + o, bytes > 0 ? xs + o : xs, bytes);
        }
        if (lane < 16) {
            const int o = at + 1024;
            const int bytes = max(0, min(16, xbytes - o));
            copy_some(to + o, bytes > 0 ? xs + o : xs, bytes);
        } else if (lane < 24) {
            const int o = at - 256;
            const int bytes = max(0, min(16, ybytes - o));
            copy_some(to + 1280 + o, bytes > 0 ? ys + o : ys, bytes);
        }
    }
}

// Ten features, many samples: each warp keeps STAGES tiles on their way.
__global__ void __launch_bounds__(32 * RING_WARPS, 1)
fit_ring(const float* __restrict__ X, const float* __restrict__ y, float* __restrict__ beta, int n)
{
    extern __shared__ __align__(128) float ring[];
    __shared__ double part[MAX_WARPS][SLOTS];
    __shared__ double sys[SLOTS];

    const int lane = threadIdx.x & 31;
    const int warp = threadIdx.x >> 5;
    const int tiles = (n - 1) / RING_ROWS + 1;
    const int stride = RING_WARPS * (int)gridDim.x;
    const int first = warp * (int)gridDim.x + (int)blockIdx.x;
    float* mine = ring + warp * (STAGES * TILE);
    const unsigned base = (unsigned)__cvta_generic_to_shared(mine);

#pragma unroll
    for (int s = 0; s < STAGES; ++s) {
        const int tile = first + s * stride;
        if (tile < tiles)
            issue(base + s * (TILE * 4), X, y, tile, n, lane);
        commit();
    }
    warm_sums();

    const int g = lane >> 2;
    const int t = lane & 3;
    const int set = g >> 2;
    const int extra = g & 3;
    const bool extra_ok = extra != 2;
    const int main_at = t * 10 + g;
    const int extra_at = extra == 3 ? RING_ROWS * 10 + 4 * set + t : (4 * set + t) * 10 + 8 + extra;
    const int extra_step = extra == 3 ? 8 : 80;

    double even[4] = {0.0, 0.0, 0.0, 0.0};
    double odd[4] = {0.0, 0.0, 0.0, 0.0};
    double corner[2] = {0.0, 0.0};

    int stage = 0;
#pragma unroll 1
    for (int tile = first; tile < tiles; tile += stride) {
        asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 1) : "memory");
        __syncwarp();
        const float* mp = mine + stage * TILE + main_at;
        const float* vp = mine + stage * TILE + extra_at;
        float m[8];
        float v[4];
#pragma unroll
        for (int q = 0; q < 4; ++q) {
            m[2 * q] = mp[80 * q];
            m[2 * q + 1] = mp[80 * q + 40];
            v[q] = extra_ok ? vp[q * extra_step] : 0.0f;
        }
        __syncwarp(); // all have read the tile: its place can be filled again
        const int ahead = tile + STAGES * stride;
        if (ahead < tiles)
            issue(base + stage * (TILE * 4), X, y, ahead, n, lane);
        commit();
#pragma unroll
        for (int q = 0; q < 4; ++q) {
            const double a = (double)m[2 * q];
            const double b = (double)m[2 * q + 1];
            const double e = (double)v[q];
            mma16(even, a, e, a);
            mma16(odd, b, e, b);
            mma8(corner, e, e);
        }
        stage = stage + 1 == STAGES ? 0 : stage + 1;
    }

    finish<10>(even, odd, corner, part, sys, beta, 10);
}

// Any number of features: double precision through device memory.
__global__ void clear(double* m, size_t count)
{
    size_t stride = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += stride)
        m[i] = 0.0;
}

__global__ void gram(const float* X, const float* y, double* m, int n, int F, int rows)
{
    __shared__ float left[16][17];
    __shared__ float right[16][17];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const long long i0 = (long long)blockIdx.y * 16, j0 = (long long)blockIdx.x * 16;
    const long long begin = (long long)blockIdx.z * rows;
    const long long end = begin + rows < n ? begin + rows : (long long)n;
    double sum = 0.0;
    for (long long r = begin; r < end; r += 16) {
        long long row = r + ty;
        float a = 0.0f, b = 0.0f;
        if (row < end) {
            if (i0 + tx < F)
                a = X[(size_t)row * F + i0 + tx];
            if (j0 + tx < F)
                b = X[(size_t)row * F + j0 + tx];
            else if (j0 + tx == F)
                b = y[row];
        }
        left[ty][tx] = a;
        right[ty][tx] = b;
        __syncthreads();
#pragma unroll
        for (int k = 0; k < 16; ++k)
            sum = fma((double)left[k][ty], (double)right[k][tx], sum);
        __syncthreads();
    }
    if (i0 + ty < F && j0 + tx <= F)
        atomicAdd(&m[(size_t)(i0 + ty) * (F + 1) + j0 + tx], sum);
}

__global__ void eliminate(double* m, int F, int k)
{
    const size_t stride = (size_t)F + 1;
    const long long column = (long long)k + 1 + (long long)blockIdx.x * 32 + threadIdx.x;
    if (column > F)
        return;
    const double pivot = m[k * stride + k];
    const double above = m[k * stride + column] / pivot;
    for (long long row = (long long)k + 1 + (long long)blockIdx.y * 8 + threadIdx.y; row < F;
         row += (long long)gridDim.y * 8)
        m[row * stride + column] -= m[row * stride + k] * above;
}

__global__ void substitute(double* m, float* beta, int F)
{
    const size_t stride = (size_t)F + 1;
    for (int k = F - 1; k >= 0; --k) {
        const double value = m[k * stride + F] / m[k * stride + k];
        if (threadIdx.x == 0)
            beta[k] = (float)value;
        for (int row = threadIdx.x; row < k; row += blockDim.x)
            m[row * stride + F] -= m[row * stride + k] * value;
        __syncthreads();
    }
}

extern "C" void solve(const float* X, const float* y, float* beta, int n_samples, int n_features)
{
    const int n = n_samples, F = n_features;
    if (n <= 0 || F <= 0)
        return;
    if (F == 10) {
        const int c16 = (n - 1) / 16 + 1;
        const int b16 = c16 < BLOCKS ? c16 : BLOCKS;
        const int each16 = (c16 - 1) / b16 + 1;
        if (each16 <= 8) {
            fit<10, 2, false><<<b16, each16 <= 4 ? 128 : 256>>>(X, y, beta, n, F);
            return;
        }
        const int c32 = (n - 1) / 32 + 1;
        const int each32 = (c32 - 1) / BLOCKS + 1;
        if (each32 <= 16) {
            fit<10, 4, false><<<BLOCKS, each32 <= 8 ? 256 : 512>>>(X, y, beta, n, F);
            return;
        }
        cudaFuncSetAttribute(fit_ring, cudaFuncAttributeMaxDynamicSharedMemorySize, RING_BYTES);
        fit_ring<<<BLOCKS, 32 * RING_WARPS, RING_BYTES>>>(X, y, beta, n);
        return;
    }
    if (F <= 11) {
        const int chunks = (n - 1) / 32 + 1;
        const int blocks = chunks < BLOCKS ? chunks : BLOCKS;
        const int each = (chunks - 1) / blocks + 1; // chunks a block
        const int threads = each <= 4 ? 128 : each <= 8 ? 256 : 512;
        fit<0, 4, true><<<blocks, threads>>>(X, y, beta, n, F);
        return;
    }
    double* m = nullptr;
    const size_t count = (size_t)F * ((size_t)F + 1);
    cudaMallocAsync((void**)&m, count * sizeof(double), 0);
    clear<<<1056, 256>>>(m, count);
    int splits = (n - 1) / 1024 + 1;
    if (splits > 64)
        splits = 64;
    const int rows = (n - 1) / splits + 1;
    gram<<<dim3(F / 16 + 1, (F - 1) / 16 + 1, splits), dim3(16, 16)>>>(X, y, m, n, F, rows);
    for (int k = 0; k + 1 < F; ++k) {
        int tall = (F - k - 2) / 8 + 1;
        if (tall > 256)
            tall = 256;
        eliminate<<<dim3((F - k - 1) / 32 + 1, tall), dim3(32, 8)>>>(m, F, k);
    }
    substitute<<<1, 1024>>>(m, beta, F);
    cudaFreeAsync(m, 0);
}
