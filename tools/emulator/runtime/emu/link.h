// Between the process that holds a candidate's host part and the one that holds the device: packets
// of a SOCK_SEQPACKET pair. The host part asks, the device answers each request once. Arena, report
// and counters are mapped in the device's process alone: whatever native code the candidate brings,
// it can only ask.
#pragma once

#include <cstddef>
#include <cstdint>

namespace emu {

enum class Ask : uint32_t {
  answer = 100,   // device to host; words as each request says
  start,          // device to host, first: {base, bytes}; data: DeviceFacts
  find_kernel,    // data: name -> {index or -1}
  describe,       // {kernel} -> {local, static shared, param bytes, max threads, registers}; Param[]
  find_variable,  // data: name -> {index or -1, address, bytes}
  shared_limit,   // {kernel, bytes} -> {error}
  active_blocks,  // {kernel, threads, shared bytes} -> {blocks}
  // {kernel, grid x 3, block x 3, shared bytes << 32 | cluster x 3, a byte each, << 8 | large cluster
  // << 1 | cooperative}; arguments -> {error}
  launch,
  allocate,       // {bytes} -> {address}
  release,        // {address} -> {error}
  set,            // {address, value, bytes, part of a larger fill} -> {error}
  write,          // {address, 0, bytes, part of a larger copy}; data -> {error}
  read,           // {address, 0, bytes, part} -> {error}; data
  copy,           // {to, from, bytes, part} -> {error}
  failed,         // {error, kernel}; data: name of the function that returned the error -> {}
  refuse,         // most bytes that one copy from the host may have; no answer
  open_stream,    // {blocking} -> {stream}
  close_stream,   // of the packet's stream
  record,         // -> {how much has been asked of the packet's stream}
  wait,           // {other stream, how much of it}: what the packet's stream does next comes after
  synchronise,    // {stream or kEveryStream, how much of it or kWholeStream} -> {error}
};

constexpr uint32_t kFirstAsk = static_cast<uint32_t>(Ask::answer);
constexpr size_t kWords = 8;
constexpr size_t kLinkData = 56 << 10;  // a packet has to fit into a socket's buffer

struct Packet {
  Ask kind;
  uint32_t bytes;  // of data that are sent
  uint32_t stream;
  uint32_t unused;
  uint64_t words[kWords];
  uint8_t data[kLinkData];
};
constexpr size_t kPacketHead = offsetof(Packet, data);

}  // namespace emu
