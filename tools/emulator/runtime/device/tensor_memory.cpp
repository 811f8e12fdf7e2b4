// Moving matrices between memory and registers, by the accesses that ptxas makes of them: each passes
// the checks and counters of loads and stores like any other.
#include <algorithm>
#include <utility>

#include "device/fault.h"
#include "device/fragments.h"
#include "device/run.h"

namespace emu {
namespace {

constexpr uint32_t kMostLines = 32;
constexpr uint32_t kRowBytes = 16;  // of an 8x8 matrix of 16-bit elements

using Values = uint64_t[kMostLines][kMostLines];

struct Extent {
  uint32_t rows, columns;
};

Extent extent_of(const Tile& t) {
  switch (t.role) {
    case Role::a: return {t.m, t.k};
    case Role::b: return {t.k, t.n};
    default: return {t.m, t.n};
  }
}

// How a tile is cut into accesses: `bytes` each, `count` instructions of 32 lanes at most.
struct Cut {
  enum class Kind { rows, words, fragments } kind;
  uint32_t bytes, count, lanes;
};

// Neighbours in memory are neighbours along k, as they are in a fragment.
bool along_depth(const Tile& t) { return (t.role == Role::a) == t.along_rows; }

Cut cut_of(const Tile& t, bool shared) {
  const Extent e = extent_of(t);
  const uint32_t bytes = bytes_of(t.element), elements = e.rows * e.columns;
  const uint32_t each = elements / kLanes;
  if (t.role == Role::accumulator) {
    const bool pairs = bytes == 2 || t.along_rows != (t.n == 32);
    if (bytes == 2) return {Cut::Kind::words, 4, each / 2, kLanes};
    return {Cut::Kind::fragments, pairs ? 2 * bytes : bytes, pairs ? each / 2 : each, kLanes};
  }
  const bool packs = bytes == 2 || (bytes == 1 && along_depth(t));
  if (!packs) return {Cut::Kind::fragments, bytes, each, kLanes};
  if (!shared) return {Cut::Kind::words, 4, each * bytes / 4, kLanes};
  const uint32_t rows = elements * bytes / kRowBytes;
  return {Cut::Kind::rows, kRowBytes, (rows + kLanes - 1) / kLanes, std::min(rows, kLanes * 1u)};
}

// The first element of the access of a lane, as line and position in it.
std::pair<uint32_t, uint32_t> place_of(const Tile& t, const Cut& cut, uint32_t lane, uint32_t index) {
  const Extent e = extent_of(t);
  const uint32_t lines = t.along_rows ? e.rows : e.columns;
  const uint32_t bytes = bytes_of(t.element);
  if (cut.kind == Cut::Kind::fragments) {
    const uint32_t step = cut.bytes / bytes;
    const Cell cell = cell_of(t.role, t.m, t.n, t.k, t.element, lane, index * step);
    return t.along_rows ? std::pair(cell.row, cell.column) : std::pair(cell.column, cell.row);
  }
  const bool rows = cut.kind == Cut::Kind::rows;
  const uint32_t block = rows ? (index * kLanes + lane) / 8 : index;
  const uint32_t stack = lines / 8;
  const uint32_t line = block % stack * 8 + (rows ? lane % 8 : lane / 4);
  const uint32_t within = rows ? 0 : lane % 4 * 4;
  return {line, (block / stack * kRowBytes + within) / bytes};
}

template <class T, int N>
void load_as(Warp* w, uint32_t site, Mask lanes, Space space, const uint64_t* address,
             T* const (&out)[N]) {
  if (space == Space::shared) {
    uint32_t low[kLanes];
    for (int i = 0; i < kLanes; ++i) low[i] = static_cast<uint32_t>(address[i]);
    return load_shared<T, N>(w, site, lanes, low, 0, out);
  }
  if (space == Space::global) return load_global<T, N>(w, site, lanes, address, 0, out);
  load_generic<T, N>(w, site, lanes, address, 0, out);
}

template <class T, int N>
void store_as(Warp* w, uint32_t site, Mask lanes, Space space, const uint64_t* address,
              const T* const (&in)[N]) {
  if (space == Space::shared) {
    uint32_t low[kLanes];
    for (int i = 0; i < kLanes; ++i) low[i] = static_cast<uint32_t>(address[i]);
    return store_shared<T, N>(w, site, lanes, low, 0, in);
  }
  if (space == Space::global) return store_global<T, N>(w, site, lanes, address, 0, in);
  store_generic<T, N>(w, site, lanes, address, 0, in);
}

// Sixteen bytes of each lane.
struct Held {
  alignas(64) uint64_t low[kLanes], high[kLanes];
};

template <class T>
void load_one(Warp* w, uint32_t site, Mask lanes, Space space, const uint64_t* address, Held& to) {
  alignas(64) T value[kLanes] = {};
  T* const out[1] = {value};
  load_as<T, 1>(w, site, lanes, space, address, out);
  for (int i = 0; i < kLanes; ++i) to.low[i] = value[i];
}

void load_bytes(Warp* w, uint32_t site, Mask lanes, Space space, const uint64_t* address,
                uint32_t bytes, Held& to) {
  switch (bytes) {
    case 1: return load_one<uint8_t>(w, site, lanes, space, address, to);
    case 4: return load_one<uint32_t>(w, site, lanes, space, address, to);
    case 8: return load_one<uint64_t>(w, site, lanes, space, address, to);
    default: {
      uint64_t* const out[2] = {to.low, to.high};
      return load_as<uint64_t, 2>(w, site, lanes, space, address, out);
    }
  }
}

template <class T>
void store_one(Warp* w, uint32_t site, Space space, const uint64_t* address, const Held& from) {
  alignas(64) T value[kLanes];
  for (int i = 0; i < kLanes; ++i) value[i] = static_cast<T>(from.low[i]);
  const T* const in[1] = {value};
  store_as<T, 1>(w, site, ~Mask{0}, space, address, in);
}

void store_bytes(Warp* w, uint32_t site, Space space, const uint64_t* address, uint32_t bytes,
                 const Held& from) {
  switch (bytes) {
    case 4: return store_one<uint32_t>(w, site, space, address, from);
    case 8: return store_one<uint64_t>(w, site, space, address, from);
    default: {
      const uint64_t* const in[2] = {from.low, from.high};
      return store_as<uint64_t, 2>(w, site, ~Mask{0}, space, address, in);
    }
  }
}

// Calls `act(addresses, lanes, cells of each lane)` for every access.
template <class U, class Act>
void each_access(const Tile& t, const Cut& cut, const U* address, int64_t offset,
                 const uint32_t* stride, uint32_t packed, Act act) {
  const uint32_t bytes = bytes_of(t.element);
  for (uint32_t index = 0; index < cut.count; ++index) {
    uint64_t at[kLanes];
    std::pair<uint32_t, uint32_t> place[kLanes];
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      place[lane] = place_of(t, cut, std::min(lane, cut.lanes - 1), index);
      const uint64_t step = stride != nullptr ? stride[lane] : packed;
      const uint64_t first = place[lane].first * step + place[lane].second;
      at[lane] = uint64_t{address[lane]} + static_cast<uint64_t>(offset) + first * bytes;
    }
    act(at, cut.lanes == kLanes ? ~Mask{0} : (Mask{1} << cut.lanes) - 1, place);
  }
}

uint64_t& value_at(Values& values, const Tile& t, std::pair<uint32_t, uint32_t> place, uint32_t step) {
  const uint32_t along = place.second + step;
  return t.along_rows ? values[place.first][along] : values[along][place.first];
}

uint64_t piece(const Held& held, uint32_t lane, uint32_t number, uint32_t bytes) {
  if (bytes == 8) return number == 0 ? held.low[lane] : held.high[lane];
  const uint32_t bit = number * bytes * 8;
  const uint64_t word = bit < 64 ? held.low[lane] : held.high[lane];
  return word >> bit % 64 & ((uint64_t{1} << 8 * bytes) - 1);
}

void put_piece(Held& held, uint32_t lane, uint32_t number, uint32_t bytes, uint64_t value) {
  const uint32_t bit = number * bytes * 8;
  uint64_t& word = bit < 64 ? held.low[lane] : held.high[lane];
  word |= value << bit % 64;
}

// Registers that hold copies too: A and B of f16.
uint32_t elements_held(const Tile& t) { return t.registers * packed_in(t.element); }

// Shared addresses of lanes, of 32 bits or generic.
void shared_addresses(Warp*, uint32_t, Mask, const uint32_t* from, uint32_t* to) {
  std::copy(from, from + kLanes, to);
}
void shared_addresses(Warp* w, uint32_t site, Mask lanes, const uint64_t* from, uint32_t* to) {
  for (int i = 0; i < kLanes; ++i) {
    to[i] = static_cast<uint32_t>(from[i]);
    if ((lanes >> i & 1) == 0 || (from[i] & kWindowMask) == kSharedWindow) continue;
    raise({.fault = Fault::out_of_bounds,
           .warp = w,
           .lane = i,
           .site = site,
           .space = SpaceNumber::shared,
           .access = AccessNumber::read,
           .bytes = kRowBytes,
           .address = from[i],
           .space_bytes = w->block->shared_bytes});
  }
}

Mask row_lanes(uint32_t count) { return count >= 4 ? ~Mask{0} : (Mask{1} << 8 * count) - 1; }

// Where the two elements of a lane lie in a matrix.
Cell pair_of(uint32_t lane, uint32_t which, bool transposed) {
  const Cell cell = {lane / 4, lane % 4 * 2 + which};
  return transposed ? flip(cell) : cell;
}

}  // namespace

