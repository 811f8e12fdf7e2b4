// What copies beside the warps touch: bounds, initialisation, races, and when they land in shared
// memory, whose bytes count as unwritten until then.
#include "device/bulk.h"

#include <algorithm>
#include <cstring>

#include "device/certain.h"
#include "device/fault.h"
#include "device/races.h"

namespace emu {
namespace {

constexpr uint32_t kChunk = 32;      // bytes whose races are looked for at once

FaultAt about(const BulkIssue& issue, Fault fault, SpaceNumber space, AccessNumber access,
              uint64_t address, uint32_t bytes) {
  FaultAt found{.fault = fault, .warp = issue.w, .lane = issue.lane, .site = issue.site};
  found.space = space;
  found.access = access;
  found.bytes = bytes;
  found.address = address;
  found.space_bytes = run_of(issue.w).block->block.shared_bytes;
  return found;
}

template <class U>
Lanes<U> at_lane(const BulkIssue& issue, U address) {
  U places[kLanes];
  std::fill(places, places + kLanes, address);
  return Lanes<U>(places, 0, issue.bit(), 0);
}

// Calls `check(lanes, bytes, values)` chunk by chunk; `data` null: no values.
template <class U, class Check>
void in_chunks(const BulkIssue& issue, U address, uint64_t bytes, const uint8_t* data, Check check) {
  uint32_t values[kChunk / 4][kLanes] = {};
  const void* each[kChunk / 4];
  for (uint32_t n = 0; n < kChunk / 4; ++n) each[n] = values[n];
  for (uint64_t at = 0; at < bytes; at += kChunk) {
    const auto size = static_cast<uint32_t>(std::min<uint64_t>(kChunk, bytes - at));
    for (uint32_t n = 0; n < size / 4 && data != nullptr; ++n) {
      std::memcpy(&values[n][issue.lane], data + at + size_t{4} * n, 4);
    }
    check(at_lane(issue, static_cast<U>(address + at)), size, each);
  }
}

// Puts the copy engine of a block in the place of the thread that has issued the copy.
void take_over(Access& access, const BulkIssue& issue, uint32_t time, const BlockRun& block,
               uint32_t lane) {
  if (access.time != time || access.site != issue.site || access.lane != issue.lane) return;
  access.block = block.block.linear;
  access.warp = kCopyEngine;
  access.lane = static_cast<uint8_t>(lane);
}

// Whoever writes shared memory and wants a bulk copy, or a wgmma, to see it fences between the two.
// cp.async is not asked to, as CUTLASS does not.
void check_fenced(const BulkIssue& issue, uint32_t address, uint64_t bytes) {
  const BlockRun& home = *run_of(issue.w).home;
  const BlockRun& first = home.cluster == nullptr ? home : *home.cluster->blocks[0];
  for (uint64_t at = address; at < address + bytes; at += 4) {
    const Access& write = home.writes[at / 4];
    if (write.time < home.begin_time || write.warp == kCopyEngine) continue;
    if (tells_of(first.fenced_for_copies, home, write)) continue;
    if (std::strncmp(issue.w->launch->kernel->sites[write.site].opcode, "cp.async", 8) == 0) continue;
    FaultAt fault = about(issue, Fault::race, SpaceNumber::shared, AccessNumber::read, at, kBulkUnit);
    fault.other_site = write.site;
    fault.other_access = AccessNumber::write;
    fault.reason = ReasonNumber::no_proxy_fence;
    raise(fault);
  }
}

// Two copies under way to the same bytes.
void check_alone(const BulkIssue& issue, const BlockRun& target, const Piece& piece) {
  for (const auto& [at, one] : target.mbarriers) {
    for (const BulkLoad& other : one.loads) {
      for (const Piece& its : other.pieces) {
        if (its.shared >= piece.shared + piece.bytes || piece.shared >= its.shared + its.bytes) continue;
        FaultAt fault = about(issue, Fault::race, SpaceNumber::shared, AccessNumber::write,
                              std::max(its.shared, piece.shared), kBulkUnit);
        fault.other_site = other.site;
        fault.other_access = AccessNumber::write;
        raise(fault);
      }
    }
  }
}

bool is_crowded(const BlockRun& target, const BulkLoad& load) {
  return std::any_of(target.mbarriers.begin(), target.mbarriers.end(), [&](const auto& entry) {
    return std::any_of(entry.second.loads.begin(), entry.second.loads.end(), [&](const BulkLoad& other) {
      return other.begin < load.end && load.begin < other.end;
    });
  });
}

// Marks the target as about to be written.
void claim(const BulkIssue& issue, BlockRun& target, BulkLoad& load) {
  Visit visit(issue.w, target);
  target.asynchronous = true;
  const bool crowded = is_crowded(target, load);
  for (const Piece& piece : load.pieces) {
    check_shared(issue, piece.shared, piece.bytes, AccessNumber::write);
    if (crowded) check_alone(issue, target, piece);
    if (issue.w->watched) {
      in_chunks<uint32_t>(issue, piece.shared, piece.bytes, load.data.data() + piece.first,
                          [&](const Lanes<uint32_t>& at, uint32_t bytes, const void* const* values) {
                            check_race_write(issue.w, issue.site, issue.bit(), at, 4, bytes / 4, values);
                          });
    }
    std::memset(target.shared_known.data() + piece.shared, 0, piece.bytes);
    target.known_prefix = std::min(target.known_prefix, piece.shared);
  }
}

}  // namespace

void check_shared(const BulkIssue& issue, uint32_t address, uint64_t bytes, AccessNumber access) {
  const uint64_t size = run_of(issue.w).block->block.shared_bytes;
  if (uint64_t{address} + bytes <= size) return;
  const uint64_t at = std::max<uint64_t>(address, size);
  raise(about(issue, Fault::out_of_bounds, SpaceNumber::shared, access, at, kBulkUnit));
}

void check_unit(const BulkIssue& issue, SpaceNumber space, AccessNumber access, uint64_t address,
                uint64_t size, uint32_t align) {
  if (address % align == 0 && size % std::min(align, kBulkUnit) == 0) return;
  // A size that is no multiple ends where no copy can.
  const uint64_t at = address % align != 0 ? address : address + size;
  raise(about(issue, Fault::misaligned, space, access, at, address % align != 0 ? align : kBulkUnit));
}

void check_bulk_global(const BulkIssue& issue, uint64_t address, uint64_t bytes,
                       AccessNumber access) {
  const Device& d = device();
  const Allocation* one = find_allocation(address);
  if (one == nullptr || one->end - address < bytes) {
    const uint64_t at = one == nullptr ? address : one->end;
    raise(about(issue, Fault::out_of_bounds, SpaceNumber::global, access, at, kBulkUnit));
  }
  if (one->read_only && access != AccessNumber::read) {
    raise(about(issue, Fault::read_only, SpaceNumber::global, access, address, kBulkUnit));
  }
  fill_pages(*one, address, address + bytes);
  if (access == AccessNumber::read) {
    read_for_certain(issue.w, address);
  } else {
    blur(issue.w, address);
  }
  if (access == AccessNumber::write || !one->tracked) return;
  // A block that is not executed may have written it.
  if (issue.w->launch->level == kSampleLevel) return;
  if (all_set(d.initialised, address - d.base, bytes)) return;
  uint64_t at = address;
  while (all_set(d.initialised, at - d.base, 1)) ++at;
  raise(about(issue, Fault::uninitialised, SpaceNumber::global, access, at, kBulkUnit));
}

void race_bulk_read(const BulkIssue& issue, uint64_t address, uint64_t bytes) {
  if (!watches_races(issue.w, find_allocation(address))) return;
  in_chunks<uint64_t>(issue, address, bytes, nullptr,
                      [&](const Lanes<uint64_t>& at, uint32_t size, const void* const*) {
                        check_race_read(issue.w, issue.site, issue.bit(), at, size);
                      });
}

void queue_load(const BulkIssue& issue, uint32_t to, uint32_t barrier, const uint32_t* blocks,
                uint32_t align, BulkLoad load) {
  Warp* w = issue.w;
  BlockRun& home = *run_of(w).home;
  check_unit(issue, SpaceNumber::shared, AccessNumber::write, to & kOffsetMask, load.transaction, align);
  load.warp = w;
  load.lane = issue.lane;
  load.site = issue.site;
  load.time = next_order_time();
  load.begin = kNone;
  load.end = 0;
  for (const Piece& piece : load.pieces) {
    load.begin = std::min(load.begin, piece.shared);
    load.end = std::max(load.end, piece.shared + piece.bytes);
  }
  for (uint32_t rank = 0; rank < 16; ++rank) {
    uint32_t place = to;
    uint32_t told = barrier;
    if (blocks != nullptr) {
      if ((blocks[issue.lane] >> rank & 1) == 0) continue;
      place = (to & kOffsetMask) | (rank + 1) << kRankShift;
      told = (barrier & kOffsetMask) | (rank + 1) << kRankShift;
    } else if (rank != 0) {
      break;
    }
    BlockRun& target = block_holding(w, issue.site, issue.lane, place, load.transaction, AccessNumber::write);
    BlockRun* holder = nullptr;
    Mbarrier* one = find_barrier(w, issue.site, issue.lane, told, &holder);
    if (one == nullptr) raise_doubtful(*holder);
    if (holder != &target) {
      raise(about(issue, Fault::out_of_bounds, SpaceNumber::shared, AccessNumber::atomic, told, 8));
    }
    BulkLoad copy = load;
    claim(issue, target, copy);
    if (target.block.counted && &target != &home) copy.ready += kTicks * uint64_t{200};
    one->loads.push_back(std::move(copy));
  }
  next_order_time();
}

void land_load(BlockRun& target, uint32_t barrier, BulkLoad& load) {
  Warp* w = load.warp;
  Visit visit(w, target);
  const BulkIssue issue{w, load.site, load.lane};
  for (const Piece& piece : load.pieces) {
    const uint8_t* from = load.data.data() + piece.first;
    for (uint32_t at = piece.shared; w->watched && at < piece.shared + piece.bytes; at += 4) {
      Access& write = target.writes[at / 4];
      const Readers& readers = target.readers[at / 4];
      const bool read = readers.last.time > load.time || readers.first.time > load.time;
      if (write.time != load.time || write.site != load.site || read) {
        FaultAt fault = about(issue, Fault::race, SpaceNumber::shared, AccessNumber::write, at, kBulkUnit);
        const Access& last = readers.last.time > readers.first.time ? readers.last : readers.first;
        fault.other_site = read ? last.site : write.site;
        fault.other_access = read ? AccessNumber::read : AccessNumber::write;
        raise(fault);
      }
      take_over(write, issue, load.time, target, lane_of_load(barrier));
    }
    if (load.reduction.reduces) {
      combine_bytes(target.shared + piece.shared, from, piece.bytes, load.reduction.op,
                    load.reduction.type, false);
    } else {
      std::memcpy(target.shared + piece.shared, from, piece.bytes);
    }
    if (target.doubtful.open) {
      in_chunks<uint32_t>(issue, piece.shared, piece.bytes, nullptr,
                          [&](const Lanes<uint32_t>& at, uint32_t bytes, const void* const*) {
                            check_doubtful_write(w, load.site, issue.bit(), at, bytes);
                          });
    }
    std::memset(target.shared_known.data() + piece.shared, 0xff, piece.bytes);
  }
  if (!w->watched) return;
  Mbarrier& one = target.mbarriers[barrier];
  publish_engine(one.arriving, target, lane_of_load(barrier), next_order_time());
}

void read_pieces(const BulkIssue& issue, const std::vector<Piece>& pieces,
                 std::vector<uint8_t>& data, Tracks tracks) {
  BlockRun& home = *run_of(issue.w).home;
  home.asynchronous = true;
  next_order_time();
  for (const Piece& piece : pieces) {
    check_shared(issue, piece.shared, piece.bytes, AccessNumber::read);
    in_chunks<uint32_t>(issue, piece.shared, piece.bytes, nullptr,
                        [&](const Lanes<uint32_t>& at, uint32_t bytes, const void* const*) {
                          if (!all_known(home.shared_known.data() + at.low, bytes)) {
                            doubt_shared(issue.w, issue.site, issue.bit(), at, bytes, AccessNumber::read, tracks);
                          }
                          if (!issue.w->watched) return;
                          check_race_read(issue.w, issue.site, issue.bit(), at, bytes);
                        });
    std::memcpy(data.data() + piece.first, home.shared + piece.shared, piece.bytes);
    if (!issue.w->watched) continue;
    check_fenced(issue, piece.shared, piece.bytes);
    for (uint32_t at = piece.shared; at < piece.shared + piece.bytes; at += 4) {
      Readers& readers = home.readers[at / 4];
      take_over(readers.first, issue, order_time(), home, lane_of_reads(issue.w));
      take_over(readers.last, issue, order_time(), home, lane_of_reads(issue.w));
    }
  }
}

void queue_store(const BulkIssue& issue, BulkStore store) {
  WarpRun& run = run_of(issue.w);
  store.lane = issue.lane;
  store.site = issue.site;
  store.group = run.bulk_group[issue.lane];
  store.time = order_time();
  store.read = false;
  for (const OutPiece& piece : store.pieces) {
    if (!watches_races(issue.w, find_allocation(piece.global))) continue;
    in_chunks<uint64_t>(issue, piece.global, piece.bytes, store.data.data() + piece.first,
                        [&](const Lanes<uint64_t>& at, uint32_t bytes, const void* const* values) {
                          if (store.reduction.reduces) {
                            check_race_atomic(issue.w, issue.site, issue.bit(), at, bytes, false);
                          } else {
                            check_race_write(issue.w, issue.site, issue.bit(), at, 4, bytes / 4, values);
                          }
                        });
    const Device& d = device();
    for (uint64_t at = piece.global; at < piece.global + piece.bytes; at += 4) {
      take_over(d.writes[(at - d.base) / 4], issue, store.time, *run.home, lane_of_writes(issue.w));
    }
  }
  next_order_time();
  run.bulk_stores.push_back(std::move(store));
}

}  // namespace emu
