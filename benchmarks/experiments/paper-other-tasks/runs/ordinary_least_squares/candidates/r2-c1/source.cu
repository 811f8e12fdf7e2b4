// Register ring into fp64 mma Gram, one ordering point, paired pivots.

#include <cuda_runtime.h>

constexpr int SLOTS = 112; // 8x8 first columns, 4x8 extra by first, 4x4 extra by extra
constexpr int COPIES = 4;
constexpr int CHUNK = 32;
constexpr int MAX_WARPS = 16;
constexpr int DEPTH = 4;   // chunks of a warp under way at once

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

__device__ __forceinline__ double reciprocal(double p)
{
    double y;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(y) : "d"(p));
    double e = fma(-p, y, 1.0);
    y = fma(y, fma(e, e, e), y);
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

// Up to 11 features. FT: their number, or 0 for any.
template <int FT>
__global__ void __launch_bounds__(32 * MAX_WARPS, 1)
fit(const float* __restrict__ X, const float* __restrict__ y, float* __restrict__ beta, int n, int features)
{
    constexpr unsigned ALL = 0xffffffffu;
    constexpr int K = FT ? (FT + 1) / 2 * 2 : 12; // even: pivots go in pairs
    const int F = FT ? FT : features;

    __shared__ double part[MAX_WARPS][SLOTS];
    __shared__ double sys[SLOTS];
    __shared__ unsigned ticket;

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

    auto add = [&](const float (&m)[8], const float (&v)[4]) {
#pragma unroll
        for (int q = 0; q < 4; ++q) {
            double a = (double)m[2 * q];
            double b = (double)m[2 * q + 1];
            double e = (double)v[q];
            mma16(even, a, e, a); // rows 8..11 of the result are right
            mma16(odd, b, e, b);  // rows 12..15 of the result are right
            mma8(corner, e, e);   // the diagonal 4x4 blocks are right
        }
    };

    const int full = n / CHUNK;                  // whole chunks
    const int first = warp * (int)gridDim.x + (int)blockIdx.x;
    const int step = warps * (int)gridDim.x;

    {
        const float* mp = X + ((size_t)first * CHUNK + t) * F + g;
        const float* vp = extra_base + ((size_t)first * CHUNK + 4 * set + t) * extra_stride;
        const size_t m_step = (size_t)step * CHUNK * F;
        const size_t v_step = (size_t)step * CHUNK * extra_stride;
        int next = first;
        auto load = [&](float (&m)[8], float (&v)[4]) {
            if (next < full) {
#pragma unroll
                for (int q = 0; q < 4; ++q) {
                    m[2 * q] = main_ok ? __ldg(mp + (8 * q) * F) : 0.0f;
                    m[2 * q + 1] = main_ok ? __ldg(mp + (8 * q + 4) * F) : 0.0f;
                    v[q] = extra_ok ? __ldg(vp + 8 * q * extra_stride) : 0.0f;
                }
                mp += m_step;
                vp += v_step;
            }
            next += step;
        };

        float m[DEPTH][8];
        float v[DEPTH][4];
#pragma unroll
        for (int d = 0; d < DEPTH; ++d)
            load(m[d], v[d]);
        int c = first;
#pragma unroll 1
        while (c < full) {
#pragma unroll
            for (int d = 0; d < DEPTH; ++d) {
                if (c < full) {
                    add(m[d], v[d]);
                    load(m[d], v[d]);
                }
                c += step;
            }
        }
    }

    if (full * CHUNK < n && full % step == first) { // the rows after the last whole chunk
        const long long r0 = (long long)full * CHUNK;
        const int left = (int)(n - r0);
        const float* mp = X + (size_t)(r0 + t) * F + g;
        const float* vp = extra_base + (size_t)(r0 + 4 * set + t) * extra_stride;
        float m[8];
        float v[4];
#pragma unroll
        for (int q = 0; q < 4; ++q) {
            m[2 * q] = main_ok && 8 * q + t < left ? __ldg(mp + (8 * q) * F) : 0.0f;
            m[2 * q + 1] = main_ok && 8 * q + 4 + t < left ? __ldg(mp + (8 * q + 4) * F) : 0.0f;
            v[q] = extra_ok && 8 * q + 4 * set + t < left ? __ldg(vp + 8 * q * extra_stride) : 0.0f;
        }
        add(m, v);
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

    if (gridDim.x > 1) {
        // The barrier puts the block's additions before this one ordering point.
        if (threadIdx.x == 0) {
            const size_t place = __cvta_generic_to_global(&g_ticket);
            unsigned old;
            asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
                         : "=r"(old)
                         : "l"(place), "r"(gridDim.x - 1)
                         : "memory");
            ticket = old;
        }
        __syncthreads();
        if (ticket != gridDim.x - 1)
            return;
        if (id < SLOTS) {
            double s[COPIES];
#pragma unroll
            for (int c = 0; c < COPIES; ++c)
                s[c] = __ldcg(&g_sums[c][id]);
            static_assert(COPIES == 4, "sum");
            sys[id] = (s[0] + s[1]) + (s[2] + s[3]);
#pragma unroll
            for (int c = 0; c < COPIES; ++c)
                g_sums[c][id] = 0.0;
        }
        __syncthreads();
    }

    // Gauss-Jordan in one warp, a row a lane, two pivots at a time; the matrix is positive definite,
    // and so is each 2x2 block on its diagonal.
    if (warp == 0) {
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
        double own = 1.0, other = 0.0; // row of the inverse of the lane's own block
#pragma unroll
        for (int k = 0; k < K; k += 2) {
            const double p = __shfl_sync(ALL, a[k], k);
            const double q = __shfl_sync(ALL, a[k + 1], k);
            const double u = __shfl_sync(ALL, a[k], k + 1);
            const double r = __shfl_sync(ALL, a[k + 1], k + 1);
            const double inverse = reciprocal(fma(p, r, -(q * u)));
            const bool in_block = (lane >> 1) == (k >> 1);
            if (in_block) {
                own = (lane == k ? r : p) * inverse;
                other = -(lane == k ? q : u) * inverse;
            }
            double f0 = fma(a[k], r, -(a[k + 1] * u)) * inverse;
            double f1 = fma(a[k + 1], p, -(a[k] * q)) * inverse;
            if (in_block) {
                f0 = 0.0;
                f1 = 0.0;
            }
#pragma unroll
            for (int j = k + 2; j <= K; ++j) {
                const double b0 = __shfl_sync(ALL, a[j], k);
                const double b1 = __shfl_sync(ALL, a[j], k + 1);
                a[j] = fma(-f1, b1, fma(-f0, b0, a[j]));
            }
        }
        const double partner = __shfl_xor_sync(ALL, a[K], 1);
        if (lane < F)
            beta[lane] = (float)fma(own, a[K], other * partner);
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

extern "C" void solve(const float* X, const float* y, float* beta, int n_samples, int n_features)
{
    const int n = n_samples, F = n_features;
    if (n <= 0 || F <= 0)
        return;
    if (F <= 11) {
        const int chunks = (n - 1) / CHUNK + 1;
        const int blocks = chunks < 132 ? chunks : 132;
        const int each = (chunks - 1) / blocks + 1; // chunks a block
        const int threads = each <= 4 ? 128 : each <= 8 ? 256 : 512;
        if (F == 10)
            fit<10><<<blocks, threads>>>(X, y, beta, n, F);
        else
            fit<0><<<blocks, threads>>>(X, y, beta, n, F);
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
