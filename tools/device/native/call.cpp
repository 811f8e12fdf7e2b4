#include "call.h"

#include <bit>

// Both the System V ABI of x86-64 and AAPCS64 deal integers (with pointers) and floats into two
// separate rows of registers, each in the order of the signature, whatever the order between the
// two kinds. Only what no longer fits its row goes to the stack, in eight-byte slots in order. With
// at most eight floats none of them does, so the stack holds integers alone, in their own order.
// Every such signature therefore finds its arguments where this one call puts them: all integers
// first, all floats after. The rest is never looked at, and the caller cleans the stack.
//
// Narrow integers live in the low bits of their slot, which the sender extends to 64 bits by their
// sign; a float lives in the low half of a vector register, so a double with those low bits carries
// it unchanged. (Moving a double never normalises it: signalling bits survive.)
void runner::call_any(void* function, const uint64_t (&i)[kMaxIntegers],
                      const uint64_t (&f)[kMaxFloats]) {
  using U = uint64_t;
  using D = double;
  using Any = void (*)(U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U,  //
                       D, D, D, D, D, D, D, D);
  const auto d = [&f](int k) { return std::bit_cast<double>(f[k]); };
  reinterpret_cast<Any>(function)(i[0], i[1], i[2], i[3], i[4], i[5], i[6], i[7], i[8], i[9], i[10],
                                  i[11], i[12], i[13], i[14], i[15], i[16], i[17], i[18], i[19],
                                  i[20], i[21], i[22], i[23],  //
                                  d(0), d(1), d(2), d(3), d(4), d(5), d(6), d(7));
}
