#include "device/races.h"

#include <algorithm>

#include "device/fault.h"

namespace emu {
namespace {

constexpr uint64_t kAllBytes = 0xf;

// Where the words of a space have their memory and their shadow.
struct Words {
  Access* writes;
  Readers* readers;
  std::unordered_map<uint64_t, HiddenWrites>* hidden;
  const uint8_t* memory;  // of the address 0
  uint64_t base;          // address of the first word
  SpaceNumber space;

  Words(Warp* w, uint32_t) : base(0), space(SpaceNumber::shared) {
    BlockRun& block = *run_of(w).block;
    writes = block.writes.data();
    readers = block.readers.data();
    hidden = &block.hidden;
    memory = block.shared;
  }
  Words(Warp* w, uint64_t) : space(SpaceNumber::global) {
    const Device& d = device();
    hidden = &run_of(w).block->launch->hidden;
    writes = d.writes;
    readers = d.readers;
    memory = reinterpret_cast<const uint8_t*>(w->launch->delta);
    base = d.base;
  }
};

struct Checked {
  Warp* w;
  uint32_t site;
  AccessNumber kind;
  Words words;
  uint32_t begin;  // accesses of an earlier time are of earlier launches, or earlier blocks
  uint32_t bytes;
  Access mine;

  template <class U>
  Checked(Warp* warp, uint32_t number, AccessNumber what, uint32_t width, U)
      : w(warp), site(number), kind(what), words(warp, U{}), bytes(width), mine{} {
    const uint32_t traits = site_traits(warp, number);
    const WarpRun& run = run_of(warp);
    begin = words.space == SpaceNumber::global ? run.block->launch->order.begin
            : run.block->asynchronous || run.block->has_left ? run.block->begin_time
                                                             : run.order.block_time;
    mine.time = order_time();
    mine.block = run.home->block.linear;
    mine.site = static_cast<uint16_t>(std::min<uint32_t>(number, 0xffff));
    mine.warp = static_cast<uint8_t>(warp->index);
    if ((traits & kStrong) != 0 || what == AccessNumber::atomic) mine.flags |= kStrongAccess;
    if ((traits & kBlockOnly) != 0) mine.flags |= kBlockScope;
    if (what == AccessNumber::atomic) mine.flags |= kUpdate;
    if ((traits & kIsVolatile) != 0 && words.space == SpaceNumber::shared) mine.flags |= kVolatile;
  }

  bool concerns(const Access& earlier, int lane) const {
    if (earlier.time < begin || (earlier.bytes & mine.bytes) == 0) return false;
    if (is_strong_to(earlier)) return false;
    return !is_ordered(w, lane, earlier);
  }

  bool is_strong_to(const Access& earlier) const {
    if ((earlier.flags & mine.flags & kStrongAccess) == 0) return false;
    // Lanes that hand values on through volatile alone trust that they run in step.
    const bool in_step = earlier.block == mine.block && earlier.warp == mine.warp;
    if (in_step && kind == AccessNumber::write && (earlier.flags & mine.flags & kVolatile) != 0) {
      return false;
    }
    return earlier.block == mine.block || ((earlier.flags | mine.flags) & kBlockScope) == 0;
  }

