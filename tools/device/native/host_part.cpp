// The process that loads the candidate and calls `solve`. It holds no arena, no report, no kernel.
#include <cstdlib>
#include <dlfcn.h>
#include <unistd.h>

#include "call.h"
#include "confine.h"
#include "crash_handler.h"
#include "device.h"
#include "frames.h"
#include "parts.h"

namespace {

[[noreturn]] void refuse(runner::Refusal who, const char* why) {
  runner::say(runner::Reply::refused, static_cast<uint32_t>(who), 0, 0, why);
  _exit(0);
}

void* load_candidate(const char* path) {
  runner::confine_for_loading(path);
  runner::say(runner::Reply::ready, 0, runner::kConfined, 0, "");
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) refuse(runner::Refusal::linker, dlerror());
  runner::confine_for_running();
  void* solve = dlsym(library, "solve");
  if (solve == nullptr) refuse(runner::Refusal::no_solve, "");
  return solve;
}

}  // namespace

int runner::be_host(char** words) {
  const int link = std::atoi(words[0]);
  send_replies_through(link);
  if (!die_with(std::atoi(words[1]))) return 1;
  open_cuda(words[2], link);
  report_crashes();
  void* solve = load_candidate(words[3]);
  say(Reply::ready, 0, kLoaded, 0, "");

  HostCall call;
  while (listen(link, call)) {
    call_any(solve, call.integers, call.floats);
    say(Reply::done, 0, call.sequence, 0, "");
  }
  _exit(0);
}