template <class U>
void load_tile(Warp* w, uint32_t site, const Tile& tile, Space space, const U* address,
               int64_t offset, const uint32_t* stride, uint32_t packed, void* const* out) {
  if (w->watched) met(w, ~Mask{0});
  const Cut cut = cut_of(tile, space == Space::shared);
  const uint32_t bytes = bytes_of(tile.element);
  Values values;
  each_access(tile, cut, address, offset, stride, packed,
              [&](const uint64_t* at, Mask lanes, const auto* place) {
                Held held = {};
                load_bytes(w, site, lanes, space, at, cut.bytes, held);
                for (uint32_t lane = 0; lane < cut.lanes; ++lane) {
                  for (uint32_t n = 0; n < cut.bytes / bytes; ++n) {
                    value_at(values, tile, place[lane], n) = piece(held, lane, n, bytes);
                  }
                }
              });
  const uint32_t in_one = packed_in(tile.element);
  for (uint32_t index = 0; index < elements_held(tile); ++index) {
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      const Cell cell = cell_of(tile.role, tile.m, tile.n, tile.k, tile.element, lane, index);
      const uint64_t value = values[cell.row][cell.column];
      if (bytes == 8) {
        static_cast<uint64_t*>(out[index])[lane] = value;
        continue;
      }
      uint32_t& word = static_cast<uint32_t*>(out[index / in_one])[lane];
      const uint32_t bit = index % in_one * 8 * bytes;
      word = bit == 0 ? static_cast<uint32_t>(value) : word | static_cast<uint32_t>(value << bit);
    }
  }
}

