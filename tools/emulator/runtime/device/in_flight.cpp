// Registers that products under way read or write: touching one before its group was waited for is a
// fault. Moves that a compiler makes take the mark along.
#include "device/fault.h"
#include "device/run.h"
#include "emu/wgmma.h"

namespace emu {
namespace {

[[noreturn]] void raise_unwaited(Warp* w, uint32_t site, Mask lanes, uint32_t product,
                                 AccessNumber access) {
  raise({.fault = Fault::unwaited,
         .warp = w,
         .lane = __builtin_ctz(lanes),
         .site = site,
         .other_site = product,
         .access = access});
}

}  // namespace

void touch_registers(Warp* w, uint32_t site, Mask lanes, const uint16_t* numbers, uint32_t reads,
                     uint32_t writes) {
  WarpProducts& products = run_of(w).products;
  if (products.pending.empty()) return;
  for (uint32_t i = 0; i < reads + writes; ++i) {
    const RegisterUse& use = products.at(numbers[i]);
    const AccessNumber access = i < reads ? AccessNumber::read : AccessNumber::write;
    if (products.under_way(use.result)) raise_unwaited(w, site, lanes, use.result_site, access);
    if (i < reads || !products.under_way(use.source)) continue;
    raise_unwaited(w, site, lanes, use.source_site, access);
  }
}

void move_registers(Warp* w, Mask lanes, const RegisterMove* moves, uint32_t count) {
  WarpProducts& products = run_of(w).products;
  if (products.pending.empty()) return;
  for (uint32_t i = 0; i < count; ++i) {
    const RegisterMove& move = moves[i];
    const RegisterUse from = move.from == kNoRegister ? RegisterUse{} : products.at(move.from);
    RegisterUse& to = products.at(move.to);
    // Lanes that do not take part keep what was there.
    const bool keeps = move.joins || lanes != w->alive;
    if (keeps && from.result <= to.result) continue;
    to = {from.result, 0, from.result_site, 0};
  }
}

}  // namespace emu
