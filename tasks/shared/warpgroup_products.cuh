// How a Hopper warpgroup multiplies tiles of halves that TMA brings: barriers, boxes, wgmma, a ring of tiles, and the
// host's part. The playbook defines FEW (columns of a tile, where tiles are few) and how B lies in a tile: TURNED_B
// ("1": its columns are neighbours in memory), kLeadingA and kLeadingB (bytes between groups of 64 columns, where a
// row has several), kAlongB (bytes from 16 terms of the sum to the next).

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define HAS_WARPGROUPS 1
#endif

constexpr int kTileM = 128;              // two warpgroups, 64 rows each
constexpr int kStep = 64;                // along K: 64 halves are one swizzled row of 128 bytes
constexpr int kBoxBytes = 64 * 64 * 2;   // 64 rows of 128 bytes
constexpr int kBoxColumns = 64;
constexpr int kConsumers = 256;          // threads that multiply
constexpr int kGroupThreads = kConsumers + 32; // and a warp that brings tiles
constexpr int kAlignment = 1024;         // swizzling counts from multiples of it
constexpr int kSumStride = FEW + 8;      // of sums in shared memory: spare columns against bank conflicts

template <int columns>
constexpr int kStageBytes = (kTileM + columns) * kStep * (int)sizeof(half);

#if HAS_WARPGROUPS
__device__ void create_barrier(uint32_t barrier, int arrivals)
{
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

__device__ void expect_bytes(uint32_t barrier, int bytes)
{
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

__device__ void arrive(uint32_t barrier)
{
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}

__device__ uint32_t address_in_block(uint32_t address, int rank)
{
    uint32_t there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(address), "r"(rank));
    return there;
}

__device__ void wait(uint32_t barrier, uint32_t parity)
{
    asm volatile("{\n"
                 ".reg .pred done;\n"
                 "again:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n"
                 "}" ::"r"(barrier), "r"(parity) : "memory");
}

__device__ void bring(uint32_t to, const CUtensorMap* map, int column, int row, uint32_t barrier)
{
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], "
                 "[%4];" ::"r"(to), "l"(map), "r"(column), "r"(row), "r"(barrier) : "memory");
}

