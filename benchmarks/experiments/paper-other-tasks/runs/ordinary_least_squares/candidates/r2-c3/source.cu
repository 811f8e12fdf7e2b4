// cp.async warp tiles, fp64 mma Gram, one release, pairwise pivots.

#include <cuda_runtime.h>

constexpr int SLOTS = 112; // 8x8 first columns, 4x8 extra by first, 4x4 extra by extra
constexpr int COPIES = 4;
constexpr int CHUNK = 32;
constexpr int MAX_WARPS = 32;
constexpr int STAGES = 3;
constexpr int LINE = 13; // doubles a row of the system in shared memory

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

__device__ __forceinline__ void copy16(unsigned to, const char* from)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

// Up to 11 features. FT: their number, or 0 for any. Extra columns are 8, 9, 10 of X, and y as 11.
template <int FT>
__global__ void __launch_bounds__(1024, 1)
fit(const float* __restrict__ X, const float* __restrict__ y, float* __restrict__ beta, int n, int features)
{
    constexpr unsigned ALL = 0xffffffffu;
    constexpr int K = FT ? FT : 12;
    static_assert(K % 2 == 0, "pivots go in pairs");
    const int F = FT ? FT : features;

    extern __shared__ __align__(16) float ring[];
    __shared__ double part[MAX_WARPS][SLOTS];
    __shared__ double sys[12 * LINE];
    __shared__ unsigned is_last;

    const int lane = threadIdx.x & 31;
    const int warp = threadIdx.x >> 5;
    const int warps = blockDim.x >> 5;
    const int g = lane >> 2;
    const int t = lane & 3;
    const int set = g >> 2;
    const int extra = g & 3;
    const bool main_ok = g < F;
    const bool extra_ok = extra == 3 || 8 + extra < F;

    const int stage = 32 * F + 32; // words: 32 rows of X, 32 elements of y
    float* mine = ring + warp * (STAGES * stage);
    const unsigned base = (unsigned)__cvta_generic_to_shared(mine);
    const int chunks = (n - 1) / CHUNK + 1;
    const int step = warps * gridDim.x;

    auto load = [&](int c, int s) {
        const char* rows = (const char*)X + (size_t)c * (size_t)(128 * F);
        const char* ends = (const char*)y + (size_t)c * 128;
        const int left = n - c * CHUNK;
        if (left >= CHUNK) {
            const unsigned to = base + (unsigned)(s * stage * 4);
            const int row_parts = 8 * F;
            const int parts = row_parts + 8;
#pragma unroll
            for (int i = 0; i < 3; ++i) { // 96 parts at most
                const int p = lane + 32 * i;
                if (p < parts)
                    copy16(to + p * 16, p < row_parts ? rows + p * 16 : ends + (p - row_parts) * 16);
            }
        } else {
            float* to = mine + s * stage;
            const float* from = (const float*)rows;
            for (int i = lane; i < 32 * F; i += 32)
                to[i] = i < left * F ? __ldg(from + i) : 0.0f;
            to[32 * F + lane] = lane < left ? __ldg((const float*)ends + lane) : 0.0f;
        }
    };

    int c = warp * gridDim.x + blockIdx.x;
    int next = c;
#pragma unroll
    for (int s = 0; s < STAGES; ++s) {
        if (next < chunks)
            load(next, s);
        asm volatile("cp.async.commit_group;" ::: "memory");
        next += step;
    }

    const int m_at = t * F + g;
    const int v_at = extra == 3 ? 32 * F + 4 * set + t : (4 * set + t) * F + 8 + extra;
    const int v_step = extra == 3 ? 8 : 8 * F;

    double even[4] = {0.0, 0.0, 0.0, 0.0};
    double odd[4] = {0.0, 0.0, 0.0, 0.0};
    double corner[2] = {0.0, 0.0};

    int s = 0;
    for (; c < chunks; c += step) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 1) : "memory");
        __syncwarp();
        const float* st = mine + s * stage;
        float m[8];
        float v[4];
#pragma unroll
        for (int q = 0; q < 4; ++q) {
            m[2 * q] = main_ok ? st[m_at + (8 * q) * F] : 0.0f;
            m[2 * q + 1] = main_ok ? st[m_at + (8 * q + 4) * F] : 0.0f;
            v[q] = extra_ok ? st[v_at + q * v_step] : 0.0f;
        }
        __syncwarp();
        if (next < chunks)
            load(next, s);
        asm volatile("cp.async.commit_group;" ::: "memory");
        next += step;
        s = s + 1 == STAGES ? 0 : s + 1;
