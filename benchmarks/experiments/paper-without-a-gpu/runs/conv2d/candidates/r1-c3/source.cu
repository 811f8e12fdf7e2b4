// Input rows slide through registers past 8-wide accumulator windows

#include <cuda_runtime.h>
#include <cstddef>

static constexpr int FS = 24;            // width of filter that the fast kernels take
static constexpr int MAX_R = 64;         // and their largest number of filter rows

__device__ __forceinline__ void copy16(float* dst, const float* src, int bytes)
{
    unsigned d = (unsigned)__cvta_generic_to_shared(dst);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(d), "l"(src), "r"(bytes) : "memory");
}

__device__ __forceinline__ void copy4(float* dst, const float* src, int bytes)
{
    unsigned d = (unsigned)__cvta_generic_to_shared(dst);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" :: "r"(d), "l"(src), "r"(bytes) : "memory");
}

__device__ __forceinline__ void copy_commit()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

template <int N>
__device__ __forceinline__ void copy_wait()
{
    asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory");
}

__device__ __forceinline__ void copy_wait_left(int left)
{
    switch (left) {
    case 7: copy_wait<7>(); break;
    case 6: copy_wait<6>(); break;
    case 5: copy_wait<5>(); break;
    case 4: copy_wait<4>(); break;
    case 3: copy_wait<3>(); break;
    case 2: copy_wait<2>(); break;
    case 1: copy_wait<1>(); break;
    default: copy_wait<0>(); break;
    }
}

// Tile rows g, g + NG, ... of the input; after every 8 groups of four numbers one is
// left out, so that lanes 8 numbers apart meet no bank conflict.
template <int T, int QX, int PITCH, int NG>
__device__ __forceinline__ void load_rows(float* tile, const float* __restrict__ input, int H, int W,
                                          int row0, unsigned col0, int nrows, int g, bool vec)
{
    const int total = ((nrows - g + NG - 1) / NG) * QX;
    for (int idx = threadIdx.x; idx < total; idx += T) {
        const int rr = idx / QX;
        const int q = idx - rr * QX;
        const int y = g + rr * NG;
        const int gy = row0 + y;
        const unsigned gx = col0 + 4u * (unsigned)q;
        float* dst = tile + y * PITCH + 4 * (q + (q >> 3));
        if (vec) {
            const bool ok = gy < H && gx < (unsigned)W;
            const float* src = ok ? input + ((size_t)gy * (size_t)W + gx) : input;
            copy16(dst, src, ok ? 16 : 0);
        } else {
#pragma unroll
            for (int e = 0; e < 4; e++) {
                const bool ok = gy < H && gx + (unsigned)e < (unsigned)W;
                const float* src = ok ? input + ((size_t)gy * (size_t)W + gx + (unsigned)e) : input;
                copy4(dst + e, src, ok ? 4 : 0);
            }
        }
    }
}

template <int T>
__device__ __forceinline__ void load_filter(float* fs, const float* __restrict__ filter, int R)
{
    for (int idx = threadIdx.x; idx < R * (FS / 4); idx += T) {
        copy16(fs + 4 * idx, filter + 4 * idx, 16);
    }
}

__device__ __forceinline__ void load_window(float (&in)[32], const float* row, const int (&off)[4])
{
#pragma unroll
    for (int c = 0; c < 8; c++) {
        const float4 t = *reinterpret_cast<const float4*>(row + off[c >> 1] + 4 * (c & 1));
        in[4 * c + 0] = t.x;
        in[4 * c + 1] = t.y;
        in[4 * c + 2] = t.z;
        in[4 * c + 3] = t.w;
    }
}

__device__ __forceinline__ void fma_quad(float (&acc)[8], const float (&in)[32], const float4 w, int c)
{
#pragma unroll
    for (int t = 0; t < 8; t++) acc[t] = fmaf(in[4 * c + 0 + t], w.x, acc[t]);
#pragma unroll
    for (int t = 0; t < 8; t++) acc[t] = fmaf(in[4 * c + 1 + t], w.y, acc[t]);
#pragma unroll
    for (int t = 0; t < 8; t++) acc[t] = fmaf(in[4 * c + 2 + t], w.z, acc[t]);
#pragma unroll
    for (int t = 0; t < 8; t++) acc[t] = fmaf(in[4 * c + 3 + t], w.w, acc[t]);
}

