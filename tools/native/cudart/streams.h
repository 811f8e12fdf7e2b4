// The streams of a `solve`, in both of our CUDA runtimes. Its default stream is the caller's: what other
// streams do has to be joined, by the host or by the default stream, before `solve` returns.
//
// Work of different streams may run in any order that events, waits of the host and the legacy default
// stream leave open. Many such orders are made here, so that a wait that is missing shows: each stream
// does its work at once, or only when something waits for it, by a number of the call's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

#include "cudart/mixed.h"

namespace cudart {

constexpr uint32_t kDefaultStream = 0;
constexpr uint32_t kNoKernel = ~uint32_t{0};
constexpr uint32_t kMostStreams = 1024;
constexpr uint32_t kMostWaiting = 1024;

// Orders of a call's work; every other number is one by chance.
constexpr uint64_t kAsIssued = 0;
constexpr uint64_t kOwnLast = 1;  // only the default stream does its work at once

// All work of a stream up to a place: what an event stands for.
struct StreamPoint {
  uint32_t stream;
  uint64_t end;
};

class Streams {
 public:
  using Work = std::function<int()>;  // returns a cudaError_t

  void begin_call(uint64_t order) {
    order_ = order;
    failed_ = 0;
  }

  // Returns kDefaultStream where there are too many.
  uint32_t open(bool blocking) {
    if (all_.size() == kMostStreams) return kDefaultStream;
    all_.push_back({.blocking = blocking});
    return static_cast<uint32_t>(all_.size() - 1);
  }
  // What it has been asked for is still done.
  void close(uint32_t stream) { all_[stream].open = false; }
  bool knows(uint32_t stream) const { return stream < all_.size() && all_[stream].open; }
  bool knows(StreamPoint point) const {
    return point.stream < all_.size() && point.end <= all_[point.stream].end();
  }

  // Returns the error of the work, where it has run at once.
  int add(uint32_t stream, Work work, uint32_t kernel = kNoKernel) {
    if (all_.size() == 1) return work();
    push(stream, {predecessors(stream), std::move(work), kernel, true, 0});
    if (!runs_at_once(stream)) return 0;
    run_to({stream, all_[stream].end()});
    return all_[stream].pieces.back().error;
  }

  StreamPoint record(uint32_t stream) {
    if (all_.size() > 1) push(stream, {predecessors(stream), {}, kNoKernel, false, 0});
    return {stream, all_[stream].end()};
  }

  void wait(uint32_t stream, StreamPoint point) {
    if (all_.size() > 1) push(stream, {{point}, {}, kNoKernel, false, 0});
    if (runs_at_once(stream)) run_to({stream, all_[stream].end()});
  }

  // The host waits. Returns the first error of work that ran later than it was asked for.
  int synchronise(StreamPoint point) {
    run_to(point);
    join(point);
    return std::exchange(failed_, 0);
  }
  int synchronise(uint32_t stream) { return synchronise({stream, all_[stream].end()}); }
  int synchronise_all() {
    run_all();
    for (uint32_t stream = 0; stream < all_.size(); ++stream) join({stream, all_[stream].end()});
    return std::exchange(failed_, 0);
  }

  // Is there work that neither the host nor the default stream has waited for? `kernel` becomes a
  // kernel of it, or kNoKernel.
  bool is_unjoined(uint32_t& kernel) const {
    for (uint32_t stream = 1; stream < all_.size(); ++stream) {
      const Stream& one = all_[stream];
      for (uint64_t at = one.joined; at < one.end(); ++at) {
        const Piece& piece = one.pieces[at - one.first];
        if (!piece.is_work) continue;
        kernel = piece.kernel;
        return true;
      }
    }
    return false;
  }

  // Runs the rest, and forgets it. Streams that are open stay so.
  void end_call() {
    synchronise_all();
    for (Stream& one : all_) {
      one.first = one.end();
      one.pieces.clear();
    }
  }

 private:
  struct Piece {
    std::vector<StreamPoint> after;
    Work work;
    uint32_t kernel;
    bool is_work;
    int error;
  };

  struct Stream {
    bool blocking = true;  // the legacy default stream waits for it, and it for that
    bool open = true;
    uint64_t first = 0;  // the place of pieces[0]
    uint64_t ran = 0;
    uint64_t joined = 0;
    std::deque<Piece> pieces{};

    uint64_t end() const { return first + pieces.size(); }
  };

  bool runs_at_once(uint32_t stream) const {
    const bool is_default = stream == kDefaultStream;
    if (order_ == kAsIssued || (is_default && is_alone())) return true;
    return order_ == kOwnLast ? is_default : (chance(stream) & 1) != 0;
  }

  // A number of the stream's in this order.
  uint64_t chance(uint32_t stream) const { return mixed(order_ + stream * 0x9e3779b97f4a7c15); }

  bool is_alone() const {
    return std::none_of(all_.begin() + 1, all_.end(), [](const Stream& one) { return one.open; });
  }

  std::vector<StreamPoint> predecessors(uint32_t stream) const {
    std::vector<StreamPoint> before;
    if (stream != kDefaultStream) {
      if (all_[stream].blocking) before.push_back({kDefaultStream, all_[kDefaultStream].end()});
      return before;
    }
    for (uint32_t other = 1; other < all_.size(); ++other) {
      if (all_[other].blocking) before.push_back({other, all_[other].end()});
    }
    return before;
  }

  // What the default stream waits for is joined.
  void push(uint32_t stream, Piece piece) {
    if (stream == kDefaultStream) {
      for (const StreamPoint& point : piece.after) join(point);
    }
    all_[stream].pieces.push_back(std::move(piece));
    // Pieces that wait for one another are run by a function that calls itself.
    if (++waiting_ > kMostWaiting) run_all();
  }

  void run_all() {
    std::vector<std::pair<uint64_t, uint32_t>> turns;
    for (uint32_t stream = 0; stream < all_.size(); ++stream) turns.emplace_back(chance(stream), stream);
    if (order_ != kAsIssued) std::sort(turns.begin(), turns.end());
    for (const auto& [turn, stream] : turns) run_to({stream, all_[stream].end()});
  }

  // Every piece waits for pieces that were asked for before it, so this ends.
  void run_to(StreamPoint point) {
    Stream& one = all_[point.stream];
    while (one.ran < point.end) {
      Piece& piece = one.pieces[one.ran - one.first];
      ++one.ran;
      --waiting_;
      for (const StreamPoint& before : piece.after) run_to(before);
      if (!piece.work) continue;
      piece.error = std::exchange(piece.work, {})();
      if (failed_ == 0) failed_ = piece.error;
    }
  }

  void join(StreamPoint point) {
    std::vector<StreamPoint> points = {point};
    while (!points.empty()) {
      const StreamPoint to = points.back();
      points.pop_back();
      for (Stream& one = all_[to.stream]; one.joined < to.end; ++one.joined) {
        const Piece& piece = one.pieces[one.joined - one.first];
        points.insert(points.end(), piece.after.begin(), piece.after.end());
      }
    }
  }

  uint64_t order_ = kAsIssued;
  int failed_ = 0;
  uint32_t waiting_ = 0;  // pieces that have not run
  std::vector<Stream> all_ = std::vector<Stream>(1);
};

}  // namespace cudart
