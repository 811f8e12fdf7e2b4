// The host part's side: what libcudart needs of the device, asked for over the link.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <unordered_map>
#include <vector>

#include "emu/host.h"
#include "emu/link.h"

namespace emu {
namespace {

struct KnownKernel {
  Kernel kernel{};
  std::vector<Param> params;
};

struct KnownVariable {
  uint64_t address;
  uint64_t bytes;
};

int link_fd = -1;
uint32_t used_stream = 0;
uint64_t base = 0;
uint64_t size = 0;
DeviceFacts device_facts{};

std::unordered_map<uint32_t, KnownKernel>& known_kernels() {
  static std::unordered_map<uint32_t, KnownKernel> map;
  return map;
}
std::unordered_map<uint32_t, KnownVariable>& known_variables() {
  static std::unordered_map<uint32_t, KnownVariable> map;
  return map;
}

// The device has ended, and has said why.
[[noreturn]] void over() { _exit(1); }

void send(const Packet& packet) {
  const size_t length = kPacketHead + packet.bytes;
  if (::write(link_fd, &packet, length) != static_cast<ssize_t>(length)) over();
}

void receive(Packet& packet) {
  const ssize_t got = ::read(link_fd, &packet, sizeof packet);
  if (got < static_cast<ssize_t>(kPacketHead)) over();
}

// Requests are never nested, and one packet is too much for a small stack.
Packet& fresh(Ask kind) {
  static Packet packet;
  packet.kind = kind;
  packet.bytes = 0;
  packet.stream = used_stream;
  std::memset(packet.words, 0, sizeof packet.words);
  return packet;
}

const Packet& ask(Packet& packet) {
  send(packet);
  receive(packet);
  return packet;
}

void put_text(Packet& packet, const char* text) {
  packet.bytes = static_cast<uint32_t>(std::min(std::strlen(text), kLinkData));
  std::memcpy(packet.data, text, packet.bytes);
}

CudaError error_of(const Packet& answer) { return static_cast<CudaError>(answer.words[0]); }

}  // namespace

int find_kernel(const char* symbol) {
  Packet& packet = fresh(Ask::find_kernel);
  put_text(packet, symbol);
  return static_cast<int>(ask(packet).words[0]);
}

const Kernel& kernel(uint32_t index) {
  KnownKernel& known = known_kernels()[index];
  if (known.kernel.symbol != nullptr) return known.kernel;
  Packet& packet = fresh(Ask::describe);
  packet.words[0] = index;
  const Packet& answer = ask(packet);
  Kernel& k = known.kernel;
  k.symbol = "";
  k.local_bytes = static_cast<uint32_t>(answer.words[0]);
  k.static_shared_bytes = static_cast<uint32_t>(answer.words[1]);
  k.param_bytes = static_cast<uint32_t>(answer.words[2]);
  k.max_threads = static_cast<uint32_t>(answer.words[3]);
  k.hardware_registers = static_cast<uint32_t>(answer.words[4]);
  known.params.resize(answer.bytes / sizeof(Param));
  std::memcpy(known.params.data(), answer.data, known.params.size() * sizeof(Param));
  k.param_count = static_cast<uint32_t>(known.params.size());
  k.params = known.params.data();
  return k;
}

int find_variable(const char* symbol) {
  Packet& packet = fresh(Ask::find_variable);
  put_text(packet, symbol);
  const Packet& answer = ask(packet);
  const int index = static_cast<int>(answer.words[0]);
  if (index >= 0) {
    known_variables()[static_cast<uint32_t>(index)] = {answer.words[1], answer.words[2]};
  }
  return index;
}

uint64_t variable_address(uint32_t variable) { return known_variables()[variable].address; }
uint64_t variable_bytes(uint32_t variable) { return known_variables()[variable].bytes; }
const DeviceFacts& facts() { return device_facts; }
bool is_device_address(uint64_t address) { return address - base < size; }

CudaError set_dynamic_shared_limit(uint32_t index, uint32_t bytes) {
  Packet& packet = fresh(Ask::shared_limit);
  packet.words[0] = index;
  packet.words[1] = bytes;
  return error_of(ask(packet));
}

int max_active_blocks(uint32_t index, uint32_t threads, uint64_t dynamic_shared_bytes) {
  Packet& packet = fresh(Ask::active_blocks);
  packet.words[0] = index;
  packet.words[1] = threads;
  packet.words[2] = dynamic_shared_bytes;
  return static_cast<int>(ask(packet).words[0]);
}

CudaError launch(uint32_t index, const uint32_t grid[3], const uint32_t block[3], void** arguments,
                 uint64_t dynamic_shared_bytes, bool cooperative, const ClusterShape& cluster) {
  const Kernel& k = kernel(index);
  Packet& packet = fresh(Ask::launch);
  packet.words[0] = index;
  for (int axis = 0; axis < 3; ++axis) {
    packet.words[1 + axis] = grid[axis];
    packet.words[4 + axis] = block[axis];
  }
  packet.words[7] = std::min<uint64_t>(dynamic_shared_bytes, 0xffffffff) << 32 |
                    (cluster.large ? 2 : 0) | (cooperative ? 1 : 0);
  for (int axis = 0; axis < 3; ++axis) {
    packet.words[7] |= uint64_t{std::min(cluster.blocks[axis], 0xffu)} << (8 * (axis + 1));
  }
  packet.bytes = k.param_bytes;
  for (uint32_t i = 0; i < k.param_count; ++i) {
    std::memcpy(packet.data + k.params[i].offset, arguments[i], k.params[i].bytes);
  }
  return error_of(ask(packet));
}

void note_failed_call(const char* call, CudaError error, int kernel) {
  Packet& packet = fresh(Ask::failed);
  packet.words[0] = static_cast<uint64_t>(error);
  packet.words[1] = static_cast<uint32_t>(kernel);
  put_text(packet, call);
  ask(packet);
}

void refuse_copy(Fault, uint64_t most_bytes) {
  Packet& packet = fresh(Ask::refuse);
  packet.words[0] = most_bytes;
  ask(packet);
  over();
}

uint64_t device_malloc(uint64_t bytes) {
  Packet& packet = fresh(Ask::allocate);
  packet.words[0] = bytes;
  return ask(packet).words[0];
}

bool device_free(uint64_t address) {
  Packet& packet = fresh(Ask::release);
  packet.words[0] = address;
  return error_of(ask(packet)) == kSuccess;
}

uint32_t open_stream(bool blocking) {
  Packet& packet = fresh(Ask::open_stream);
  packet.words[0] = blocking ? 1 : 0;
  return static_cast<uint32_t>(ask(packet).words[0]);
}

void close_stream(uint32_t stream) {
  Packet& packet = fresh(Ask::close_stream);
  packet.stream = stream;
  ask(packet);
}

void use_stream(uint32_t stream) { used_stream = stream; }

uint64_t record_stream(uint32_t stream) {
  Packet& packet = fresh(Ask::record);
  packet.stream = stream;
  return ask(packet).words[0];
}

void wait_for_stream(uint32_t stream, uint32_t other, uint64_t end) {
  Packet& packet = fresh(Ask::wait);
  packet.stream = stream;
  packet.words[0] = other;
  packet.words[1] = end;
  ask(packet);
}

CudaError synchronise(uint32_t stream, uint64_t end) {
  Packet& packet = fresh(Ask::synchronise);
  packet.words[0] = stream;
  packet.words[1] = end;
  return error_of(ask(packet));
}

namespace {

Packet& about(Ask kind, uint64_t to, uint64_t from, uint64_t bytes, bool part) {
  Packet& packet = fresh(kind);
  packet.words[0] = to;
  packet.words[1] = from;
  packet.words[2] = bytes;
  packet.words[3] = part ? 1 : 0;
  return packet;
}

}  // namespace

CudaError device_set(uint64_t address, int value, uint64_t bytes, bool part) {
  return error_of(ask(about(Ask::set, address, static_cast<uint64_t>(value), bytes, part)));
}

CudaError copy_on_device(uint64_t to, uint64_t from, uint64_t bytes, bool part) {
  return error_of(ask(about(Ask::copy, to, from, bytes, part)));
}

CudaError copy_to_device(uint64_t to, const void* from, uint64_t bytes, bool part) {
  for (uint64_t at = 0; at < bytes; at += kLinkData) {
    const uint64_t piece = std::min<uint64_t>(kLinkData, bytes - at);
    Packet& packet = about(Ask::write, to + at, 0, piece, part || at != 0);
    packet.bytes = static_cast<uint32_t>(piece);
    std::memcpy(packet.data, static_cast<const uint8_t*>(from) + at, piece);
    if (const CudaError error = error_of(ask(packet)); error != 0) return error;
  }
  return 0;
}

CudaError copy_from_device(void* to, uint64_t from, uint64_t bytes, bool part) {
  for (uint64_t at = 0; at < bytes; at += kLinkData) {
    const uint64_t piece = std::min<uint64_t>(kLinkData, bytes - at);
    const Packet& answer = ask(about(Ask::read, from + at, 0, piece, part || at != 0));
    if (const CudaError error = error_of(answer); error != 0) return error;
    std::memcpy(static_cast<uint8_t*>(to) + at, answer.data, std::min<uint64_t>(piece, answer.bytes));
  }
  return 0;
}

}  // namespace emu

extern "C" __attribute__((visibility("default"))) void emu_connect(int link) {
  using namespace emu;
  link_fd = link;
  static Packet packet;
  receive(packet);
  base = packet.words[0];
  size = packet.words[1];
  std::memcpy(&device_facts, packet.data, sizeof device_facts);
  // Nothing is there; but an access shall be known for what it is.
  void* reserved = mmap(reinterpret_cast<void*>(base), size, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (reserved != reinterpret_cast<void*>(base)) std::abort();
}