// Partial outputs of a thread to shared memory, without bank conflicts.
template <int BX, int TY>
__device__ __forceinline__ void stage(float* st, const float (&acc)[TY][8], int x, int y)
{
#pragma unroll
    for (int o = 0; o < TY; o++) {
#pragma unroll
        for (int h = 0; h < 2; h++) {
            int q = 2 * x + h;
            q ^= (q >> 3) & 1;
            *reinterpret_cast<float4*>(st + (y * TY + o) * BX + 4 * q) =
                make_float4(acc[o][4 * h], acc[o][4 * h + 1], acc[o][4 * h + 2], acc[o][4 * h + 3]);
        }
    }
}

// Adds up K partial tiles and stores the outputs.
template <int T, int BX, int BY, int K>
__device__ __forceinline__ void finish(const float* st, float* __restrict__ output, int row0, unsigned col0, int oh, int ow)
{
    for (int o = threadIdx.x; o < BX * BY; o += T) {
        const int row = o / BX;
        const int col = o - row * BX;
        int q = col >> 2;
        q ^= (q >> 3) & 1;
        const float* p = st + row * BX + 4 * q + (col & 3);
        float v;
        if (K == 1) {
            v = p[0];
        } else {
            float s[4] = {0.0f, 0.0f, 0.0f, 0.0f};
#pragma unroll
            for (int k = 0; k < K; k++) {
                s[k & 3] += p[k * (BX * BY)];
            }
            v = (s[0] + s[1]) + (s[2] + s[3]);
        }
        if (row0 + row < oh && col0 + (unsigned)col < (unsigned)ow) {
            output[(size_t)(row0 + row) * (size_t)ow + (col0 + (unsigned)col)] = v;
        }
    }
}

// Each thread owns 8 columns and TY rows of outputs; the input rows go by once.
template <int NX, int NY, int TY>
__global__ void __launch_bounds__(NX * NY, 2)
conv_slide(const float* __restrict__ input, const float* __restrict__ filter, float* __restrict__ output,
           int H, int W, int R, int nbx)
{
    constexpr int T = NX * NY;
    constexpr int BX = 8 * NX;
    constexpr int BY = NY * TY;
    constexpr int QX = 2 * NX + 6;
    constexpr int PITCH = 4 * (QX + ((QX - 1) >> 3));
    extern __shared__ float4 smem4[];
    float* fs = reinterpret_cast<float*>(smem4);
    float* tile = fs + R * FS;

    const int by = (int)(blockIdx.x / (unsigned)nbx);
    const int bx = (int)(blockIdx.x - (unsigned)by * (unsigned)nbx);
    const int row0 = by * BY;
    const unsigned col0 = (unsigned)bx * BX;
    const int nrows = BY + R - 1;
    const bool vec = (W & 3) == 0;

    load_filter<T>(fs, filter, R);
#pragma unroll 1
    for (int g = 0; g < TY; g++) {
        load_rows<T, QX, PITCH, TY>(tile, input, H, W, row0, col0, nrows, g, vec);
        copy_commit();
    }

    const int x = threadIdx.x % NX;
    const int y = threadIdx.x / NX;
    int off[4];
#pragma unroll
    for (int p = 0; p < 4; p++) {
        const int q = 2 * x + 2 * p;
        off[p] = 4 * (q + (q >> 3));
    }
    float acc[TY][8];
#pragma unroll
    for (int o = 0; o < TY; o++) {
#pragma unroll
        for (int t = 0; t < 8; t++) acc[o][t] = 0.0f;
    }

    const float* row = tile + y * TY * PITCH;
    const int steps = R + TY - 1;
#pragma unroll 1
    for (int i = 0; i < steps; i++) {
        if (i < TY) {
            copy_wait_left(TY - 1 - i);     // rows that leave i over TY
            __syncthreads();
        }
        float in[32];
        load_window(in, row, off);
        row += PITCH;
#pragma unroll
        for (int o = 0; o < TY; o++) {
            const int r = i - o;
            if ((unsigned)r < (unsigned)R) {
                const float4* f = reinterpret_cast<const float4*>(fs + r * FS);
#pragma unroll
                for (int c = 0; c < FS / 4; c++) {
                    fma_quad(acc[o], in, f[c], c);
                }
            }
        }
    }

    __syncthreads();
    stage<BX, TY>(tile, acc, x, y);
    __syncthreads();
    finish<T, BX, BY, 1>(tile, output, row0, col0, H - R + 1, W - FS + 1);
}

