// mbarriers, bulk copies and clusters.
#include "emu/asynchronous.h"
#include "emu/tensor_map.h"

#include "harness.h"

namespace test::asynchronous {
namespace {

constexpr uint32_t kBarrier = 2048;  // address of the mbarrier in shared memory
constexpr uint32_t kBytes = 512;

enum Flaw : uint64_t {
  honest,
  no_wait,
  more_bytes,
  odd_source,
  odd_size,
  past_source,
  past_shared,
  never_made,
  twice,
  zero_count,
};

void all(uint32_t* to, uint32_t value) {
  for (int i = 0; i < kLanes; ++i) to[i] = value;
}

// Thread 0 brings p0[0..512) into shared memory; everybody writes its word to p1. p2: the flaw.
void bring(Warp* w, Mask m, uint32_t pc) {
  Regs& r = regs(w);
  const auto flaw = param<uint64_t>(w, 2);
  const Mask first = where(w, m, [](uint32_t t) { return t == 0; });
  if (pc == 0) {
    all(r.low, kBarrier);
    all(r.a, flaw == zero_count ? 0 : 1);
    if (first != 0 && flaw != never_made) mbarrier_init(w, 0, first, r.low, r.a);
    return sync(w, 4, m, 1);
  }
  if (pc == 1) {
    if (first != 0) {
      all(r.b, flaw == odd_size ? kBytes - 4 : kBytes);
      all(r.c, flaw == more_bytes ? kBytes + 32 : kBytes);
      all(r.d, flaw == past_shared ? 4096 - 256 : 0);
      each(w, r.address, [&](uint32_t) {
        return param<uint64_t>(w, 0) + (flaw == odd_source ? 4 : flaw == past_source ? 1024 - 64 : 0);
      });
      mbarrier_arrive(w, 1, first, r.low, r.c, kArriveExpect, nullptr);
      bulk_load(w, 2, first, r.d, r.address, r.b, r.low, nullptr);
      if (flaw == twice) bulk_load(w, 2, first, r.d, r.address, r.b, r.low, nullptr);
    }
    return send(w, m, 2);
  }
  if (pc == 2 && flaw != no_wait) {
    all(r.low, kBarrier);
    all(r.a, 0);
    const Mask done = mbarrier_wait(w, 3, m, r.low, nullptr, r.a, false);
    if (done != m) {
      if (out_of_fuel(w)) return send(w, m, 2);
      return send(w, m & ~done, 2), send(w, done, 3);
    }
  }
  each(w, r.low, [](uint32_t t) { return 4 * t; });
  load_s(w, 5, m, r.b);
  each(w, r.address, [&](uint32_t t) { return param<uint64_t>(w, 1) + 4 * t; });
  store_g(w, 6, m, r.b);
  leave(w, m);
}

// Fills shared memory, copies it to p0 by the first thread. p1: 0 honest, 1 no fence, 2 overwritten
// before the wait.
void send_out(Warp* w, Mask m, uint32_t pc) {
  Regs& r = regs(w);
  const auto flaw = param<uint64_t>(w, 1);
  const Mask first = where(w, m, [](uint32_t t) { return t == 0; });
  each(w, r.low, [](uint32_t t) { return 4 * t; });
  if (pc == 0) {
    each(w, r.a, [](uint32_t t) { return 100 + t; });
    store_s(w, 3, m, r.a);
    if (flaw != 1) fence_for_copies(w, m);
    return sync(w, 4, m, 1);
  }
  if (pc == 1) {
    if (first != 0) {
      all(r.b, 256);
      all(r.c, 0);
      each(w, r.address, [&](uint32_t) { return param<uint64_t>(w, 0); });
      bulk_store(w, 5, first, r.address, r.c, r.b, {});
      bulk_commit(w, first);
      if (flaw != 2) bulk_wait(w, first, 0, true);
    }
    return sync(w, 4, m, 2);
  }
  each(w, r.a, [](uint32_t) { return 0; });
  store_s(w, 6, m, r.a);
  if (first != 0) bulk_wait(w, first, 0, false);
  leave(w, m);
}

// Each block of a cluster writes its neighbour's word to p0. p1: 0 honest, 1 no barrier at the end, 2
// none between writing and reading, 3 a wait without arriving, 4 a block outside the cluster, 5 an arrival
// that orders nothing, 6 the same behind a fence, which is honest.
void neighbour(Warp* w, Mask m, uint32_t pc) {
  Regs& r = regs(w);
  const auto flaw = param<uint64_t>(w, 1);
  if (pc == 0) {
    each(w, r.low, [](uint32_t t) { return 4 * t; });
    each(w, r.a, [&](uint32_t t) { return 1000 * w->block->linear + t; });
    store_s(w, 3, m, r.a);
    if (flaw == 6) fence(w, m, false);
    if (flaw != 3 && flaw != 2) cluster_arrive(w, 4, m, flaw >= 5);
    return send(w, m, flaw == 2 ? 2 : 1);
  }
  if (pc == 1) {
    if (cluster_wait(w, 5, m, false, 1) == 0) {
      w->fuel = -1;
      return;
    }
    return send(w, m, 2);
  }
  if (pc == 2) {
    const uint32_t rank = flaw == 4 ? 7 : (cluster_rank(w) + 1) % cluster_size(w);
    each(w, r.address, [&](uint32_t t) { return map_shared(kSharedWindow | 4 * t, rank); });
    uint32_t* const to[1] = {r.b};
    load_generic<uint32_t, 1>(w, 2, m, r.address, 0, to);
    each(w, r.address, [&](uint32_t t) {
      return param<uint64_t>(w, 0) + 4 * (w->block->linear * uint64_t{kLanes} + t);
    });
    store_g(w, 1, m, r.b);
    if (flaw == 1) return leave(w, m);
    cluster_arrive(w, 4, m, false);
    return send(w, m, 3);
  }
  if (cluster_wait(w, 5, m, false, 3) == 0) {
    w->fuel = -1;
    return;
  }
  leave(w, m);
}

// Brings a tile of the tensor whose map lies at p0 and copies it back to the tensor of the map at p1, moved
// by p2 elements along the innermost dimension.
void tile(Warp* w, Mask m, uint32_t pc) {
  Regs& r = regs(w);
  const Mask first = where(w, m, [](uint32_t t) { return t == 0; });
  uint32_t column[kLanes], row[kLanes];
  const uint32_t* const at[2] = {column, row};
  all(column, static_cast<uint32_t>(param<uint64_t>(w, 2)));
  all(row, 1);
  all(r.low, kBarrier);
  if (pc == 0) {
    all(r.a, 1);
    all(r.c, 128 * 4);
    mbarrier_init(w, 0, first, r.low, r.a);
    mbarrier_arrive(w, 1, first, r.low, r.c, kArriveExpect, nullptr);
    all(r.d, 0);
    each(w, r.address, [&](uint32_t) { return param<uint64_t>(w, 0); });
    tensor_load(w, 2, first, r.d, r.address, 2, at, r.low, nullptr);
    return send(w, m, 1);
  }
  all(r.a, 0);
  const Mask done = mbarrier_wait(w, 3, first, r.low, nullptr, r.a, false);
  if (done != first) return send(w, m, 1);
  all(r.d, 0);
  each(w, r.address, [&](uint32_t) { return param<uint64_t>(w, 1); });
  tensor_store(w, 5, first, r.address, 2, at, r.d, {});
  bulk_commit(w, first);
  bulk_wait(w, first, 0, false);
  leave(w, m);
}

// Each thread copies a word by cp.async, says so to an mbarrier, and reads its neighbour's.
void joined(Warp* w, Mask m, uint32_t pc) {
  Regs& r = regs(w);
  const Mask first = where(w, m, [](uint32_t t) { return t == 0; });
  if (pc == 0) {
    all(r.low, kBarrier);
    all(r.a, 64);
    if (first != 0) mbarrier_init(w, 0, first, r.low, r.a);
    return sync(w, 4, m, 1);
  }
  if (pc == 1) {
    each(w, r.low, [](uint32_t t) { return 4 * t; });
    each(w, r.address, [&](uint32_t t) { return param<uint64_t>(w, 0) + 4 * t; });
    async_copy(w, 7, m, r.low, 0, r.address, 0, 4, nullptr);
    all(r.low, kBarrier);
    async_arrive(w, 1, m, r.low, true);
    return send(w, m, 2);
  }
  all(r.low, kBarrier);
  all(r.a, 0);
  const Mask done = mbarrier_wait(w, 3, m, r.low, nullptr, r.a, false);
  if (done != m) return send(w, m, 2);
  each(w, r.low, [](uint32_t t) { return 4 * (t ^ 63); });
  load_s(w, 5, m, r.b);
  each(w, r.address, [&](uint32_t t) { return param<uint64_t>(w, 1) + 4 * t; });
  store_g(w, 6, m, r.b);
  leave(w, m);
}

TensorMap map_of(uint64_t address) {
  TensorMap map{};
  map.magic = kTensorMapMagic;
  map.type = TensorType::u32;
  map.rank = 2;
  map.swizzle = 3;
  map.steps[0] = map.steps[1] = 1;
  map.address = address;
  map.strides[0] = 48 * 4;
  map.extents[0] = 47;
  map.extents[1] = 5;
  map.box[0] = 32;
  map.box[1] = 4;
  return map;
}

// A tile at this column, and whether what is taken for a map is one.
Scenario moves_tiles(uint64_t column, bool is_map) {
  return [column, is_map](Call& c) {
    const uint64_t out = c.buffer(6 * 48 * 4, BufferRole::inout);
    const uint64_t in = c.buffer(6 * 48 * 4, BufferRole::in);
    const uint64_t maps = c.buffer(256, BufferRole::inout);
    c.begin();
    uint32_t values[6 * 48];
    for (uint32_t i = 0; i < 6 * 48; ++i) values[i] = 1000 + i;
    copy_to_device(in, values, sizeof values);
    TensorMap from = map_of(in), to = map_of(out);
    if (!is_map) from.magic = 0;
    copy_to_device(maps, &from, sizeof from);
    copy_to_device(maps + 128, &to, sizeof to);
    c.launch(run<tile>, 1, 32, {maps, maps + 128, column});
  };
}

Scenario brings(Flaw flaw) {
  return [flaw](Call& c) {
    const uint64_t in = c.buffer(1024, BufferRole::in);
    const uint64_t out = c.buffer(1024);
    c.begin();
    c.launch(run<bring>, 1, 64, {in, out, flaw});
  };
}
Scenario sends(uint64_t flaw) {
  return [flaw](Call& c) {
    const uint64_t out = c.buffer(256);
    c.begin();
    c.launch(run<send_out>, 1, 64, {out, flaw});
  };
}
Scenario clusters(uint64_t flaw) {
  return [flaw](Call& c) {
    const uint64_t out = c.buffer(512);
    c.begin();
    c.launch(run<neighbour>, 4, 32, {out, flaw}, 4096, false, {{2, 1, 1}, false});
  };
}

Register all_scenarios[] = {
    {"bulk_honest", brings(honest)},
    {"bulk_no_wait", brings(no_wait)},
    {"bulk_more_bytes", brings(more_bytes)},
    {"bulk_odd_source", brings(odd_source)},
    {"bulk_odd_size", brings(odd_size)},
    {"bulk_past_source", brings(past_source)},
    {"bulk_past_shared", brings(past_shared)},
    {"bulk_never_made", brings(never_made)},
    {"bulk_twice", brings(twice)},
    {"bulk_zero_count", brings(zero_count)},
    {"tile_inside", moves_tiles(4, true)},
    {"tile_over_the_edge", moves_tiles(32, true)},
    {"tile_before_the_edge", moves_tiles(static_cast<uint32_t>(-8), true)},
    {"tile_without_a_map", moves_tiles(0, false)},
    {"arrives_with_its_copies",
     [](Call& c) {
       const uint64_t in = c.buffer(1024, BufferRole::in);
       const uint64_t out = c.buffer(1024);
       c.begin();
       c.launch(run<joined>, 1, 64, {in, out});
     }},
    {"bulk_store_honest", sends(0)},
    {"bulk_store_unfenced", sends(1)},
    {"bulk_store_overwritten", sends(2)},
    {"cluster_honest", clusters(0)},
    {"cluster_left_early", clusters(1)},
    {"cluster_unordered", clusters(2)},
    {"cluster_wait_alone", clusters(3)},
    {"cluster_no_such_block", clusters(4)},
    {"cluster_relaxed_arrival", clusters(5)},
    {"cluster_fenced_arrival", clusters(6)},
};

}  // namespace
}  // namespace test::asynchronous
