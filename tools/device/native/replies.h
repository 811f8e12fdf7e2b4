// The runner's only voice: fixed-size replies on its socket. Safe in signal handlers.
#pragma once

#include <cstdint>

#include "reply.h"

namespace runner {

void send_replies_through(int socket);

void say(Reply reply, uint32_t number, uint64_t sequence, uint64_t address, const char* detail);

// Says that one of our own parts failed, and exits.
// `number`: the CUresult, where CUDA failed.
[[noreturn]] void give_up(const char* what, const char* why, uint32_t number = 0);

}  // namespace runner
