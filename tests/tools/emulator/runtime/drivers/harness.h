// Hand-written kernels on the runtime, without PTX: each scenario is one call of a "solve".
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <string>
#include <vector>

#include "emu/host.h"
#include "emu/memory.h"
#include "emu/schedule.h"

namespace test {

using namespace emu;

constexpr uint32_t kSites = 8;
constexpr uint32_t kBlocks = 8;

struct Settings {
  uint32_t level = 0;
  uint64_t seed = 0;
  uint64_t fuel = 0;
};
extern Settings settings;

// Lane arrays that the kernels compute with.
struct Regs {
  uint64_t address[kLanes];
  uint32_t low[kLanes];
  uint32_t a[kLanes], b[kLanes], c[kLanes], d[kLanes];
  uint32_t i[kLanes];
};
inline Regs& regs(Warp* w) { return *reinterpret_cast<Regs*>(w->regs); }

// Fills a lane array from a function of the thread's number in its block.
template <class T, class F>
void each(Warp* w, T* to, F value) {
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    to[lane] = static_cast<T>(value(w->index * kLanes + lane));
  }
}
template <class F>
Mask where(Warp* w, Mask lanes, F holds) {
  Mask result = 0;
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    if (holds(w->index * kLanes + lane)) result |= Mask{1} << lane;
  }
  return result & lanes;
}

template <class T>
T param(Warp* w, uint32_t index) {
  T value;
  __builtin_memcpy(&value, w->launch->params + 8 * index, sizeof value);
  return value;
}

inline void load_g(Warp* w, uint32_t site, Mask m, uint32_t* out) {
  uint32_t* const to[1] = {out};
  load_global<uint32_t, 1>(w, site, m, regs(w).address, 0, to);
}
inline void store_g(Warp* w, uint32_t site, Mask m, const uint32_t* in) {
  const uint32_t* const from[1] = {in};
  store_global<uint32_t, 1>(w, site, m, regs(w).address, 0, from);
}
inline void load_s(Warp* w, uint32_t site, Mask m, uint32_t* out) {
  uint32_t* const to[1] = {out};
  load_shared<uint32_t, 1>(w, site, m, regs(w).low, 0, to);
}
inline void store_s(Warp* w, uint32_t site, Mask m, const uint32_t* in) {
  const uint32_t* const from[1] = {in};
  store_shared<uint32_t, 1>(w, site, m, regs(w).low, 0, from);
}
inline void sync(Warp* w, uint32_t site, Mask m, uint32_t next) {
  barrier(w, site, m, 0, 0, true, false, Reduce::none, 0, next);
}

// A kernel as one function of (warp, lanes, pc).
using Step = void (*)(Warp*, Mask, uint32_t);
template <Step step>
Status run(Warp* w) {
  while (true) {
    uint32_t pc = 0;
    Mask lanes = pick(w, &pc);
    if (lanes == 0) return stalled(w);
    count(w, pc, lanes);
    step(w, lanes, pc);
    if (w->fuel < 0) return Status::yielded;
  }
}

// One call: buffers, then launches. Buffers are laid out from offset 4096, 256-byte aligned, with
// a page between them, in the order they are added.
class Call {
 public:
  uint64_t buffer(uint64_t bytes, BufferRole role = BufferRole::out);  // device address
  // The pages of the buffer added last are filled from the one added before it.
  void fill_from_the_one_before();
  void begin();
  CudaError launch(Status (*run)(Warp*), uint32_t blocks, uint32_t threads,
                   std::initializer_list<uint64_t> arguments, uint32_t dynamic_shared = 4096,
                   bool cooperative = false, const ClusterShape& cluster = {});

 private:
  std::vector<CallBuffer> buffers_;
  uint64_t end_ = 4096;
};

// The kernel that launches run is a slot of one module; these say what it declares, and how much of a
// launch may be executed at level sample.
struct Declared {
  uint32_t static_shared = 0;
  uint32_t local = 0;
  uint32_t max_threads = 0;
  uint32_t registers = 32;
  const char* opcodes[kSites] = {"ld.global.u32", "st.global.u32", "ld.shared.u32",
                                 "st.shared.u32", "bar.sync", "shfl.sync", "atom.add.u32",
                                 "cp.async"};
  bool steers = false;  // what site 0 loads
  uint16_t updates[kSites] = {};
  uint64_t sample_cost = 1;
};
extern Declared declared;

using Scenario = std::function<void(Call&)>;
std::map<std::string, Scenario>& scenarios();
struct Register {
  Register(const char* name, Scenario scenario) { scenarios()[name] = std::move(scenario); }
};

}  // namespace test
