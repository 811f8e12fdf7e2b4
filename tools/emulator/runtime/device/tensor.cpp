// cp.async.bulk.tensor: tiles of a tensor that a tensor map describes, row by row.
#include <algorithm>
#include <cstring>

#include "device/bulk.h"
#include "device/fault.h"
#include "device/matrix_descriptor.h"
#include "emu/convert_half.h"
#include "emu/tensor_map.h"

namespace emu {
namespace {

constexpr uint32_t kTileAlign = 128;  // bytes, of a tile in shared memory

[[noreturn]] void raise_no_map(const BulkIssue& issue, uint64_t at, Fault fault) {
  FaultAt found{.fault = fault, .warp = issue.w, .lane = issue.lane, .site = issue.site};
  found.access = AccessNumber::read;
  found.space = (at & kWindowMask) == kParamWindow ? SpaceNumber::param : SpaceNumber::global;
  found.address = at & ~kParamWindow;
  found.space_bytes = issue.w->launch->kernel->param_bytes;
  found.bytes = kTensorMapBytes;
  found.reason = ReasonNumber::no_tensor_map;
  raise(found);
}

// A map is a parameter of the kernel, or lies in global or constant memory.
TensorMap map_at(const BulkIssue& issue, uint64_t at) {
  TensorMap map;
  const Launch& launch = *issue.w->launch;
  const uint64_t offset = at & ~kParamWindow;
  // A parameter's own address is a small number, its generic one has a window.
  const bool is_param = (at & kWindowMask) == kParamWindow || at < launch.kernel->param_bytes;
  if (at % 64 != 0) raise_no_map(issue, at, Fault::misaligned);
  if (is_param) {
    if (offset + kTensorMapBytes > launch.kernel->param_bytes) {
      raise_no_map(issue, at, Fault::out_of_bounds);
    }
    std::memcpy(&map, launch.params + offset, sizeof map);
  } else {
    check_bulk_global(issue, at, kTensorMapBytes, AccessNumber::read);
    std::memcpy(&map, device().host(at), sizeof map);
  }
  if (map.magic != kTensorMapMagic || map.rank == 0 || map.rank > kTensorRanks || map.swizzle > 3 ||
      map.type > TensorType::tf32_ftz) {
    raise_no_map(issue, at, Fault::out_of_bounds);
  }
  for (uint32_t i = 0; i < map.rank; ++i) {
    if (map.steps[i] == 0 || map.steps[i] > 8 || map.box[i] == 0 || map.box[i] > 256) {
      raise_no_map(issue, at, Fault::out_of_bounds);
    }
  }
  return map;
}

// A row of a tile along the innermost dimension, and which elements of it lie inside the tensor.
struct BoxRow {
  uint32_t first;    // byte of the tile, as it is packed
  uint64_t address;  // of the first element inside
  uint32_t skipped;  // elements before that
  uint32_t count;    // elements inside
};

struct Box {
  TensorMap map;
  uint32_t width = 0;  // bytes of an element
  uint32_t sizes[kTensorRanks] = {1, 1, 1, 1, 1};  // elements, in shared memory
  int64_t start[kTensorRanks] = {};
  uint32_t bytes = 0;

  Box(const TensorMap& one, const uint32_t* const* at, int lane) : map(one) {
    width = element_bytes(map.type);
    bytes = width;
    for (uint32_t i = 0; i < map.rank; ++i) {
      sizes[i] = (map.box[i] + map.step(i) - 1u) / map.step(i);
      start[i] = static_cast<int32_t>(at[i][lane]);
      bytes *= sizes[i];
    }
  }

  int64_t extent(uint32_t axis) const { return int64_t{map.extents[axis]} + 1; }

  // A store writes the last 16 bytes of a row whole, into what pads it.
  int64_t last_stored() const {
    const int64_t unit = map.rank > 1 ? kSwizzleUnit / width : 1;
    return (extent(0) + unit - 1) / unit * unit;
  }

