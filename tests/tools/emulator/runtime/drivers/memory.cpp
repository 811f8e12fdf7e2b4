// Bounds, alignment, initialisation.
#include "harness.h"

namespace test::memory {
namespace {

// p0[i * p1 + p2] = 7 for the first p3 threads of the grid.
void fill(Warp* w, Mask m, uint32_t) {
  Regs& r = regs(w);
  uint32_t base = w->block->linear * w->launch->block[0];
  each(w, r.address, [&](uint32_t t) {
    return param<uint64_t>(w, 0) + (base + t) * param<uint64_t>(w, 1) + param<uint64_t>(w, 2);
  });
  each(w, r.a, [](uint32_t) { return 7; });
  Mask in = where(w, m, [&](uint32_t t) { return base + t < param<uint64_t>(w, 3); });
  if (in != 0) store_g(w, 1, in, r.a);
  leave(w, m);
}

// Reads p0[i + p1] and writes it to p2[i].
void copy(Warp* w, Mask m, uint32_t) {
  Regs& r = regs(w);
  uint32_t base = w->block->linear * w->launch->block[0];
  each(w, r.address, [&](uint32_t t) {
    return param<uint64_t>(w, 0) + 4 * (base + t + param<int64_t>(w, 1));
  });
  load_g(w, 0, m, r.a);
  each(w, r.address, [&](uint32_t t) { return param<uint64_t>(w, 2) + 4 * (base + t); });
  store_g(w, 1, m, r.a);
  leave(w, m);
}

void load_pair(Warp* w, Mask m, uint32_t) {
  Regs& r = regs(w);
  each(w, r.address, [&](uint32_t t) { return param<uint64_t>(w, 0) + 8 * t; });
  uint32_t* const to[2] = {r.a, r.b};
  load_global<uint32_t, 2>(w, 0, m, r.address, param<int64_t>(w, 1), to);
  each(w, r.address, [&](uint32_t t) { return param<uint64_t>(w, 2) + 4 * t; });
  store_g(w, 1, m, r.b);
  leave(w, m);
}

// Writes shared[t], then reads shared[p0 * t + p1].
void shared_read(Warp* w, Mask m, uint32_t) {
  Regs& r = regs(w);
  each(w, r.low, [](uint32_t t) { return 4 * t; });
  each(w, r.a, [](uint32_t t) { return t; });
  store_s(w, 3, m, r.a);
  each(w, r.low, [&](uint32_t t) { return param<uint64_t>(w, 0) * t + param<uint64_t>(w, 1); });
  met(w, m);
  load_s(w, 2, m, r.b);
  leave(w, m);
}

// Bytes: writes byte p0 of each word, reads byte p1 of it.
void shared_bytes(Warp* w, Mask m, uint32_t) {
  Regs& r = regs(w);
  uint8_t value[kLanes] = {};
  const uint8_t* const in[1] = {value};
  uint8_t* const out[1] = {value};
  each(w, r.low, [](uint32_t t) { return 4 * t; });
  store_shared<uint8_t, 1>(w, 3, m, r.low, param<int64_t>(w, 0), in);
  load_shared<uint8_t, 1>(w, 2, m, r.low, param<int64_t>(w, 1), out);
  leave(w, m);
}

void local_write(Warp* w, Mask m, uint32_t) {
  Regs& r = regs(w);
  each(w, r.low, [&](uint32_t) { return param<uint64_t>(w, 0); });
  each(w, r.a, [](uint32_t t) { return t + 100; });
  const uint32_t* const in[1] = {r.a};
  store_local<uint32_t, 1>(w, 3, m, r.low, 0, in);
  uint32_t* const out[1] = {r.b};
  load_local<uint32_t, 1>(w, 2, m, r.low, 0, out);
  each(w, r.address, [&](uint32_t t) { return param<uint64_t>(w, 1) + 4 * t; });
  store_g(w, 1, m, r.b);
  leave(w, m);
}

void copy_async(Warp* w, Mask m, uint32_t) {
  Regs& r = regs(w);
  each(w, r.address, [&](uint32_t t) { return param<uint64_t>(w, 0) + 4 * t; });
  each(w, r.low, [](uint32_t t) { return 4 * t; });
  async_copy(w, 7, m, r.low, 0, r.address, 0, 4, nullptr);
  async_commit(w, m);
  uint64_t groups_left = param<uint64_t>(w, 2);
  if (groups_left != 99) async_wait(w, m, static_cast<uint32_t>(groups_left));
  load_s(w, 2, m, r.a);
  each(w, r.address, [&](uint32_t t) { return param<uint64_t>(w, 1) + 4 * t; });
  store_g(w, 1, m, r.a);
  leave(w, m);
}

// Stores and loads by generic addresses: lanes below 8 local, below 16 shared, the rest global.
void generic(Warp* w, Mask m, uint32_t) {
  Regs& r = regs(w);
  each(w, r.address, [&](uint32_t t) {
    if (t < 8) return kLocalWindow | 4u;
    if (t < 16) return kSharedWindow | (4 * t);
    return param<uint64_t>(w, 0) + 4 * t;
  });
  each(w, r.a, [](uint32_t t) { return 3 * t; });
  const uint32_t* const in[1] = {r.a};
  store_generic<uint32_t, 1>(w, 1, m, r.address, 0, in);
  uint32_t* const out[1] = {r.b};
  load_generic<uint32_t, 1>(w, 0, m, r.address, 0, out);
  each(w, r.address, [&](uint32_t t) { return param<uint64_t>(w, 0) + 4 * t; });
  store_g(w, 1, m, r.b);
  leave(w, m);
}

void through_pointer(Warp* w, Mask m, uint32_t) {
  Regs& r = regs(w);
  each(w, r.address, [&](uint32_t) { return w->launch->variables[2]; });
  uint64_t where[kLanes];
  uint64_t* const to[1] = {where};
  load_global<uint64_t, 1>(w, 0, m, r.address, 0, to);
  uint32_t* const out[1] = {r.a};
  load_const<uint32_t, 1>(w, 0, m, where, 0, out);
  each(w, r.address, [&](uint32_t t) { return param<uint64_t>(w, 0) + 4 * t; });
  store_g(w, 1, m, r.a);
  leave(w, m);
}

Register all[] = {
    {"vector_add_without_guard",
     [](Call& c) {
       uint64_t out = c.buffer(4000);
       c.begin();
       c.launch(run<fill>, 4, 256, {out, 4, 0, 1024});
     }},
    {"vector_add_with_guard",
     [](Call& c) {
       uint64_t out = c.buffer(4000);
       c.begin();
       c.launch(run<fill>, 4, 256, {out, 4, 0, 1000});
     }},
    {"strided_write_misaligned",
     [](Call& c) {
       uint64_t out = c.buffer(4096);
       c.begin();
       c.launch(run<fill>, 1, 32, {out, 8, 2, 32});
     }},
    {"strided_write",
     [](Call& c) {
       uint64_t out = c.buffer(4096);
       c.begin();
       c.launch(run<fill>, 1, 32, {out, 8, 4, 32});
     }},
    {"read_before_the_start",
     [](Call& c) {
       uint64_t in = c.buffer(128, BufferRole::in);
       uint64_t out = c.buffer(128);
       c.begin();
       c.launch(run<copy>, 1, 32, {in, ~uint64_t{0}, out});
     }},
    {"read_of_unwritten_output",
     [](Call& c) {
       uint64_t scratch = c.buffer(256);
       uint64_t out = c.buffer(128);
       c.begin();
       c.launch(run<fill>, 1, 16, {scratch, 4, 0, 16});
       c.launch(run<copy>, 1, 32, {scratch, 0, out});
     }},
    {"read_of_written_output",
     [](Call& c) {
       uint64_t scratch = c.buffer(256);
       uint64_t out = c.buffer(128);
       c.begin();
       c.launch(run<fill>, 1, 32, {scratch, 4, 0, 32});
       c.launch(run<copy>, 1, 32, {scratch, 0, out});
     }},
    {"read_of_unwritten_scratch",
     [](Call& c) {
       uint64_t out = c.buffer(128);
       c.begin();
       uint64_t scratch = device_malloc(256);
       device_set(scratch, 0, 64);
       c.launch(run<copy>, 1, 32, {scratch, 0, out});
     }},
    {"read_of_cleared_scratch",
     [](Call& c) {
       uint64_t out = c.buffer(128);
       c.begin();
       uint64_t scratch = device_malloc(256);
       device_set(scratch, 0, 128);
       c.launch(run<copy>, 1, 32, {scratch, 0, out});
     }},
    {"read_of_freed_scratch",
     [](Call& c) {
       uint64_t out = c.buffer(128);
       c.begin();
       uint64_t scratch = device_malloc(256);
       device_set(scratch, 0, 256);
       device_free(scratch);
       c.launch(run<copy>, 1, 32, {scratch, 0, out});
     }},
    {"quota",
     [](Call& c) {
       c.begin();
       if (device_malloc(1 << 19) == 0) std::abort();
       if (device_malloc(1 << 20) != 0) std::abort();
     }},
    {"pair_misaligned",
     [](Call& c) {
       uint64_t in = c.buffer(512, BufferRole::in);
       uint64_t out = c.buffer(128);
       c.begin();
       c.launch(run<load_pair>, 1, 32, {in, 4, out});
     }},
    {"pair_aligned",
     [](Call& c) {
       uint64_t in = c.buffer(512, BufferRole::inout);
       uint64_t out = c.buffer(128);
       c.begin();
       c.launch(run<fill>, 1, 128, {in, 4, 0, 128});
       c.launch(run<load_pair>, 1, 32, {in, 8, out});
     }},
    {"shared_out_of_bounds",
     [](Call& c) {
       c.begin();
       c.launch(run<shared_read>, 1, 128, {36, 0}, 512);
     }},
    {"shared_at_the_end",
     [](Call& c) {
       c.begin();
       c.launch(run<shared_read>, 1, 32, {0, 124}, 128);
     }},
    {"shared_misaligned",
     [](Call& c) {
       c.begin();
       c.launch(run<shared_read>, 1, 32, {2, 0}, 512);
     }},
    {"shared_never_written",
     [](Call& c) {
       c.begin();
       c.launch(run<shared_read>, 1, 32, {4, 4}, 512);
     }},
    {"shared_own_word",
     [](Call& c) {
       c.begin();
       c.launch(run<shared_read>, 1, 32, {4, 0}, 512);
     }},
    {"shared_other_byte",
     [](Call& c) {
       c.begin();
       c.launch(run<shared_bytes>, 1, 32, {1, 2});
     }},
    {"shared_same_byte",
     [](Call& c) {
       c.begin();
       c.launch(run<shared_bytes>, 1, 32, {2, 2});
     }},
    {"local_out_of_bounds",
     [](Call& c) {
       uint64_t out = c.buffer(128);
       c.begin();
       c.launch(run<local_write>, 1, 32, {32, out});
     }},
    {"local_private",
     [](Call& c) {
       uint64_t out = c.buffer(128);
       c.begin();
       c.launch(run<local_write>, 1, 32, {28, out});
     }},
    {"copy_async_without_wait",
     [](Call& c) {
       uint64_t in = c.buffer(128, BufferRole::inout);
       uint64_t out = c.buffer(128);
       c.begin();
       c.launch(run<fill>, 1, 32, {in, 4, 0, 32});
       c.launch(run<copy_async>, 1, 32, {in, out, 99});
     }},
    {"copy_async_waits_for_too_few",
     [](Call& c) {
       uint64_t in = c.buffer(128, BufferRole::inout);
       uint64_t out = c.buffer(128);
       c.begin();
       c.launch(run<copy_async>, 1, 32, {in, out, 1});
     }},
    {"copy_async_with_wait",
     [](Call& c) {
       uint64_t in = c.buffer(128, BufferRole::inout);
       uint64_t out = c.buffer(128);
       c.begin();
       c.launch(run<fill>, 1, 32, {in, 4, 0, 32});
       c.launch(run<copy_async>, 1, 32, {in, out, 0});
     }},
    {"generic_addresses",
     [](Call& c) {
       uint64_t out = c.buffer(128);
       c.begin();
       c.launch(run<generic>, 1, 32, {out});
     }},
    {"relocated_pointer",
     [](Call& c) {
       uint64_t out = c.buffer(128);
       c.begin();
       c.launch(run<through_pointer>, 1, 32, {out});
     }},
    {"store_to_constant",
     [](Call& c) {
       c.begin();
       c.launch(run<fill>, 1, 1, {variable_address(1), 4, 0, 1});
     }},
    {"host_reads_device_memory",
     [](Call& c) {
       uint64_t out = c.buffer(128);
       c.begin();
       volatile uint32_t* pointer = reinterpret_cast<uint32_t*>(out);
       settings.level = pointer[3];
     }},
    {"host_reads_nothing",
     [](Call& c) {
       c.begin();
       volatile uint32_t* pointer = reinterpret_cast<uint32_t*>(8 * (settings.seed + 1));
       settings.level = pointer[0];
     }},
};

}  // namespace
}  // namespace test::memory
