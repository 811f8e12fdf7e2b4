// The device's side: answers what the host part asks for. Whoever asks may be hostile, so every
// number is looked at before it is used.
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <vector>

#include "device/state.h"
#include "emu/host.h"
#include "emu/link.h"

namespace emu {
namespace {

// What a `solve` may bring along in one call: tables of coefficients, not results.
constexpr uint64_t kTablesBytes = uint64_t{4} << 20;

Packet packet;

bool knows_kernel(uint64_t index) { return index < device().module->kernel_count; }

std::string text() { return {reinterpret_cast<const char*>(packet.data), packet.bytes}; }

void describe(const Kernel& k) {
  packet.words[0] = k.local_bytes;
  packet.words[1] = k.static_shared_bytes;
  packet.words[2] = k.param_bytes;
  packet.words[3] = k.max_threads;
  packet.words[4] = k.hardware_registers;
  packet.bytes = static_cast<uint32_t>(k.param_count * sizeof(Param));
  std::memcpy(packet.data, k.params, packet.bytes);
}

uint64_t launch_packet() {
  const auto index = static_cast<uint32_t>(packet.words[0]);
  const Kernel& k = kernel(index);
  const std::vector<uint8_t> values(packet.data, packet.data + packet.bytes);
  std::vector<void*> arguments;
  for (uint32_t i = 0; i < k.param_count; ++i) {
    arguments.push_back(const_cast<uint8_t*>(values.data()) + k.params[i].offset);
  }
  uint32_t grid[3], block[3];
  for (int axis = 0; axis < 3; ++axis) {
    grid[axis] = static_cast<uint32_t>(packet.words[1 + axis]);
    block[axis] = static_cast<uint32_t>(packet.words[4 + axis]);
  }
  const uint64_t more = packet.words[7];
  ClusterShape cluster;
  for (int axis = 0; axis < 3; ++axis) cluster.blocks[axis] = more >> (8 * (axis + 1)) & 0xff;
  cluster.large = (more & 2) != 0;
  return static_cast<uint64_t>(
      launch(index, grid, block, arguments.data(), more >> 32, (more & 1) != 0, cluster));
}

// False: no request that our own libcudart would make.
bool answer() {
  const uint32_t sent = packet.bytes;
  const uint64_t* w = packet.words;
  const bool part = w[3] != 0;
  packet.bytes = 0;
  switch (packet.kind) {
    case Ask::find_kernel:
      packet.bytes = sent;
      packet.words[0] = static_cast<uint64_t>(find_kernel(text().c_str()));
      packet.bytes = 0;
      return true;
    case Ask::describe:
      if (!knows_kernel(w[0])) return false;
      describe(kernel(static_cast<uint32_t>(w[0])));
      return true;
    case Ask::find_variable: {
      packet.bytes = sent;
      const int index = find_variable(text().c_str());
      packet.bytes = 0;
      packet.words[0] = static_cast<uint64_t>(index);
      if (index < 0) return true;
      packet.words[1] = variable_address(static_cast<uint32_t>(index));
      packet.words[2] = variable_bytes(static_cast<uint32_t>(index));
      return true;
    }
    case Ask::shared_limit:
      if (!knows_kernel(w[0])) return false;
      packet.words[0] = static_cast<uint64_t>(
          set_dynamic_shared_limit(static_cast<uint32_t>(w[0]), static_cast<uint32_t>(w[1])));
      return true;
    case Ask::active_blocks:
      if (!knows_kernel(w[0])) return false;
      packet.words[0] = static_cast<uint64_t>(
          max_active_blocks(static_cast<uint32_t>(w[0]), static_cast<uint32_t>(w[1]), w[2]));
      return true;
    case Ask::launch:
      if (!knows_kernel(w[0]) || sent != kernel(static_cast<uint32_t>(w[0])).param_bytes) return false;
      packet.bytes = sent;
      packet.words[0] = launch_packet();
      packet.bytes = 0;
      return true;
    case Ask::allocate:
      packet.words[0] = device_malloc(w[0]);
      return true;
    case Ask::release:
      packet.words[0] = device_free(w[0]) ? 1 : 0;
      return true;
    case Ask::set:
      packet.words[0] = static_cast<uint64_t>(device_set(w[0], static_cast<int>(w[1]), w[2], part));
      return true;
    case Ask::copy:
      packet.words[0] = static_cast<uint64_t>(copy_on_device(w[0], w[1], w[2], part));
      return true;
    case Ask::write:
      if (w[2] != sent) return false;
      if (device().report->host_bytes + sent > kTablesBytes) {
        refuse_copy(Fault::large_copies, kTablesBytes);
      }
      packet.words[0] = static_cast<uint64_t>(copy_to_device(w[0], packet.data, sent, part));
      return true;
    case Ask::read:
      if (w[2] > kLinkData) return false;
      packet.bytes = static_cast<uint32_t>(w[2]);
      packet.words[0] = static_cast<uint64_t>(copy_from_device(packet.data, w[0], w[2], part));
      return true;
    case Ask::refuse:
      if (sent != 0) return false;
      refuse_copy(Fault::large_copy, w[0]);
    default:
      return false;
  }
}

}  // namespace
}  // namespace emu

extern "C" void emu_greet(int link) {
  using namespace emu;
  const Device& d = device();
  packet = {};
  packet.kind = Ask::start;
  packet.words[0] = d.base;
  packet.words[1] = d.bytes;
  packet.bytes = sizeof d.facts;
  std::memcpy(packet.data, &d.facts, sizeof d.facts);
  // A host part that has gone is found out at the next read.
  (void)!write(link, &packet, kPacketHead + packet.bytes);
}

extern "C" long emu_serve(int link, void* other, size_t capacity) {
  using namespace emu;
  while (true) {
    const ssize_t got = recv(link, &packet, sizeof packet, 0);
    if (got <= 0) return 0;
    const auto length = static_cast<size_t>(got);
    if (length < sizeof packet.kind) return -1;
    if (static_cast<uint32_t>(packet.kind) < kFirstAsk) {
      if (length != capacity) return -1;
      std::memcpy(other, &packet, length);
      return got;
    }
    if (length < kPacketHead || length != kPacketHead + packet.bytes || !answer()) return -1;
    packet.kind = Ask::answer;
    const size_t size = kPacketHead + packet.bytes;
    if (send(link, &packet, size, MSG_NOSIGNAL) != static_cast<ssize_t>(size)) return 0;
  }
}
