// Runs one candidate on the emulated device, alone in its own confined process.
//
//   runner SOCKET ARENA REPORT PARENT LIBCUDART KERNELS CANDIDATE
//
// SOCKET, ARENA and REPORT are inherited descriptors (arena and report: memfds), PARENT is the
// orchestrator's process id, the rest are paths of libraries.
#include <csignal>
#include <cstdlib>
#include <dlfcn.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "call.h"
#include "confine.h"
#include "death.h"
#include "device.h"
#include "frames.h"
#include "mouth.h"
#include "sandbox.h"

namespace {

// False: the orchestrator hung up. A frame of another size is a mistake of ours.
template <class Frame>
bool listen(int socket, Frame& frame) {
  const ssize_t got = read(socket, &frame, sizeof frame);
  if (got == 0) return false;
  if (got != static_cast<ssize_t>(sizeof frame)) runner::give_up("frame", "wrong size");
  return true;
}

void* load_candidate(const char* path) {
  runner::confine_for_loading(path);
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    runner::say(runner::Reply::refused, 0, 0, 0, dlerror());
    _exit(0);
  }
  runner::confine_for_running();
  void* solve = dlsym(library, "solve");
  if (solve == nullptr) {
    runner::say(runner::Reply::refused, 0, 0, 0, "no function `solve` is exported");
    _exit(0);
  }
  return solve;
}

void call_once(const runner::EmulatedDevice& device, void* solve, runner::CallFrame& frame) {
  emu::CallOptions options{};
  options.level = frame.level;
  options.buffer_count = frame.buffer_count;
  options.schedule_seed = frame.schedule_seed;
  options.scratch_bytes = frame.scratch_bytes;
  options.fuel = frame.fuel;
  options.device_to_host = frame.device_to_host;
  options.sample_blocks = frame.sample_blocks;
  options.buffers = frame.buffers;
  for (uint32_t i = 0; i < runner::kMaxIntegers; ++i)
    if ((frame.pointers >> i & 1) != 0) frame.integers[i] = device.address(frame.integers[i]);
  device.begin(&options);
  runner::call_any(solve, frame.integers, frame.floats);
  device.end();
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 8) return 2;
  const int socket = std::atoi(arguments[1]);
  const int arena = std::atoi(arguments[2]);
  const int report = std::atoi(arguments[3]);
  runner::speak_through(socket);
  if (sandbox_die_with_parent(SIGKILL, std::atoi(arguments[4])) != 0) return 1;
  prctl(PR_SET_DUMPABLE, 0);

  runner::StartFrame start;
  if (!listen(socket, start)) return 0;
  const runner::EmulatedDevice device = runner::open_device(arguments[5]);
  runner::announce_deaths(device.expire);
  device.attach(arena, start.arena_bytes, report, start.report_bytes, &start.facts);
  close(arena);
  close(report);
  device.load(runner::open_kernels(arguments[6]));
  void* solve = load_candidate(arguments[7]);
  runner::say(runner::Reply::ready, 0, 0, device.address(0), "");

  runner::CallFrame frame;
  while (listen(socket, frame)) {
    call_once(device, solve, frame);
    runner::say(runner::Reply::done, 0, frame.sequence, 0, "");
  }
  _exit(0);
}
