// One warp computes one query's output: key after key, its lanes share the elements of the head.

#include <cuda_fp16.h>
#include <cuda_runtime.h>
#include <math_constants.h>

constexpr int kWarps = 4;
constexpr int kItems = 8; // elements of a lane: head_dim is at most 256

__global__ void attention(const half* Q, const half* K, const half* V, half* O, int batch_heads, int seq_len,
                          int head_dim, int causal)
{
    long long row = (long long)blockIdx.x * kWarps + threadIdx.x / 32;
    int lane = threadIdx.x % 32;
    if (row >= (long long)batch_heads * seq_len) {
        return;
    }
    size_t head = row / seq_len * seq_len * head_dim;
    int keys = causal ? row % seq_len + 1 : seq_len;
    float query[kItems], sums[kItems];
    for (int i = 0; i < kItems; ++i) {
        int column = lane + 32 * i;
        query[i] = column < head_dim ? __half2float(Q[row * head_dim + column]) : 0.0f;
        sums[i] = 0.0f;
    }
    float largest = -CUDART_INF_F;
    float total = 0.0f;
    for (int key = 0; key < keys; ++key) {
        size_t at = head + (size_t)key * head_dim;
        float score = 0.0f;
        for (int i = 0; i < kItems; ++i) {
            int column = lane + 32 * i;
            if (column < head_dim) {
                score += query[i] * __half2float(K[at + column]);
            }
        }
        for (int offset = 16; offset > 0; offset /= 2) {
            score += __shfl_xor_sync(0xffffffff, score, offset);
        }
        score /= sqrtf((float)head_dim);
        float next = fmaxf(largest, score);
        float shrink = expf(largest - next);
        float weight = expf(score - next);
        largest = next;
        total = total * shrink + weight;
        for (int i = 0; i < kItems; ++i) {
            int column = lane + 32 * i;
            if (column < head_dim) {
                sums[i] = sums[i] * shrink + weight * __half2float(V[at + column]);
            }
        }
    }
    for (int i = 0; i < kItems; ++i) {
        int column = lane + 32 * i;
        if (column < head_dim) {
            O[row * head_dim + column] = __float2half(sums[i] / total);
        }
    }
}

extern "C" void solve(const half* Q, const half* K, const half* V, half* O, int batch_heads, int seq_len,
                      int head_dim, int causal)
{
    long long rows = (long long)batch_heads * seq_len;
    attention<<<(unsigned)((rows + kWarps - 1) / kWarps), 32 * kWarps>>>(Q, K, V, O, batch_heads, seq_len,
                                                                         head_dim, causal);
    cudaDeviceSynchronize();
}