// Small images: K groups of threads share the filter's rows, shared memory adds up.
template <int NX, int NY, int TY, int K>
__global__ void __launch_bounds__(NX * NY * K)
conv_split(const float* __restrict__ input, const float* __restrict__ filter, float* __restrict__ output,
           int H, int W, int R, int nbx)
{
    constexpr int NT = NX * NY;
    constexpr int T = NT * K;
    constexpr int BX = 8 * NX;
    constexpr int BY = NY * TY;
    constexpr int QX = 2 * NX + 6;
    constexpr int PITCH = 4 * (QX + ((QX - 1) >> 3));
    extern __shared__ float4 smem4[];
    float* fs = reinterpret_cast<float*>(smem4);
    float* tile = fs + R * FS;
    const int nrows = BY + R - 1;
    float* part = tile + nrows * PITCH;

    const int by = (int)(blockIdx.x / (unsigned)nbx);
    const int bx = (int)(blockIdx.x - (unsigned)by * (unsigned)nbx);
    const int row0 = by * BY;
    const unsigned col0 = (unsigned)bx * BX;

    load_filter<T>(fs, filter, R);
    load_rows<T, QX, PITCH, 1>(tile, input, H, W, row0, col0, nrows, 0, (W & 3) == 0);
    copy_commit();

    const int k = threadIdx.x / NT;
    const int u = threadIdx.x - k * NT;
    const int x = u % NX;
    const int y = u / NX;
    int off[4];
#pragma unroll
    for (int p = 0; p < 4; p++) {
        const int q = 2 * x + 2 * p;
        off[p] = 4 * (q + (q >> 3));
    }
    float acc[TY][8];
#pragma unroll
    for (int o = 0; o < TY; o++) {
#pragma unroll
        for (int t = 0; t < 8; t++) acc[o][t] = 0.0f;
    }
    const int each = (R + K - 1) / K;
    const int r0 = k * each;
    const int r1 = min(R, r0 + each);

    copy_wait<0>();
    __syncthreads();

#pragma unroll 1
    for (int r = r0; r < r1; r++) {
        float4 w[FS / 4];
        const float4* f = reinterpret_cast<const float4*>(fs + r * FS);
#pragma unroll
        for (int c = 0; c < FS / 4; c++) w[c] = f[c];
        const float* row = tile + (y * TY + r) * PITCH;
#pragma unroll
        for (int o = 0; o < TY; o++) {
            float in[32];
            load_window(in, row + o * PITCH, off);
#pragma unroll
            for (int c = 0; c < FS / 4; c++) {
                fma_quad(acc[o], in, w[c], c);
            }
        }
    }

    stage<BX, TY>(part + k * (BX * BY), acc, x, y);
    __syncthreads();
    finish<T, BX, BY, K>(part, output, row0, col0, H - R + 1, W - FS + 1);
}

