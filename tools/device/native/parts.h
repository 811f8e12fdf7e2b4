// The two parts of a runner. Each takes its words of the command line and returns an exit status.
#pragma once

#include <csignal>
#include <sys/prctl.h>
#include <unistd.h>

#include "replies.h"
#include "sandbox.h"

namespace runner {

int be_device(char** words);
int be_host(char** words);

// False: the orchestrator has gone already.
inline bool die_with(int parent) {
  prctl(PR_SET_DUMPABLE, 0);
  return sandbox_die_with_parent(SIGKILL, parent) == 0;
}

// False: the other side hung up. A frame of another size is a mistake of ours.
template <class Frame>
bool listen(int socket, Frame& frame) {
  const ssize_t got = read(socket, &frame, sizeof frame);
  if (got == 0) return false;
  if (got != static_cast<ssize_t>(sizeof frame)) give_up("frame", "wrong size");
  return true;
}

}  // namespace runner
