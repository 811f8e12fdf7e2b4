// f64 arithmetic in the directed modes, by switching the CPU's own.
#include <cfenv>

#include "emu/float.h"

namespace emu {
namespace {

int cpu_mode(unsigned rounding) {
  return rounding == rz ? FE_TOWARDZERO : rounding == rm ? FE_DOWNWARD : FE_UPWARD;
}

double compute(Directed operation, double a, double b, double c) {
  switch (operation) {
    case Directed::add:
      return a + b;
    case Directed::mul:
      return a * b;
    case Directed::fma:
      return __builtin_fma(a, b, c);
    case Directed::div:
      return a / b;
    case Directed::sqrt:
      return __builtin_sqrt(a);
  }
  return 0;
}

}  // namespace

double directed_f64(Directed operation, unsigned rounding, double a, double b, double c) {
  // Volatile: the compiler must not compute before the mode is set or after it is put back.
  volatile double first = a, second = b, third = c;
  std::fesetround(cpu_mode(rounding));
  volatile double result = compute(operation, first, second, third);
  std::fesetround(FE_TONEAREST);
  return result;
}

}  // namespace emu