// Any extents: one output a thread.
__global__ void __launch_bounds__(256)
conv_any(const float* __restrict__ input, const float* __restrict__ filter, float* __restrict__ output,
         int H, int W, int R, int S, unsigned nbx)
{
    const int oh = H - R + 1;
    const int ow = W - S + 1;
    const unsigned by = blockIdx.x / nbx;
    const unsigned bx = blockIdx.x - by * nbx;
    const unsigned col = bx * 32u + (threadIdx.x & 31u);
    const unsigned row = by * 8u + (threadIdx.x >> 5);
    if (row >= (unsigned)oh || col >= (unsigned)ow) {
        return;
    }
    float sum = 0.0f;
    for (int r = 0; r < R; r++) {
        const float* p = input + (size_t)(row + (unsigned)r) * (size_t)W + col;
        const float* f = filter + (size_t)r * (size_t)S;
        float a = 0.0f, b = 0.0f, c = 0.0f, d = 0.0f;
        int s = 0;
        for (; s + 3 < S; s += 4) {
            a = fmaf(__ldg(p + s), __ldg(f + s), a);
            b = fmaf(__ldg(p + s + 1), __ldg(f + s + 1), b);
            c = fmaf(__ldg(p + s + 2), __ldg(f + s + 2), c);
            d = fmaf(__ldg(p + s + 3), __ldg(f + s + 3), d);
        }
        for (; s < S; s++) {
            a = fmaf(__ldg(p + s), __ldg(f + s), a);
        }
        sum += (a + b) + (c + d);
    }
    output[(size_t)row * (size_t)ow + col] = sum;
}

template <int NX, int NY, int TY>
static void launch_slide(const float* input, const float* filter, float* output, int H, int W, int R,
                         long long nbx, long long nby)
{
    constexpr int QX = 2 * NX + 6;
    constexpr int PITCH = 4 * (QX + ((QX - 1) >> 3));
    const int bytes = (R * FS + (NY * TY + R - 1) * PITCH) * (int)sizeof(float);
    cudaFuncSetAttribute(conv_slide<NX, NY, TY>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    cudaFuncSetAttribute(conv_slide<NX, NY, TY>, cudaFuncAttributePreferredSharedMemoryCarveout, 100);
    conv_slide<NX, NY, TY><<<(unsigned)(nbx * nby), NX * NY, bytes>>>(input, filter, output, H, W, R, (int)nbx);
}

template <int NX, int NY, int TY, int K>
static void launch_split(const float* input, const float* filter, float* output, int H, int W, int R,
                         long long nbx, long long nby)
{
    constexpr int QX = 2 * NX + 6;
    constexpr int PITCH = 4 * (QX + ((QX - 1) >> 3));
    const int bytes = (R * FS + (NY * TY + R - 1) * PITCH + K * 8 * NX * NY * TY) * (int)sizeof(float);
    cudaFuncSetAttribute(conv_split<NX, NY, TY, K>, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    conv_split<NX, NY, TY, K><<<(unsigned)(nbx * nby), NX * NY * K, bytes>>>(input, filter, output, H, W, R, (int)nbx);
}

extern "C" void solve(const float* input, const float* filter, float* output, int H, int W, int R, int S)
{
    const long long oh = (long long)H - R + 1;
    const long long ow = (long long)W - S + 1;
    if (S == FS && R <= MAX_R) {
        const long long x128 = (ow + 127) / 128;
        const long long x64 = (ow + 63) / 64;
        const long long y128 = (oh + 127) / 128;
        const long long y64 = (oh + 63) / 64;
        const long long y32 = (oh + 31) / 32;
        const long long y8 = (oh + 7) / 8;
        const long long y2 = (oh + 1) / 2;
        if (x128 * y128 >= 200) {
            launch_slide<16, 16, 8>(input, filter, output, H, W, R, x128, y128);
        } else if (x64 * y64 >= 200) {
            launch_slide<8, 16, 4>(input, filter, output, H, W, R, x64, y64);
        } else if (x64 * y32 >= 100) {
            launch_split<8, 8, 4, 4>(input, filter, output, H, W, R, x64, y32);
        } else if (x64 * y8 >= 100) {
            launch_split<8, 2, 4, 8>(input, filter, output, H, W, R, x64, y8);
        } else {
            launch_split<8, 1, 2, 24>(input, filter, output, H, W, R, x64, y2);
        }
    } else {
        const long long nbx = (ow + 31) / 32;
        const long long nby = (oh + 7) / 8;
        conv_any<<<(unsigned)(nbx * nby), 256>>>(input, filter, output, H, W, R, S, (unsigned)nbx);
    }
}
