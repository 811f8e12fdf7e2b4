// Products and matrices, of any bits and in any order, for the sanitizers.
#include "emu/tensor.h"
#include "harness.h"

namespace test::tensor {
namespace {

struct Bits {
  uint64_t state;
  uint32_t next() {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(state >> 32);
  }
};

void multiply_anything(Warp* w, Mask, uint32_t) {
  constexpr Element kFloats[] = {Element::f16, Element::bf16, Element::tf32, Element::e4m3,
                                 Element::e5m2};
  alignas(64) uint32_t a[8][kLanes], b[8][kLanes], c[8][kLanes], d[8][kLanes];
  alignas(64) uint64_t wide[8][kLanes];
  void* target[8];
  const void *left[8], *right[8], *held[8];
  const void* doubles[8];
  Bits bits{w->launch->params[0]};
  for (int round = 0; round < 40; ++round) {
    for (int r = 0; r < 8; ++r) {
      for (int i = 0; i < kLanes; ++i) {
        a[r][i] = bits.next();
        b[r][i] = bits.next();
        c[r][i] = bits.next();
        wide[r][i] = uint64_t{bits.next()} << 32 | bits.next();
      }
      target[r] = d[r];
      left[r] = a[r];
      right[r] = b[r];
      held[r] = c[r];
      doubles[r] = wide[r];
    }
    for (const Element element : kFloats) {
      const bool byte = element == Element::e4m3 || element == Element::e5m2;
      const uint32_t k = byte ? 32 : element == Element::tf32 ? 8 : 16;
      for (const Element sum : {Element::f32, Element::f16}) {
        multiply({16, 8, k, element, element, sum, sum, k, false}, left, right, held, target);
        if (byte || element == Element::tf32) continue;
        for (const uint32_t m : {8u, 16u, 32u}) {
          multiply({m, 256 / m, 16, element, element, sum, sum, 16, false}, left, right, held, target);
        }
      }
    }
    for (const bool saturates : {false, true}) {
      multiply({16, 8, 32, Element::s8, Element::u8, Element::s32, Element::s32, 32, saturates}, left,
               right, held, target);
    }
    void* sums[8];
    for (int r = 0; r < 8; ++r) sums[r] = wide[r];
    multiply({16, 8, 16, Element::f64, Element::f64, Element::f64, Element::f64, 16, false}, doubles,
             doubles, doubles, sums);
  }
  leave(w, ~Mask{0});
}

void move_matrices(Warp* w, Mask m, uint32_t) {
  alignas(64) uint32_t held[8][kLanes];
  void* to[8];
  const void* from[8];
  uint32_t* four[4];
  for (int r = 0; r < 8; ++r) {
    for (uint32_t i = 0; i < kLanes; ++i) held[r][i] = i * 77u + static_cast<uint32_t>(r);
    to[r] = held[r];
    from[r] = held[r];
    if (r < 4) four[r] = held[r];
  }
  each(w, regs(w).low, [](uint32_t t) { return t * 16; });
  store_matrices<uint32_t>(w, 3, 4, false, regs(w).low, 0, four);
  for (const uint32_t count : {1u, 2u, 4u}) {
    load_matrices<uint32_t>(w, 2, count, count == 2, regs(w).low, 0, four);
  }
  transpose_matrix(held[0], held[1]);
  each(w, regs(w).low, [](uint32_t) { return 0; });
  const Tile sums = {16, 16, 16, Role::accumulator, Element::f32, true, 8};
  const Tile factors = {32, 8, 16, Role::a, Element::f16, true, 8};
  const Tile bytes = {16, 16, 16, Role::b, Element::s8, true, 2};
  whole_warp(w, 4, m);
  store_tile<uint32_t>(w, 3, sums, Space::shared, regs(w).low, 0, nullptr, 16, from);
  load_tile<uint32_t>(w, 2, sums, Space::shared, regs(w).low, 0, nullptr, 16, to);
  load_tile<uint32_t>(w, 2, factors, Space::shared, regs(w).low, 0, nullptr, 16, to);
  load_tile<uint32_t>(w, 2, bytes, Space::shared, regs(w).low, 0, nullptr, 16, to);
  each(w, regs(w).address, [&](uint32_t) { return param<uint64_t>(w, 0); });
  store_tile<uint64_t>(w, 1, sums, Space::global, regs(w).address, 0, nullptr, 16, from);
  load_tile<uint64_t>(w, 0, sums, Space::generic, regs(w).address, 0, nullptr, 16, to);
  leave(w, ~Mask{0});
}

template <Step step>
void one_warp(Call& call) {
  const uint64_t buffer = call.buffer(4096);
  call.begin();
  call.launch(&run<step>, 1, 32, {buffer});
}

void part_of_a_warp(Warp* w, Mask m, uint32_t) { whole_warp(w, 4, m & 0xffff); }

Register all[] = {
    {"products_of_any_bits", one_warp<multiply_anything>},
    {"matrices_move", one_warp<move_matrices>},
    {"part_of_a_warp_multiplies", one_warp<part_of_a_warp>},
};

}  // namespace
}  // namespace test::tensor
