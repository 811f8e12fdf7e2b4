// Products of a warpgroup: descriptors of any bits, registers that are under way, warps that are missing.
#include "emu/asynchronous.h"
#include "emu/wgmma.h"

#include "harness.h"

namespace test::wgmma {
namespace {

enum Flaw : uint64_t {
  honest,
  any_descriptor,
  touched,
  no_commit,
  no_fence,
  changed,
  three_warps,
  unlike,
  overwritten,
  unfenced_store,
  held_a,
};

constexpr uint32_t kColumns = 40;
constexpr uint32_t kResults = kColumns / 2;
constexpr uint32_t kTileBytes = 2048;  // of A; B lies behind it

struct Bits {
  uint64_t state;
  uint64_t next() {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return state ^ state >> 31;
  }
};

// Without a swizzle: 8 rows of 16 bytes lie together, the other half of K `leading` bytes on.
uint64_t describe(uint32_t at, uint32_t leading) {
  return at >> 4 | uint64_t{leading} >> 4 << 16 | uint64_t{128} >> 4 << 32;
}

void product(Warp* w, uint32_t adds, uint64_t flaw, Element element, uint32_t k, uint32_t writer) {
  static uint32_t sums[8][kResults][kLanes];
  static uint32_t held[4][kLanes];
  alignas(64) uint64_t a[kLanes], b[kLanes];
  uint16_t numbers[kResults + 4];
  uint32_t* d[kResults];
  const uint32_t* parts[] = {held[0], held[1], held[2], held[3]};
  for (uint16_t i = 0; i < kResults + 4; ++i) numbers[i] = i;
  for (uint32_t i = 0; i < kResults; ++i) d[i] = sums[w->index % 8][i];
  Bits bits{param<uint64_t>(w, 2) + adds};
  const uint64_t wild_a = bits.next(), wild_b = bits.next();
  for (int i = 0; i < kLanes; ++i) {
    a[i] = flaw == any_descriptor ? wild_a & 0xc00e3fff3fff3fff : describe(0, 1024);
    b[i] = flaw == any_descriptor ? wild_b & 0xc00e003f003f007f : describe(kTileBytes, 16 * kColumns);
    if (flaw == unlike && w->index == 2) b[i] = a[i];
  }
  const Element sum = element == Element::s8 ? Element::s32 : Element::f32;
  const GroupProduct p = {kColumns, k, element, element, sum, false, true, flaw == any_descriptor,
                          false, false};
  multiply_group(w, 2, p, {numbers, flaw == held_a ? parts : nullptr, a, b, adds != 0 ? ~Mask{0} : 0, d, writer});
}

// p0: where the first sum of each thread goes; p1: the flaw; p2: noise.
void group(Warp* w, Mask m, uint32_t pc) {
  Regs& r = regs(w);
  const auto flaw = param<uint64_t>(w, 1);
  if (pc == 0) {
    for (uint32_t i = 0; i < 32; ++i) {
      each(w, r.low, [&](uint32_t t) { return 4 * (t + 128 * i) % 4096; });
      each(w, r.a, [&](uint32_t t) { return (t * 7 + i) % 3 == 0 ? 0x3c003c00u : 0x40003c00u; });
      store_s(w, 3, m, r.a);
    }
    if (flaw != unfenced_store) fence_for_copies(w, m);
    return sync(w, 4, m, 1);
  }
  if (flaw == three_warps && w->index == 3) return leave(w, m);
  if (flaw != no_fence) group_fence(w, 4);
  for (const Element element : {Element::f16, Element::bf16, Element::tf32, Element::e4m3, Element::s8}) {
    const uint32_t k = element == Element::tf32 ? 8 : element < Element::tf32 ? 16 : 32;
    product(w, element != Element::f16, flaw, element, k, kNoWriter);
  }
  if (flaw != no_commit) group_commit(w, 4);
  const uint16_t first[] = {3, kResults};
  const RegisterMove moves[] = {{100, 3, false}, {101, 100, false}, {101, kNoRegister, true}};
  move_registers(w, m, moves, 3);
  const uint16_t moved[] = {101};
  if (flaw == touched) touch_registers(w, 5, m, moved, 1, 0);
  if (flaw == overwritten) {
    each(w, r.low, [](uint32_t t) { return 4 * t; });
    each(w, r.a, [](uint32_t) { return 7; });
    store_s(w, 3, m, r.a);
  }
  group_wait(w, 4, 0);
  touch_registers(w, 6, m, first, 1, 1);
  touch_registers(w, 6, m, moved, 1, 0);
  if (flaw == changed) product(w, 1, flaw, Element::f16, 16, 6);
  each(w, r.address, [&](uint32_t t) { return param<uint64_t>(w, 0) + 4 * t; });
  store_g(w, 1, m, r.a);
  leave(w, m);
}

Scenario groups(Flaw flaw, uint64_t noise = 1, uint32_t threads = 128) {
  return [flaw, noise, threads](Call& c) {
    const uint64_t out = c.buffer(4096);
    c.begin();
    c.launch(run<group>, 2, threads, {out, flaw, noise});
  };
}

Register all[] = {
    {"group_honest", groups(honest)},
    {"group_of_held_rows", groups(held_a)},
    {"group_any_descriptor", groups(any_descriptor, 2)},
    {"group_another_descriptor", groups(any_descriptor, 3)},
    {"group_last_descriptor", groups(any_descriptor, 9)},
    {"group_touched", groups(touched)},
    {"group_no_commit", groups(no_commit)},
    {"group_no_fence", groups(no_fence)},
    {"group_changed", groups(changed)},
    {"group_three_warps", groups(three_warps)},
    {"group_of_three", groups(honest, 1, 96)},
    {"group_unlike", groups(unlike)},
    {"group_overwritten", groups(overwritten)},
    {"group_unfenced_store", groups(unfenced_store)},
};

}  // namespace
}  // namespace test::wgmma
