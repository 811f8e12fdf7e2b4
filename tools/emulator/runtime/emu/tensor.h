// Instructions of a whole warp on 8x8 matrices and larger ones: mma, wmma, ldmatrix, stmatrix,
// movmatrix. All 32 lanes execute them together: `whole_warp` stands before them in their basic block.
// Registers are lane arrays of 32 bits, of 64 for f64.
#pragma once

#include "emu/memory.h"

namespace emu {

enum class Element : uint8_t { f16, bf16, tf32, e4m3, e5m2, f32, f64, s8, u8, s32 };
enum class Role : uint8_t { a, b, accumulator };

// D = A x B + C. A is m x k, B k x n, C and D m x n.
struct Product {
  uint32_t m, n, k;
  Element a, b, c, d;
  uint32_t step;   // products along k of one hardware instruction
  bool saturates;  // integers
};
void multiply(const Product& product, const void* const* a, const void* const* b,
              const void* const* c, void* const* d);

// A matrix of a wmma instruction in memory. `along_rows`: neighbours in a row are neighbours in memory.
// A and B of f16 have eight registers, whatever their size.
struct Tile {
  uint32_t m, n, k;
  Role role;
  Element element;
  bool along_rows;
  uint32_t registers;
};
// `stride` counts elements between lines: a lane array, or `packed` for all lanes.
template <class U>
void load_tile(Warp* w, uint32_t site, const Tile& tile, Space space, const U* address,
               int64_t offset, const uint32_t* stride, uint32_t packed, void* const* out);
template <class U>
void store_tile(Warp* w, uint32_t site, const Tile& tile, Space space, const U* address,
                int64_t offset, const uint32_t* stride, uint32_t packed, const void* const* in);

// `count` 8x8 matrices of 16-bit elements; lane 8i + j holds the address of row j of matrix i. Generic
// addresses have to point into shared memory.
template <class U>
void load_matrices(Warp* w, uint32_t site, uint32_t count, bool transposed, const U* address,
                   int64_t offset, uint32_t* const* out);
template <class U>
void store_matrices(Warp* w, uint32_t site, uint32_t count, bool transposed, const U* address,
                    int64_t offset, const uint32_t* const* in);
void transpose_matrix(const uint32_t* in, uint32_t* out);

// Fault: lanes of the warp are missing, because they have left or never were.
[[noreturn]] void incomplete_warp(Warp* w, uint32_t site, Mask lanes);
inline void whole_warp(Warp* w, uint32_t site, Mask lanes) {
  if (lanes != ~Mask{0}) incomplete_warp(w, site, lanes);
}

}  // namespace emu
