// Prefix sums of the elements that a mask lets through.
// A block adds up a row, tile by tile: four elements a thread, warps by shuffles, what went before
// carried on.
constexpr int THREADS = 512;
constexpr int TILE = 4 * THREADS;

__global__ void scan(const float* x, const bool* mask, float* out, int n)
{
    __shared__ float warps[THREADS / 32];
    const long long row = (long long)blockIdx.x * n;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float carry = 0.0f;
    for (int tile = 0; tile < n; tile += TILE) {
        const int begin = tile + 4 * threadIdx.x;
        float v[4];
        for (int k = 0; k < 4; ++k) {
            const long long i = row + begin + k;
            v[k] = begin + k < n ? (mask[i] ? x[i] : 0.0f) : 0.0f;
        }
        v[1] += v[0];
        v[2] += v[1];
        v[3] += v[2];
        float sum = v[3];
        for (int step = 1; step < 32; step *= 2) {
            const float other = __shfl_up_sync(~0u, sum, step);
            if (lane >= step)
                sum += other;
        }
        if (lane == 31)
            warps[warp] = sum;
        __syncthreads();
        float before = __shfl_up_sync(~0u, sum, 1);
        before = carry + (lane ? before : 0.0f);
        float total = carry;
        for (int other = 0; other < THREADS / 32; ++other) {
            if (other < warp)
                before += warps[other];
            total += warps[other];
        }
        for (int k = 0; k < 4; ++k) {
            const long long i = row + begin + k;
            if (begin + k < n)
                out[i] = before + v[k];
        }
        carry = total;
        __syncthreads();
    }
}

extern "C" void solve(const float* x, const bool* mask, float* out, int batch_size, int input_shape_0)
{
    scan<<<batch_size, THREADS>>>(x, mask, out, input_shape_0);
}
