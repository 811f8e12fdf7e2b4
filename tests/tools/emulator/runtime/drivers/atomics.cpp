// Any atomic: the request and its operands come with the buffer.
#include <cstring>

#include "harness.h"

namespace test::atomics {
namespace {

struct Request {
  uint32_t op, type, width, shared;
  uint32_t mask, with_result, cells, unused;
  uint32_t cell[kLanes];
  uint64_t a[kLanes];
  uint64_t b[kLanes];
  uint64_t out[kLanes];
  uint64_t memory[8];
};

uint64_t host_of(Warp* w, uint64_t address) { return address + w->launch->delta; }

void pack(const uint64_t* from, uint32_t width, uint8_t* to) {
  for (int i = 0; i < kLanes; ++i) std::memcpy(to + static_cast<uint32_t>(i) * width, &from[i], width);
}

void perform(Warp* w, Mask, uint32_t) {
  uint64_t buffer = param<uint64_t>(w, 0);
  auto& request = *reinterpret_cast<Request*>(host_of(w, buffer));
  bool shared = request.shared != 0;
  uint64_t base = shared ? 0 : buffer + offsetof(Request, memory);
  uint64_t address[kLanes];
  for (int i = 0; i < kLanes; ++i) address[i] = base + 8 * request.cell[i];
  alignas(8) uint8_t a[8 * kLanes], b[8 * kLanes], out[8 * kLanes] = {};
  pack(request.a, request.width, a);
  pack(request.b, request.width, b);
  if (shared) {
    uint32_t where[kLanes];
    uint64_t value[kLanes] = {};
    for (uint32_t i = 0; i < kLanes; ++i) where[i] = 8 * (i % 8);
    for (uint32_t i = 0; i < 8; ++i) value[i] = request.memory[i];
    const uint64_t* const in[1] = {value};
    store_shared<uint64_t, 1>(w, 3, 0xff, where, 0, in);
  }
  atomic(w, 6, request.mask == 0 ? 1 : request.mask, shared ? Space::shared : Space::global,
         static_cast<AtomOp>(request.op), static_cast<AtomType>(request.type), address, 0, a, b,
         request.with_result != 0 ? out : nullptr);
  if (shared) std::memcpy(request.memory, w->block->shared, sizeof request.memory);
  for (int i = 0; i < kLanes; ++i) {
    std::memcpy(&request.out[i], out + static_cast<uint32_t>(i) * request.width, request.width);
  }
  leave(w, ~Mask{0});
}

Register all[] = {
    {"atomic_request",
     [](Call& c) {
       uint64_t buffer = c.buffer(sizeof(Request), BufferRole::inout);
       c.begin();
       c.launch(run<perform>, 1, 32, {buffer});
     }},
};

}  // namespace
}  // namespace test::atomics
