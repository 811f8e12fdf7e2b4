// Streams of a `solve`'s own on the emulated device, in another order of their work in other schedules.
#pragma once

#include "cudart/streams.h"

namespace emu {

cudart::Streams& streams();
void begin_streams();
// Does the work that is left. Work that nobody has waited for is a fault.
void end_streams();

}  // namespace emu
