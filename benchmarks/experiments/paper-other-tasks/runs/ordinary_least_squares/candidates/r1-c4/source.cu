// Resident warps, cp.async row tiles, register sums, fused 10x10 solve

#include <cuda_runtime.h>

// ---------------------------------------------------------------- 10 features, many samples

constexpr int F = 10;
constexpr int PAIRS = F * (F + 1) / 2; // 55 elements of X^T X
constexpr int SUMS = PAIRS + F;        // and 10 of X^T y
constexpr int WARPS = 8;
constexpr int THREADS = WARPS * 32;
constexpr int STAGES = 4;
constexpr int TILE_BYTES = 32 * 4 * (F + 1); // 32 rows of X, 32 of y: 1408
constexpr int REPLICAS = 4;

__device__ double accumulated[REPLICAS][72]; // 0 between calls
__device__ unsigned ticket;                  // 0 between calls: wraps

__device__ __forceinline__ void copy16(unsigned shared_address, const void* source)
{
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(shared_address), "l"(source) : "memory");
}

__device__ __forceinline__ void fetch_tile(unsigned shared_address, const float* X, const float* y, int tile,
                                           int lane)
{
    const char* xs = reinterpret_cast<const char*>(X) + (size_t)tile * (32 * 4 * F);
    const char* ys = reinterpret_cast<const char*>(y) + (size_t)tile * (32 * 4);
    copy16(shared_address + lane * 16, xs + lane * 16);
    copy16(shared_address + (32 + lane) * 16, xs + (32 + lane) * 16);
    if (lane < 24) {
        const char* source = lane < 16 ? xs + (64 + lane) * 16 : ys + (lane - 16) * 16;
        copy16(shared_address + (64 + lane) * 16, source);
    }
}

__device__ __forceinline__ void add_row(const float (&x)[F], float yv, float (&g)[64], double (&c)[16])
{
    int k = 0;
#pragma unroll
    for (int i = 0; i < F; ++i) {
#pragma unroll
        for (int j = i; j < F; ++j) {
            g[k] = fmaf(x[i], x[j], g[k]);
            ++k;
        }
    }
    const double yd = (double)yv;
#pragma unroll
    for (int i = 0; i < F; ++i)
        c[i] = fma((double)x[i], yd, c[i]);
}

// lane l ends with the warp's sum of v[first + l]
template <int FIRST>
__device__ __forceinline__ float reduce32(float (&v)[64], int lane)
{
#pragma unroll
    for (int o = 16; o > 0; o >>= 1) {
        const bool up = (lane & o) != 0;
#pragma unroll
        for (int i = 0; i < o; ++i) {
            const float send = up ? v[FIRST + i] : v[FIRST + i + o];
            const float keep = up ? v[FIRST + i + o] : v[FIRST + i];
            v[FIRST + i] = keep + __shfl_xor_sync(0xffffffffu, send, o);
        }
    }
    return v[FIRST];
}

// lane l ends with the warp's sum of v[l % 16]
__device__ __forceinline__ double reduce16(double (&v)[16], int lane)
{
#pragma unroll
    for (int o = 8; o > 0; o >>= 1) {
        const bool up = (lane & o) != 0;
#pragma unroll
        for (int i = 0; i < o; ++i) {
            const double send = up ? v[i] : v[i + o];
            const double keep = up ? v[i + o] : v[i];
            v[i] = keep + __shfl_xor_sync(0xffffffffu, send, o);
        }
    }
    return v[0] + __shfl_xor_sync(0xffffffffu, v[0], 16);
}

__device__ __forceinline__ double reciprocal(double p)
{
    double r;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(r) : "d"(p));
    r = fma(r, fma(-p, r, 1.0), r);
    r = fma(r, fma(-p, r, 1.0), r);
    return r;
}

