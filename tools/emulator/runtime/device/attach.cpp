// Mapping the two memfds, and catching host code that touches device memory.
#include <csignal>
#include <cstdlib>
#include <sys/mman.h>
#include <sys/stat.h>

#include "device/fault.h"
#include "device/pages.h"
#include "device/state.h"

namespace emu {

const Allocation kNowhere{0, 0, AllocationKind::none, 0, false, false, false};

Device& device() {
  static Device one;
  return one;
}

namespace {

struct sigaction previous_handler;

void on_segmentation_fault(int signal, siginfo_t* info, void* context) {
  uint64_t address = reinterpret_cast<uint64_t>(info->si_addr);
  if (device().contains(address)) host_touched_device(address);
  // Not ours: what would have happened without us happens when the instruction runs again.
  sigaction(signal, &previous_handler, nullptr);
  if ((previous_handler.sa_flags & SA_SIGINFO) != 0) {
    previous_handler.sa_sigaction(signal, info, context);
  }
}

void catch_host_access() {
  struct sigaction action {};
  action.sa_sigaction = on_segmentation_fault;
  action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  sigemptyset(&action.sa_mask);
  sigaction(SIGSEGV, &action, &previous_handler);
}

void* map_lazily(uint64_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  return memory;
}

}  // namespace
}  // namespace emu

extern "C" void emu_attach(int arena_fd, uint64_t arena_bytes, int report_fd,
                           uint64_t report_bytes, const emu::DeviceFacts* facts) {
  using namespace emu;
  Device& d = device();
  d.facts = *facts;
  d.bytes = arena_bytes;
  // A fixed address where possible: the same run prints the same pointers.
  void* wanted = reinterpret_cast<void*>(uint64_t{0x200000000000});
  void* addresses =
      mmap(wanted, arena_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  void* memory = mmap(nullptr, arena_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
                      arena_fd, 0);
  void* report = mmap(nullptr, report_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, report_fd, 0);
  if (addresses == MAP_FAILED || memory == MAP_FAILED || report == MAP_FAILED ||
      report_bytes < kCountersOffset) {
    std::abort();
  }
  d.base = reinterpret_cast<uint64_t>(addresses);
  d.delta = reinterpret_cast<uint64_t>(memory) - d.base;
  d.initialised = static_cast<uint8_t*>(map_lazily(arena_bytes / 8 + 64));
  d.block_stamps = static_cast<uint32_t*>(map_lazily(arena_bytes / 8 + 64));
  d.wave_stamps = static_cast<uint32_t*>(map_lazily(arena_bytes / 8 + 64));
  d.dirty_stamps = static_cast<uint32_t*>(map_lazily(arena_bytes / 8 + 64));
  d.line_fills = static_cast<LineFill*>(map_lazily(arena_bytes / 128 * sizeof(LineFill) + 64));
  d.lines = static_cast<LineUse*>(map_lazily(arena_bytes / 128 * sizeof(LineUse) + 64));
  d.filled = static_cast<uint8_t*>(map_lazily(arena_bytes / kPageBytes / 8 + 64));
  d.writes = static_cast<Access*>(map_lazily(arena_bytes / 4 * sizeof(Access)));
  d.readers = static_cast<Readers*>(map_lazily(arena_bytes / 4 * sizeof(Readers)));
  d.earlier = static_cast<uint32_t*>(map_lazily(arena_bytes));
  d.report = static_cast<Report*>(report);
  d.report_bytes = report_bytes;
  d.scratch_begin = 0;
  d.scratch_end = arena_bytes;
  d.report->magic = kReportMagic;
  d.report->bytes = report_bytes;
  catch_host_access();
}

extern "C" uint64_t emu_address(uint64_t arena_offset) {
  return emu::device().base + arena_offset;
}

extern "C" void emu_expire(void) { emu::device().expired = 1; }
