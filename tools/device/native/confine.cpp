#include "confine.h"

#include <cstdio>
#include <cstring>
#include <unistd.h>

#include "replies.h"
#include "sandbox.h"

namespace {

// What the host part and the emulated device may allocate beyond the arena.
constexpr uint64_t kFurtherMemoryBytes = uint64_t{2} << 30;
// A backstop: the orchestrator's own deadline on each call is far shorter.
constexpr uint64_t kCpuSeconds = 3600;

void check(int result, const char* what) {
  if (result < 0) runner::give_up(what, std::strerror(-result));
}

uint64_t address_space_bytes() {
  unsigned long pages = 0;
  FILE* file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr || std::fscanf(file, "%lu", &pages) != 1)
    runner::give_up("/proc/self/statm", "not readable");
  std::fclose(file);
  return pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

void denied(int number) {
  const char* name = sandbox_syscall_name(number);
  runner::say(runner::Reply::denied, static_cast<uint32_t>(number), 0, 0,
              name == nullptr ? "" : name);
}

void confine(const sandbox_path* view, size_t count) {
  sandbox_limits limits{};
  limits.address_space_bytes = address_space_bytes() + kFurtherMemoryBytes;
  limits.cpu_s = kCpuSeconds;
  limits.file_bytes = 1;
  limits.open_files = 16;
  limits.processes = 1;
  check(sandbox_limit(&limits), "limits");
  check(sandbox_no_new_privileges(), "privileges");
  check(sandbox_landlock(view, count), "landlock");
  check(sandbox_on_violation(denied), "violation handler");
  check(sandbox_seccomp(SANDBOX_LOAD), "seccomp");
}

}  // namespace

void runner::confine_device() { confine(nullptr, 0); }

void runner::confine_for_loading(const char* candidate) {
  const sandbox_path view[] = {{candidate, 0}};
  confine(view, 1);
}

void runner::confine_for_running() { check(sandbox_seccomp(SANDBOX_RUN), "seccomp"); }
