// How tensor cores round, by architecture and element: sums of products are not chains of fma.
//
// Products are exact. A block of them and the accumulator are shifted to the largest exponent among
// them (of products, the sum of their factors' exponents, not normalised), cut off toward zero after
// some bits, and added exactly; the sum is cut off to f32, or rounded to nearest for f16. Blocks follow
// each other along k. A NaN is the canonical one, a zero positive, also where a negative sum is rounded
// to it, subnormals are kept.
//
// An H200 gives this for each product that tests/support has operands for. The others are published:
// M. Fasi, N. Higham, M. Mikaitis, S. Pranesh, "Numerical behavior of NVIDIA tensor cores",
// PeerJ Computer Science 7:e330, 2021; F. Khattak, M. Mikaitis, "Accurate models of NVIDIA tensor cores",
// arXiv 2512.07004, 2025; P. Xie et al., "MMA-Sim: bit-accurate reference model of tensor cores and
// matrix cores", arXiv 2511.10909, 2025 (Turing, which the other lacks). fp8 on chips without an
// instruction for it: what ptxas 13 makes of mma.sync for sm_90 and sm_100. Both papers have wgmma on
// Hopper like its mma.sync, but for fp8, which is multiplied as it is.
#pragma once

#include <cstdint>

#include "emu/tensor.h"

namespace emu {

struct TensorRounding {
  uint32_t products;  // of one block
  int bits;           // kept below the largest exponent
  int least_exponent;      // the largest exponent counts as at least this, with a sum in f32
  int least_exponent_f16;  // and with a sum in f16
  int kept_bits;      // of the fraction of a sum in f32
  bool widened;       // fp8 is multiplied as f16 by two instructions, and C added to their sum
};

inline TensorRounding tensor_rounding(uint32_t compute_major, uint32_t compute_minor,
                                      Element element, bool warpgroup = false) {
  const uint32_t capability = 10 * compute_major + compute_minor;
  const bool fp8 = element == Element::e4m3 || element == Element::e5m2;
  const bool tf32 = element == Element::tf32;
  if (capability < 90) {
    if (fp8 && capability == 89) return {16, 13, -132, -132, 13, false};
    return {tf32 ? 4u : 8u, 24, -132, -20, 23, false};
  }
  if (fp8 && warpgroup) return {32, 13, -133, -133, 13, false};
  if (fp8 && capability >= 120) return {32, 25, -133, -133, 23, false};
  return {tf32 ? 8u : 16u, 25, -133, -21, 23, fp8};
}

}  // namespace emu
