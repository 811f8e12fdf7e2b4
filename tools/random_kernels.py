"""CUDA source of the random draws. A C++ compiler takes it too, given the words it has no use for.

Counter of a block: its index (40 bits), the draw's number (24 bits), the seed's upper half; key:
the seed's lower half.
"""

SOURCE = r"""
typedef unsigned int u32;
typedef unsigned long long u64;

struct Block { u32 word[4]; };

__device__ Block philox(u64 index, u32 draw, u32 k0, u32 k1, u32 c2, u32 c3) {
    u32 c0 = (u32)index;
    u32 c1 = draw << 8 ^ (u32)(index >> 32);
    for (int round = 0; round < 10; ++round) {
        u64 one = (u64)0xD2511F53u * c0, other = (u64)0xCD9E8D57u * c2;
        c0 = (u32)(other >> 32) ^ c1 ^ k0;
        c1 = (u32)other;
        c2 = (u32)(one >> 32) ^ c3 ^ k1;
        c3 = (u32)one;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return Block{{c0, c1, c2, c3}};
}

__device__ u64 pair(Block const& block, int half) {
    return (u64)block.word[2 * half + 1] << 32 | block.word[2 * half];
}

// Two normals from two words (Box and Muller 1958).
__device__ void normals(u32 one, u32 other, float& first, float& second) {
    float radius = sqrtf(-2.0f * logf((float)((double)one + 1.0) * 2.3283064365386963e-10f));
    float sine, cosine;
    sincospif((float)other * 4.656612873077393e-10f, &sine, &cosine);
    first = radius * cosine;
    second = radius * sine;
}

#define DRAW u64 count, u32 k0, u32 k1, u32 c2, u32 c3, u32 draw
#define INDEX ((u64)blockIdx.x * blockDim.x + threadIdx.x)

// The numbers do not depend on the type they are kept in.
template <typename T>
__device__ void whole(T* values, DRAW, long long low, u64 span) {
    u64 index = INDEX, at = 2 * index;
    if (at >= count) return;
    Block block = philox(index, draw, k0, k1, c2, c3);
    for (int i = 0; i < 2 && at + i < count; ++i) {
        u64 word = pair(block, i);
        values[at + i] = (T)((u64)low + (span ? __umul64hi(word, span) : word));
    }
}

extern "C" __global__ void bounded64(long long* values, DRAW, long long low, u64 span) {
    whole(values, count, k0, k1, c2, c3, draw, low, span);
}

extern "C" __global__ void bounded32(int* values, DRAW, long long low, u64 span) {
    whole(values, count, k0, k1, c2, c3, draw, low, span);
}

extern "C" __global__ void unit32(float* values, DRAW) {
    u64 index = INDEX, at = 4 * index;
    if (at >= count) return;
    Block block = philox(index, draw, k0, k1, c2, c3);
    for (int i = 0; i < 4 && at + i < count; ++i)
        values[at + i] = (float)(block.word[i] >> 8) * 5.9604644775390625e-8f;
}

extern "C" __global__ void unit64(double* values, DRAW) {
    u64 index = INDEX, at = 2 * index;
    if (at >= count) return;
    Block block = philox(index, draw, k0, k1, c2, c3);
    for (int i = 0; i < 2 && at + i < count; ++i)
        values[at + i] = (double)(pair(block, i) >> 11) * 1.1102230246251565e-16;
}

extern "C" __global__ void normal32(float* values, DRAW) {
    u64 index = INDEX, at = 4 * index;
    if (at >= count) return;
    Block block = philox(index, draw, k0, k1, c2, c3);
    float drawn[4];
    normals(block.word[0], block.word[1], drawn[0], drawn[1]);
    normals(block.word[2], block.word[3], drawn[2], drawn[3]);
    for (int i = 0; i < 4 && at + i < count; ++i) values[at + i] = drawn[i];
}

// Gamma of shape 3/2: half of a chi-squared with three degrees of freedom.
extern "C" __global__ void gamma32(float* values, DRAW) {
    u64 index = INDEX;
    if (index >= count) return;
    Block block = philox(index, draw, k0, k1, c2, c3);
    float a, b, c, d;
    normals(block.word[0], block.word[1], a, b);
    normals(block.word[2], block.word[3], c, d);
    values[index] = fmaxf(0.5f * (a * a + b * b + c * c), 1e-30f);
}
"""
