// Everything an operation can do to one lane.
#pragma once

#include "emu/bits.h"
#include "emu/compare.h"
#include "emu/convert.h"
#include "emu/float.h"
#include "emu/integer.h"
