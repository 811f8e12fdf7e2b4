#include "crash_handler.h"

#include <csignal>
#include <cstdint>
#include <initializer_list>
#include <unistd.h>

#include "replies.h"

namespace {

constexpr int kDeathStatus = 85;

// An overflown stack needs another one to die on.
alignas(16) char own_stack[64 << 10];

void (*expire_call)() = nullptr;

void die(int number, siginfo_t* info, void*) {
  runner::say(runner::Reply::died, static_cast<uint32_t>(number), 0,
              reinterpret_cast<uint64_t>(info->si_addr), "");
  _exit(kDeathStatus);
}

void expire(int) { expire_call(); }

}  // namespace

void runner::report_crashes() {
  stack_t stack{};
  stack.ss_sp = own_stack;
  stack.ss_size = sizeof own_stack;
  sigaltstack(&stack, nullptr);

  struct sigaction fatal{};
  fatal.sa_sigaction = die;
  fatal.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESETHAND;
  sigemptyset(&fatal.sa_mask);
  for (const int number : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGXCPU, SIGXFSZ})
    sigaction(number, &fatal, nullptr);
}

void runner::obey_alarms(void (*expire_function)()) {
  expire_call = expire_function;
  struct sigaction alarm{};
  alarm.sa_handler = expire;
  alarm.sa_flags = SA_RESTART;
  sigemptyset(&alarm.sa_mask);
  sigaction(SIGALRM, &alarm, nullptr);
}
