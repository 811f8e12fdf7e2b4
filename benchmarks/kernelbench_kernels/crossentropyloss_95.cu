// Cross entropy: a block a row keeps maximum and sum in one pass, a second kernel takes the mean.
constexpr int MOST = 1 << 16;
__device__ float losses[MOST];

__global__ void rows(const float* x, const long long* targets, int classes)
{
    __shared__ float2 warps[8];
    const float* row = x + (long long)blockIdx.x * classes;
    float most = -INFINITY, sum = 0.0f;
    for (int i = threadIdx.x; i < classes; i += blockDim.x) {
        const float value = row[i];
        if (value > most) {
            sum *= expf(most - value);
            most = value;
        }
        sum += expf(value - most);
    }
    for (int step = 16; step; step /= 2) {
        const float other = __shfl_down_sync(~0u, most, step);
        const float its = __shfl_down_sync(~0u, sum, step);
        const float both = fmaxf(most, other);
        if (both > -INFINITY)
            sum = sum * expf(most - both) + its * expf(other - both);
        most = both;
    }
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = make_float2(most, sum);
    __syncthreads();
    if (threadIdx.x == 0) {
        for (int warp = 1; warp < 8; ++warp) {
            const float2 other = warps[warp];
            const float both = fmaxf(most, other.x);
            if (other.x > -INFINITY)
                sum = sum * expf(most - both) + other.y * expf(other.x - both);
            most = both;
        }
        losses[blockIdx.x] = logf(sum) + (most - row[targets[blockIdx.x]]);
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

extern "C" void solve(
    const float* predictions, const long long* targets, float* out, int batch_size, int num_classes)
{
    rows<<<batch_size, 256>>>(predictions, targets, num_classes);
    mean<<<1, 256>>>(out, batch_size);
}