__device__ void meet_cluster()
{
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

__device__ int rank_in_cluster()
{
    int rank;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
    return rank;
}

// Rows of 128 bytes, swizzled, in groups of eight; `leading` bytes lie between groups of 64 columns.
__device__ uint64_t describe(uint32_t address, uint64_t leading)
{
    return (uint64_t)((address & 0x3ffff) >> 4) | leading >> 4 << 16 | (uint64_t)(1024 >> 4) << 32 | 1ull << 62;
}

#define SUMS8(d, i) \
    "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
        "+f"(d[i + 7])
#define SUMS32(d, i) SUMS8(d, i), SUMS8(d, i + 8), SUMS8(d, i + 16), SUMS8(d, i + 24)
#define NAMES32 \
    "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, " \
    "%24, %25, %26, %27, %28, %29, %30, %31"
#define NAMES64 \
    NAMES32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, " \
    "%46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define NAMES128 \
    NAMES64 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, %83, " \
            "%84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, %101, %102, %103, " \
            "%104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, %117, %118, %119, %120, " \
            "%121, %122, %123, %124, %125, %126, %127"

// sums += 64 x 16 halves of A by 16 x 64, 128 or 256 of B; without `adds` the sums begin anew.
__device__ void multiply_add(float (&d)[32], uint64_t a, uint64_t b, int adds)
{
    asm volatile("{.reg .pred p; setp.ne.b32 p, %34, 0; wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {" NAMES32
                 "}, %32, %33, p, 1, 1, 0, " TURNED_B ";}"
                 : SUMS32(d, 0) : "l"(a), "l"(b), "r"(adds));
}

__device__ void multiply_add(float (&d)[64], uint64_t a, uint64_t b, int adds)
{
    asm volatile("{.reg .pred p; setp.ne.b32 p, %66, 0; wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {" NAMES64
                 "}, %64, %65, p, 1, 1, 0, " TURNED_B ";}"
                 : SUMS32(d, 0), SUMS32(d, 32) : "l"(a), "l"(b), "r"(adds));
}

__device__ void multiply_add(float (&d)[128], uint64_t a, uint64_t b, int adds)
{
    asm volatile("{.reg .pred p; setp.ne.b32 p, %130, 0; wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {" NAMES128
                 "}, %128, %129, p, 1, 1, 0, " TURNED_B ";}"
                 : SUMS32(d, 0), SUMS32(d, 32), SUMS32(d, 64), SUMS32(d, 96) : "l"(a), "l"(b), "r"(adds));
}

// A ring of tiles in shared memory. Both sides count the steps they have made.
template <int columns, int stages>
struct Ring {
    uint32_t tiles;
    uint32_t barriers; // `stages` that say full, then as many that say empty
    int done = 0;

    __device__ uint32_t a() const { return tiles + done % stages * kStageBytes<columns>; }
    __device__ uint32_t b() const { return a() + 2 * kBoxBytes; }
    __device__ uint32_t full() const { return barriers + done % stages * 8; }
    __device__ uint32_t empty(int step) const { return barriers + (stages + step % stages) * 8; }
    __device__ uint32_t turn() const { return done / stages % 2; }

    __device__ void create()
    {
        for (int stage = 0; stage < stages; ++stage) {
            create_barrier(barriers + stage * 8, 1);
            create_barrier(barriers + (stages + stage) * 8, kConsumers / 32);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }

    __device__ void release(int step) const
    {
        if (threadIdx.x % 32 == 0) arrive(empty(step));
    }

    // By a warpgroup: sums = the products of the next `steps` tiles; the tensor cores run one tile ahead.
    __device__ void multiply(float (&sums)[columns / 2], int group, int steps)
    {
        for (int step = 0; step < steps; ++step) {
            wait(full(), turn());
            uint64_t left = describe(a() + group * kBoxBytes, kLeadingA);
            uint64_t right = describe(b(), kLeadingB);
            asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#pragma unroll
            for (int k = 0; k < kStep / 16; ++k) {
                multiply_add(sums, left + (k * 32 >> 4), right + (k * kAlongB >> 4), step + k);
            }
            asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
            if (step > 0) {
                asm volatile("wgmma.wait_group.sync.aligned 1;" ::: "memory");
                release(done - 1);
            }
            ++done;
        }
        asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory");
        release(done - 1);
    }
};

__device__ uint32_t pack(float low, float high)
{
    half2 pair = __floats2half2_rn(low, high);
    return *reinterpret_cast<uint32_t*>(&pair);
}

__device__ void meet_group(int group)
{
    asm volatile("bar.sync %0, 128;" ::"r"(group + 1) : "memory");
}
#endif

// A row-major matrix in swizzled boxes of `rows_of_box` x 64, zeros beyond it.
bool map_boxes(CUtensorMap* map, const half* matrix, int rows, int columns, int rows_of_box)
{
    cuuint64_t extents[] = {(cuuint64_t)columns, (cuuint64_t)rows};
    cuuint64_t pitch[] = {(cuuint64_t)columns * sizeof(half)};
    cuuint32_t box[] = {kBoxColumns, (cuuint32_t)rows_of_box};
    cuuint32_t every[] = {1, 1};
    return cuTensorMapEncodeTiled(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, (void*)matrix, extents, pitch, box, every,
                                  CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                  CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

template <class... Parameters, class... Arguments>
void launch(void (*kernel)(Parameters...), int blocks, int cluster, int bytes, Arguments... arguments)
{
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeClusterDimension;
    attribute.val.clusterDim.x = cluster;
    attribute.val.clusterDim.y = 1;
    attribute.val.clusterDim.z = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(blocks);
    config.blockDim = dim3(kGroupThreads);
    config.dynamicSmemBytes = bytes;
    config.attrs = &attribute;
    config.numAttrs = 1;
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, bytes);
    cudaLaunchKernelEx(&config, kernel, arguments...);
}

int attribute(cudaDeviceAttr which)
{
    int device = 0;
    int value = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&value, which, device);
    return value;
}