#pragma unroll
        for (int q = 0; q < 4; ++q) {
            double a = (double)m[2 * q];
            double b = (double)m[2 * q + 1];
            double e = (double)v[q];
            mma16(even, a, e, a); // rows 8..11 of the result are right
            mma16(odd, b, e, b);  // rows 12..15 of the result are right
            mma8(corner, e, e);   // the diagonal 4x4 blocks are right
        }
    }

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

    // Thread id < SLOTS keeps the sum of columns i and j, i <= j where it is wanted (or i extra, j not).
    const int id = threadIdx.x;
    int i = id >> 3, j = id & 7;
    bool wanted = id < 64 && i <= j;
    if (id >= 96) {
        i = 8 + ((id - 96) >> 2);
        j = 8 + ((id - 96) & 3);
        wanted = id < SLOTS && i <= j;
    } else if (id >= 64) {
        i = 8 + ((id - 64) >> 3);
        j = (id - 64) & 7;
        wanted = true;
    }

    double sum = 0.0;
    if (wanted) {
        double s0 = 0.0, s1 = 0.0, s2 = 0.0, s3 = 0.0;
#pragma unroll 2
        for (int w = 0; w < warps; w += 4) { // a multiple of 4
            s0 += part[w][id];
            s1 += part[w + 1][id];
            s2 += part[w + 2][id];
            s3 += part[w + 3][id];
        }
        sum = (s0 + s1) + (s2 + s3);
    }

    if (gridDim.x > 1) {
        if (wanted && sum != 0.0)
            atomicAdd(&g_sums[blockIdx.x % COPIES][id], sum);
        __syncthreads();
        if (id == 0) {
            // behind the barrier, this releases the additions of the whole block
            unsigned old;
            size_t p = __cvta_generic_to_global(&g_ticket);
            asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
                         : "=r"(old)
                         : "l"(p), "r"((unsigned)gridDim.x - 1u)
                         : "memory");
            is_last = old == (unsigned)gridDim.x - 1u ? 1u : 0u;
        }
        __syncthreads();
        if (is_last == 0u)
            return;
        if (wanted) {
            double part_sum[COPIES];
#pragma unroll
            for (int k = 0; k < COPIES; ++k)
                part_sum[k] = __ldcg(&g_sums[k][id]);
            sum = (part_sum[0] + part_sum[1]) + (part_sum[2] + part_sum[3]);
#pragma unroll
            for (int k = 0; k < COPIES; ++k)
                g_sums[k][id] = 0.0;
        }
    }
    if (wanted) {
        sys[i * LINE + j] = sum;
        if (i != j)
            sys[j * LINE + i] = sum;
    }
    __syncthreads();

    // Gauss-Jordan in one warp, a row a lane, two pivots a step; the matrix is positive definite.
    if (warp == 0) {
        double a[K + 1];
#pragma unroll
        for (int k = 0; k < K; ++k) {
            a[k] = 0.0;
            if (lane < F && k < F)
                a[k] = sys[lane * LINE + k];
            else if (lane == k)
                a[k] = 1.0;
        }
        a[K] = lane < F ? sys[lane * LINE + 11] : 0.0;
        double own_diagonal = 1.0, own_off = 0.0, own_inverse = 1.0;
#pragma unroll
        for (int k = 0; k < K; k += 2) {
            const double p = __shfl_sync(ALL, a[k], k);
            const double q = __shfl_sync(ALL, a[k + 1], k);
            const double q2 = __shfl_sync(ALL, a[k], k + 1);
            const double r = __shfl_sync(ALL, a[k + 1], k + 1);
            const double det = fma(p, r, -(q * q2));
            double inv;
            asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(inv) : "d"(det));
            const double e = fma(-det, inv, 1.0);
            double f0 = fma(a[k], r, -(a[k + 1] * q2)) * inv;
            double f1 = fma(a[k + 1], p, -(a[k] * q)) * inv;
            f0 = fma(f0, e, f0);
            f1 = fma(f1, e, f1);
            const bool pivot = lane == k || lane == k + 1;
            if (pivot) {
                f0 = 0.0;
                f1 = 0.0;
                own_diagonal = lane == k ? r : p;
                own_off = lane == k ? q : q2;
                double better = fma(inv, e, inv);
                own_inverse = fma(better, fma(-det, better, 1.0), better);
            }
#pragma unroll
            for (int l = k + 2; l <= K; ++l) {
                const double u = __shfl_sync(ALL, a[l], k);
                const double w = __shfl_sync(ALL, a[l], k + 1);
                a[l] = fma(-f1, w, fma(-f0, u, a[l]));
            }
        }
        const double other = __shfl_xor_sync(ALL, a[K], 1);
        if (lane < F)
            beta[lane] = (float)(fma(own_diagonal, a[K], -(own_off * other)) * own_inverse);
    }
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

template <int FT>
static void launch_fit(const float* X, const float* y, float* beta, int n, int F)
{
    static const cudaError_t once =
        cudaFuncSetAttribute(fit<FT>, cudaFuncAttributeMaxDynamicSharedMemorySize, 160 * 1024);
    (void)once;
    const int chunks = (n - 1) / CHUNK + 1;
    const int blocks = chunks < 132 ? chunks : 132;
    const int each = (chunks - 1) / blocks + 1; // chunks a block
    const int threads = each <= 4 ? 128 : each <= 8 ? 256 : each <= 16 ? 512 : 1024;
    const size_t bytes = (size_t)(threads / 32) * STAGES * (32 * F + 32) * sizeof(float);
    fit<FT><<<blocks, threads, bytes>>>(X, y, beta, n, F);
}

extern "C" void solve(const float* X, const float* y, float* beta, int n_samples, int n_features)
{
    const int n = n_samples, F = n_features;
    if (n <= 0 || F <= 0)
        return;
    if (F <= 11) {
        if (F == 10)
            launch_fit<10>(X, y, beta, n, F);
        else
            launch_fit<0>(X, y, beta, n, F);
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
