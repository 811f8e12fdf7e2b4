// The triplet margin loss: a block a row finds both distances, a second kernel takes the mean.
constexpr int MOST = 1 << 16;
__device__ float losses[MOST];

__global__ void rows(const float* a, const float* p, const float* n, int length)
{
    __shared__ float2 warps[8];
    const long long row = (long long)blockIdx.x * length;
    float2 sum = {0.0f, 0.0f};
    for (int i = threadIdx.x; i < length; i += blockDim.x) {
        const float one = a[row + i];
        const float near = one - p[row + i] + 1e-6f, far = one - n[row + i] + 1e-6f;
        sum.x += near * near;
        sum.y += far * far;
    }
    for (int step = 16; step; step /= 2) {
        sum.x += __shfl_down_sync(~0u, sum.x, step);
        sum.y += __shfl_down_sync(~0u, sum.y, step);
    }
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
        float near = 0.0f, far = 0.0f;
        for (int warp = 0; warp < 8; ++warp) {
            near += warps[warp].x;
            far += warps[warp].y;
        }
        losses[blockIdx.x] = fmaxf(0.0f, sqrtf(near) - sqrtf(far) + 1.0f);
    }
}

__global__ void mean(float* out, int rows)
{
    __shared__ double sums[256];
    double sum = 0.0;
    for (int i = threadIdx.x; i < rows; i += 256)
        sum += losses[i];
    sums[threadIdx.x] = sum;
    __syncthreads();
    for (int step = 128; step; step /= 2) {
        if (threadIdx.x < step)
            sums[threadIdx.x] += sums[threadIdx.x + step];
        __syncthreads();
    }
    if (threadIdx.x == 0)
        *out = (float)(sums[0] / rows);
}

extern "C" void solve(const float* anchor, const float* positive, const float* negative, float* out,
                      int batch_size, int input_shape_0)
{
    rows<<<batch_size, 256>>>(anchor, positive, negative, input_shape_0);
    mean<<<1, 256>>>(out, batch_size);
}