template <class U>
void store_tile(Warp* w, uint32_t site, const Tile& tile, Space space, const U* address,
                int64_t offset, const uint32_t* stride, uint32_t packed, const void* const* in) {
  if (w->watched) met(w, ~Mask{0});
  const Cut cut = cut_of(tile, space == Space::shared);
  const uint32_t bytes = bytes_of(tile.element), in_one = packed_in(tile.element);
  Values values;
  for (uint32_t index = 0; index < elements_held(tile); ++index) {
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      const Cell cell = cell_of(tile.role, tile.m, tile.n, tile.k, tile.element, lane, index);
      uint64_t& value = values[cell.row][cell.column];
      if (bytes == 8) {
        value = static_cast<const uint64_t*>(in[index])[lane];
        continue;
      }
      const uint64_t word = static_cast<const uint32_t*>(in[index / in_one])[lane];
      value = word >> index % in_one * 8 * bytes & ((uint64_t{1} << 8 * bytes) - 1);
    }
  }
  each_access(tile, cut, address, offset, stride, packed,
              [&](const uint64_t* at, Mask, const auto* place) {
                Held held = {};
                for (uint32_t lane = 0; lane < kLanes; ++lane) {
                  for (uint32_t n = 0; n < cut.bytes / bytes; ++n) {
                    put_piece(held, lane, n, bytes, value_at(values, tile, place[lane], n));
                  }
                }
                store_bytes(w, site, space, at, cut.bytes, held);
              });
}

