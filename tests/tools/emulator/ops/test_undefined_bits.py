"""Rules of undefined bits against all values that the undefined bits can have.

A bit of a result is undefined where two values of the undefined bits of the arguments give it
different values. No rule calls such a bit defined; an exact rule calls no other bit undefined.
"""

import re
import subprocess
from pathlib import Path

import pytest
from lane_library import BASE_FLAGS, RUNTIME

from cuda_llm.tools.emulator.ops.lane_op import C_TYPES, LaneOp
from cuda_llm.tools.emulator.ops.table import operations
from cuda_llm.tools.emulator.ops.undefined import undefined_rule
from cuda_llm.tools.native import find_gxx

EXACT = {
    **dict.fromkeys(("mov", "bit_not", "brev", "cvt_int", "shl", "shr", "bfe", "szext"), (0,)),
    **dict.fromkeys(("bit_and", "bit_or", "bit_xor", "bfi", "prmt"), (0, 1)),
    **dict.fromkeys(("shf_l_wrap", "shf_r_wrap", "shf_l_clamp", "shf_r_clamp"), (0, 1)),
    **dict.fromkeys(("lop3", "selp"), (0, 1, 2)),
}
"""Arguments that may be undefined where a rule is exact, by the rule."""
BITS = {"float": "uint32_t", "double": "uint64_t"}

PROGRAM = """
#include <cstdio>
#include "emu/arith.h"
#include "emu/undefined.h"
static uint64_t state = 0x9e3779b97f4a7c15;
static uint64_t draw() {{
  state ^= state << 13; state ^= state >> 7; state ^= state << 17;
  const uint64_t bits = state * 0x2545f4914f6cdd1d;
  switch (state >> 60 & 3) {{ case 0: return bits & 63; case 1: return 0; default: return bits; }}
}}
template <class T> static uint64_t raw(T value) {{
  uint64_t bits = 0; __builtin_memcpy(&bits, &value, sizeof value); return bits;
}}
template <class T> static T cooked(uint64_t bits) {{
  if constexpr (sizeof(T) == 1 && T(2) == T(1)) return T(bits & 1);
  T value; __builtin_memcpy(&value, &bits, sizeof value); return value;
}}
template <class T> constexpr int width = T(2) == T(1) ? 1 : 8 * int(sizeof(T));
template <int N, class Result, class Rule>
static void judge(const char* name, const int (&widths)[N], unsigned exact, Result result,
                  Rule rule) {{
  int lost = 0, loose = 0;
  for (int trial = 0; trial < 300; ++trial) {{
    uint64_t a[N], d[N] = {{}};
    for (uint64_t& each : a) each = draw();
    int at[6], bit[6];
    const int count = int(draw() % 6) + 1;
    bool judged = true;
    for (int k = 0; k < count; ++k) {{
      at[k] = int((draw() >> 3) % N); bit[k] = int((draw() >> 7) % 64) % widths[at[k]];
      d[at[k]] |= uint64_t{{1}} << bit[k];
      judged = judged && (exact >> at[k] & 1) != 0;
    }}
    uint64_t ones = 0, zeros = 0;
    for (int chosen = 0; chosen < 1 << count; ++chosen) {{
      uint64_t x[N];
      for (int n = 0; n < N; ++n) x[n] = a[n] & ~d[n];
      for (int k = 0; k < count; ++k) x[at[k]] |= uint64_t(chosen >> k & 1) << bit[k];
      const uint64_t value = result(x);
      ones |= value; zeros |= ~value;
    }}
    const uint64_t varies = ones & zeros, said = rule(a, d);
    lost += (varies & ~said) != 0;
    loose += judged && (said & ~varies) != 0;
  }}
  std::printf("%s %d %d\\n", name, lost, loose);
}}
int main() {{
{calls}
}}
"""


