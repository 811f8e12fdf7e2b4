// How a warp fetches halves into shared memory, STAGES tiles ahead, and multiplies them on its tensor cores.

__device__ uint32_t shared_address(const void* pointer)
{
    return static_cast<uint32_t>(__cvta_generic_to_shared(pointer));
}

// Eight neighbours of a row into shared memory, zeros beyond the matrix.
__device__ void fetch(half* to, const half* matrix, int row, int column, int rows, int columns, bool wide)
{
    const half* from = matrix + (size_t)row * columns + column;
    if (wide) {
        bool inside = row < rows && column < columns;
#if __CUDA_ARCH__ >= 800
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)),
                     "l"(inside ? from : matrix), "r"(inside ? 16 : 0) : "memory");
#else
        *reinterpret_cast<uint4*>(to) = inside ? *reinterpret_cast<const uint4*>(from) : uint4{};
#endif
        return;
    }
#pragma unroll
    for (int j = 0; j < 8; ++j) {
        to[j] = row < rows && column + j < columns ? from[j] : __ushort_as_half(0);
    }
}

__device__ void commit_fetches()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// All but the latest STAGES - 2 groups of this thread have arrived.
__device__ void wait_for_fetches()
{
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
#endif
}

__device__ void load_matrices(uint32_t (&to)[4], const half* row)
{
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(shared_address(row)) : "memory");
}

// sums += 16 x 16 halves of A by 16 x 8 of B.
__device__ void multiply_add(float (&d)[4], const uint32_t (&a)[4], const uint32_t* b)
{
#if __CUDA_ARCH__ >= 800
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
#pragma unroll
    for (int part = 0; part < 2; ++part) {
        asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
                     "{%0, %1, %2, %3};"
                     : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                     : "r"(a[2 * part]), "r"(a[2 * part + 1]), "r"(b[part]));
    }
#endif
}
