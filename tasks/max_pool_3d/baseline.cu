// One thread computes one element of the output, tap by tap from global memory.

#include <cmath>
#include <cuda_runtime.h>

__global__ void max_pool_3d(const float* input, float* output, size_t count, int D, int H, int W, int OD, int OH,
                            int OW, int kernel, int stride, int padding, int dilation)
{
    size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= count) {
        return;
    }
    int ow = i % OW;
    int oh = i / OW % OH;
    int od = i / OW / OH % OD;
    const float* channel = input + i / OW / OH / OD * D * H * W;
    float largest = -INFINITY;
    for (int z = 0; z < kernel; ++z) {
        for (int y = 0; y < kernel; ++y) {
            for (int x = 0; x < kernel; ++x) {
                int d = od * stride - padding + z * dilation;
                int h = oh * stride - padding + y * dilation;
                int w = ow * stride - padding + x * dilation;
                if (d >= 0 && d < D && h >= 0 && h < H && w >= 0 && w < W) {
                    largest = fmaxf(largest, channel[((size_t)d * H + h) * W + w]);
                }
            }
        }
    }
    output[i] = largest;
}

extern "C" void solve(const float* input, float* output, int N, int C, int D, int H, int W, int kernel, int stride,
                      int padding, int dilation)
{
    int reach = dilation * (kernel - 1) + 1;
    int OD = (D + 2 * padding - reach) / stride + 1;
    int OH = (H + 2 * padding - reach) / stride + 1;
    int OW = (W + 2 * padding - reach) / stride + 1;
    size_t count = (size_t)N * C * OD * OH * OW;
    int threads = 256;
    unsigned blocks = (count + threads - 1) / threads;
    max_pool_3d<<<blocks, threads>>>(input, output, count, D, H, W, OD, OH, OW, kernel, stride, padding, dilation);
    cudaDeviceSynchronize();
}
