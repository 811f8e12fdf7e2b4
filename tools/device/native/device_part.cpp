// The process that holds the device and speaks for the runner. Everything the host part sends is
// looked at before it counts: the candidate's native code may have written it.
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <sys/socket.h>
#include <unistd.h>

#include "confine.h"
#include "crash_handler.h"
#include "device.h"
#include "frames.h"
#include "parts.h"

namespace {

using runner::Reply;
using runner::ReplyFrame;

[[noreturn]] void end_with(Reply reply) {
  runner::say(reply, 0, 0, 0, "");
  _exit(0);
}

// `detail` is ours: what the host part writes is read by people and by models.
[[noreturn]] void pass_on_last(const ReplyFrame& said, const char* detail) {
  runner::say(static_cast<Reply>(said.reply), said.number, 0, said.address, detail);
  _exit(0);
}

const char* name_of_call(const ReplyFrame& said) {
  const char* name = sandbox_syscall_name(static_cast<int>(said.number));
  return name == nullptr ? "" : name;
}

// What the host part has behind it. Of the candidate it has nothing until it is confined.
enum class Phase { starting, loading, running };

// Answers the host part's requests until it says what is `wanted`, or its last words, or nonsense.
void serve(const runner::EmulatedDevice& device, int link, Phase phase, Reply wanted,
           uint64_t sequence) {
  ReplyFrame said;
  const long size = device.serve(link, &said, sizeof said);
  if (size == 0) end_with(Reply::vanished);
  if (size < 0) end_with(Reply::forged);
  said.detail[sizeof said.detail - 1] = 0;
  const auto reply = static_cast<Reply>(said.reply);
  if (reply == wanted && said.sequence == sequence) return;
  switch (reply) {
    case Reply::died:
      if (said.number == SIGSEGV) device.touched(said.address);
      pass_on_last(said, "");
    case Reply::denied:
      pass_on_last(said, name_of_call(said));
    case Reply::broken:
      if (phase == Phase::starting) pass_on_last(said, said.detail);
      end_with(Reply::forged);
    case Reply::refused:
      if (phase == Phase::loading) pass_on_last(said, said.detail);
      end_with(Reply::forged);
    default:
      end_with(Reply::forged);
  }
}

bool has_spoken(int link) {
  char first;
  return recv(link, &first, sizeof first, MSG_PEEK | MSG_DONTWAIT) > 0;
}

void call_once(const runner::EmulatedDevice& device, int link, const runner::CallFrame& frame) {
  emu::CallOptions options{};
  options.level = frame.level;
  options.buffer_count = frame.buffer_count;
  options.schedule_seed = frame.schedule_seed;
  options.scratch_bytes = frame.scratch_bytes;
  options.fuel = frame.fuel;
  options.device_to_host = frame.device_to_host;
  options.sample_cost = frame.sample_cost;
  options.certain_offset = frame.certain_offset;
  options.certain_bytes = frame.certain_bytes;
  options.buffers = frame.buffers;
  runner::HostCall call{};
  call.sequence = frame.sequence;
  std::memcpy(call.integers, frame.integers, sizeof call.integers);
  std::memcpy(call.floats, frame.floats, sizeof call.floats);
  for (uint32_t i = 0; i < runner::kMaxIntegers; ++i)
    if ((frame.pointers >> i & 1) != 0) call.integers[i] = device.address(frame.integers[i]);
  // Between calls there is nothing to say.
  if (has_spoken(link)) end_with(Reply::forged);
  device.begin(&options);
  if (send(link, &call, sizeof call, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof call))
    end_with(Reply::vanished);
  serve(device, link, Phase::running, Reply::done, frame.sequence);
  device.end();
}

}  // namespace

int runner::be_device(char** words) {
  const int socket = std::atoi(words[0]);
  const int link = std::atoi(words[1]);
  const int arena = std::atoi(words[3]);
  const int report = std::atoi(words[4]);
  send_replies_through(socket);
  if (!die_with(std::atoi(words[2]))) return 1;

  StartFrame start;
  if (!listen(socket, start)) return 0;
  const EmulatedDevice device = open_device(words[5]);
  report_crashes();
  obey_alarms(device.expire);
  device.attach(arena, start.arena_bytes, report, start.report_bytes, &start.facts);
  close(arena);
  close(report);
  device.load(open_kernels(words[6]));
  confine_device();
  device.greet(link);
  serve(device, link, Phase::starting, Reply::ready, kConfined);
  serve(device, link, Phase::loading, Reply::ready, kLoaded);
  say(Reply::ready, 0, 0, device.address(0), "");

  CallFrame frame;
  while (listen(socket, frame)) {
    call_once(device, link, frame);
    say(Reply::done, 0, frame.sequence, 0, "");
  }
  _exit(0);
}
