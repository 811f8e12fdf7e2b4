// Barriers, collectives, fairness, block orders.
#include "harness.h"

namespace test::control {
namespace {

// p0: 0 if/else with a barrier each, 1 the same barrier for all, 2 early exit before the barrier,
// 3 half waits while the other half exits: the same, seen in another order.
void barriers(Warp* w, Mask m, uint32_t pc) {
  uint64_t mode = param<uint64_t>(w, 0);
  Mask even = where(w, m, [](uint32_t t) { return t % 2 == 0; });
  if (pc == 0) {
    if (mode == 2) leave(w, m & ~even);
    if (mode == 2) m &= even;
    if (mode == 1 || mode == 2) {
      send(w, m, 1);
    } else {
      send(w, even, 1);
      send(w, m & ~even, 2);
    }
  } else if (pc == 1) {
    sync(w, 4, m, 3);
  } else if (pc == 2) {
    if (mode == 3) {
      leave(w, m);
    } else {
      sync(w, 3, m, 3);
    }
  } else {
    leave(w, m);
  }
}

// Half of each warp takes the first barrier late: it must still be one barrier.
void late_half(Warp* w, Mask m, uint32_t pc) {
  Mask low = where(w, m, [](uint32_t t) { return t % 32 < 16; });
  if (pc == 0) {
    send(w, low, 2);
    if (low != m) send(w, m & ~low, 1);
  } else if (pc == 1) {
    send(w, m, 2);
  } else if (pc == 2) {
    sync(w, 4, m, 3);
  } else {
    leave(w, m);
  }
}

// Warp 0 waits at barrier 0, warp 1 at barrier 1.
void crossed(Warp* w, Mask m, uint32_t pc) {
  if (pc == 0) {
    barrier(w, w->index == 0 ? 4 : 3, m, w->index, 0, true, false, Reduce::none, 0, 1);
  } else {
    leave(w, m);
  }
}

// p0: lanes that take part in a collective of all 32; p1: 1 when it is a bar.warp.sync in both
// branches.
void collective(Warp* w, Mask m, uint32_t pc) {
  Regs& r = regs(w);
  each(w, r.a, [](uint32_t) { return 0xffffffff; });
  Mask low = where(w, m, [&](uint32_t t) { return t < param<uint64_t>(w, 0); });
  if (pc == 0) {
    if (low != 0) send(w, low, 1);
    if (low != m) send(w, m & ~low, param<uint64_t>(w, 1) != 0 ? 2 : 3);
  } else if (pc == 1 || pc == 2) {
    Mask ready = join(w, 5, m, r.a, pc);
    if (ready != 0) send(w, ready, 3);
  } else {
    leave(w, m);
  }
}

// bar.red.popc over the odd threads; the result goes to p0[thread].
void reduce(Warp* w, Mask m, uint32_t pc) {
  Regs& r = regs(w);
  if (pc == 0) {
    Mask odd = where(w, m, [](uint32_t t) { return t % 2 == 1; });
    barrier(w, 4, m, 0, 0, true, false, Reduce::popc, odd, 1);
  } else {
    each(w, r.address, [&](uint32_t t) { return param<uint64_t>(w, 0) + 4 * t; });
    each(w, r.a, [&](uint32_t) { return w->barrier_result; });
    store_g(w, 1, m, r.a);
    leave(w, m);
  }
}

void endless(Warp* w, Mask m, uint32_t pc) {
  if (pc == 0) {
    send(w, m, 5);
  } else {
    send(w, m, 5);
    out_of_fuel(w);
  }
}

void give_up(Warp* w, Mask m, uint32_t) { trap(w, 6, m, "trap"); }

// p0: lock, p1: counter. Every thread takes the lock, adds one without atomics, gives it back.
void locked(Warp* w, Mask m, uint32_t pc) {
  Regs& r = regs(w);
  each(w, r.address, [&](uint32_t) { return param<uint64_t>(w, 0); });
  each(w, r.c, [](uint32_t) { return 0; });
  each(w, r.d, [](uint32_t) { return 1; });
  if (pc == 0) {
    atomic(w, 6, m, Space::global, AtomOp::cas, AtomType::b32, r.address, 0, r.c, r.d, r.b);
    Mask got = where(w, m, [&](uint32_t t) { return r.b[t % 32] == 0; });
    if (got != 0) send(w, got, 1);
    if (got != m) {
      send(w, m & ~got, 0);
      out_of_fuel(w);
    }
  } else if (pc == 1) {
    each(w, r.address, [&](uint32_t) { return param<uint64_t>(w, 1); });
    load_g(w, 0, m, r.a);
    each(w, r.a, [&](uint32_t t) { return r.a[t % 32] + 1; });
    store_g(w, 1, m, r.a);
    send(w, m, 2);
  } else {
    store_g(w, 1, m, r.c);
    leave(w, m);
  }
}

// A chained scan: block i (by ticket p2 != 0, else by number) waits for flag p0[i - 1], then sets
// p0[i] = p0[i - 1] + 1. p1 holds the ticket.
void chain(Warp* w, Mask m, uint32_t pc) {
  Regs& r = regs(w);
  Mask one = m & 1;
  if (pc == 0) {
    r.i[0] = w->block->linear;
    each(w, r.address, [&](uint32_t) { return param<uint64_t>(w, 1); });
    each(w, r.a, [](uint32_t) { return 1; });
    if (param<uint64_t>(w, 2) != 0) {
      atomic(w, 6, one, Space::global, AtomOp::add, AtomType::u32, r.address, 0, r.a, nullptr,
             r.i);
    }
    send(w, one, 1);
    if (m != one) leave(w, m & ~one);
  } else if (pc == 1) {
    r.b[0] = 1;
    if (r.i[0] != 0) {
      each(w, r.address, [&](uint32_t) { return param<uint64_t>(w, 0) + 4 * (r.i[0] - 1); });
      load_g(w, 0, one, r.b);
    }
    send(w, one, r.b[0] != 0 ? 2 : 1);
    if (r.b[0] == 0) out_of_fuel(w);
  } else {
    r.b[0] += r.i[0] == 0 ? 0 : 1;
    each(w, r.address, [&](uint32_t) { return param<uint64_t>(w, 0) + 4 * r.i[0]; });
    store_g(w, 1, one, r.b);
    leave(w, one);
  }
}

// Every block adds one to the workspace, then spins until all have.
void grid_sync(Warp* w, Mask m, uint32_t pc) {
  Regs& r = regs(w);
  Mask one = m & 1;
  uint32_t blocks = w->launch->grid[0];
  each(w, r.address, [&](uint32_t) { return w->launch->workspace; });
  each(w, r.a, [](uint32_t) { return 1; });
  if (pc == 0) {
    sync(w, 4, m, 1);
  } else if (pc == 1) {
    Mask master = w->index == 0 ? one : 0;
    if (master != 0) {
      atomic(w, 6, master, Space::global, AtomOp::add, AtomType::u32, r.address, 0, r.a, nullptr,
             nullptr);
      send(w, master, 2);
    }
    if (m != master) send(w, m & ~master, 3);
  } else if (pc == 2) {
    load_g(w, 0, m, r.b);
    send(w, m, r.b[0] == blocks ? 3 : 2);
    if (r.b[0] != blocks) out_of_fuel(w);
  } else if (pc == 3) {
    sync(w, 4, m, 4);
  } else {
    load_g(w, 0, m, r.b);
    each(w, r.address, [&](uint32_t t) {
      return param<uint64_t>(w, 0) + 4 * (w->block->linear * w->launch->block[0] + t);
    });
    store_g(w, 1, m, r.b);
    leave(w, m);
  }
}

// p0[ticket] = block number: the order in which blocks ran.
void order(Warp* w, Mask m, uint32_t) {
  Regs& r = regs(w);
  Mask one = m & 1;
  each(w, r.address, [&](uint32_t) { return param<uint64_t>(w, 1); });
  each(w, r.a, [](uint32_t) { return 1; });
  atomic(w, 6, one, Space::global, AtomOp::add, AtomType::u32, r.address, 0, r.a, nullptr, r.i);
  each(w, r.address, [&](uint32_t) { return param<uint64_t>(w, 0) + 4 * r.i[0]; });
  each(w, r.a, [&](uint32_t) { return w->block->linear; });
  store_g(w, 1, one, r.a);
  leave(w, m);
}

Scenario one_block(Status (*run)(Warp*), uint32_t threads,
                   std::initializer_list<uint64_t> arguments) {
  std::vector<uint64_t> values(arguments);
  values.resize(2);
  return [run, threads, values](Call& c) {
    c.begin();
    c.launch(run, 1, threads, {values[0], values[1]});
  };
}

Scenario chained(uint64_t ticket) {
  return [ticket](Call& c) {
    declared.opcodes[0] = "ld.acquire.gpu.u32";
    uint64_t flags = c.buffer(4 * 300);
    uint64_t counter = c.buffer(4);
    c.begin();
    device_set(flags, 0, 4 * 300);
    device_set(counter, 0, 4);
    c.launch(run<chain>, 300, 32, {flags, counter, ticket});
  };
}

Register all[] = {
    {"barrier_in_both_branches", one_block(run<barriers>, 64, {0})},
    {"one_barrier", one_block(run<barriers>, 64, {1})},
    {"exit_before_the_barrier", one_block(run<barriers>, 64, {2})},
    {"exit_while_others_wait", one_block(run<barriers>, 64, {3})},
    {"half_a_warp_late", one_block(run<late_half>, 64, {})},
    {"crossed_barriers", one_block(run<crossed>, 64, {})},
    {"collective_while_others_exit", one_block(run<collective>, 32, {16, 0})},
    {"whole_collective", one_block(run<collective>, 32, {32, 0})},
    {"collective_in_both_branches", one_block(run<collective>, 32, {16, 1})},
    {"warp_sync_in_both_branches",
     [](Call& c) {
       declared.opcodes[5] = "bar.warp.sync";
       c.begin();
       c.launch(run<collective>, 1, 32, {16, 1});
     }},
    {"endless_loop", one_block(run<endless>, 32, {})},
    {"trap", one_block(run<give_up>, 32, {})},
    {"barrier_reduction",
     [](Call& c) {
       uint64_t out = c.buffer(4 * 100);
       c.begin();
       c.launch(run<reduce>, 1, 100, {out});
     }},
    {"spin_lock",
     [](Call& c) {
       declared.opcodes[6] = "atom.global.cas.b32";
       uint64_t words = c.buffer(512);
       c.begin();
       device_set(words, 0, 512);
       c.launch(run<locked>, 2, 128, {words, words + 256});
     }},
    {"chain_by_ticket", chained(1)},
    {"chain_by_number", chained(0)},
    {"grid_sync",
     [](Call& c) {
       declared.opcodes[0] = "ld.acquire.gpu.u32";
       uint64_t out = c.buffer(4 * 24 * 64);
       c.begin();
       if (c.launch(run<grid_sync>, 24, 64, {out}, 0, true) != 0) std::abort();
     }},
    {"cooperative_too_large",
     [](Call& c) {
       c.begin();
       if (c.launch(run<grid_sync>, 100000, 64, {0}, 0, true) != 720) std::abort();
     }},
    {"too_many_threads",
     [](Call& c) {
       c.begin();
       if (c.launch(run<give_up>, 1, 1025, {}) != 9) std::abort();
     }},
    {"too_much_shared_memory",
     [](Call& c) {
       c.begin();
       if (c.launch(run<give_up>, 1, 32, {}, 64 << 10) != 1) std::abort();
       if (set_dynamic_shared_limit(0, 128 << 10) != 1) std::abort();
     }},
    {"raised_shared_memory",
     [](Call& c) {
       uint64_t words = c.buffer(4 * 20);
       c.begin();
       device_set(words, 0, 80);
       if (set_dynamic_shared_limit(0, 64 << 10) != 0) std::abort();
       if (c.launch(run<order>, 4, 32, {words, words + 64}, 64 << 10) != 0) std::abort();
     }},
    {"too_many_registers",
     [](Call& c) {
       declared.registers = 128;
       c.begin();
       if (c.launch(run<give_up>, 1, 1024, {}) != 701) std::abort();
     }},
    {"block_order",
     [](Call& c) {
       uint64_t words = c.buffer(4 * 100);
       uint64_t counter = c.buffer(4);
       c.begin();
       device_set(counter, 0, 4);
       c.launch(run<order>, 100, 32, {words, counter});
     }},
};

}  // namespace
}  // namespace test::control
