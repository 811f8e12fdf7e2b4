// What generated kernels and the runtime share: a warp, its block, its launch, its module.
//
// A kernel is a resumable function that executes 32 lanes at once. Registers live in a struct of
// lane arrays at `Warp::regs`, as raw bits; predicates are masks. `Warp::pc` holds the basic block
// at which each waiting lane continues, numbered in layout order, so that running the lanes with
// the lowest pc first makes them meet again where the compiler laid out the join.
#pragma once

#include <cstddef>
#include <cstdint>

namespace emu {

constexpr int kLanes = 32;
using Mask = uint32_t;

// Generic addresses: a shared or local address carries its window in the upper bits.
constexpr uint64_t kSharedWindow = uint64_t{1} << 56;
constexpr uint64_t kLocalWindow = uint64_t{2} << 56;
constexpr uint64_t kParamWindow = uint64_t{3} << 56;
constexpr uint64_t kWindowMask = uint64_t{0xff} << 56;
// Addresses of functions, as codegen/functions.py gives them: no memory is there.
constexpr uint64_t kFirstFunction = uint64_t{0xfc0de} << 36;
constexpr uint64_t kFunctions = uint64_t{1} << 36;

enum class Status : int32_t {
  exited,   // every lane has left the kernel
  waiting,  // every live lane stands at a block barrier
  yielded,  // the fuel of this turn is used up; call again later
};

struct Launch;

struct Block {
  Launch* launch;
  uint32_t ctaid[3];
  uint32_t linear;        // position in the grid, x fastest
  uint8_t* shared;        // static part first, then dynamic
  uint32_t shared_bytes;
  bool counted;           // is this launch counted?
};

// What an instruction moves: values, the bits of them that are undefined, or where those come from.
enum class Pass : uint8_t { values, undefined, origins };

struct alignas(64) Warp {
  alignas(64) uint16_t pc[kLanes];
  alignas(64) uint32_t tid[3][kLanes];  // x, y, z
  uint8_t* regs;                        // the kernel's register struct, poisoned at start
  uint8_t* local;                       // per-lane local memory, laid out by memory.h
  Block* block;
  Launch* launch;
  uint64_t* block_warps;  // per basic block: executions (a dummy row when not counted)
  uint64_t* block_lanes;  // per basic block: active lanes
  const uint32_t* block_ticks;  // per basic block: how long one execution takes
  uint64_t ticks;               // on the warp's own path, from the start of its block
  int64_t fuel;           // back-edges left in this turn
  int64_t slice;          // basic blocks left in it
  Mask alive;             // lanes that have not exited
  Mask parked;            // lanes waiting in a warp collective
  Mask at_barrier;        // lanes waiting in a block barrier
  uint32_t index;         // %warpid
  uint32_t barrier_result;  // of bar.red, valid after the barrier
  bool watched;             // races are looked for: who meets whom matters
  bool tracked;             // the kernel computes which bits of its registers are undefined
  Pass pass;
  alignas(64) uint32_t origins[kLanes];  // of what a pass moves: places where it was read first
  uint32_t* trips;          // per basic block: iterations of the outermost loop that ends there; or null
  uint32_t most_trips;      // after which such a loop is left, where `trips` is not null
  void* runtime;            // the scheduler's own part
};

struct Site {
  const char* opcode;
  uint32_t line;
  uint32_t block;  // basic block
  uint32_t bytes;  // per lane
  uint16_t waits;  // for its result, in 256ths of a latency: loads of a batch share one
  uint16_t copy;   // 0, or which copy of an unrolled loop it is in: only the slowest is waited for
  uint16_t loop;   // the copies of one loop have this number in common
  bool steers;     // what it loads decides where the kernel goes, or what it accesses
  uint16_t updates = 0;  // bits of AtomOp: an atomic's own; of a load that only guards one: those it may race with; kUnused
  uint8_t width = 0;  // per lane, of the access that it is counted as with others; 0: it is alone
  int8_t shift = 0;   // from its address to the one of that access
};
constexpr uint16_t kUnused = 1u << 15;  // of `updates`: a load that no instruction needs, as a prefetch
constexpr uint8_t kPart = 0xff;  // width of what is counted with another one

// Instructions of a basic block by the pipe that executes them, and what a warp waits for in it.
enum class Pipe : uint32_t { fp32, fp64, fp16, integer, sfu, convert, shuffle, tensor, issue };
constexpr uint32_t kPipes = 9;
struct BlockCost {
  uint32_t pipes[kPipes];
  uint32_t chain;         // dependent arithmetic, in latencies of it
  uint32_t shared_waits;  // reads of shared memory, each at an address that waits for the one before
  uint32_t cached_waits;  // the same of local and constant memory
};

struct Param {
  uint32_t offset;
  uint32_t bytes;
};

struct Kernel {
  const char* symbol;
  Status (*run)(Warp*);  // null: not translated, launching it is a fault
  uint32_t register_bytes;
  uint32_t local_bytes;  // per thread
  uint32_t static_shared_bytes;
  uint32_t param_bytes;
  uint32_t max_threads;  // .maxntid, or 0
  uint32_t hardware_registers;  // per thread, from ptxas: decides occupancy
  uint32_t block_count;
  uint32_t site_count;
  const Site* sites;
  uint32_t param_count;
  const Param* params;
  const BlockCost* costs;  // one a basic block; null: not known
  uint32_t copies;         // of unrolled loops, and how many loops those are
  uint32_t loops;
  uint32_t cluster[3];     // .reqnctapercluster; 0: the launch says
  uint32_t undefined_offset;  // of the undefined bits among the registers; 0: they are not tracked
};

struct Variable {
  const char* symbol;
  uint64_t bytes;
  uint32_t align;
  bool constant;
  const uint8_t* initial;  // null: zero
  uint64_t initial_bytes;
};

// Address of variable `target` (+ addend) is stored at `offset` of variable `variable`.
struct Relocation {
  uint32_t variable;
  uint64_t offset;
  uint32_t target;
  int64_t addend;
};

struct Module {
  uint32_t abi;  // kAbi
  uint32_t kernel_count;
  const Kernel* kernels;
  uint32_t variable_count;
  const Variable* variables;
  uint32_t relocation_count;
  const Relocation* relocations;
  bool allocates = false;  // some function calls malloc
};
constexpr uint32_t kAbi = 6;

constexpr uint32_t kCheckLevel = 0, kFullLevel = 2, kSampleLevel = 3;

struct Launch {
  const Kernel* kernel;
  uint32_t kernel_index;
  uint32_t grid[3];
  uint32_t block[3];
  uint32_t dynamic_shared_bytes;
  bool cooperative;
  uint32_t level;             // 0 check, 1 account, 2 full, 3 sample
  const uint8_t* params;      // kernel->param_bytes
  const uint64_t* variables;  // device address of each module variable
  uint64_t delta;             // host address = device address + delta (global and const memory)
  // Device address of the grid barrier of cooperative launches, else 0. %envreg1 is its upper half,
  // %envreg2 its lower one.
  uint64_t workspace;
};

// Counts one execution of a basic block.
inline void count(Warp* w, uint32_t block, Mask lanes) {
  w->block_warps[block] += 1;
  w->block_lanes[block] += static_cast<uint64_t>(__builtin_popcount(lanes));
  w->ticks += w->block_ticks[block];
}

}  // namespace emu

// A generated library exports this one symbol.
extern "C" const emu::Module emu_module;
