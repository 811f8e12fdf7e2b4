// Bulk-copy rings a warp, fp64 mma Gram, one ordering point, division-free solve.

#include <cuda_runtime.h>
#include <stdint.h>

constexpr int SLOTS = 112; // 8x8 first columns, 4x8 extra by first, 4x4 extra by extra
constexpr int COPIES = 4;
constexpr int CHUNK = 32;
constexpr int MAX_WARPS = 16;
constexpr int STAGES = 4;

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

__device__ __forceinline__ void bulk(uint32_t to, const void* from, uint32_t bytes, uint32_t barrier)
{
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 :
                 : "r"(to), "l"(__cvta_generic_to_global(from)), "r"(bytes), "r"(barrier)
                 : "memory");
}

__device__ __forceinline__ void wait_for(uint32_t barrier, uint32_t parity)
{
    asm volatile("{\n"
                 ".reg .pred p;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
                 "@p bra done;\n"
                 "bra again;\n"
                 "done:\n"
                 "}\n"
                 :
                 : "r"(barrier), "r"(parity)
                 : "memory");
}

// Bytes of a stage: 32 rows of X, then 32 elements of y.
template <int FT>
struct Stage {
    static constexpr int BYTES = CHUNK * (FT ? FT : 11) * 4 + CHUNK * 4;
};

// Up to 11 features. FT: their number, or 0 for any.
template <int FT>
__global__ void __launch_bounds__(MAX_WARPS * 32, 1)
fit(const float* __restrict__ X, const float* __restrict__ y, float* __restrict__ beta, int n, int features)
{
    constexpr unsigned ALL = 0xffffffffu;
    constexpr int K = FT ? FT : 11;
    const int F = FT ? FT : features;

    extern __shared__ __align__(128) unsigned char ring[];
    __shared__ __align__(8) uint64_t bars[MAX_WARPS * STAGES];
    __shared__ double part[MAX_WARPS][SLOTS];
    __shared__ double sys[SLOTS];
    __shared__ bool is_last;

    const int lane = threadIdx.x & 31;
    const int warp = threadIdx.x >> 5;
    const int warps = blockDim.x >> 5;

    // A warp has its own ring: its lane 0 asks for a chunk of rows, all its lanes wait for that.
    const int full = n / CHUNK;
    const int step = warps * (int)gridDim.x; // chunks
    const int first = warp * (int)gridDim.x + (int)blockIdx.x;
    unsigned char* own = ring + (size_t)warp * STAGES * Stage<FT>::BYTES;
    const uint32_t own_at = (uint32_t)__cvta_generic_to_shared(own);
    const uint32_t bar_at = (uint32_t)__cvta_generic_to_shared(bars + warp * STAGES);
    const uint32_t x_bytes = (uint32_t)(CHUNK * 4 * F);

    auto ask = [&](int s, long long chunk) {
        const uint32_t barrier = bar_at + 8 * s;
        const uint32_t to = own_at + s * Stage<FT>::BYTES;
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(x_bytes + CHUNK * 4)
                     : "memory");
        bulk(to, X + (size_t)chunk * CHUNK * F, x_bytes, barrier);
        bulk(to + x_bytes, y + (size_t)chunk * CHUNK, CHUNK * 4, barrier);
    };

    if (lane == 0) {
#pragma unroll
        for (int s = 0; s < STAGES; ++s)
            asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(bar_at + 8 * s) : "memory");
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#pragma unroll
        for (int s = 0; s < STAGES; ++s) {
            const long long chunk = (long long)first + (long long)s * step;
            if (chunk < full)
                ask(s, chunk);
        }
    }
    __syncwarp();

    const int g = lane >> 2;
    const int t = lane & 3;
    const int set = g >> 2;
    const int extra = g & 3;
    const bool main_ok = g < F;
    const bool extra_ok = extra == 3 || 8 + extra < F;
    // Extra operand: columns 8, 9, 10 of X, or y.
    const int extra_stride = extra == 3 ? 1 : F;
    const int m_offset = t * F + g;
    const int v_offset = (extra == 3 ? CHUNK * F : 8 + extra) + (4 * set + t) * extra_stride;

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

    long long chunk = first;
    int s = 0;
    uint32_t parity = 0;
