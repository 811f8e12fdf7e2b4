// Races in shared and global memory. Every kernel: phase 0 writes or updates, phase 1 reads or writes; p0 says
// whether a barrier stands between them.
#include "harness.h"

namespace test::races {
namespace {

using Phase = void (*)(Warp*, Mask);

template <Phase first, Phase second>
void phases(Warp* w, Mask m, uint32_t pc) {
  if (pc == 0) {
    first(w, m);
    if (param<uint64_t>(w, 0) != 0) {
      sync(w, 4, m, 1);
    } else {
      send(w, m, 1);
    }
    return;
  }
  second(w, m);
  leave(w, m);
}

void write_own(Warp* w, Mask m) {
  Regs& r = regs(w);
  each(w, r.low, [](uint32_t t) { return 4 * t; });
  each(w, r.a, [](uint32_t t) { return t + 1; });
  store_s(w, 3, m, r.a);
}
void write_own_and_meet(Warp* w, Mask m) {
  write_own(w, m);
  met(w, m);
}
void write_own_and_meet_in_halves(Warp* w, Mask m) {
  write_own(w, m);
  met(w, m & 0xffff);
  met(w, m & 0xffff0000);
}
void write_own_lane(Warp* w, Mask m) {
  Regs& r = regs(w);
  each(w, r.low, [](uint32_t t) { return 4 * (t % 32); });
  each(w, r.a, [](uint32_t t) { return t + 1; });
  store_s(w, 3, m, r.a);
}
void write_one(Warp* w, Mask m) {
  Regs& r = regs(w);
  each(w, r.low, [](uint32_t) { return 0; });
  each(w, r.a, [](uint32_t) { return 5; });
  store_s(w, 3, m, r.a);
}
void nothing(Warp*, Mask) {}
void read_own(Warp* w, Mask m) {
  load_s(w, 2, m, regs(w).b);
}
void read_in_warp(Warp* w, Mask m) {
  Regs& r = regs(w);
  each(w, r.low, [](uint32_t t) { return 4 * (t ^ 1); });
  load_s(w, 2, m, r.b);
}
void read_reversed(Warp* w, Mask m) {
  Regs& r = regs(w);
  uint32_t threads = w->launch->block[0];
  each(w, r.low, [&](uint32_t t) { return 4 * (threads - 1 - t); });
  load_s(w, 2, m, r.b);
}
void write_reversed(Warp* w, Mask m) {
  Regs& r = regs(w);
  uint32_t threads = w->launch->block[0];
  each(w, r.low, [&](uint32_t t) { return 4 * (threads - 1 - t); });
  each(w, r.a, [](uint32_t t) { return t + 1; });
  store_s(w, 3, m, r.a);
}
// Warp 0 reads what everybody wrote before the first barrier; then warp 1 overwrites it.
void initialise_and_wait(Warp* w, Mask m, uint32_t pc) {
  Regs& r = regs(w);
  if (pc == 0) {
    write_own(w, m);
    sync(w, 4, m, 1);
    return;
  }
  if (pc == 1) {
    each(w, r.low, [](uint32_t t) { return 4 * (t % 32); });
    if (w->index == 0) load_s(w, 2, m, r.b);
    if (param<uint64_t>(w, 0) != 0) {
      sync(w, 4, m, 2);
    } else {
      send(w, m, 2);
    }
    return;
  }
  each(w, r.low, [](uint32_t t) { return 4 * (t % 32); });
  if (w->index == 1) store_s(w, 3, m, r.a);
  leave(w, m);
}
// Warps write neighbouring bytes of the same words.
void write_bytes(Warp* w, Mask m) {
  Regs& r = regs(w);
  uint8_t value[kLanes];
  each(w, value, [](uint32_t t) { return t; });
  each(w, r.low, [](uint32_t t) { return 4 * (t % 32) + t / 32; });
  const uint8_t* const in[1] = {value};
  store_shared<uint8_t, 1>(w, 3, m, r.low, 0, in);
}
void read_bytes(Warp* w, Mask m) {
  uint8_t value[kLanes];
  uint8_t* const out[1] = {value};
  load_shared<uint8_t, 1>(w, 2, m, regs(w).low, 0, out);
}
void clear_by_first(Warp* w, Mask m) {
  Regs& r = regs(w);
  each(w, r.low, [](uint32_t t) { return 4 * t; });
  each(w, r.a, [](uint32_t) { return 0; });
  if (w->index == 0) store_s(w, 3, m, r.a);
}
void count_atomically(Warp* w, Mask m) {
  Regs& r = regs(w);
  each(w, r.address, [](uint32_t t) { return 4 * (t % 8); });
  each(w, r.a, [](uint32_t) { return 1; });
  atomic(w, 6, m, Space::shared, AtomOp::add, AtomType::u32, r.address, 0, r.a, nullptr, nullptr);
}
void read_counts(Warp* w, Mask m) {
  Regs& r = regs(w);
  each(w, r.low, [](uint32_t t) { return 4 * (t % 8); });
  load_s(w, 2, m, r.b);
}
// Clear, barrier, count, (p0: barrier,) read.
void histogram(Warp* w, Mask m, uint32_t pc) {
  if (pc == 0) {
    clear_by_first(w, m);
    sync(w, 4, m, 1);
  } else if (pc == 1) {
    count_atomically(w, m);
    if (param<uint64_t>(w, 0) != 0) {
      sync(w, 4, m, 2);
    } else {
      send(w, m, 2);
    }
  } else {
    read_counts(w, m);
    leave(w, m);
  }
}
// Warp 0 publishes shared[1..31] and raises the flag shared[0]; warp 1 spins on the flag.
void flag(Warp* w, Mask m, uint32_t pc) {
  Regs& r = regs(w);
  if (pc == 0) {
    clear_by_first(w, m);
    sync(w, 4, m, w->index == 0 ? 1 : 2);
  } else if (pc == 1) {
    each(w, r.a, [](uint32_t t) { return t + 1; });
    store_s(w, 3, m & ~1u, r.a);
    store_s(w, 5, m & 1u, r.a);
    leave(w, m);
  } else if (pc == 2) {
    each(w, r.low, [](uint32_t) { return 0; });
    load_s(w, 0, m, r.b);
    Mask ready = where(w, m, [&](uint32_t t) { return r.b[t % 32] != 0; });
    if (ready != 0) send(w, ready, 3);
    if (ready != m) {
      send(w, m & ~ready, 2);
      out_of_fuel(w);
    }
  } else {
    each(w, r.low, [](uint32_t t) { return 4 * (t % 32); });
    load_s(w, 2, m, r.b);
    leave(w, m);
  }
}
// Producer warp 0 and consumer warp 1 meet at barrier 1 of 64 threads; warps 2 and 3 go on.
void named(Warp* w, Mask m, uint32_t pc) {
  if (pc == 0) {
    if (w->index == 0) {
      write_own(w, m);
      barrier(w, 4, m, 1, 64, true, true, Reduce::none, 0, 2);
    } else if (w->index == 1) {
      barrier(w, 4, m, 1, 64, true, false, Reduce::none, 0, 1);
    } else {
      leave(w, m);
    }
  } else if (pc == 1) {
    Regs& r = regs(w);
    each(w, r.low, [](uint32_t t) { return 4 * (t % 32); });
    load_s(w, 2, m, r.b);
    leave(w, m);
  } else {
    leave(w, m);
  }
}
void read_pairs(Warp* w, Mask m) {
  Regs& r = regs(w);
  each(w, r.low, [](uint32_t t) { return 8 * (t % 16); });
  uint32_t* const out[2] = {r.a, r.b};
  load_shared<uint32_t, 2>(w, 2, m, r.low, 0, out);
}

// Each block stores to global[1 + block]; p1: fences it, p2: in block scope; then it takes a ticket
// by an atomic addition to global[0], and the last block reads what another one has stored.
void last_block(Warp* w, Mask m, uint32_t) {
  Regs& r = regs(w);
  const uint64_t memory = param<uint64_t>(w, 0);
  const uint32_t block = w->block->linear;
  const Mask one = m & 1;
  each(w, r.address, [&](uint32_t) { return memory + 4 + 4 * block; });
  each(w, r.a, [&](uint32_t) { return block + 1; });
  store_g(w, 1, one, r.a);
  if (param<uint64_t>(w, 1) != 0) fence(w, one, param<uint64_t>(w, 2) != 0);
  each(w, r.address, [&](uint32_t) { return memory; });
  each(w, r.b, [](uint32_t) { return 1; });
  atomic(w, 6, one, Space::global, AtomOp::add, AtomType::u32, r.address, 0, r.b, nullptr, r.c);
  if (r.c[0] + 1 == w->launch->grid[0]) {
    each(w, r.address, [&](uint32_t) { return memory + 4 + 4 * (3 - block); });
    load_g(w, 0, one, r.d);
  }
  leave(w, m);
}
// Every block updates one word by the opcode of site 6.
void update(Warp* w, Mask m, uint32_t) {
  Regs& r = regs(w);
  each(w, r.address, [&](uint32_t) { return param<uint64_t>(w, 0); });
  each(w, r.b, [](uint32_t) { return 1; });
  atomic(w, 6, m, Space::global, AtomOp::add, AtomType::u32, r.address, 0, r.b, nullptr, r.c);
  leave(w, m);
}
// Plain reads of a word that others update: p1 says whether a compare-and-swap follows.
void guess(Warp* w, Mask m, uint32_t) {
  Regs& r = regs(w);
  each(w, r.address, [&](uint32_t) { return param<uint64_t>(w, 0); });
  load_g(w, 0, m, r.a);
  const AtomOp op = param<uint64_t>(w, 1) != 0 ? AtomOp::cas : AtomOp::add;
  atomic(w, 6, m, Space::global, op, AtomType::b32, r.address, 0, r.a, r.a, r.c);
  leave(w, m);
}

// As a site says of a load that only guards such an update, and of the update.
constexpr uint16_t kSwaps = 1u << static_cast<uint32_t>(AtomOp::cas);

template <Step step>
Scenario blocks(uint64_t p1, uint64_t p2, const char* opcode = "atom.global.add.u32",
                uint16_t updates = 0) {
  return [=](Call& c) {
    declared.opcodes[6] = opcode;
    declared.updates[0] = declared.updates[6] = updates;
    const uint64_t memory = c.buffer(64, BufferRole::inout);
    c.begin();
    c.launch(run<step>, 4, 32, {memory, p1, p2});
  };
}

template <Step step>
Scenario two_warps(uint64_t with_barrier) {
  return [with_barrier](Call& c) {
    c.begin();
    c.launch(run<step>, 2, 64, {with_barrier});
  };
}

Register all[] = {
    {"race_read_after_write", two_warps<phases<write_own, read_reversed>>(0)},
    {"barrier_read_after_write", two_warps<phases<write_own, read_reversed>>(1)},
    {"race_read_pairs", two_warps<phases<write_own, read_pairs>>(0)},
    {"barrier_read_pairs", two_warps<phases<write_own, read_pairs>>(1)},
    {"read_own_word", two_warps<phases<write_own, read_own>>(0)},
    {"race_read_within_warp", two_warps<phases<write_own, read_in_warp>>(0)},
    {"read_within_warp_that_met", two_warps<phases<write_own_and_meet, read_in_warp>>(0)},
    {"read_within_half_that_met", two_warps<phases<write_own_and_meet_in_halves, read_in_warp>>(0)},
    {"race_write_after_read", two_warps<initialise_and_wait>(0)},
    {"barrier_write_after_read", two_warps<initialise_and_wait>(1)},
    {"race_write_after_write", two_warps<phases<write_own_lane, nothing>>(0)},
    {"barrier_write_after_write", two_warps<phases<write_own, write_reversed>>(1)},
    {"same_value_write_after_write", two_warps<phases<write_one, write_one>>(0)},
    {"neighbouring_bytes", two_warps<phases<write_bytes, read_bytes>>(0)},
    {"race_atomic_then_read", two_warps<histogram>(0)},
    {"barrier_atomic_then_read", two_warps<histogram>(1)},
    {"race_last_block_without_fence", blocks<last_block>(0, 0)},
    {"race_last_block_with_a_fence_of_its_own", blocks<last_block>(1, 1)},
    {"last_block_behind_a_fence", blocks<last_block>(1, 0)},
    {"race_update_in_block_scope", blocks<update>(0, 0, "atom.global.cta.add.u32")},
    {"update_in_device_scope", blocks<update>(0, 0)},
    {"race_read_before_an_addition", blocks<guess>(0, 0)},
    {"read_before_a_swap", blocks<guess>(1, 0, "atom.global.cas.b32", kSwaps)},
    {"flag_spin",
     [](Call& c) {
       declared.opcodes[0] = "ld.volatile.shared.u32";
       declared.opcodes[5] = "st.volatile.shared.u32";
       c.begin();
       c.launch(run<flag>, 1, 64, {});
     }},
    {"named_barrier",
     [](Call& c) {
       c.begin();
       c.launch(run<named>, 1, 128, {});
     }},
};

}  // namespace
}  // namespace test::races
