#include "replies.h"

#include <unistd.h>

namespace {

int socket_fd = -1;

// snprintf is not safe in a signal handler.
size_t append(char* to, size_t used, size_t size, const char* text) {
  while (*text != '\0' && used + 1 < size) to[used++] = *text++;
  return used;
}

}  // namespace

namespace runner {

void send_replies_through(int socket) { socket_fd = socket; }

void say(Reply reply, uint32_t number, uint64_t sequence, uint64_t address, const char* detail) {
  ReplyFrame frame{};
  frame.reply = static_cast<uint32_t>(reply);
  frame.number = number;
  frame.sequence = sequence;
  frame.address = address;
  append(frame.detail, 0, sizeof frame.detail, detail);
  // Nothing to do where the other end is closed.
  if (write(socket_fd, &frame, sizeof frame) != static_cast<ssize_t>(sizeof frame)) _exit(1);
}

void give_up(const char* what, const char* why, uint32_t number) {
  char detail[256] = {};
  size_t used = append(detail, 0, sizeof detail, what);
  used = append(detail, used, sizeof detail, ": ");
  append(detail, used, sizeof detail, why);
  say(Reply::broken, number, 0, 0, detail);
  _exit(1);
}

}  // namespace runner
