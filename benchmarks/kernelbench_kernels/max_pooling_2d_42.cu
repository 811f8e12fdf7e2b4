// Max pooling of 4 x 4, one element of padding: a thread slides down eight outputs of a column.
constexpr int K = 4, DOWN = 8;

__global__ void pool(const float* x, float* out, int height, int width)
{
    const int oh = height - 1, ow = width - 1;
    const int col = blockIdx.x * blockDim.x + threadIdx.x;
    const int top = (blockIdx.y * blockDim.y + threadIdx.y) * DOWN;
    if (col >= ow)
        return;
    const float* in = x + (long long)blockIdx.z * height * width;
    float* to = out + (long long)blockIdx.z * oh * ow;
    float line[DOWN + K - 1];
#pragma unroll
    for (int r = 0; r < DOWN + K - 1; ++r) {
        const int row = top - 1 + r;
        line[r] = -INFINITY;
#pragma unroll
        for (int s = 0; s < K; ++s) {
            const int at = col - 1 + s;
            if (row >= 0 && row < height && at >= 0 && at < width)
                line[r] = fmaxf(line[r], in[(long long)row * width + at]);
        }
    }
#pragma unroll
    for (int d = 0; d < DOWN; ++d)
        if (top + d < oh)
            to[(long long)(top + d) * ow + col] =
                fmaxf(fmaxf(line[d], line[d + 1]), fmaxf(line[d + 2], line[d + 3]));
}

extern "C" void solve(
    const float* x, float* out, int batch_size, int channels, int height, int width)
{
    const dim3 blocks((width + 62) / 64, (height - 1 + 4 * DOWN - 1) / (4 * DOWN), batch_size * channels);
    pool<<<blocks, dim3(64, 4)>>>(x, out, height, width);
}
