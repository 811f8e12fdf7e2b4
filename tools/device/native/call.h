#pragma once

#include <cstdint>

#include "reply.h"

namespace runner {

// Calls a C function of any signature of up to 24 integers or pointers and up to 8 floats.
void call_any(void* function, const uint64_t (&integers)[kMaxIntegers],
              const uint64_t (&floats)[kMaxFloats]);

}  // namespace runner
