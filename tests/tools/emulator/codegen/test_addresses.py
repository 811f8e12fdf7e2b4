"""What is known of an address holds whatever the registers it is made of hold."""

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from cuda_llm.tools.emulator.codegen.addresses import Addresses, Sum
from cuda_llm.tools.emulator.codegen.layout import Layout, StoragePlace
from cuda_llm.tools.emulator.ptx.module import Imm, Instruction, Operand, Reg, Symbol

WORD = 1 << 32
PLACE = 48
LAYOUT = Layout({"s": StoragePlace("shared", PLACE)}, 4096, 0, 0, ())
INPUTS = ("%a", "%b", "%c")


@dataclass(frozen=True)
class Program:
    """Straight-line arithmetic, and what it computes."""

    body: tuple[Instruction, ...]
    values: dict[str, int]


def compute(opcode: str, values: list[int]) -> int:
    match opcode, values:
        case "add", [a, b]:
            return a + b
        case "sub", [a, b]:
            return a - b
        case "mul", [a, b]:
            return a * b
        case "mad", [a, b, c]:
            return a * b + c
        case "shl", [a, b]:
            return a << b
        case "and", [a, b]:
            return a & b
        case "or", [a, b]:
            return a | b
        case "xor", [a, b]:
            return a ^ b
        case _:
            return values[0]


SOURCES = {"mov": 1, "add": 2, "sub": 2, "mul": 2, "mad": 3, "shl": 2, "and": 2, "or": 2, "xor": 2}


@st.composite
def programs(draw: st.DrawFn) -> Program:
    values = {name: draw(st.integers(0, 1023)) for name in INPUTS}
    body = []
    for number in range(draw(st.integers(1, 8))):
        opcode = draw(st.sampled_from(sorted(SOURCES)))
        operands: list[Operand] = [Reg(draw(st.sampled_from(sorted(values))))]
        for _ in range(SOURCES[opcode] - 1):
            literal = st.sampled_from([1, 2, 3, 4, 8, 12, 16, 36, 144])
            operands.append(
                Imm(draw(st.integers(0, 6)))
                if opcode == "shl"
                else draw(
                    st.one_of(
                        st.builds(Imm, literal),
                        st.sampled_from([Reg(name) for name in sorted(values)]),
                        st.just(Symbol("s", 4)),
                    )
                )
            )
        target = f"%r{number}"
        spelling = (opcode, "lo", "s32") if opcode in {"mul", "mad"} else (opcode, "b32")
        body.append(Instruction(spelling, (Reg(target), *operands)))
        read = [
            values[one.name]
            if isinstance(one, Reg)
            else one.value
            if isinstance(one, Imm)
            else PLACE + 4
            for one in operands
        ]
        values[target] = compute(opcode, read) % WORD
    return Program(tuple(body), values)


def evaluate(found: Sum, values: dict[str, int]) -> int:
    names = {**values, "=": PLACE}
    return (found.constant + sum(names[n] * factor for (n, _), factor in found.terms)) % WORD


@given(programs())
def test_a_register_equals_its_sum_and_has_the_zero_bits_that_are_known(program: Program) -> None:
    addresses = Addresses(program.body, LAYOUT)
    for instruction in program.body:
        target = instruction.operands[0]
        assert isinstance(target, Reg)
        value = program.values[target.name]
        found = addresses.lasting(target)
        assert found is not None
        assert evaluate(found, program.values) == value
        assert value % (1 << found.bits) == 0
        assert value % (1 << addresses.bits_of(target.name)) == 0
