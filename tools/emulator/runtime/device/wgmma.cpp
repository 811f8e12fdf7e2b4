// wgmma. A product is worked out when the warp comes to it, from what is in shared memory then, and is
// under way until its group is waited for: what it reads may not be overwritten before. Warps of a
// group need not come at once, but all of them to the same products.
#include "emu/wgmma.h"

#include <algorithm>
#include <cstring>

#include "device/bulk.h"
#include "device/certain.h"
#include "device/fault.h"
#include "device/fragments.h"
#include "device/matrix_descriptor.h"
#include "device/path.h"
#include "device/tensor_sums.h"
#include "device/undefined.h"

namespace emu {
namespace {

constexpr uint32_t kRows = 16;       // of A and D, of a warp
constexpr uint32_t kLineBytes = 32;  // of a row of A, or a column of B
constexpr uint32_t kPassBytes = 128;

FaultAt about(Warp* w, uint32_t site, Fault fault, ReasonNumber reason) {
  FaultAt found{.fault = fault, .warp = w, .site = site};
  found.reason = reason;
  return found;
}

// The lanes of a warp give one descriptor.
uint64_t descriptor_of(Warp* w, uint32_t site, const uint64_t* lanes) {
  const bool same = std::all_of(lanes, lanes + kLanes, [&](uint64_t one) { return one == lanes[0]; });
  if (!same) raise(about(w, site, Fault::divergent_barrier, ReasonNumber::different_operands));
  const DescriptorFlaw flaw = flaw_of(lanes[0]);
  if (flaw == DescriptorFlaw::none) return lanes[0];
  const MatrixDescriptor matrix = MatrixDescriptor::decode(lanes[0]);
  const bool bits = flaw == DescriptorFlaw::reserved_bits;
  FaultAt found = about(w, site, bits ? Fault::out_of_bounds : Fault::misaligned,
                        bits ? ReasonNumber::reserved_bits : ReasonNumber::no_pattern);
  found.space = SpaceNumber::shared;
  found.access = AccessNumber::read;
  found.bytes = matrix.pattern_bytes();
  found.address = matrix.start;
  found.space_bytes = w->block->shared_bytes;
  raise(found);
}

// Has the same part been found to exist just before? Only that matters where launches are sampled.
bool was_inside(const Warp* w, uint64_t bits, const MatrixPart& part) {
  struct Known {
    uint64_t bits;
    MatrixPart part;
    uint32_t shared_bytes;
    bool operator==(const Known&) const = default;
  };
  static thread_local Known known[64];
  const Known asked = {bits, part, w->block->shared_bytes};
  Known& slot = known[(bits ^ bits >> 6 ^ part.first / kRows) % 64];
  if (slot == asked) return true;
  slot = asked;
  return false;
}

// Bytes of the part, as `pieces_of` orders them.
void read_part(Warp* w, uint32_t site, uint64_t bits, const MatrixPart& part, bool values,
               std::vector<uint8_t>& bytes) {
  const BulkIssue issue{w, site, 0};
  if (!values && was_inside(w, bits, part)) return;
  const std::vector<Piece> pieces = pieces_of(MatrixDescriptor::decode(bits), part);
  bytes.resize(size_t{part.lines} * kLineBytes);
  if (values) return read_pieces(issue, pieces, bytes, Tracks::yes);
  for (const Piece& piece : pieces) check_shared(issue, piece.shared, piece.bytes, AccessNumber::read);
}

uint32_t sign_of(Element element) { return 1u << (8 * bytes_of(element) - 1); }

// Puts lines of a part into a factor: `first` of them and as many as `count`.
void unpack(Factor& to, Element element, const MatrixPart& part, const std::vector<uint8_t>& bytes,
            uint32_t first, uint32_t count, bool negative) {
  const Format format = format_of(element);
  const uint32_t size = bytes_of(element), sign = negative ? sign_of(element) : 0;
  for (uint32_t depth = 0; depth < part.depth; ++depth) {
    for (uint32_t i = 0; i < count; ++i) {
      const size_t at = part.across ? (size_t{depth} * part.lines + first + i) * size
                                    : size_t{first + i} * kLineBytes + size_t{depth} * size;
      uint32_t bits = 0;
      std::memcpy(&bits, bytes.data() + at, size);
      bits ^= sign;
      put_element(to, format, depth, i, element == Element::tf32 ? bits >> 13 : bits);
    }
  }
}

// A from registers, as bytes of lines along K: a fragment holds 32 bits of a line at a time.
void gather_held(const uint32_t* const* held, std::vector<uint8_t>& bytes) {
  bytes.resize(size_t{kRows} * kLineBytes);
  for (uint32_t index = 0; index < 4; ++index) {
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      const size_t row = lane / 4 + index % 2 * 8, word = lane % 4 + index / 2 * 4;
      std::memcpy(bytes.data() + row * kLineBytes + 4 * word, &held[index][lane], 4);
    }
  }
}

// Calls `visit(row, column, register, bit)` for the elements of D in eight columns from `column` on.
template <class Visit>
void each_sum(uint32_t column, bool halves, Visit visit) {
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    for (uint32_t i = 0; i < 4; ++i) {
      const uint32_t index = column / 2 + i;
      visit(lane / 4 + i / 2 * 8, lane % 4 * 2 + i % 2, lane, halves ? index / 2 : index,
            halves ? 16 * (index % 2) : 0);
    }
  }
}

