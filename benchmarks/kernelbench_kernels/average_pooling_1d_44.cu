// Average pooling along rows, eight elements, four elements of padding that count as 0.
__global__ void pool(const float* x, float* out, int length, int result)
{
    const float* row = x + (long long)blockIdx.y * length;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < result; i += gridDim.x * blockDim.x) {
        float sum = 0.0f;
#pragma unroll
        for (int k = 0; k < 8; ++k) {
            const int at = i - 4 + k;
            if (at >= 0 && at < length)
                sum += row[at];
        }
        out[(long long)blockIdx.y * result + i] = sum / 8.0f;
    }
}

extern "C" void solve(
    const float* x, float* out, int batch_size, int in_channels, int input_length)
{
    const int result = input_length + 1;
    pool<<<dim3((result + 1023) / 1024, batch_size * in_channels), 256>>>(
        x, out, input_length, result);
}
