// A depthwise convolution of 3 x 3: a thread finds eight outputs below each other and keeps the
// rows it has read in registers.
constexpr int KH = 3, KW = 3, DOWN = 8;

__global__ void convolve(
    const float* x, const float* weight, float* out, int channels, int height, int width)
{
    const int oh = height - KH + 1, ow = width - KW + 1;
    const int col = blockIdx.x * blockDim.x + threadIdx.x;
    const int top = (blockIdx.y * blockDim.y + threadIdx.y) * DOWN;
    const long long plane = blockIdx.z;
    const float* own = weight + plane % channels * (KH * KW);
    float w[KH][KW];
    for (int r = 0; r < KH; ++r)
        for (int s = 0; s < KW; ++s)
            w[r][s] = own[r * KW + s];
    if (col >= ow)
        return;
    const float* in = x + plane * height * width;
    float* to = out + plane * oh * ow;
    float sum[DOWN] = {};
#pragma unroll
    for (int r = 0; r < DOWN + KH - 1; ++r) {
        if (top + r >= height)
            break;
        float line[KW];
#pragma unroll
        for (int s = 0; s < KW; ++s)
            line[s] = in[(long long)(top + r) * width + col + s];
#pragma unroll
        for (int k = 0; k < KH; ++k)
            if (r - k >= 0 && r - k < DOWN)
#pragma unroll
                for (int s = 0; s < KW; ++s)
                    sum[r - k] += w[k][s] * line[s];
    }
#pragma unroll
    for (int d = 0; d < DOWN; ++d)
        if (top + d < oh)
            to[(long long)(top + d) * ow + col] = sum[d];
}

extern "C" void solve(const float* x, const float* conv2d_weight, float* out, int batch_size, int in_channels, int width, int height)
{
    const dim3 threads(64, 4);
    const int oh = height - KH + 1, ow = width - KW + 1;
    const dim3 blocks((ow + 63) / 64, (oh + 4 * DOWN - 1) / (4 * DOWN), batch_size * in_channels);
    convolve<<<blocks, threads>>>(x, conv2d_weight, out, in_channels, height, width);
}