struct Operands {
  MatrixPart a, b;
  std::vector<uint8_t> left, right;
};

void add_floats(const GroupProduct& p, const Operands& x, bool adds, uint32_t* const* d) {
  static thread_local Factor left, right;
  static thread_local Sums sums;
  const DeviceFacts& facts = device().facts;
  const TensorRounding rounding =
      tensor_rounding(facts.compute_major, facts.compute_minor, p.a, true);
  const bool halves = p.d == Element::f16;
  const uint32_t mask = halves ? 0xffffu : ~0u;
  left.special = false;
  unpack(left, p.a, x.a, x.left, 0, kRows, p.negative_a);
  for (uint32_t first = 0; first < p.n; first += kMostColumns) {
    const uint32_t columns = std::min(kMostColumns, p.n - first);
    right.special = false;
    unpack(right, p.b, x.b, x.right, first, columns, p.negative_b);
    for (uint32_t at = 0; at < columns; at += 8) {
      each_sum(first + at, halves, [&](uint32_t row, uint32_t column, uint32_t lane, uint32_t number,
                                       uint32_t bit) {
        sums.bits[row][at + column] = adds ? d[number][lane] >> bit & mask : 0;
      });
    }
    add_products({kRows, columns, p.k, p.a, p.b, p.d, p.d, p.k}, rounding, left, right, sums);
    for (uint32_t at = 0; at < columns; at += 8) {
      each_sum(first + at, halves, [&](uint32_t row, uint32_t column, uint32_t lane, uint32_t number,
                                       uint32_t bit) {
        uint32_t& word = d[number][lane];
        word = (word & ~(mask << bit)) | sums.bits[row][at + column] << bit;
      });
    }
  }
}

// Where the undefined elements of each line of a part come from; kNone where all are defined.
std::vector<uint32_t> undefined_lines(Warp* w, uint32_t site, uint64_t bits, const MatrixPart& part,
                                      Element element) {
  const BlockRun& home = *run_of(w).home;
  const size_t size = bytes_of(element);
  std::vector<uint32_t> found(part.lines, kNone);
  for (const Piece& piece : pieces_of(MatrixDescriptor::decode(bits), part)) {
    for (uint32_t i = 0; i < piece.bytes; ++i) {
      const uint32_t address = piece.shared + i;
      if (address >= home.block.shared_bytes || home.shared_known[address] == 0xff) continue;
      const size_t at = piece.first + i;
      uint32_t& line = found[part.across ? at / size % part.lines : at / kLineBytes];
      if (line != kNone) continue;
      line = known_origin(home.origins, address, 1);
      if (line == kNone) line = origin_of_read(w, site, 0, SpaceNumber::shared, address, 1);
    }
  }
  return found;
}

// The same of rows of A in registers, as what the lanes have been given says.
std::vector<uint32_t> undefined_rows(const Warp* w, const uint32_t* const* held) {
  std::vector<uint32_t> found(kRows, kNone);
  for (uint32_t index = 0; index < 4; ++index) {
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      uint32_t& row = found[lane / 4 + index % 2 * 8];
      if (held[index][lane] != 0 && row == kNone) row = w->origins[lane];
    }
  }
  return found;
}

