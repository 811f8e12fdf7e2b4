"""PTX as values. Registers keep the names the compiler gave them."""

from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True)
class Loc:
    """A source line, from `.loc` (innermost of an inlined chain that lies in the user's file)."""

    file: str
    line: int
    callers: tuple["Loc", ...] = field(default=(), compare=False)
    """Lines of the user's file that the function of the line was inlined at, the nearest first."""


@dataclass(frozen=True)
class Reg:
    """A register: `%r1`, `%p3`. Unique within its function once scopes are renamed."""

    name: str


@dataclass(frozen=True)
class Imm:
    """A literal: an int, or the bit pattern of a float literal (`0f3F800000`, `0d...`)."""

    value: int
    float_bits: int = 0
    """32 or 64 when the literal was written as a float, else 0."""


@dataclass(frozen=True)
class Symbol:
    """The address of a variable or function, plus a byte offset."""

    name: str
    offset: int = 0


@dataclass(frozen=True)
class Address:
    """`[base+offset]`, or `[base, {coordinates}]` of a tensor map."""

    base: "Reg | Symbol | Imm"
    offset: int = 0
    coordinates: "tuple[Operand | None, ...]" = ()


@dataclass(frozen=True)
class Special:
    """A special register: `%tid.x`, `%laneid`, `%clock64`, `%envreg2` ..."""

    name: str


@dataclass(frozen=True)
class Label:
    """A label as the target of a branch."""

    name: str


@dataclass(frozen=True)
class Vector:
    """`{a, b, c, d}`. `None` stands for `_`, a value that is thrown away."""

    items: "tuple[Operand | None, ...]"


@dataclass(frozen=True)
class OperandPair:
    """`a|b`: the second destination of setp, or the predicate of shfl."""

    first: "Operand | None"
    second: "Operand | None"


Operand: TypeAlias = Reg | Imm | Symbol | Address | Special | Label | Vector | OperandPair


@dataclass(frozen=True)
class Guard:
    """Predicate of an instruction: `@%p1` or `@!%p1`."""

    reg: Reg
    negated: bool


@dataclass(frozen=True)
class Instruction:
    """A PTX instruction with its guard: `@%p1 add.rn.f32 %f1, %f2, %f3;`."""

    opcode: tuple[str, ...]
    """Split at the dots: `("add", "rn", "f32")`."""
    operands: tuple[Operand, ...]
    guard: Guard | None = None
    negated: tuple[int, ...] = ()
    """Indices of operands written with `!` (predicate inputs)."""
    loc: Loc | None = None
    ptx_line: int = 0

    @property
    def spelling(self) -> str:
        """Return the opcode as written."""
        return ".".join(self.opcode)


@dataclass(frozen=True)
class FunctionCall:
    """`call.uni (ret), name, (args);` through the .param space, or indirect."""

    target: str | Reg
    results: tuple[str, ...]
    arguments: tuple[str, ...]
    guard: Guard | None = None
    loc: Loc | None = None
    ptx_line: int = 0


@dataclass(frozen=True)
class Target:
    """A label standing in a function body."""

    name: str


Statement: TypeAlias = Instruction | FunctionCall | Target


@dataclass(frozen=True)
class Variable:
    """A .global, .const, .shared, .local or .param variable."""

    name: str
    space: str
    size: int
    """Size of the variable in bytes."""
    align: int
    initial: bytes | None = None
    """Initial contents, zero-extended by the reader; None without an initialiser."""
    pointers: tuple[tuple[int, Symbol], ...] = ()
    """Byte offsets inside `initial` that hold addresses of other symbols."""
    external: bool = False
    """`.extern .shared s[]`: dynamic shared memory."""


@dataclass(frozen=True)
class Function:
    """A `.entry` or a `.func`."""

    name: str
    entry: bool
    params: tuple[Variable, ...]
    results: tuple[Variable, ...]
    registers: dict[str, str]
    """Register name to PTX type (`b32`, `f32`, `pred` ...)."""
    variables: tuple[Variable, ...]
    """.local, .shared and .param variables declared in the body."""
    body: tuple[Statement, ...]
    max_threads: int = 0
    """Product of `.maxntid`; 0 without the directive."""
    cluster: tuple[int, ...] = ()
    """`.reqnctapercluster`: blocks of a cluster along x, y, z; empty where the launch sets the
    cluster."""


@dataclass(frozen=True)
class Module:
    """A parsed PTX file."""

    version: str
    target: str
    functions: tuple[Function, ...]
    variables: tuple[Variable, ...] = field(default=())
    """Module-scope .global, .const and .shared variables."""
