// wgmma: products of a warpgroup, four neighbouring warps, each of which multiplies its 16 rows of A.
// They are under way until the warp waits for their group; until then their registers are not to be
// touched. Registers are known by numbers that the translator gives those that may be concerned.
#pragma once

#include "emu/tensor.h"

namespace emu {

// D = A x B + D. A is 64 x k, B k x n: each row of A, and column of B, has 32 bytes.
struct GroupProduct {
  uint32_t n, k;
  Element a, b, d;
  bool negative_a, negative_b;
  bool across_a, across_b;  // neighbours in memory are neighbours along M or N, not along K
  bool saturates;
};

constexpr uint32_t kNoWriter = 0xffffffff;
struct GroupOperands {
  const uint16_t* numbers;       // of the registers of D, then of A where it is held
  const uint32_t* const* held;   // A; null: it is in shared memory
  const uint64_t* a;             // its descriptor, of each lane
  const uint64_t* b;
  Mask adds;                     // lanes that keep D
  uint32_t* const* d;
  uint32_t writer;  // site that may have written one of the registers without a fence since
};
void multiply_group(Warp* w, uint32_t site, const GroupProduct& product, const GroupOperands& x);
// `d` and `held` are undefined bits: an element of D is undefined where one of its row of A, or of its
// column of B, is, or D was and is added.
void multiply_group_undefined(Warp* w, uint32_t site, const GroupProduct& product,
                              const GroupOperands& x);
void group_fence(Warp* w, uint32_t site);
void group_commit(Warp* w, uint32_t site);
void group_wait(Warp* w, uint32_t site, uint32_t groups_left);

// An instruction reads the first registers and writes the others.
void touch_registers(Warp* w, uint32_t site, Mask lanes, const uint16_t* numbers, uint32_t reads,
                     uint32_t writes);
// The compiler's moves, in order: what they move is not used yet.
constexpr uint16_t kNoRegister = 0xffff;
struct RegisterMove {
  uint16_t to, from;
  bool joins;  // the register has other sources too
};
void move_registers(Warp* w, Mask lanes, const RegisterMove* moves, uint32_t count);

}  // namespace emu