void add_integers(const GroupProduct& p, const Operands& x, bool adds, uint32_t* const* d) {
  auto integer = [](Element element, uint8_t bits) {
    return element == Element::s8 ? int32_t{static_cast<int8_t>(bits)} : int32_t{bits};
  };
  for (uint32_t first = 0; first < p.n; first += 8) {
    each_sum(first, false, [&](uint32_t row, uint32_t column, uint32_t lane, uint32_t number, uint32_t) {
      const uint8_t* a = x.left.data() + size_t{row} * kLineBytes;
      const uint8_t* b = x.right.data() + size_t{first + column} * kLineBytes;
      int64_t sum = adds ? static_cast<int32_t>(d[number][lane]) : 0;
      for (uint32_t q = 0; q < p.k; ++q) sum += integer(p.a, a[q]) * integer(p.b, b[q]);
      if (p.saturates) sum = std::clamp<int64_t>(sum, INT32_MIN, INT32_MAX);
      d[number][lane] = static_cast<uint32_t>(sum);
    });
  }
}

// Operations a clock of an SM.
uint32_t rate_of(const GroupProduct& p) {
  const DeviceFacts& f = device().facts;
  switch (p.a) {
    case Element::tf32: return f.wgmma_tf32;
    case Element::f16:
    case Element::bf16: return f.wgmma_fp16;
    case Element::s8:
    case Element::u8: return f.wgmma_int8;
    default: return f.wgmma_fp8;
  }
}

// Operands pass through shared memory's data path, B once for the whole group, beside the warps; the
// product takes its time on the tensor cores after those before it.
uint64_t account_product(Warp* w, uint32_t site, const GroupProduct& p, bool held) {
  BlockRun& block = *run_of(w).home;
  const uint64_t bytes = (held ? 0 : uint64_t{kRows} * kLineBytes) +
                         (w->index % kGroupWarps == 0 ? uint64_t{p.n} * kLineBytes : 0);
  const uint64_t passes = (bytes + kPassBytes - 1) / kPassBytes;
  SiteCounters& c = block.launch->counters.sites[site];
  ++c.requests;
  c.lanes += bytes;  // each counts as a lane of one byte
  c.wavefronts += passes;
  c.ideal_wavefronts += passes;
  c.worst_ways = std::max<uint64_t>(c.worst_ways, 1);
  block.path += passes * kPassSectors * block.launch->sector_ticks;
  const uint64_t operations = uint64_t{2} * kRows * kGroupWarps * p.n * p.k;
  uint64_t& busy = run_of(w).products.busy;
  busy = std::max(busy, w->ticks) + kTicks * operations / std::max(rate_of(p), 1u);
  return busy;
}

// Registers that were written since the last fence may not be there yet.
void check_fence(Warp* w, uint32_t site, uint32_t writer) {
  WarpProducts& products = run_of(w).products;
  const bool missing = !products.started || writer != kNoWriter;
  if (missing && !products.fenced) {
    FaultAt found = about(w, site, Fault::unfenced, ReasonNumber::none);
    found.other_site = writer;
    raise(found);
  }
  products.started = true;
  products.fenced = false;
}

void mark_registers(Warp* w, uint32_t site, const GroupProduct& p, const GroupOperands& x) {
  WarpProducts& products = run_of(w).products;
  const uint32_t results = p.n / (p.d == Element::f16 ? 4 : 2), sources = x.held == nullptr ? 0 : 4;
  const uint32_t use = products.group + 1;
  touch_registers(w, site, ~Mask{0}, x.numbers + results, sources, 0);
  for (uint32_t i = 0; i < results; ++i) {
    RegisterUse& one = products.at(x.numbers[i]);
    if (products.under_way(one.source)) touch_registers(w, site, ~Mask{0}, x.numbers + i, 0, 1);
    one.result = use;
    one.result_site = site;
  }
  for (uint32_t i = 0; i < sources; ++i) {
    RegisterUse& one = products.at(x.numbers[results + i]);
    one.source = use;
    one.source_site = site;
  }
}

}  // namespace