  bool is_mine(const Access& earlier, int lane) const {
    return earlier.block == mine.block && earlier.warp == mine.warp && earlier.lane == lane;
  }
};

AccessNumber kind_of_write(const Access& write) {
  return (write.flags & kStrongAccess) != 0 ? AccessNumber::atomic : AccessNumber::write;
}

FaultAt race_of(const Checked& check, int lane, uint64_t address, const Access& earlier,
                AccessNumber earlier_kind) {
  return {.fault = Fault::race,
          .warp = check.w,
          .lane = lane,
          .site = check.site,
          .other_site = earlier.site,
          .space = check.words.space,
          .access = check.kind,
          .other_access = earlier_kind,
          .bytes = check.bytes,
          .address = address,
          .space_bytes = check.w->block->shared_bytes};
}

void found_race(const Checked& check, int lane, uint64_t address, const Access& earlier,
                AccessNumber earlier_kind) {
  keep_race(race_of(check, lane, address, earlier, earlier_kind));
}

// May a plain read race with the update, because it only guards such updates?
bool is_guarded(const Checked& check, uint32_t read, uint32_t update) {
  const Kernel& kernel = *check.w->launch->kernel;
  if (read >= kernel.site_count || update >= kernel.site_count) return false;
  return (kernel.sites[read].updates & kernel.sites[update].updates) != 0;
}

// Calls `visit(lane, word, address)` for every word of every lane; `mine` says lane and bytes.
template <class U, class Visit>
void each_word(Checked& check, Mask lanes, const Lanes<U>& at, Visit visit) {
  for (Mask rest = lanes; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    check.mine.lane = static_cast<uint8_t>(lane);
    const uint64_t address = at.address[lane];
    const uint64_t word = (address - check.words.base) / 4;
    if (check.bytes < 4) {
      check.mine.bytes = static_cast<uint8_t>(((1u << check.bytes) - 1) << (address & 3));
      visit(lane, word, address);
      continue;
    }
    check.mine.bytes = kAllBytes;
    for (uint32_t i = 0; i < check.bytes / 4; ++i) visit(lane, word + i, address + 4 * i);
  }
}

// The lane goes where its own record or one that is ordered before it stands; else it is the last.
void record_read(const Checked& check, int lane, Readers& readers) {
  const Access& first = readers.first;
  if (first.time < check.begin || check.is_mine(first, lane) ||
      (first.time != check.mine.time && is_ordered(check.w, lane, first))) {
    const uint8_t both = check.is_mine(first, lane) && first.time >= check.begin ? first.bytes : 0;
    readers.first = check.mine;
    readers.first.bytes |= both;
    return;
  }
  readers.last = check.mine;
}

// Keeps what the next write of a word, an update or another strong one, would hide; says whether
// anything is kept.
bool hide(const Checked& check, int lane, uint64_t word, const Access& write) {
  if (write.time < check.begin || (check.mine.flags & kStrongAccess) == 0) return false;
  const bool hides = (write.flags & kHides) != 0;
  const bool is_plain = (write.flags & kStrongAccess) == 0;
  const bool same_warp = write.block == check.mine.block && write.warp == check.mine.warp;
  const bool own = is_plain && check.is_mine(write, lane);
  if (!own && (is_plain || same_warp || is_ordered(check.w, lane, write))) return hides;
  HiddenWrites& kept = (*check.words.hidden)[word];
  if (!hides) kept = HiddenWrites{};
  (own ? kept.plain : write.block != check.mine.block ? kept.block : kept.warp) = write;
  return true;
}

// Calls `visit` for each hidden write that the access races with.
template <class Visit>
void each_hidden_race(const Checked& check, int lane, uint64_t word, const Access& write,
                      Visit visit) {
  if (write.time < check.begin || (write.flags & kHides) == 0) return;
  const HiddenWrites& kept = (*check.words.hidden)[word];
  // Whoever has seen the result of an update of the word comes after the updates before that one.
  const bool has_seen = (write.flags & kObserves) != 0 && write.block == check.mine.block &&
                        is_ordered(check.w, lane, write);
  for (const Access* one : {&kept.block, &kept.warp, &kept.plain}) {
    if (has_seen && (one->flags & kStrongAccess) != 0) continue;
    if (one->time >= check.begin && check.concerns(*one, lane) && (one->flags & kSameValue) == 0) {
      visit(*one);
    }
  }
}

void record_write(const Checked& check, Access& write, bool same_value, bool hides = false) {
  const uint8_t flags = write.flags & static_cast<uint8_t>(~kHides);
  const bool by_warp = write.time >= check.begin && write.block == check.mine.block &&
                       write.warp == check.mine.warp && flags == check.mine.flags;
  const uint8_t earlier = by_warp && write.time == check.mine.time ? write.bytes : 0;
  const uint8_t lane = write.lane;
  write = check.mine;
  if (same_value) write.flags |= kSameValue;
  if (hides) write.flags |= kHides;
  if (earlier == 0) return;
  if (lane != write.lane && (earlier & ~write.bytes) != 0) write.lane = kEveryone;
  write.bytes |= earlier;
}

// The bytes of a word that a lane is about to store; null where the store leaves them as they are.
class Stored {
 public:
  Stored(uint32_t width, uint32_t count, const void* const* in) : width_(width) {
    for (uint32_t n = 0; n < count; ++n) in_[n] = static_cast<const uint8_t*>(in[n]);
    count_ = count;
  }
  bool changes(int lane, const uint8_t* now, uint32_t from, uint32_t bytes) const {
    for (uint32_t i = 0; i < bytes; ++i) {
      const uint32_t at = from + i;
      const uint8_t* value = in_[at / width_] + static_cast<uint32_t>(lane) * width_ + at % width_;
      if (*value != now[i]) return true;
    }
    return false;
  }

