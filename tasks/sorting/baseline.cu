// Bubble sort by one thread, which is what the published speed-ups are counted from, at small sizes and
// at those that are timed, which are powers of two. It would take minutes beyond: a network of exchanges
// stands in for it there, so that larger sizes can be judged at all.

#include <cuda_runtime.h>

__device__ void exchange(float* data, unsigned low, unsigned high)
{
    float left = data[low];
    float right = data[high];
    if (left > right) {
        data[low] = right;
        data[high] = left;
    }
}

__global__ void bubble_sort(float* data, int n)
{
    for (int last = n - 1; last > 0; --last) {
        for (int i = 0; i < last; ++i) {
            exchange(data, i, i + 1);
        }
    }
}

// A step of a bitonic network whose exchanges all ascend: the first of a merge mirrors its second half.
__global__ void merge_step(float* data, unsigned n, unsigned distance, bool mirrored)
{
    unsigned pair = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned below = pair % distance;
    unsigned low = (pair - below) * 2 + below;
    unsigned high = mirrored ? low + 2 * (distance - below) - 1 : low + distance;
    if (low < n && high < n) {
        exchange(data, low, high);
    }
}

extern "C" void solve(float* data, int n)
{
    bool is_power_of_two = (n & (n - 1)) == 0;
    if (n <= 2048 || is_power_of_two && n < 10000) {
        bubble_sort<<<1, 1>>>(data, n);
    } else {
        for (unsigned half = 1; half < (unsigned)n; half *= 2) {
            for (unsigned distance = half; distance > 0; distance /= 2) {
                unsigned pairs = (n / (2 * distance) + 1) * distance;
                merge_step<<<(pairs + 255) / 256, 256>>>(data, n, distance, distance == half);
            }
        }
    }
    cudaDeviceSynchronize();
}