__global__ void __launch_bounds__(THREADS, 2)
least_squares_10(const float* __restrict__ X, const float* __restrict__ y, float* __restrict__ beta, int n)
{
    __shared__ __align__(16) unsigned char buffer[WARPS * STAGES * TILE_BYTES];
    __shared__ bool is_last;

    const int t = threadIdx.x;
    const int lane = t & 31;
    const int warp = t >> 5;
    const int stride = WARPS * (int)gridDim.x;
    const int first = warp * (int)gridDim.x + (int)blockIdx.x;
    const int tiles = n / 32;

    unsigned char* mine = buffer + warp * (STAGES * TILE_BYTES);
    const unsigned mine_address = (unsigned)__cvta_generic_to_shared(mine);

#pragma unroll
    for (int s = 0; s < STAGES - 1; ++s) {
        const int tile = first + s * stride;
        if (tile < tiles)
            fetch_tile(mine_address + s * TILE_BYTES, X, y, tile, lane);
        asm volatile("cp.async.commit_group;" ::: "memory");
    }

    float g[64];
    double c[16];
#pragma unroll
    for (int i = 0; i < 64; ++i)
        g[i] = 0.0f;
#pragma unroll
    for (int i = 0; i < 16; ++i)
        c[i] = 0.0;

    int stage = 0;
    for (int tile = first; tile < tiles; tile += stride) {
        asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
        __syncwarp(); // this tile is there for all lanes, and all have left the one before

        const int ahead = tile + (STAGES - 1) * stride;
        const int free_stage = (stage + STAGES - 1) % STAGES;
        if (ahead < tiles)
            fetch_tile(mine_address + free_stage * TILE_BYTES, X, y, ahead, lane);
        asm volatile("cp.async.commit_group;" ::: "memory");

        const float* here = reinterpret_cast<const float*>(mine + stage * TILE_BYTES);
        const float2* row = reinterpret_cast<const float2*>(here + lane * F);
        float x[F];
#pragma unroll
        for (int i = 0; i < F / 2; ++i) {
            const float2 two = row[i];
            x[2 * i] = two.x;
            x[2 * i + 1] = two.y;
        }
        add_row(x, here[32 * F + lane], g, c);
        stage = (stage + 1) % STAGES;
    }

    // the last n % 32 rows, by a warp that has no more tiles than others
    if (first == stride - 1) {
        const int r = tiles * 32 + lane;
        if (r < n) {
            float x[F];
#pragma unroll
            for (int i = 0; i < F; ++i)
                x[i] = X[(size_t)r * F + i];
            add_row(x, y[r], g, c);
        }
        __syncwarp();
    }

    asm volatile("cp.async.wait_all;" ::: "memory");
    const float low = reduce32<0>(g, lane);
    const float high = reduce32<32>(g, lane);
    const double right = reduce16(c, lane);

    __syncthreads(); // the buffers are used otherwise from here on
    double* part = reinterpret_cast<double*>(buffer);
    part[warp * SUMS + lane] = (double)low;
    if (32 + lane < PAIRS)
        part[warp * SUMS + 32 + lane] = (double)high;
    if (lane < F)
        part[warp * SUMS + PAIRS + lane] = right;
    __syncthreads();

    if (t < SUMS) {
        double sum = 0.0;
#pragma unroll
        for (int w = 0; w < WARPS; ++w)
            sum += part[w * SUMS + t];
        atomicAdd(&accumulated[blockIdx.x % REPLICAS][t], sum);
        __threadfence();
    }
    __syncthreads();
    if (t == 0)
        is_last = atomicInc(&ticket, gridDim.x - 1) == gridDim.x - 1;
    __syncthreads();
    if (!is_last)
        return;

    // the last block: all sums are in
    __threadfence();
    double* matrix = reinterpret_cast<double*>(buffer) + WARPS * SUMS; // [F][F + 1]
    if (t < SUMS) {
        double sum = 0.0;
#pragma unroll
        for (int r = 0; r < REPLICAS; ++r)
            sum += __ldcg(&accumulated[r][t]);
#pragma unroll
        for (int r = 0; r < REPLICAS; ++r)
            accumulated[r][t] = 0.0;
        if (t < PAIRS) {
            int i = 0, rest = t;
            while (rest >= F - i) {
                rest -= F - i;
                ++i;
            }
            const int j = i + rest;
            matrix[i * (F + 1) + j] = sum;
            if (j != i)
                matrix[j * (F + 1) + i] = sum;
        } else {
            matrix[(t - PAIRS) * (F + 1) + F] = sum;
        }
    }
    __syncthreads();

    // Gauss-Jordan: lane l holds column l
    if (warp == 0) {
        double a[F];
#pragma unroll
        for (int i = 0; i < F; ++i)
            a[i] = lane <= F ? matrix[i * (F + 1) + lane] : 0.0;
#pragma unroll
        for (int k = 0; k < F; ++k) {
            const double pivot = __shfl_sync(0xffffffffu, a[k], k);
            double factor[F];
#pragma unroll
            for (int i = 0; i < F; ++i)
                factor[i] = i == k ? 0.0 : __shfl_sync(0xffffffffu, a[i], k);
            const double scaled = a[k] * reciprocal(pivot);
#pragma unroll
            for (int i = 0; i < F; ++i)
                if (i != k)
                    a[i] = fma(-factor[i], scaled, a[i]);
            a[k] = scaled;
        }
        if (lane == F) {
#pragma unroll
            for (int i = 0; i < F; ++i)
                beta[i] = (float)a[i];
        }
    }
}

// ---------------------------------------------------------------- any shape, in double precision

__global__ void clear(double* matrix, size_t count)
{
    const size_t step = (size_t)gridDim.x * blockDim.x;
    for (size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step)
        matrix[i] = 0.0;
}

