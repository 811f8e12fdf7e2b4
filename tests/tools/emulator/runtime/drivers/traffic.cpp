// Counters against figures worked out by hand.
#include "harness.h"

namespace test::traffic {
namespace {

// p0 + p1 * t, each thread 4 bytes.
void strided(Warp* w, Mask m, uint32_t) {
  Regs& r = regs(w);
  uint32_t base = w->block->linear * w->launch->block[0];
  each(w, r.address, [&](uint32_t t) {
    return param<uint64_t>(w, 0) + (base + t) * param<uint64_t>(w, 1);
  });
  load_g(w, 0, m, r.a);
  leave(w, m);
}

void wide(Warp* w, Mask m, uint32_t) {
  Regs& r = regs(w);
  each(w, r.address, [&](uint32_t t) { return param<uint64_t>(w, 0) + 16 * t; });
  uint32_t* const to[4] = {r.a, r.b, r.c, r.d};
  load_global<uint32_t, 4>(w, 0, m, r.address, 0, to);
  leave(w, m);
}

// Thread t accesses shared word p0 * t (mod p1 words).
void shared_column(Warp* w, Mask m, uint32_t) {
  Regs& r = regs(w);
  each(w, r.low,
       [&](uint32_t t) { return 4 * (t * param<uint64_t>(w, 0) % param<uint64_t>(w, 1)); });
  each(w, r.a, [](uint32_t t) { return t; });
  store_s(w, 3, m, r.a);
  leave(w, m);
}

void shared_wide(Warp* w, Mask m, uint32_t) {
  Regs& r = regs(w);
  each(w, r.low, [&](uint32_t t) { return 16 * (t % param<uint64_t>(w, 0)); });
  const uint32_t* const in[4] = {r.a, r.b, r.c, r.d};
  store_shared<uint32_t, 4>(w, 3, m, r.low, 0, in);
  leave(w, m);
}

void atomics(Warp* w, Mask m, uint32_t) {
  Regs& r = regs(w);
  each(w, r.address, [&](uint32_t t) { return param<uint64_t>(w, 0) + 4 * (t % 5); });
  each(w, r.a, [](uint32_t) { return 1; });
  atomic(w, 6, m, Space::global, AtomOp::add, AtomType::u32, r.address, 0, r.a, nullptr, nullptr);
  leave(w, m);
}

// Every block reads the same 4096 bytes.
void reread(Warp* w, Mask m, uint32_t pc) {
  Regs& r = regs(w);
  each(w, r.address, [&](uint32_t t) { return param<uint64_t>(w, 0) + 4 * t + 128 * pc; });
  load_g(w, 0, m, r.a);
  if (pc == 0) {
    send(w, m, 1);
  } else {
    leave(w, m);
  }
}

template <Step step>
Scenario reading(uint32_t blocks, uint32_t threads, uint64_t bytes, uint64_t argument) {
  return [=](Call& c) {
    uint64_t in = c.buffer(bytes, BufferRole::in);
    c.begin();
    c.launch(run<step>, blocks, threads, {in, argument});
  };
}

template <Step step>
Scenario in_shared(uint64_t first, uint64_t second) {
  return [=](Call& c) {
    c.begin();
    c.launch(run<step>, 1, 32, {first, second}, 16384);
  };
}

Register all[] = {
    {"coalesced", reading<strided>(2, 64, 512, 4)},
    {"stride_8", reading<strided>(2, 64, 1024, 8)},
    {"stride_32", reading<strided>(2, 64, 4096, 32)},
    {"broadcast", reading<strided>(2, 64, 512, 0)},
    {"tail", reading<strided>(1, 40, 512, 4)},
    {"float4", reading<wide>(1, 32, 512, 0)},
    {"strided", reading<strided>(1000, 64, 256000, 4)},
    {"rereads", reading<reread>(1000, 32, 4096, 0)},
    {"column_unpadded", in_shared<shared_column>(32, 4096)},
    {"column_padded", in_shared<shared_column>(33, 4096)},
    {"row", in_shared<shared_column>(1, 4096)},
    {"two_ways", in_shared<shared_column>(2, 4096)},
    {"shared_float4", in_shared<shared_wide>(32, 0)},
    {"shared_float4_broadcast", in_shared<shared_wide>(1, 0)},
    {"atomics_on_five_words",
     [](Call& c) {
       uint64_t words = c.buffer(64, BufferRole::inout);
       c.begin();
       c.launch(run<atomics>, 1, 32, {words});
     }},
};

}  // namespace
}  // namespace test::traffic