 private:
  uint32_t width_;
  uint32_t count_;
  const uint8_t* in_[8];
};

// One instruction of the warp wrote the word twice: which lane wins is undefined, and no race.
bool is_same_store(const Checked& check, const Access& earlier) {
  return earlier.block == check.mine.block && earlier.warp == check.mine.warp &&
         earlier.site == check.mine.site && earlier.time == check.mine.time;
}

}  // namespace

template <class U>
void check_race_read(Warp* w, uint32_t site, Mask lanes, const Lanes<U>& at, uint32_t bytes) {
  const Kernel& kernel = *w->launch->kernel;
  if (site < kernel.site_count && (kernel.sites[site].updates & kUnused) != 0) return;
  Checked check(w, site, AccessNumber::read, bytes, U{});
  each_word(check, lanes, at, [&](int lane, uint64_t word, uint64_t address) {
    const auto found = [&](const Access& write) {
      if ((write.flags & kUpdate) == 0 || !is_guarded(check, check.site, write.site)) {
        found_race(check, lane, address, write, kind_of_write(write));
      } else {
        keep_guarded_race(race_of(check, lane, address, write, AccessNumber::atomic));
      }
    };
    const Access& write = check.words.writes[word];
    if (check.concerns(write, lane) && (write.flags & kSameValue) == 0) found(write);
    each_hidden_race(check, lane, word, write, found);
    record_read(check, lane, check.words.readers[word]);
  });
}

template <class U>
void check_race_write(Warp* w, uint32_t site, Mask lanes, const Lanes<U>& at, uint32_t width,
                      uint32_t count, const void* const* in) {
  Checked check(w, site, AccessNumber::write, width * count, U{});
  const Stored stored(width, count, in);
  each_word(check, lanes, at, [&](int lane, uint64_t word, uint64_t address) {
    Access& write = check.words.writes[word];
    const Readers& readers = check.words.readers[word];
    const uint32_t from = static_cast<uint32_t>(address - at.address[lane]);
    const uint8_t* now = check.words.memory + address;
    bool same = false;
    if (readers.first.time >= check.begin) {
      // Reading a strong write is being ordered after it.
      const bool observed = (write.flags & kStrongAccess) != 0 &&
                            ((check.is_mine(readers.first, lane) &&
                              (readers.first.flags & kStrongAccess) != 0) ||
                             (readers.last.time >= check.begin &&
                              check.is_mine(readers.last, lane) &&
                              (readers.last.flags & kStrongAccess) != 0));
      for (const Access* reader : {&readers.first, &readers.last}) {
        if (check.concerns(*reader, lane) &&
            stored.changes(lane, now, from, std::min(check.bytes, 4u))) {
          found_race(check, lane, address, *reader, AccessNumber::read);
        }
      }
      if (observed) {
        record_write(check, write, false);
        return;
      }
    }
    if (write.time >= check.begin && check.concerns(write, lane) && !is_same_store(check, write)) {
      same = !stored.changes(lane, now, from, std::min(check.bytes, 4u));
      if (!same) found_race(check, lane, address, write, kind_of_write(write));
    }
    each_hidden_race(check, lane, word, write, [&](const Access& one) {
      if (!stored.changes(lane, now, from, std::min(check.bytes, 4u))) return;
      found_race(check, lane, address, one, kind_of_write(one));
    });
    record_write(check, write, same, hide(check, lane, word, write));
  });
}

template <class U>
void check_race_atomic(Warp* w, uint32_t site, Mask lanes, const Lanes<U>& at, uint32_t bytes,
                       bool observes) {
  Checked check(w, site, AccessNumber::atomic, bytes, U{});
  if (observes) check.mine.flags |= kObserves;
  each_word(check, lanes, at, [&](int lane, uint64_t word, uint64_t address) {
    Access& write = check.words.writes[word];
    const Readers& readers = check.words.readers[word];
    for (const Access* reader : {&readers.first, &readers.last}) {
      if ((reader->flags & kStrongAccess) != 0 || !check.concerns(*reader, lane)) continue;
      if (!is_guarded(check, reader->site, site)) {
        found_race(check, lane, address, *reader, AccessNumber::read);
      } else {
        keep_guarded_race(race_of(check, lane, address, *reader, AccessNumber::read));
      }
    }
    if (check.concerns(write, lane) && (write.flags & kSameValue) == 0) {
      found_race(check, lane, address, write, kind_of_write(write));
    }
    each_hidden_race(check, lane, word, write, [&](const Access& one) {
      found_race(check, lane, address, one, kind_of_write(one));
    });
    record_write(check, write, false, hide(check, lane, word, write));
  });
}

#define EMU_DEFINE(U)                                                                       \
  template void check_race_read<U>(Warp*, uint32_t, Mask, const Lanes<U>&, uint32_t);        \
  template void check_race_write<U>(Warp*, uint32_t, Mask, const Lanes<U>&, uint32_t, uint32_t, \
                                    const void* const*);                                    \
  template void check_race_atomic<U>(Warp*, uint32_t, Mask, const Lanes<U>&, uint32_t, bool);
EMU_DEFINE(uint32_t)
EMU_DEFINE(uint64_t)
#undef EMU_DEFINE

}  // namespace emu