def rule_of(op: LaneOp) -> str:
    """The C++ of an operation's rule, over the bits `a` and the undefined bits `d`; empty without
    one."""
    values, bits = [], []
    for index, kind in enumerate(op.arguments):
        type_ = BITS.get(C_TYPES[kind], C_TYPES[kind])
        values.append(f"cooked<{type_}>(a[{index}])")
        bits.append(f"cooked<{type_}>(d[{index}])")
    return next(iter(undefined_rule(op, values, bits)), "")


def base_name(op: LaneOp) -> str:
    found = re.match(r"emu::(\w+)", op.functions[0])
    return found[1] if found else ""


def judged() -> dict[str, LaneOp]:
    """One spelling of each C++ function with a rule; one of a few of those that work in halves."""
    chosen: dict[str, str] = {}
    for spelling, op in operations().items():
        if rule_of(op):
            in_halves = base_name(op).startswith(("each_half", "floats_to"))
            chosen.setdefault(op.functions[0][:26] if in_halves else op.functions[0], spelling)
    return {spelling: operations()[spelling] for spelling in chosen.values()}


MISTAKEN = {"add.u32": "bit_xor", "and.b32": "bit_xor"}
"""Rules that are wrong for an operation: one forgets the carry, one that zeros make zeros."""


def call(name: str, op: LaneOp, rule: str) -> str:
    types = [C_TYPES[kind] for kind in op.arguments]
    widths = ", ".join(f"width<{BITS.get(t, t)}>" for t in types)
    arguments = ", ".join(f"cooked<{t}>(x[{index}])" for index, t in enumerate(types))
    exact = sum(1 << index for index in EXACT.get(base_name(op), ()))
    returned = BITS.get(C_TYPES[op.results[0]], C_TYPES[op.results[0]])
    mask = f"(width<{returned}> == 64 ? ~0ull : (1ull << width<{returned}>) - 1)"
    return (
        f'  judge<{len(types)}>("{name}", {{{widths}}}, {exact}u,\n'
        f"    [](const uint64_t* x) {{ return raw({op.functions[0]}({arguments})); }},\n"
        f"    [](const uint64_t* a, const uint64_t* d) {{\n"
        f"      (void)a; return raw({rule}) & {mask}; }});"
    )


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, int]]:
    """How often a rule lost an undefined bit, and how often it called a defined one undefined."""
    folder: Path = tmp_path_factory.mktemp("undefined")
    calls = [call(spelling, op, rule_of(op)) for spelling, op in judged().items()]
    for spelling, other in MISTAKEN.items():
        op = operations()[spelling]
        rule = rule_of(op).replace(base_name(op), other, 1)
        calls.append(call(f"mistaken.{spelling}", op, rule))
    (folder / "rules.cpp").write_text(PROGRAM.format(calls="\n".join(calls)))
    rounding = str(RUNTIME / "device" / "rounding.cpp")
    command = [
        find_gxx(),
        *BASE_FLAGS,
        "-O1",
        "-march=native",
        "rules.cpp",
        rounding,
        "-o",
        "rules",
    ]
    subprocess.run(command, cwd=folder, check=True)
    said = subprocess.run([folder / "rules"], capture_output=True, text=True, check=True).stdout
    rows = [line.split() for line in said.splitlines()]
    return {spelling: (int(lost), int(loose)) for spelling, lost, loose in rows}


def test_no_rule_calls_a_bit_defined_that_is_not(verdicts: dict[str, tuple[int, int]]) -> None:
    assert {spelling: verdicts[spelling][0] for spelling in judged() if verdicts[spelling][0]} == {}
    assert verdicts["mistaken.add.u32"][0] > 0


def test_rules_that_move_bits_are_exact(verdicts: dict[str, tuple[int, int]]) -> None:
    exact = {spelling for spelling, op in judged().items() if base_name(op) in EXACT}
    assert {spelling: verdicts[spelling][1] for spelling in exact if verdicts[spelling][1]} == {}
    assert exact
    assert verdicts["mistaken.and.b32"][1] > 0
