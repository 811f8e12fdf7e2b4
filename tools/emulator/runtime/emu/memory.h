// Memory instructions of a warp. T is an unsigned integer of the element's width; N elements a lane.
// `out[i]` / `in[i]` are lane arrays; null where the instruction writes `_`. Only lanes of the mask
// are touched. Every check (bounds, alignment, initialisation, races) and every count is made here;
// a failed check is a fault and does not return.
#pragma once

#include "emu/warp.h"

namespace emu {

// `call malloc`, `call free`: memory that device code allocates itself. A null pointer where there is no
// more of it.
void heap_malloc(Warp* w, uint32_t site, Mask lanes, const uint64_t* bytes, uint64_t* address);
void heap_free(Warp* w, uint32_t site, Mask lanes, const uint64_t* address);

template <class T, int N>
void load_global(Warp* w, uint32_t site, Mask lanes, const uint64_t* address, int64_t offset,
                 T* const (&out)[N]);
template <class T, int N>
void load_const(Warp* w, uint32_t site, Mask lanes, const uint64_t* address, int64_t offset,
                T* const (&out)[N]);
template <class T, int N>
void load_generic(Warp* w, uint32_t site, Mask lanes, const uint64_t* address, int64_t offset,
                  T* const (&out)[N]);
// Shared and local addresses wrap modulo 2^32.
template <class T, int N>
void load_shared(Warp* w, uint32_t site, Mask lanes, const uint32_t* address, int64_t offset,
                 T* const (&out)[N]);
template <class T, int N>
void load_local(Warp* w, uint32_t site, Mask lanes, const uint32_t* address, int64_t offset,
                T* const (&out)[N]);

template <class T, int N>
void store_global(Warp* w, uint32_t site, Mask lanes, const uint64_t* address, int64_t offset,
                  const T* const (&in)[N]);
template <class T, int N>
void store_generic(Warp* w, uint32_t site, Mask lanes, const uint64_t* address, int64_t offset,
                   const T* const (&in)[N]);
template <class T, int N>
void store_shared(Warp* w, uint32_t site, Mask lanes, const uint32_t* address, int64_t offset,
                  const T* const (&in)[N]);
template <class T, int N>
void store_local(Warp* w, uint32_t site, Mask lanes, const uint32_t* address, int64_t offset,
                 const T* const (&in)[N]);

// `ld.param` at a computed address that lies outside the kernel's parameters.
[[noreturn]] void param_outside(Warp* w, uint32_t site, int lane, uint64_t offset, uint32_t bytes);

// Counts an `ld.param` at a computed address: parameters lie in constant memory.
void param_read(Warp* w, uint32_t site, Mask lanes, const uint64_t* address);

enum class AtomOp : uint32_t { add, min, max, inc, dec, and_, or_, xor_, exch, cas };
enum class AtomType : uint32_t {
  b16, b32, u32, s32, b64, u64, s64, f32, f64, f16, f16x2, bf16, bf16x2
};
enum class Space : uint32_t { global, shared, generic };

// Lanes act one after another in ascending order. `a`, `b` (cas: compare, swap) and `out` (null for
// red) are lane arrays of the type's raw width. Shared addresses come zero-extended.
void atomic(Warp* w, uint32_t site, Mask lanes, Space space, AtomOp op, AtomType type,
            const uint64_t* address, int64_t offset, const void* a, const void* b, void* out);

// cp.async: takes effect at the wait; until then the target counts as uninitialised.
// `source_bytes` (null: all) below `bytes` zero-fills the rest.
void async_copy(Warp* w, uint32_t site, Mask lanes, const uint32_t* shared, int64_t shared_offset,
                const uint64_t* global, int64_t global_offset, uint32_t bytes,
                const uint32_t* source_bytes);
void async_commit(Warp* w, Mask lanes);
void async_wait(Warp* w, Mask lanes, uint32_t groups_left);
void async_wait_all(Warp* w, Mask lanes);

}  // namespace emu

#include "emu/memory_inline.h"
