// cp.async.bulk. The bytes are read when the instruction runs and written when somebody waits for
// them: into shared memory at the question for the mbarrier's phase, out of it at the wait for the
// group.
#include <algorithm>
#include <cstring>

#include "device/account.h"
#include "device/bulk.h"
#include "device/path.h"

namespace emu {
namespace {

constexpr uint64_t kBytesPerClock = kBulkBytesPerClock;

void land_in_global(Warp* w, const BulkStore& store) {
  Device& d = device();
  for (const OutPiece& piece : store.pieces) {
    const uint8_t* from = store.data.data() + piece.first;
    uint8_t* to = d.host(piece.global);
    if (store.reduction.reduces) {
      combine_bytes(to, from, piece.bytes, store.reduction.op, store.reduction.type,
                    store.reduction.flushes);
    } else {
      std::memcpy(to, from, piece.bytes);
    }
    set_bits(d.initialised, piece.global - d.base, piece.bytes);
  }
  go_on_at(w, store.site, std::max(w->ticks, store.ready));
}

}  // namespace

uint64_t account_bulk(const BulkIssue& issue, uint64_t address, uint64_t bytes, bool first,
                      AccessNumber access) {
  const uint64_t ready = account_run(issue.w, issue.site, address, bytes, first, access);
  return issue.w->ticks + ready + kTicks * bytes / kBytesPerClock;
}

void bulk_load(Warp* w, uint32_t site, Mask lanes, const uint32_t* to, const uint64_t* from,
               const uint32_t* bytes, const uint32_t* barrier, const uint32_t* blocks) {
  for (Mask rest = lanes; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    const BulkIssue issue{w, site, lane};
    check_unit(issue, SpaceNumber::global, AccessNumber::read, from[lane], bytes[lane], kBulkUnit);
    check_bulk_global(issue, from[lane], bytes[lane], AccessNumber::read);
    race_bulk_read(issue, from[lane], bytes[lane]);
    BulkLoad load{};
    load.transaction = bytes[lane];
    load.pieces.push_back({to[lane] & kOffsetMask, 0, bytes[lane]});
    const uint8_t* source = device().host(from[lane]);
    load.data.assign(source, source + bytes[lane]);
    if (w->block->counted) {
      load.ready = account_bulk(issue, from[lane], bytes[lane], true, AccessNumber::read);
    }
    queue_load(issue, to[lane], barrier[lane], blocks, kBulkUnit, std::move(load));
  }
}

void bulk_send(Warp* w, uint32_t site, Mask lanes, const uint32_t* to, const uint32_t* from,
               const uint32_t* bytes, const uint32_t* barrier, BulkReduction reduction) {
  for (Mask rest = lanes; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    const BulkIssue issue{w, site, lane};
    check_unit(issue, SpaceNumber::shared, AccessNumber::read, from[lane], bytes[lane], kBulkUnit);
    BulkLoad load{};
    load.transaction = bytes[lane];
    load.reduction = reduction;
    load.data.resize(bytes[lane]);
    read_pieces(issue, {{from[lane], 0, bytes[lane]}}, load.data);
    load.pieces.push_back({to[lane] & kOffsetMask, 0, bytes[lane]});
    load.ready = w->ticks + kTicks * bytes[lane] / kBytesPerClock;
    queue_load(issue, to[lane], barrier[lane], nullptr, kBulkUnit, std::move(load));
  }
}

void bulk_store(Warp* w, uint32_t site, Mask lanes, const uint64_t* to, const uint32_t* from,
                const uint32_t* bytes, BulkReduction reduction) {
  const AccessNumber access = reduction.reduces ? AccessNumber::atomic : AccessNumber::write;
  for (Mask rest = lanes; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    const BulkIssue issue{w, site, lane};
    check_unit(issue, SpaceNumber::shared, AccessNumber::read, from[lane], bytes[lane], kBulkUnit);
    check_unit(issue, SpaceNumber::global, access, to[lane], bytes[lane], kBulkUnit);
    check_bulk_global(issue, to[lane], bytes[lane], access);
    BulkStore store{};
    store.reduction = reduction;
    store.data.resize(bytes[lane]);
    read_pieces(issue, {{from[lane], 0, bytes[lane]}}, store.data);
    store.pieces.push_back({to[lane], 0, bytes[lane]});
    if (w->block->counted) store.ready = account_bulk(issue, to[lane], bytes[lane], true, access);
    queue_store(issue, std::move(store));
  }
}

void send_values(Warp* w, uint32_t site, Mask lanes, const uint32_t* to, const uint32_t* barrier,
                 uint32_t width, uint32_t count, const void* const* values, BulkReduction reduction) {
  for (Mask rest = lanes; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    BulkLoad load{};
    load.transaction = width * count;
    load.reduction = reduction;
    load.data.resize(load.transaction);
    for (uint32_t n = 0; n < count; ++n) {
      const auto* from = static_cast<const uint8_t*>(values[n]);
      std::memcpy(load.data.data() + size_t{n} * width, from + static_cast<size_t>(lane) * width, width);
    }
    load.pieces.push_back({to[lane] & kOffsetMask, 0, load.transaction});
    load.ready = w->ticks;
    queue_load({w, site, lane}, to[lane], barrier[lane], nullptr, load.transaction, std::move(load));
  }
}

void bulk_commit(Warp* w, Mask lanes) {
  for (int i = 0; i < kLanes; ++i) run_of(w).bulk_group[i] += lanes >> i & 1;
}

void bulk_wait(Warp* w, Mask lanes, uint32_t groups_left, bool read) {
  WarpRun& run = run_of(w);
  const uint32_t now = next_order_time();
  uint32_t writes_until = now;
  auto keep = run.bulk_stores.begin();
  for (BulkStore& store : run.bulk_stores) {
    const bool covered = (lanes >> store.lane & 1) != 0 &&
                         store.group + groups_left < run.bulk_group[store.lane];
    store.read = store.read || covered;
    if (covered && !read) {
      land_in_global(w, store);
      continue;
    }
    writes_until = std::min(writes_until, store.time);
    if (&store != &*keep) *keep = std::move(store);
    ++keep;
  }
  run.bulk_stores.erase(keep, run.bulk_stores.end());
  if (!w->watched) return;
  publish_engine(run.order.known, *run.home, lane_of_reads(w), engine_reads_until(w, now));
  if (!read) publish_engine(run.order.known, *run.home, lane_of_writes(w), writes_until);
}

void finish_bulk_stores(BlockRun& block) {
  for (Warp& w : block.warps) {
    for (const BulkStore& store : run_of(&w).bulk_stores) land_in_global(&w, store);
    run_of(&w).bulk_stores.clear();
  }
}

}  // namespace emu
