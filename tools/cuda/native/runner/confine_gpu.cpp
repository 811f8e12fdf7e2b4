#include "confine_gpu.h"

#include <cstdio>
#include <cstring>
#include <dirent.h>
#include <string>
#include <sys/prctl.h>
#include <unistd.h>
#include <vector>

#include "replies.h"
#include "sandbox.h"

namespace {

// Private writable memory beyond what the driver holds: what a candidate's host code may allocate.
constexpr uint64_t kFurtherMemoryBytes = uint64_t{2} << 30;
// A backstop: the host process's own deadline on each order is far shorter.
constexpr uint64_t kCpuSeconds = 3600;
// The driver holds some forty.
constexpr uint64_t kOpenFiles = 256;

void check(int result, const char* what) {
  if (result < 0) runner::give_up(what, std::strerror(-result));
}

uint64_t data_bytes() {
  unsigned long sizes[6] = {};
  FILE* file = std::fopen("/proc/self/statm", "re");
  if (file == nullptr || std::fscanf(file, "%lu %lu %lu %lu %lu %lu", &sizes[0], &sizes[1],
                                     &sizes[2], &sizes[3], &sizes[4], &sizes[5]) != 6)
    runner::give_up("/proc/self/statm", "not readable");
  std::fclose(file);
  return sizes[5] * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

// The driver opens its devices anew now and then.
std::vector<std::string> nvidia_devices() {
  std::vector<std::string> found;
  DIR* folder = opendir("/dev");
  if (folder == nullptr) return found;
  while (const dirent* entry = readdir(folder))
    if (std::strncmp(entry->d_name, "nvidia", 6) == 0)
      found.push_back(std::string("/dev/") + entry->d_name);
  closedir(folder);
  return found;
}

void denied(int number) {
  const char* name = sandbox_syscall_name(number);
  runner::say(runner::Reply::denied, static_cast<uint32_t>(number), 0, 0,
              name == nullptr ? "" : name);
}

}  // namespace

void runner::confine_gpu_for_loading(const char* candidate) {
  // Not before: the driver wants to know of itself what only a dumpable process is told.
  prctl(PR_SET_DUMPABLE, 0);
  const std::vector<std::string> devices = nvidia_devices();
  std::vector<sandbox_path> view = {{candidate, SANDBOX_READ}};
  for (const std::string& device : devices) view.push_back({device.c_str(), SANDBOX_DEVICE});
  sandbox_limits limits{};
  limits.data_bytes = data_bytes() + kFurtherMemoryBytes;
  limits.cpu_s = kCpuSeconds;
  limits.file_bytes = 1;
  limits.open_files = kOpenFiles;
  check(sandbox_limit(&limits), "limits");
  check(sandbox_no_new_privileges(), "privileges");
  check(sandbox_landlock(view.data(), view.size()), "landlock");
  check(sandbox_on_violation(denied), "violation handler");
  check(sandbox_seccomp(SANDBOX_GPU_LOAD), "seccomp");
}

void runner::confine_gpu_for_running() { check(sandbox_seccomp(SANDBOX_GPU_RUN), "seccomp"); }