#pragma unroll 1
    for (; chunk < full; chunk += step) {
        float m[8];
        float v[4];
        const float* data = reinterpret_cast<const float*>(own + s * Stage<FT>::BYTES);
        wait_for(bar_at + 8 * s, parity);
#pragma unroll
        for (int q = 0; q < 4; ++q) {
            m[2 * q] = main_ok ? data[m_offset + 8 * q * F] : 0.0f;
            m[2 * q + 1] = main_ok ? data[m_offset + (8 * q + 4) * F] : 0.0f;
            v[q] = extra_ok ? data[v_offset + 8 * q * extra_stride] : 0.0f;
        }
        __syncwarp();
        const long long next = chunk + (long long)STAGES * step;
        if (lane == 0 && next < full)
            ask(s, next);
        add(m, v);
        if (++s == STAGES) {
            s = 0;
            parity ^= 1u;
        }
    }

    // the last n % 32 rows, if this warp's turn has come to them
    if (chunk == full && full * (long long)CHUNK < n) {
        const long long r0 = (long long)full * CHUNK;
        const int left = (int)(n - r0);
        float m[8];
        float v[4];
        const float* mp = X + (size_t)r0 * F + m_offset;
        const float* vp = extra == 3 ? y + r0 + 4 * set + t : X + (size_t)r0 * F + v_offset;
#pragma unroll
        for (int q = 0; q < 4; ++q) {
            m[2 * q] = main_ok && 8 * q + t < left ? __ldg(mp + 8 * q * F) : 0.0f;
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
        double sum = (s0 + s1) + (s2 + s3);
        bool wanted = id < 64 ? (id >> 3) <= (id & 7) : id < 96 ? true : ((id - 96) >> 2) <= (id & 3);
        if (gridDim.x == 1) {
            sys[id] = sum;
        } else if (wanted && sum != 0.0) {
            atomicAdd(&g_sums[blockIdx.x % COPIES][id], sum);
        }
    }
    __syncthreads();

    if (gridDim.x > 1) {
        // one ordering point: the barrier puts the whole block's additions before this ticket
        if (threadIdx.x == 0) {
            unsigned before;
            asm volatile("atom.acq_rel.gpu.global.inc.u32 %0, [%1], %2;"
                         : "=r"(before)
                         : "l"(__cvta_generic_to_global(&g_ticket)), "r"(gridDim.x - 1)
                         : "memory");
            is_last = before == gridDim.x - 1;
        }
        __syncthreads();
        if (!is_last)
            return;
        if (id < SLOTS) {
            double c[COPIES];
#pragma unroll
            for (int i = 0; i < COPIES; ++i)
                c[i] = __ldcg(&g_sums[i][id]);
            sys[id] = (c[0] + c[1]) + (c[2] + c[3]);
#pragma unroll
            for (int i = 0; i < COPIES; ++i)
                g_sums[i][id] = 0.0;
        }
        __syncthreads();
    }

    // Gauss-Jordan in one warp, a row a lane; the matrix is positive definite. Instead of dividing by the
    // pivot, every other row is multiplied by it, scaled to [1, 2) by a power of two.
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
        double diagonal = 1.0;
#pragma unroll
        for (int k = 0; k < K; ++k) {
            const double pivot = __shfl_sync(ALL, a[k], k);
            const int high = __double2hiint(pivot);
            const double scale = __hiloint2double(0x7fe00000 - (high & 0x7ff00000), 0);
            double times = __hiloint2double((high & 0x000fffff) | 0x3ff00000, __double2loint(pivot));
            double f = a[k] * scale;
            if (lane == k) {
                diagonal = a[k];
                times = 1.0;
                f = 0.0;
            } else {
                diagonal *= times;
            }
#pragma unroll
            for (int j = k + 1; j <= K; ++j) {
                const double row = __shfl_sync(ALL, a[j], k);
                a[j] = fma(-f, row, a[j] * times);
            }
        }
        if (lane < F)
            beta[lane] = (float)(a[K] * reciprocal(diagonal));
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
static void launch_fit(const float* X, const float* y, float* beta, int n, int F, int blocks, int threads)
{
    cudaFuncSetAttribute(fit<FT>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         MAX_WARPS * STAGES * Stage<FT>::BYTES);
    fit<FT><<<blocks, threads, threads / 32 * STAGES * Stage<FT>::BYTES>>>(X, y, beta, n, F);
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
            launch_fit<10>(X, y, beta, n, F, blocks, threads);
        else
            launch_fit<0>(X, y, beta, n, F, blocks, threads);
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
