// Chip-filling grid strides over positions, next loads before stores.

#include <cuda_runtime.h>

namespace {

constexpr unsigned SMS = 132;
constexpr unsigned WALK_T = 256;

template <int VW>
__device__ __forceinline__ void get(float (&v)[VW], const float* p)
{
    if constexpr (VW == 4) {
        const float4 q = __ldcs(reinterpret_cast<const float4*>(p));
        v[0] = q.x;
        v[1] = q.y;
        v[2] = q.z;
        v[3] = q.w;
    } else {
        v[0] = __ldcs(p);
    }
}

// Streaming store for the kernels of one pass.
template <int VW>
__device__ __forceinline__ void put(float* p, const float (&v)[VW])
{
    if constexpr (VW == 4) {
        __stcs(reinterpret_cast<float4*>(p), make_float4(v[0], v[1], v[2], v[3]));
    } else {
        __stcs(p, v[0]);
    }
}

// Normalises VW positions held in registers, in place.
template <int C, int VW>
__device__ __forceinline__ void normalise(float (&v)[C][VW], float eps)
{
    constexpr float inv = 1.0f / C;
#pragma unroll
    for (int j = 0; j < VW; ++j) {
        // Differences from the first channel lose nothing where the mean is large.
        const float x0 = v[0][j];
        float sum = 0.f;
        v[0][j] = 0.f;
#pragma unroll
        for (int c = 1; c < C; ++c) {
            v[c][j] -= x0;
            sum += v[c][j];
        }
        const float mean = sum * inv;
        float ss = 0.f;
#pragma unroll
        for (int c = 0; c < C; ++c) {
            v[c][j] -= mean;
            ss = fmaf(v[c][j], v[c][j], ss);
        }
        const float r = rsqrtf(fmaf(ss, inv, eps));
#pragma unroll
        for (int c = 0; c < C; ++c) v[c][j] *= r;
    }
}

// Fits the chip at once: a thread takes one group of four positions, blockIdx.y is the image.
template <int C>
__global__ void __launch_bounds__(256) norm_once(const float* __restrict__ x,
                                                 float* __restrict__ y,
                                                 unsigned per, unsigned P, float eps)
{
    const unsigned p = blockIdx.x * blockDim.x + threadIdx.x;
    if (p >= per) return;
    const size_t base = (size_t)blockIdx.y * ((size_t)C * P) + (size_t)p * 4;

    const float* px = x + base;
    float v[C][4];
#pragma unroll
    for (int c = 0; c < C; ++c) get<4>(v[c], px + (size_t)c * P);

    normalise<C, 4>(v, eps);

    float* py = y + base;
#pragma unroll
    for (int c = 0; c < C; ++c) put<4>(py + (size_t)c * P, v[c]);
}

// P no multiple of four: a thread a position, counted through all images.
template <int C>
__global__ void __launch_bounds__(256) norm_scalar(const float* __restrict__ x,
                                                   float* __restrict__ y,
                                                   unsigned long long positions,
                                                   unsigned P, float eps)
{
    const unsigned long long q = (unsigned long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (q >= positions) return;
    const unsigned long long img = q / P;
    const unsigned p = (unsigned)(q - img * P);
    const size_t base = (size_t)img * C * P + p;

    const float* px = x + base;
    float v[C][1];
#pragma unroll
    for (int c = 0; c < C; ++c) get<1>(v[c], px + (size_t)c * P);

    normalise<C, 1>(v, eps);

    float* py = y + base;
#pragma unroll
    for (int c = 0; c < C; ++c) put<1>(py + (size_t)c * P, v[c]);
}

template <int C>
constexpr unsigned walk_blocks()
{
    return C <= 4 ? 4u : 2u;  // blocks an SM
}

// The grid fills the chip and walks over groups of four positions; a group's loads are
// under way while the group before is normalised and stored. The stride is kept as whole
// images and a rest, so that no step divides.
template <int C>
__global__ void __launch_bounds__(WALK_T, walk_blocks<C>())
norm_walk(const float* __restrict__ x, float* __restrict__ y, unsigned N, unsigned per,
          unsigned stepImg, unsigned stepP, float eps)
{
    const size_t P = (size_t)per * 4;
    const unsigned q = blockIdx.x * WALK_T + threadIdx.x;
    unsigned img = q / per;
    unsigned p = q - img * per;
    if (img >= N) return;

    size_t off = (size_t)img * C * P + (size_t)p * 4;
    const size_t step = (size_t)stepImg * C * P + (size_t)stepP * 4;
    const size_t wrap = (size_t)(C - 1) * P;

    float v[C][4];
    {
        const float* px = x + off;
#pragma unroll
        for (int c = 0; c < C; ++c) get<4>(v[c], px + (size_t)c * P);
    }

    for (;;) {
        const size_t cur = off;
        off += step;
        img += stepImg;
        p += stepP;
        if (p >= per) {
            p -= per;
            ++img;
            off += wrap;
        }
        const bool more = img < N;

        float nx[C][4];
        if (more) {
            const float* px = x + off;
#pragma unroll
            for (int c = 0; c < C; ++c) get<4>(nx[c], px + (size_t)c * P);
        }

        normalise<C, 4>(v, eps);

        float* py = y + cur;
#pragma unroll
        for (int c = 0; c < C; ++c) {
            // Plain stores: results outlive the streamed input in L2.
            *reinterpret_cast<float4*>(py + (size_t)c * P) =
                make_float4(v[c][0], v[c][1], v[c][2], v[c][3]);
        }

        if (!more) break;
#pragma unroll
        for (int c = 0; c < C; ++c) {
#pragma unroll
            for (int j = 0; j < 4; ++j) v[c][j] = nx[c][j];
        }
    }
}

// Any number of channels: a block takes 32 positions, its 16 warps share the channels.
constexpr int ROWS = 16;

__global__ void __launch_bounds__(32 * ROWS) norm_any(const float* __restrict__ x,
                                                      float* __restrict__ y,
                                                      unsigned long long positions, int C,
                                                      unsigned long long P, float eps)
{
    __shared__ double sm[2][ROWS][32];
    const int tx = threadIdx.x & 31;
    const int ty = threadIdx.x >> 5;
    const unsigned long long q = (unsigned long long)blockIdx.x * 32u + tx;
    const bool in = q < positions;
    const unsigned long long img = in ? q / P : 0ull;
    const unsigned long long p = in ? q - img * P : 0ull;
    const size_t base = (size_t)img * (size_t)C * P + p;
    const float* px = x + base;
    const float x0 = px[0];

    double sum = 0.0;
    for (int c = ty; c < C; c += ROWS) sum += (double)(px[(size_t)c * P] - x0);
    sm[0][ty][tx] = sum;
    __syncthreads();
    sum = 0.0;
    for (int k = 0; k < ROWS; ++k) sum += sm[0][k][tx];
    const double mean = sum / C;
    const float mhi = (float)mean;

    double ss = 0.0;
    for (int c = ty; c < C; c += ROWS) {
        const float d = (px[(size_t)c * P] - x0) - mhi;
        ss += (double)d * (double)d;
    }
    sm[1][ty][tx] = ss;
    __syncthreads();
    ss = 0.0;
    for (int k = 0; k < ROWS; ++k) ss += sm[1][k][tx];
    const float r = (float)(1.0 / sqrt(ss / C + (double)eps));

    if (in) {
        float* py = y + base;
        for (int c = ty; c < C; c += ROWS)
            py[(size_t)c * P] = ((px[(size_t)c * P] - x0) - mhi) * r;
    }
}

template <int C>
void launch(const float* x, float* y, int N, unsigned P, float eps)
{
    if (P % 4 == 0) {
        const unsigned per = P / 4;
        const unsigned long long all = (unsigned long long)N * per;
        const unsigned T = all <= 131072ull ? 128u : 256u;
        if (all <= (unsigned long long)SMS * 2048u && per >= T) {
            // All groups are resident together: one step, nothing to walk.
            // Here N <= 270336 / 128, well within the grid's second extent.
            norm_once<C><<<dim3((per + T - 1) / T, (unsigned)N), T>>>(x, y, per, P, eps);
        } else {
            const unsigned long long need = (all + WALK_T - 1) / WALK_T;
            const unsigned full = SMS * walk_blocks<C>();
            const unsigned grid = need < full ? (unsigned)need : full;
            const unsigned stride = grid * WALK_T;
            norm_walk<C><<<grid, WALK_T>>>(x, y, (unsigned)N, per, stride / per, stride % per,
                                           eps);
        }
    } else {
        const unsigned long long all = (unsigned long long)N * P;
        norm_scalar<C><<<(unsigned)((all + 255) / 256), 256>>>(x, y, all, P, eps);
    }
}

}  // namespace

extern "C" void solve(const float* x, float* y, int N, int C, int H, int W, float eps)
{
    const unsigned long long P64 = (unsigned long long)H * (unsigned long long)W;
    const unsigned P = (unsigned)P64;
    const int kind = P64 < (1ull << 31) ? C : 0;
    switch (kind) {
    case 1: launch<1>(x, y, N, P, eps); break;
    case 2: launch<2>(x, y, N, P, eps); break;
    case 3: launch<3>(x, y, N, P, eps); break;
    case 4: launch<4>(x, y, N, P, eps); break;
    case 5: launch<5>(x, y, N, P, eps); break;
    case 6: launch<6>(x, y, N, P, eps); break;
    case 7: launch<7>(x, y, N, P, eps); break;
    case 8: launch<8>(x, y, N, P, eps); break;
    default: {
        const unsigned long long positions = (unsigned long long)N * P64;
        norm_any<<<(unsigned)((positions + 31) / 32), 32 * ROWS>>>(x, y, positions, C, P64, eps);
    }
    }
}
