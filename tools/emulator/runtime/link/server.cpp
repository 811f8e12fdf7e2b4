// The device's side: answers what the host part asks for. Whoever asks may be hostile, so every
// number is looked at before it is used.
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "device/state.h"
#include "device/streams.h"
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

uint64_t error_number(CudaError error) { return static_cast<uint64_t>(error); }

// Does it for the packet's stream, now or later.
void in_stream(cudart::Streams::Work work, uint32_t kernel = cudart::kNoKernel) {
  packet.words[0] = error_number(streams().add(packet.stream, std::move(work), kernel));
}

void synchronise_packet() {
  const uint64_t stream = packet.words[0], end = packet.words[1];
  cudart::Streams& all = streams();
  const int error = stream == kEveryStream ? all.synchronise_all()
                    : end == kWholeStream  ? all.synchronise(static_cast<uint32_t>(stream))
                                           : all.synchronise({static_cast<uint32_t>(stream), end});
  packet.words[0] = error_number(error);
}

bool may_synchronise(uint64_t stream, uint64_t end) {
  if (stream == kEveryStream) return true;
  if (stream > kEveryStream) return false;
  const auto number = static_cast<uint32_t>(stream);
  return end == kWholeStream ? streams().knows(number) : streams().knows({number, end});
}

// A launch that CUDA would refuse is refused at once.
void launch_packet() {
  const auto index = static_cast<uint32_t>(packet.words[0]);
  const Kernel& k = kernel(index);
  std::vector<uint8_t> values(packet.data, packet.data + packet.bytes);
  std::array<uint32_t, 3> grid{}, block{};
  for (size_t axis = 0; axis < 3; ++axis) {
    grid[axis] = static_cast<uint32_t>(packet.words[1 + axis]);
    block[axis] = static_cast<uint32_t>(packet.words[4 + axis]);
  }
  const uint64_t more = packet.words[7];
  ClusterShape cluster;
  for (int axis = 0; axis < 3; ++axis) cluster.blocks[axis] = more >> (8 * (axis + 1)) & 0xff;
  cluster.large = (more & 2) != 0;
  const bool cooperative = (more & 1) != 0;
  const uint64_t shared_bytes = more >> 32;
  const CudaError refused =
      check_launch(index, grid.data(), block.data(), shared_bytes, cooperative, cluster);
  if (refused != kSuccess) {
    packet.words[0] = error_number(refused);
    return;
  }
  auto work = [=, &k, values = std::move(values)]() mutable {
    std::vector<void*> arguments;
    for (uint32_t i = 0; i < k.param_count; ++i) arguments.push_back(values.data() + k.params[i].offset);
    return launch(index, grid.data(), block.data(), arguments.data(), shared_bytes, cooperative,
                  cluster);
  };
  in_stream(std::move(work), index);
}

// False: no request that our own libcudart would make.
bool answer() {
  const uint32_t sent = packet.bytes;
  const uint64_t* w = packet.words;
  const bool part = w[3] != 0;
  const uint64_t to = w[0], from = w[1], bytes = w[2];
  packet.bytes = 0;
  if (!streams().knows(packet.stream)) return false;
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
      launch_packet();
      packet.bytes = 0;
      return true;
    case Ask::allocate:
      packet.words[0] = device_malloc(w[0]);
      return true;
    case Ask::release:
      in_stream([=] { return device_free(to) ? kSuccess : kInvalidValue; });
      return true;
    case Ask::set:
      in_stream([=] { return device_set(to, static_cast<int>(from), bytes, part); });
      return true;
    case Ask::copy:
      in_stream([=] { return copy_on_device(to, from, bytes, part); });
      return true;
    case Ask::write:
      if (bytes != sent) return false;
      device().brought_bytes += sent;
      if (device().brought_bytes > kTablesBytes) refuse_copy(Fault::large_copies, kTablesBytes);
      in_stream([=, data = std::vector<uint8_t>(packet.data, packet.data + sent)] {
        return copy_to_device(to, data.data(), data.size(), part);
      });
      return true;
    case Ask::read:
      if (bytes > kLinkData) return false;
      packet.bytes = static_cast<uint32_t>(bytes);
      in_stream([=] { return copy_from_device(packet.data, to, bytes, part); });
      // A copy to pageable memory has been made when the call returns.
      if (const int late = streams().synchronise(packet.stream); late != 0) {
        packet.words[0] = error_number(late);
      }
      return true;
    case Ask::failed:
      packet.bytes = sent;
      note_failed_call(text().c_str(), static_cast<CudaError>(w[0]), static_cast<int>(w[1]));
      packet.bytes = 0;
      return true;
    case Ask::refuse:
      if (sent != 0) return false;
      refuse_copy(Fault::large_copy, w[0]);
    case Ask::open_stream:
      packet.words[0] = streams().open(w[0] != 0);
      return true;
    case Ask::close_stream:
      if (packet.stream == cudart::kDefaultStream) return false;
      streams().close(packet.stream);
      return true;
    case Ask::record:
      packet.words[0] = streams().record(packet.stream).end;
      return true;
    case Ask::wait: {
      if (w[0] > kEveryStream) return false;
      const cudart::StreamPoint point{static_cast<uint32_t>(w[0]), w[1]};
      if (!streams().knows(point)) return false;
      streams().wait(packet.stream, point);
      return true;
    }
    case Ask::synchronise:
      if (!may_synchronise(w[0], w[1])) return false;
      synchronise_packet();
      return true;
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
