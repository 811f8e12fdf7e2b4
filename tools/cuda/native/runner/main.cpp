// Runs one candidate on a GPU, in this one confined process.
//
//   gpu_runner SOCKET PARENT GPU SHIM CUBIN REPORT [HOST_SHARED]
//
// SOCKET, REPORT and HOST_SHARED are inherited descriptors (the latter two memfds), PARENT is the
// host process's id as seen from here, GPU a UUID or an ordinal, SHIM and CUBIN are paths.
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "batch.h"
#include "crash_handler.h"
#include "replies.h"
#include "sandbox.h"

namespace {

using namespace runner;
using gpu::Order;

constexpr int kLooksForGo = 100'000;  // some tens of milliseconds

union AnyFrame {
  gpu::Head head;
  gpu::StartFrame start;
  gpu::CallFrame call;
  gpu::CaptureFrame capture;
  gpu::ArmFrame arm;
  gpu::GoFrame go;
};

size_t size_of(Order order) {
  switch (order) {
    case Order::start: return sizeof(gpu::StartFrame);
    case Order::call: return sizeof(gpu::CallFrame);
    case Order::capture: return sizeof(gpu::CaptureFrame);
    case Order::arm: return sizeof(gpu::ArmFrame);
    case Order::go: return sizeof(gpu::GoFrame);
  }
  return 0;
}

// Being woken up takes a time that differs from batch to batch, and would count: from an ArmFrame to
// its GoFrame the runner stays awake, within reason.
void await_go(int socket) {
  pollfd watched = {socket, POLLIN, 0};
  for (int look = 0; look < kLooksForGo && poll(&watched, 1, 0) == 0; ++look) {
  }
}

// False: the host process closed the socket. A frame of another size is a mistake of ours.
bool listen_any(int socket, AnyFrame& frame) {
  const ssize_t got = read(socket, &frame, sizeof frame);
  if (got == 0) return false;
  if (got < static_cast<ssize_t>(sizeof frame.head) ||
      static_cast<size_t>(got) != size_of(static_cast<Order>(frame.head.kind)))
    give_up("frame", "wrong size");
  return true;
}

gpu::Report* open_report(int file) {
  if (ftruncate(file, sizeof(gpu::Report)) != 0) give_up("report", std::strerror(errno));
  void* memory =
      mmap(nullptr, sizeof(gpu::Report), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) give_up("report", std::strerror(errno));
  close(file);
  return static_cast<gpu::Report*>(memory);
}

struct Runner {
  Gpu gpu;
  gpu::Report* report;
  SealKernels kernels;
  Arena arena;
  Flush flush;
  Candidate candidate;
  Captures captures;
  Batch batch;
  SharedReport shared_report;
};

void call_once(const Runner& r, const gpu::CallFrame& frame) {
  copy_in(r.gpu, r.arena, frame.solve.copied_bytes);
  poison_scratch(r.gpu, r.arena, frame.solve);
  call_solve(r.arena, r.candidate, frame.solve, {0, 0, false, true});
  settle(r.gpu);
  copy_out(r.gpu, r.arena, frame.solve.copied_bytes);
  say(Reply::done, 0, frame.head.sequence, 0, "");
}

void capture(Runner& r, const gpu::CaptureFrame& frame) {
  forget_batch(r.gpu, r.batch);
  forget_captures(r.gpu, r.candidate, r.captures);
  r.captures = capture_slots(r.gpu, r.arena, r.candidate, frame);
  const auto done = r.captures.reason.empty() ? gpu::Captured::yes : gpu::Captured::host_inclusive;
  say(Reply::done, static_cast<uint32_t>(done), frame.head.sequence, 0, r.captures.reason.c_str());
}

// The same candidate, in other memory from now on. What it held stays mapped: the host process
// does not free it while this process lives.
void move(Runner& r, const gpu::StartFrame& frame) {
  forget_batch(r.gpu, r.batch);
  forget_captures(r.gpu, r.candidate, r.captures);
  r.captures = {};
  r.arena = open_arena(r.gpu, frame, -1);
  connect_shim(r.gpu, *r.candidate.shim, r.arena, r.report);
  say(Reply::ready, 0, frame.head.sequence, r.arena.base, "");
}

// False: the host process got the reason why there can be no such batch.
bool can_arm(Runner& r, const gpu::ArmFrame& frame) {
  if ((frame.flags & gpu::kStepwise) == 0 || r.shared_report.key_release != 0) return true;
  r.shared_report = share_report(r.gpu, r.report);
  if (r.shared_report.key_release != 0) return true;
  say(Reply::done, static_cast<uint32_t>(gpu::Armed::not_stepwise), frame.head.sequence,
      r.shared_report.error, "");
  return false;
}

void obey(Runner& r, AnyFrame& frame) {
  const uint64_t sequence = frame.head.sequence;
  switch (static_cast<Order>(frame.head.kind)) {
    case Order::call:
      return call_once(r, frame.call);
    case Order::capture:
      return capture(r, frame.capture);
    case Order::arm:
      forget_batch(r.gpu, r.batch);
      if (!can_arm(r, frame.arm)) return;
      r.batch = compose(r.gpu, r.kernels, {r.arena, r.flush, r.captures, r.shared_report}, frame.arm);
      // The key is not left where the candidate's host code could look for it.
      explicit_bzero(&frame, sizeof frame);
      return say(Reply::done, 0, sequence, 0, "");
    case Order::go:
      run_batch(r.gpu, r.arena, r.candidate, r.captures, r.batch, r.report->tags);
      return say(Reply::done, 0, sequence, 0, "");
    case Order::start:
      return move(r, frame.start);
  }
}

}  // namespace

int main(int count, char** words) {
  if (count != 7 && count != 8) return 2;
  const int socket = std::atoi(words[1]);
  send_replies_through(socket);
  // The host process has gone already.
  if (sandbox_die_with_parent(SIGKILL, std::atoi(words[2])) != 0) return 1;
  Runner r{};
  r.gpu = open_gpu(words[3]);
  r.kernels = load_seal_kernels(r.gpu, words[5]);
  const gpu::Shim* shim = open_shim(words[4]);
  r.report = open_report(std::atoi(words[6]));
  report_crashes();
  say(Reply::ready, 0, 0, 0, r.gpu.name);

  AnyFrame frame;
  if (!listen_any(socket, frame)) return 0;
  if (static_cast<Order>(frame.head.kind) != Order::start) give_up("frame", "no start");
  frame.start.candidate[sizeof frame.start.candidate - 1] = '\0';
  r.arena = open_arena(r.gpu, frame.start, count == 8 ? std::atoi(words[7]) : -1);
  r.flush = open_flush(r.gpu, frame.start);
  r.candidate = load_candidate(r.gpu, *shim, r.arena, r.report, frame.start);
  say(Reply::ready, 0, frame.head.sequence, r.arena.base, "");
  while (listen_any(socket, frame)) {
    const bool armed = static_cast<Order>(frame.head.kind) == Order::arm;
    obey(r, frame);
    if (armed) await_go(socket);
  }
  _exit(0);
}