  // Calls `visit(row)` for every row with an element inside; of a row, `last` is where elements end.
  template <class Visitor>
  void each_row(int64_t last, Visitor visit) const {
    const uint32_t rows = bytes / (width * sizes[0]);
    for (uint32_t number = 0; number < rows; ++number) {
      uint64_t address = map.address;
      bool inside = true;
      uint32_t rest = number;
      for (uint32_t axis = 1; axis < map.rank; ++axis) {
        const int64_t place = start[axis] + int64_t{rest % sizes[axis]} * map.step(axis);
        rest /= sizes[axis];
        inside = inside && place >= 0 && place < extent(axis);
        address += static_cast<uint64_t>(place) * map.strides[axis - 1];
      }
      if (!inside) continue;
      const int64_t skipped = std::max<int64_t>(0, -start[0]);
      const int64_t end = std::min<int64_t>(sizes[0], last - start[0]);
      if (skipped >= end) continue;
      visit(BoxRow{number * sizes[0] * width,
                address + static_cast<uint64_t>((start[0] + skipped) * width),
                static_cast<uint32_t>(skipped), static_cast<uint32_t>(end - skipped)});
    }
  }

  // Where the tile's bytes lie in shared memory: 16-byte units whose places depend on the address.
  std::vector<Piece> pieces(uint32_t to) const {
    if (map.swizzle == 0) return {{to, 0, bytes}};
    std::vector<Piece> found;
    const uint32_t mask = (1u << map.swizzle) - 1;
    for (uint32_t at = 0; at < bytes; at += kSwizzleUnit) {
      const uint32_t place = to + at;
      found.push_back({place ^ ((place >> 7 & mask) << 4), at, std::min(kSwizzleUnit, bytes - at)});
    }
    return found;
  }

