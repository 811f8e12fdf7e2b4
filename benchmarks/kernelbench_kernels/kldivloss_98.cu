// The Kullback-Leibler divergence in one pass.
// Each thread adds up its terms in double; a second kernel adds up what the blocks have.
constexpr int BLOCKS = 2048;
__device__ double partial[BLOCKS];

__device__ double block_sum(double sum)
{
    __shared__ double warps[8];
    for (int step = 16; step; step /= 2)
        sum += __shfl_down_sync(~0u, sum, step);
    if (threadIdx.x % 32 == 0)
        warps[threadIdx.x / 32] = sum;
    __syncthreads();
    sum = threadIdx.x < 8 ? warps[threadIdx.x] : 0.0;
    for (int step = 4; step; step /= 2)
        sum += __shfl_down_sync(~0u, sum, step);
    return sum;
}

__device__ __forceinline__ float term(float p, float t)
{
    return t > 0.0f ? t * (logf(t) - logf(p)) : 0.0f;
}

__global__ void add_up(const float* p, const float* t, long long n)
{
    const long long stride = (long long)gridDim.x * blockDim.x;
    const long long begin = blockIdx.x * (long long)blockDim.x + threadIdx.x;
    const long long whole = n / 4;
    double sum = 0.0;
    for (long long i = begin; i < whole; i += stride) {
        const float4 a = reinterpret_cast<const float4*>(p)[i];
        const float4 b = reinterpret_cast<const float4*>(t)[i];
        sum += (term(a.x, b.x) + term(a.y, b.y)) + (term(a.z, b.z) + term(a.w, b.w));
    }
    for (long long i = 4 * whole + begin; i < n; i += stride)
        sum += term(p[i], t[i]);
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        partial[blockIdx.x] = sum;
}

__global__ void finish(float* out, double count)
{
    double sum = 0.0;
    for (int i = threadIdx.x; i < BLOCKS; i += blockDim.x)
        sum += partial[i];
    sum = block_sum(sum);
    if (threadIdx.x == 0)
        *out = (float)(sum / count);
}

extern "C" void solve(
    const float* predictions, const float* targets, float* out, int batch_size, int input_shape_0)
{
    const long long n = (long long)batch_size * input_shape_0;
    add_up<<<BLOCKS, 256>>>(predictions, targets, n);
    finish<<<1, 256>>>(out, (double)batch_size);
}
