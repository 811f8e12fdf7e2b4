// Everything an operation can do to one lane.
#pragma once

#include "emu/approx.h"
#include "emu/bits.h"
#include "emu/compare.h"
#include "emu/convert.h"
#include "emu/convert_half.h"
#include "emu/float.h"
#include "emu/half.h"
#include "emu/integer.h"
