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
  const uint8_t* memory;  // of the address 0
  uint64_t base;          // address of the first word
  SpaceNumber space;

  Words(Warp* w, uint32_t) : base(0), space(SpaceNumber::shared) {
    BlockRun& block = *run_of(w).block;
    writes = block.writes.data();
    readers = block.readers.data();
    memory = block.shared;
  }
  Words(Warp* w, uint64_t) : space(SpaceNumber::global) {
    const Device& d = device();
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
    const uint8_t traits = static_cast<uint8_t>(site_traits(warp, number));
    const WarpRun& run = run_of(warp);
    begin = words.space == SpaceNumber::global ? run.block->launch->order.begin
            : run.block->asynchronous          ? run.block->begin_time
                                               : run.order.block_time;
    mine.time = order_time();
    mine.block = run.home->block.linear;
    mine.site = static_cast<uint16_t>(std::min<uint32_t>(number, 0xffff));
    mine.warp = static_cast<uint8_t>(warp->index);
    if ((traits & kStrong) != 0 || what == AccessNumber::atomic) mine.flags |= kStrongAccess;
    if ((traits & kBlockOnly) != 0) mine.flags |= kBlockScope;
    if (what == AccessNumber::atomic) mine.flags |= kUpdate;
  }

  bool concerns(const Access& earlier, int lane) const {
    if (earlier.time < begin || (earlier.bytes & mine.bytes) == 0) return false;
    if (is_strong_to(earlier)) return false;
    return !is_ordered(w, lane, earlier);
  }

  bool is_strong_to(const Access& earlier) const {
    if ((earlier.flags & mine.flags & kStrongAccess) == 0) return false;
    return earlier.block == mine.block || ((earlier.flags | mine.flags) & kBlockScope) == 0;
  }

  bool is_mine(const Access& earlier, int lane) const {
    return earlier.block == mine.block && earlier.warp == mine.warp && earlier.lane == lane;
  }
};

AccessNumber kind_of_write(const Access& write) {
  return (write.flags & kStrongAccess) != 0 ? AccessNumber::atomic : AccessNumber::write;
}

[[noreturn]] void raise_race(const Checked& check, int lane, uint64_t address,
                             const Access& earlier, AccessNumber earlier_kind) {
  raise({.fault = Fault::race,
         .warp = check.w,
         .lane = lane,
         .site = check.site,
         .other_site = earlier.site,
         .space = check.words.space,
         .access = check.kind,
         .other_access = earlier_kind,
         .bytes = check.bytes,
         .address = address,
         .space_bytes = check.w->block->shared_bytes});
}

// Remembers the first of the doubtful reads of a site.
void suspect(const Checked& check, int lane, uint64_t address, const Access& earlier,
             AccessNumber earlier_kind) {
  const bool reads_now = check.kind == AccessNumber::read;
  LaunchRun& launch = *run_of(check.w).block->launch;
  Suspect& one = launch.suspects[reads_now ? check.mine.site : earlier.site];
  if (one.known) return;
  one.known = true;
  one.site = check.site;
  one.other_site = earlier.site;
  one.access = check.kind;
  one.other_access = earlier_kind;
  one.space = check.words.space;
  one.bytes = check.bytes;
  one.address = address;
  one.shared_bytes = check.w->block->shared_bytes;
  for (int axis = 0; axis < 3; ++axis) {
    one.block[axis] = run_of(check.w).home->block.ctaid[axis];
    one.thread[axis] = check.w->tid[axis][lane];
  }
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

void record_write(const Checked& check, Access& write, bool same_value) {
  const bool by_warp = write.time >= check.begin && write.block == check.mine.block &&
                       write.warp == check.mine.warp && write.flags == check.mine.flags;
  const uint8_t earlier = by_warp && write.time == check.mine.time ? write.bytes : 0;
  const uint8_t lane = write.lane;
  write = check.mine;
  if (same_value) write.flags |= kSameValue;
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
  Checked check(w, site, AccessNumber::read, bytes, U{});
  each_word(check, lanes, at, [&](int lane, uint64_t word, uint64_t address) {
    const Access& write = check.words.writes[word];
    if (write.time >= check.begin && check.concerns(write, lane) &&
        (write.flags & kSameValue) == 0) {
      if ((write.flags & kUpdate) == 0 || (check.mine.flags & kStrongAccess) != 0) {
        raise_race(check, lane, address, write, kind_of_write(write));
      }
      suspect(check, lane, address, write, AccessNumber::atomic);
    }
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
          raise_race(check, lane, address, *reader, AccessNumber::read);
        }
      }
      if (observed) {
        record_write(check, write, false);
        return;
      }
    }
    if (write.time >= check.begin && check.concerns(write, lane) && !is_same_store(check, write)) {
      same = !stored.changes(lane, now, from, std::min(check.bytes, 4u));
      if (!same) raise_race(check, lane, address, write, kind_of_write(write));
    }
    record_write(check, write, same);
  });
}

template <class U>
void check_race_atomic(Warp* w, uint32_t site, Mask lanes, const Lanes<U>& at, uint32_t bytes,
                       bool guesses) {
  Checked check(w, site, AccessNumber::atomic, bytes, U{});
  auto& suspects = run_of(w).block->launch->suspects;
  each_word(check, lanes, at, [&](int lane, uint64_t word, uint64_t address) {
    Access& write = check.words.writes[word];
    const Readers& readers = check.words.readers[word];
    for (const Access* reader : {&readers.first, &readers.last}) {
      if (reader->time < check.begin || (reader->flags & kStrongAccess) != 0) continue;
      if (guesses && check.is_mine(*reader, lane)) suspects[reader->site].cleared = true;
      if (check.concerns(*reader, lane)) {
        suspect(check, lane, address, *reader, AccessNumber::read);
      }
    }
    if (check.concerns(write, lane) && (write.flags & kSameValue) == 0) {
      raise_race(check, lane, address, write, kind_of_write(write));
    }
    record_write(check, write, false);
  });
}

void check_suspects(LaunchRun& launch) {
  for (const auto& [site, one] : launch.suspects) {
    if (!one.known || one.cleared) continue;
    raise({.fault = Fault::race,
           .kernel = launch.launch.kernel_index,
           .site = one.site,
           .other_site = one.other_site,
           .space = one.space,
           .access = one.access,
           .other_access = one.other_access,
           .bytes = one.bytes,
           .address = one.address,
           .space_bytes = one.shared_bytes,
           .block = one.block,
           .thread = one.thread});
  }
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
