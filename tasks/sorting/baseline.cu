// Bubble sort by one thread, which is what the published speed-ups are counted from. Where it would
// take minutes, beyond every timed size, a network of exchanges stands in for it.

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
    if (n <= 8192) {
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
