// Launches of which some blocks stand for all.
#include "harness.h"

namespace test::sampling {
namespace {

constexpr uint32_t kManyBlocks = 4000;
constexpr uint32_t kFewBlocks = 20;
constexpr uint32_t kThreads = 64;
constexpr uint32_t kBusyLoads = 4000;
constexpr uint32_t kIdleLoads = 200;
constexpr uint64_t kBytes = uint64_t{4} * kManyBlocks * kThreads;

void address_own(Warp* w, uint32_t parameter) {
  const uint32_t base = w->block->linear * w->launch->block[0];
  each(w, regs(w).address, [&](uint32_t t) { return param<uint64_t>(w, parameter) + 4 * (base + t); });
}

// Copies its own part, and reads what every block does.
void copy_and_share(Warp* w, Mask m, uint32_t) {
  Regs& r = regs(w);
  each(w, r.address, [&](uint32_t t) { return param<uint64_t>(w, 2) + 4 * t; });
  load_g(w, 6, m, r.b);
  address_own(w, 0);
  load_g(w, 0, m, r.a);
  address_own(w, 1);
  store_g(w, 1, m, r.a);
  leave(w, m);
}

// Reads a word of the output that only the first block has written.
void read_of_the_first(Warp* w, Mask m, uint32_t) {
  Regs& r = regs(w);
  address_own(w, 1);
  if (w->block->linear == 0) store_g(w, 1, m, r.a);
  each(w, r.address, [&](uint32_t) { return param<uint64_t>(w, 1) + 4 * (kBytes / 8); });
  if (w->block->linear != 0) load_g(w, 0, m, r.b);
  leave(w, m);
}

// The first blocks of the grid do much work each, those behind them little.
template <uint32_t kBusyBlocks>
void work_in_two_kinds(Warp* w, Mask m, uint32_t) {
  address_own(w, 0);
  const uint32_t loads = w->block->linear < kBusyBlocks ? kBusyLoads : kIdleLoads;
  for (uint32_t i = 0; i < loads; ++i) load_g(w, 0, m, regs(w).a);
  address_own(w, 1);
  store_g(w, 1, m, regs(w).a);
  leave(w, m);
}

Scenario many(Status (*kernel)(Warp*), bool steers, bool pooled, uint32_t blocks = kManyBlocks) {
  return [=](Call& c) {
    declared.steers = steers;
    if (blocks == kFewBlocks) declared.sample_cost = 1 << 20;
    const uint64_t bytes = uint64_t{4} * blocks * kThreads;
    c.buffer(8192, BufferRole::in);
    const uint64_t in = c.buffer(bytes, BufferRole::in);
    if (pooled) c.fill_from_the_one_before();
    const uint64_t out = c.buffer(bytes);
    const uint64_t shared = c.buffer(4 * kThreads, BufferRole::in);
    c.begin();
    c.launch(kernel, blocks, kThreads, {in, out, shared});
  };
}

Register all[] = {
    {"many_blocks_copy", many(run<copy_and_share>, false, false)},
    {"many_blocks_copy_pages", many(run<copy_and_share>, false, true)},
    {"few_blocks_copy_pages", many(run<copy_and_share>, false, true, kFewBlocks)},
    {"many_blocks_mostly_busy", many(run<work_in_two_kinds<2857>>, false, false)},
    {"many_blocks_few_busy", many(run<work_in_two_kinds<150>>, false, false)},
    {"many_blocks_read_one", many(run<read_of_the_first>, false, false)},
    {"many_blocks_go_by_one", many(run<read_of_the_first>, true, false)},
};

}  // namespace
}  // namespace test::sampling