template <class U>
void load_matrices(Warp* w, uint32_t site, uint32_t count, bool transposed, const U* address,
                   int64_t offset, uint32_t* const* out) {
  if (w->watched) met(w, ~Mask{0});
  const Mask lanes = row_lanes(count);
  uint32_t low[kLanes];
  shared_addresses(w, site, lanes, address, low);
  Held rows = {};
  uint64_t* const to[2] = {rows.low, rows.high};
  load_shared<uint64_t, 2>(w, site, lanes, low, offset, to);
  for (uint32_t matrix = 0; matrix < count; ++matrix) {
    for (uint32_t lane = 0; lane < kLanes && out[matrix] != nullptr; ++lane) {
      const Cell first = pair_of(lane, 0, transposed), second = pair_of(lane, 1, transposed);
      const uint64_t pair = piece(rows, 8 * matrix + first.row, first.column, 2) |
                            piece(rows, 8 * matrix + second.row, second.column, 2) << 16;
      out[matrix][lane] = static_cast<uint32_t>(pair);
    }
  }
}

template <class U>
void store_matrices(Warp* w, uint32_t site, uint32_t count, bool transposed, const U* address,
                    int64_t offset, const uint32_t* const* in) {
  if (w->watched) met(w, ~Mask{0});
  const Mask lanes = row_lanes(count);
  uint32_t low[kLanes];
  shared_addresses(w, site, lanes, address, low);
  Held rows = {};
  for (uint32_t matrix = 0; matrix < count; ++matrix) {
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      for (uint32_t which = 0; which < 2; ++which) {
        const Cell cell = pair_of(lane, which, transposed);
        const uint64_t value = in[matrix][lane] >> 16 * which & 0xffffu;
        put_piece(rows, 8 * matrix + cell.row, cell.column, 2, value);
      }
    }
  }
  const uint64_t* const from[2] = {rows.low, rows.high};
  store_shared<uint64_t, 2>(w, site, lanes, low, offset, from);
}

void transpose_matrix(const uint32_t* in, uint32_t* out) {
  uint32_t values[8][8];
  uint32_t turned[kLanes] = {};
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    for (uint32_t which = 0; which < 2; ++which) {
      const Cell cell = pair_of(lane, which, false);
      values[cell.row][cell.column] = in[lane] >> 16 * which & 0xffffu;
    }
  }
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    for (uint32_t which = 0; which < 2; ++which) {
      const Cell cell = pair_of(lane, which, true);
      turned[lane] |= values[cell.row][cell.column] << 16 * which;
    }
  }
  std::copy(turned, turned + kLanes, out);
}

void incomplete_warp(Warp* w, uint32_t site, Mask lanes) {
  raise({.fault = Fault::partial_mask,
         .warp = w,
         .lane = __builtin_ctz(lanes),
         .site = site,
         .address = ~Mask{0},
         .space_bytes = lanes,
         .reason = ReasonNumber::missing_lanes});
}

#define EMU_DEFINE(U)                                                                             \
  template void load_tile<U>(Warp*, uint32_t, const Tile&, Space, const U*, int64_t,              \
                             const uint32_t*, uint32_t, void* const*);                            \
  template void store_tile<U>(Warp*, uint32_t, const Tile&, Space, const U*, int64_t,             \
                              const uint32_t*, uint32_t, const void* const*);                     \
  template void load_matrices<U>(Warp*, uint32_t, uint32_t, bool, const U*, int64_t,              \
                                 uint32_t* const*);                                               \
  template void store_matrices<U>(Warp*, uint32_t, uint32_t, bool, const U*, int64_t,             \
                                  const uint32_t* const*);
EMU_DEFINE(uint32_t)
EMU_DEFINE(uint64_t)
#undef EMU_DEFINE

}  // namespace emu