// matrix [f][f + 1]: X^T X and, as column f, X^T y
__global__ void __launch_bounds__(256)
gram(const float* __restrict__ X, const float* __restrict__ y, double* __restrict__ matrix, int n, int f,
     int rows_per_block)
{
    __shared__ double left[32][17];
    __shared__ double right[32][17];
    const int t = threadIdx.x;
    const int tx = t & 15;
    const int ty = t >> 4;
    const int row0 = blockIdx.y * 16;
    const int col0 = blockIdx.x * 16;
    const long long begin = (long long)blockIdx.z * rows_per_block;
    const long long limit = begin + rows_per_block;
    const long long end = limit < n ? limit : (long long)n;
    double sum = 0.0;
    for (long long k0 = begin; k0 < end; k0 += 32) {
        for (int e = t; e < 32 * 16; e += 256) {
            const int r = e >> 4;
            const int c = e & 15;
            const long long sample = k0 + r;
            float l = 0.0f, q = 0.0f;
            if (sample < end) {
                if (row0 + c < f)
                    l = X[(size_t)sample * f + row0 + c];
                if (col0 + c < f)
                    q = X[(size_t)sample * f + col0 + c];
                else if (col0 + c == f)
                    q = y[sample];
            }
            left[r][c] = (double)l;
            right[r][c] = (double)q;
        }
        __syncthreads();
#pragma unroll 8
        for (int r = 0; r < 32; ++r)
            sum = fma(left[r][ty], right[r][tx], sum);
        __syncthreads();
    }
    if (begin < end && row0 + ty < f && col0 + tx <= f)
        atomicAdd(&matrix[(size_t)(row0 + ty) * (f + 1) + col0 + tx], sum);
}

__global__ void __launch_bounds__(256) eliminate_step(double* matrix, int f, int k)
{
    const int width = f + 1;
    const int column = k + 1 + blockIdx.x * 32 + (threadIdx.x & 31);
    const double pivot = matrix[(size_t)k * width + k];
    for (long long row = k + 1 + (long long)blockIdx.y * 8 + (threadIdx.x >> 5); row < f; row += 8LL * gridDim.y) {
        if (column < width) {
            const double factor = matrix[(size_t)row * width + k] / pivot;
            matrix[(size_t)row * width + column] -= factor * matrix[(size_t)k * width + column];
        }
    }
}

// One block: eliminate (if asked to) and substitute back.
__global__ void __launch_bounds__(256) finish(double* matrix, float* beta, int f, bool eliminate)
{
    const int width = f + 1;
    const int t = threadIdx.x;
    if (eliminate) {
        for (int k = 0; k < f; ++k) {
            const double pivot = matrix[(size_t)k * width + k];
            const int side = f - k;                  // columns k + 1 .. f
            const int count = (f - k - 1) * side;    // f is small here
            for (int e = t; e < count; e += 256) {
                const int row = k + 1 + e / side;
                const int column = k + 1 + e % side;
                const double factor = matrix[(size_t)row * width + k] / pivot;
                matrix[(size_t)row * width + column] -= factor * matrix[(size_t)k * width + column];
            }
            __syncthreads();
        }
    }
    for (int k = f - 1; k >= 0; --k) {
        const double value = matrix[(size_t)k * width + f] / matrix[(size_t)k * width + k];
        if (t == 0)
            beta[k] = (float)value;
        for (int row = t; row < k; row += 256)
            matrix[(size_t)row * width + f] -= matrix[(size_t)row * width + k] * value;
        __syncthreads();
    }
}

extern "C" void solve(const float* X, const float* y, float* beta, int n_samples, int n_features)
{
    if (n_features == F && n_samples >= 8192) {
        const int tiles = n_samples / 32;
        const int blocks = tiles <= 132 * WARPS ? 132 : 264;
        least_squares_10<<<blocks, THREADS>>>(X, y, beta, n_samples);
        return;
    }

    const int f = n_features;
    const int n = n_samples;
    const size_t count = (size_t)f * ((size_t)f + 1);
    double* matrix = nullptr;
    if (cudaMallocAsync((void**)&matrix, count * sizeof(double), 0) != cudaSuccess)
        return;
    const size_t wanted = (count + 255) / 256;
    clear<<<(unsigned)(wanted < 2112 ? wanted : 2112), 256>>>(matrix, count);

    const unsigned rows = (unsigned)((f + 15) / 16);
    const unsigned columns = (unsigned)(f / 16 + 1);
    const long long tile_count = (long long)rows * columns;
    long long splits = ((long long)n + 255) / 256;
    long long most = 1056 / tile_count;
    if (most < 1)
        most = 1;
    if (splits > most)
        splits = most;
    const int rows_per_block = (int)(((long long)n + splits - 1) / splits);
    gram<<<dim3(columns, rows, (unsigned)splits), 256>>>(X, y, matrix, n, f, rows_per_block);

    if (f <= 64) {
        finish<<<1, 256>>>(matrix, beta, f, true);
    } else {
        for (int k = 0; k + 1 < f; ++k) {
            unsigned down = (unsigned)((f - k - 1 + 7) / 8);
            if (down > 65535u)
                down = 65535u;
            eliminate_step<<<dim3((unsigned)((f - k + 31) / 32), down), 256>>>(matrix, f, k);
        }
        finish<<<1, 256>>>(matrix, beta, f, false);
    }
    cudaFreeAsync(matrix, 0);
}