void multiply_group(Warp* w, uint32_t site, const GroupProduct& p, const GroupOperands& x) {
  if (x.adds != 0 && x.adds != ~Mask{0}) {
    raise(about(w, site, Fault::divergent_barrier, ReasonNumber::different_operands));
  }
  const bool adds = x.adds != 0, held = x.held != nullptr;
  const uint64_t b = descriptor_of(w, site, x.b), a = held ? 0 : descriptor_of(w, site, x.a);
  if (w->watched) met(w, ~Mask{0});
  run_of(w).home->asynchronous = true;
  take_step(w, {site, w->index, a, b, adds});
  check_fence(w, site, x.writer);
  mark_registers(w, site, p, x);
  // Where launches are sampled nobody looks at results, unless they decide what happens next.
  const bool values = w->launch->level != kSampleLevel || w->launch->kernel->sites[site].steers;
  static thread_local Operands o;
  o.a = {w->index % kGroupWarps * kRows, kRows, p.k, p.across_a};
  o.b = {0, p.n, p.k, p.across_b};
  read_part(w, site, b, o.b, values, o.right);
  const uint32_t time = order_time();
  if (held) {
    o.a.across = false;
    gather_held(x.held, o.left);
  } else {
    read_part(w, site, a, o.a, values, o.left);
  }
  const uint64_t ready = w->block->counted ? account_product(w, site, p, held) : 0;
  run_of(w).products.pending.push_back({run_of(w).products.group, time, ready});
  if (!values) {
    be_uncertain(w, w->launch->kernel->sites[site].steers);
    return;
  }
  if (p.d == Element::s32) return add_integers(p, o, adds, x.d);
  add_floats(p, o, adds, x.d);
}

void multiply_group_undefined(Warp* w, uint32_t site, const GroupProduct& p, const GroupOperands& x) {
  const bool halves = p.d == Element::f16, adds = x.adds != 0;
  const uint32_t ones = halves ? 0xffffu : ~0u;
  const MatrixPart a = {w->index % kGroupWarps * kRows, kRows, p.k, p.across_a};
  const std::vector<uint32_t> rows =
      x.held != nullptr ? undefined_rows(w, x.held) : undefined_lines(w, site, x.a[0], a, p.a);
  const std::vector<uint32_t> columns =
      undefined_lines(w, site, x.b[0], {0, p.n, p.k, p.across_b}, p.b);
  uint32_t origins[kLanes];
  std::copy(w->origins, w->origins + kLanes, origins);
  for (uint32_t first = 0; first < p.n; first += 8) {
    each_sum(first, halves, [&](uint32_t row, uint32_t column, uint32_t lane, uint32_t number,
                                uint32_t bit) {
      uint32_t& word = x.d[number][lane];
      const uint32_t from = rows[row] != kNone ? rows[row] : columns[first + column];
      const bool kept = adds && (word >> bit & ones) != 0;
      if (from != kNone) origins[lane] = from;
      word = (word & ~(ones << bit)) | (from != kNone || kept ? ones << bit : 0);
    });
  }
  std::copy(origins, origins + kLanes, w->origins);
}

void group_fence(Warp* w, uint32_t site) {
  take_step(w, {site, w->index, 0, 0, false});
  run_of(w).products.fenced = true;
}

void group_commit(Warp* w, uint32_t site) {
  take_step(w, {site, w->index, 0, 0, false});
  ++run_of(w).products.group;
}

void group_wait(Warp* w, uint32_t site, uint32_t groups_left) {
  take_step(w, {site, w->index, groups_left, 0, false});
  WarpProducts& products = run_of(w).products;
  if (products.group >= groups_left) {
    products.complete = std::max(products.complete, products.group - groups_left);
  }
  std::erase_if(products.pending, [&](const ProductUnderWay& one) {
    if (one.group >= products.complete) return false;
    go_on_at(w, site, std::max(w->ticks, one.ready));
    return true;
  });
  if (!w->watched) return;
  const uint32_t until = engine_reads_until(w, next_order_time());
  publish_engine(run_of(w).order.known, *run_of(w).home, lane_of_reads(w), until);
}

uint32_t engine_reads_until(Warp* w, uint32_t now) {
  const WarpRun& run = run_of(w);
  for (const ProductUnderWay& one : run.products.pending) now = std::min(now, one.time);
  for (const BulkStore& store : run.bulk_stores) {
    if (!store.read) now = std::min(now, store.time);
  }
  return now;
}

}  // namespace emu