  // No number is the same 16 bits in every type: a NaN in each, of f32 and f64 with these in a row.
  void fill(std::vector<uint8_t>& data) const {
    data.assign(bytes, 0);
    if (map.fills_nan == 0) return;
    for (uint32_t at = 0; at < bytes; ++at) data[at] = at % 2 == 0 ? 0xf7 : 0x7f;
  }
};

// The hardware calls an instruction illegal whose tile begins elsewhere in the innermost dimension, or
// is written and begins before the tensor in any.
void check_start(const BulkIssue& issue, const Box& tile, AccessNumber access) {
  FaultAt found{.fault = Fault::misaligned, .warp = issue.w, .lane = issue.lane, .site = issue.site};
  found.space = SpaceNumber::global;
  found.access = access;
  found.bytes = kSwizzleUnit;
  int64_t first = tile.start[0] * tile.width;
  if (first % kSwizzleUnit == 0) {
    if (access == AccessNumber::read) return;
    int64_t lowest = 0;
    for (uint32_t axis = 0; axis < tile.map.rank; ++axis) {
      lowest = std::min(lowest, tile.start[axis]);
      if (axis > 0) first += tile.start[axis] * static_cast<int64_t>(tile.map.strides[axis - 1]);
    }
    if (lowest >= 0) return;
    found.fault = Fault::out_of_bounds;
    found.reason = ReasonNumber::negative_start;
  }
  found.address = tile.map.address + static_cast<uint64_t>(first);
  raise(found);
}

// Loads of tf32 round to nearest, ties to even, and keep subnormal numbers.
void round_to_tf32(uint8_t* data, uint32_t count) {
  for (uint32_t i = 0; i < count; ++i, data += sizeof(float)) {
    float number;
    std::memcpy(&number, data, sizeof number);
    const uint32_t rounded = float_to_tf32<rn>(number);
    std::memcpy(data, &rounded, sizeof rounded);
  }
}

Box tile_of(const BulkIssue& issue, uint64_t map, uint32_t rank, const uint32_t* const* at,
             AccessNumber access) {
  const TensorMap found = map_at(issue, map);
  if (found.rank != rank) raise_no_map(issue, map, Fault::out_of_bounds);
  Box tile(found, at, issue.lane);
  check_start(issue, tile, access);
  return tile;
}

void check_tile_align(const BulkIssue& issue, uint32_t address, AccessNumber access) {
  if (address % kTileAlign == 0) return;
  FaultAt found{.fault = Fault::misaligned, .warp = issue.w, .lane = issue.lane, .site = issue.site};
  found.space = SpaceNumber::shared;
  found.access = access;
  found.bytes = kTileAlign;
  found.address = address;
  found.space_bytes = issue.w->block->shared_bytes;
  raise(found);
}

// Sums of f32 in tiles keep subnormal numbers, unlike those of bulk_store, but for these types.
bool flushes(TensorType type) {
  return type == TensorType::f32_ftz || type == TensorType::tf32_ftz;
}

AtomType reduced_type(TensorType type) {
  switch (type) {
    case TensorType::u32: return AtomType::u32;
    case TensorType::s32: return AtomType::s32;
    case TensorType::u64: return AtomType::u64;
    case TensorType::s64: return AtomType::s64;
    case TensorType::f16: return AtomType::f16;
    case TensorType::bf16: return AtomType::bf16;
    case TensorType::f64: return AtomType::f64;
    case TensorType::u16: return AtomType::b16;
    default: return AtomType::f32;
  }
}

}  // namespace

void tensor_load(Warp* w, uint32_t site, Mask lanes, const uint32_t* to, const uint64_t* map,
                 uint32_t rank, const uint32_t* const* at, const uint32_t* barrier,
                 const uint32_t* blocks) {
  for (Mask rest = lanes; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    const BulkIssue issue{w, site, lane};
    const Box tile = tile_of(issue, map[lane], rank, at, AccessNumber::read);
    BulkLoad load{};
    load.transaction = tile.bytes;
    tile.fill(load.data);
    bool first = true;
    tile.each_row(tile.extent(0), [&](const BoxRow& row) {
      const uint64_t bytes = uint64_t{row.count} * tile.width;
      check_bulk_global(issue, row.address, bytes, AccessNumber::read);
      race_bulk_read(issue, row.address, bytes);
      uint8_t* into = load.data.data() + row.first + size_t{row.skipped} * tile.width;
      std::memcpy(into, device().host(row.address), bytes);
      if (tile.map.type >= TensorType::tf32) round_to_tf32(into, row.count);
      if (w->block->counted) {
        load.ready = std::max(
            load.ready, account_bulk(issue, row.address, bytes, first, AccessNumber::read));
      }
      first = false;
    });
    check_tile_align(issue, to[lane] & kOffsetMask, AccessNumber::write);
    load.pieces = tile.pieces(to[lane] & kOffsetMask);
    queue_load(issue, to[lane], barrier[lane], blocks, kSwizzleUnit, std::move(load));
  }
}

void tensor_store(Warp* w, uint32_t site, Mask lanes, const uint64_t* map, uint32_t rank,
                  const uint32_t* const* at, const uint32_t* from, BulkReduction reduction) {
  const AccessNumber access = reduction.reduces ? AccessNumber::atomic : AccessNumber::write;
  for (Mask rest = lanes; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    const BulkIssue issue{w, site, lane};
    const Box tile = tile_of(issue, map[lane], rank, at, access);
    check_tile_align(issue, from[lane], AccessNumber::read);
    BulkStore store{};
    store.reduction = reduction;
    store.reduction.type = reduced_type(tile.map.type);
    store.reduction.flushes = flushes(tile.map.type);
    store.data.resize(tile.bytes);
    read_pieces(issue, tile.pieces(from[lane]), store.data);
    bool first = true;
    tile.each_row(reduction.reduces ? tile.extent(0) : tile.last_stored(), [&](const BoxRow& row) {
      const uint32_t bytes = row.count * tile.width;
      check_bulk_global(issue, row.address, bytes, access);
      store.pieces.push_back({row.address, row.first + row.skipped * tile.width, bytes});
      if (w->block->counted) {
        store.ready = std::max(store.ready, account_bulk(issue, row.address, bytes, first, access));
      }
      first = false;
    });
    queue_store(issue, std::move(store));
  }
}

}  // namespace emu
