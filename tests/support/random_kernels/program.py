"""Whole programs: many random kernels in one file, launched by one `solve`."""

from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random

from random_kernels.expressions import expression, literal
from random_kernels.scope import TYPES, Function, Scope, Shared
from random_kernels.statements import declared, declared_array, statements
from random_kernels.tree import Node, render, walk

FIXTURES = Path(__file__).parents[2] / "fixtures" / "differential"
IN_WORDS = 1024
OUT_WORDS = 4
"""Results of one thread."""
OWN_WORDS = 8
"""Scratch words of one thread."""
ACC_WORDS = 64
"""Words a kernel's threads accumulate in."""
THREADS = 512
"""Most threads a kernel is launched with."""

_SHAPES = ((32,), (64,), (128,), (40,), (96,), (100,), (8, 8), (16, 3), (4, 4, 4), (33,))
_FLAVOURS = ("alone", "warp", "block", "block")


@dataclass(frozen=True)
class RandomKernel:
    """One kernel with its functions, and how it is launched."""

    index: int
    tree: Node
    launch: str

    @property
    def conditions(self) -> list[Node]:
        """Branch conditions that can be turned."""
        return [node for node in walk(self.tree) if node.turned is not None]


@dataclass(frozen=True)
class Program:
    """Random kernels as one source file."""

    kernels: tuple[RandomKernel, ...]
    turned: frozenset[Node] = field(default=frozenset())

    def text(self) -> str:
        """CUDA that is C++ too: `solve(in, out, acc, own, n)`."""
        lines = [(FIXTURES / "dialect.h").read_text(), _TABLES]
        for kernel in self.kernels:
            lines += render(kernel.tree, self.turned)
        lines.append('extern "C" void solve(const u32* in, u32* out, u32* acc, u32* own, int n) {')
        lines += [f"  {kernel.launch}" for kernel in self.kernels]
        return "\n".join([*lines, "}", ""])


_WORDS = ", ".join(f"{(i * 2654435761 + 12345) % 2**32:#x}u" for i in range(32))
_TABLES = f"""
struct Knobs {{ i8 byte; u16 half; f32 real; u64 wide; u32 word[4]; }};
TABLE const u32 words[32] = {{ {_WORDS} }};
"""


def draw_program(seed: int, kernels: int) -> Program:
    """The program of a seed; kernel k is the same in a program of any size."""
    return Program(tuple(draw_kernel(seed, index) for index in range(kernels)))


def draw_kernel(seed: int, index: int) -> RandomKernel:
    """Kernel `index` of a seed."""
    draw = Random(f"{seed}/{index}")
    fresh = count()
    functions: list[Function] = []
    parts = []
    for number in range(draw.randrange(2)):
        function, node = _function(draw, f"f{index}_{number}", fresh, functions)
        functions.append(function)
        parts.append(node)
    shape = draw.choice(_SHAPES)
    grid = draw.choice(((1,), (2,), (3,), (2, 2)))
    parts.append(_kernel(draw, index, shape, functions, fresh))
    knobs = (
        f"Knobs{{i8({draw.randrange(-128, 128)}), u16({draw.getrandbits(16)}),"
        f" {draw.uniform(-9, 9):.3f}f, {draw.getrandbits(64)}ull,"
        f" {{{', '.join(f'{draw.getrandbits(32)}u' for _ in range(4))}}}}}"
    )
    launch = (
        f"LAUNCH(kernel{index}, dim3({_list(grid)}), dim3({_list(shape)}),"
        f" {4 * _product(shape)}, in, out + {index * THREADS * OUT_WORDS},"
        f" acc + {index * ACC_WORDS}, own + {index * THREADS * OWN_WORDS}, u32(n),"
        f" {draw.randint(1, 5)}u, {knobs});"
    )
    return RandomKernel(index, Node("", parts), launch)


def _kernel(
    draw: Random, index: int, shape: tuple[int, ...], functions: list[Function], fresh: "count[int]"
) -> Node:
    threads = _product(shape)
    flavour = draw.choice(_FLAVOURS)
    live = threads - draw.choice((0, 0, 0, 1, 7, threads // 2)) if flavour != "alone" else threads
    scope = Scope(
        random=draw,
        variables=[("t", "u32"), ("block", "u32"), ("h", "u32"), ("knobs.real", "f32")],
        functions=functions,
        live=live,
        fresh=fresh,
    )
    scope.variables += [("knobs.byte", "i8"), ("knobs.half", "u16"), ("knobs.wide", "u64")]
    head = [
        "const u32 t0 = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);",
        "u32 block = blockIdx.x + gridDim.x * blockIdx.y;",
        f"const u32 gid = block * {threads}u + t0;",
        f"out += gid * {OUT_WORDS}; own += gid * {OWN_WORDS};",
        "u32 h = stir(gid, in[gid % n]);",
        f"for (u32 i = 0; i < {OWN_WORDS}; ++i) own[i] = in[(gid * 3 + i) % n];",
        "const u32 t = t0;",
    ]
    body = [Node(line, needed=True) for line in head]
    finish = f"out[0] = h; out[1] = stir(h, t); out[2] = own[h & {OWN_WORDS - 1}]; out[3] = n;"
    if live < threads:
        body.append(Node(f"if (t >= {live}u) {{ {finish} return; }}", needed=True))
    if flavour == "alone":
        scope.leave = f"{finish} return;"
    else:
        body.append(Node(f"const u32 everyone = lanes_here(t, {live}u);", needed=True))
        scope.mask, scope.whole_warps = "everyone", live % 32 == 0
    readable = list(scope.variables)
    scope.variables = [pair for pair in readable if pair[0] == "h"]
    if flavour == "block":
        scope.uniform = True
        kinds = draw.sample(TYPES, 2)
        scope.shared = [Shared(f"s{index}_{kind}", kind) for kind in kinds]
        body += [Node(f"__shared__ {s.type} {s.name}[{threads}];") for s in scope.shared]
        body.append(Node("__shared__ u32 tally[32]; DYNAMIC(u32, dynamic);"))
        body += [Node(f"{s.name}[t] = {s.type}(t);", needed=True) for s in scope.shared]
        body.append(Node("__syncthreads();", needed=True))
    for name, kind in readable:
        if name != "h":
            body.append(Node(f"{kind} w_{name.replace('.', '_')} = {name};"))
            scope.variables.append((f"w_{name.replace('.', '_')}", kind))
    body += declared(scope, draw.randint(2, 4))
    body += [declared_array(scope) for _ in range(draw.randrange(3))]
    body += statements(scope, draw.randint(2, 5))
    body += [Node(f"h = stir(h, bits({name}));") for name, _ in scope.variables]
    for name, _, size in scope.arrays:
        body.append(Node(f"for (int i = 0; i < {size}; ++i) h = stir(h, bits({name}[i]));"))
    body.append(Node(finish, needed=True))
    signature = (
        f"KERNEL kernel{index}(const u32* in, u32* out, u32* acc, u32* own, u32 n, u32 turns,"
        " Knobs knobs) {"
    )
    return Node(signature, body, "}")


def _function(
    draw: Random, name: str, fresh: "count[int]", known: list[Function]
) -> tuple[Function, Node]:
    """A device function, sometimes a template, sometimes returning through a struct."""
    takes = tuple(draw.choice(TYPES) for _ in range(draw.randint(1, 3)))
    gives = draw.choice(TYPES)
    scope = Scope(
        random=draw,
        variables=[(f"p{i}", kind) for i, kind in enumerate(takes)],
        functions=list(known),
        fresh=fresh,
        depth=1,
    )
    body = [Node("u32 h = 7;")]
    scope.variables.append(("h", "u32"))
    body += declared(scope, 2)
    if draw.random() < 0.5:
        body.append(declared_array(scope))
    result = expression(scope, gives, 2)
    struct = draw.random() < 0.4
    wrap = f"{name}_pair{{{gives}(%s), h}}" if struct else "%s"
    scope.leave = f"return {wrap % literal(scope, gives)};"
    body += statements(scope, draw.randint(2, 5))
    body.append(Node(f"return {wrap % result};"))
    place = draw.choice(("CALL", "CALL", "FN"))
    parameters = ", ".join(f"{kind} p{i}" for i, kind in enumerate(takes))
    if not struct:
        return Function(name, takes, gives), Node(
            f"{place} {gives} {name}({parameters}) {{", body, "}"
        )
    names = ", ".join(f"p{i}" for i in range(len(takes)))
    node = Node(
        "",
        [
            Node(f"struct {name}_pair {{ {gives} first; u32 second; }};"),
            Node(f"{place} {name}_pair {name}_both({parameters}) {{", body, "}"),
            Node(
                f"FN u32 {name}({parameters}) {{ const {name}_pair p = {name}_both({names});"
                " return stir(bits(p.first), p.second); }"
            ),
        ],
    )
    return Function(name, takes, "u32"), node


def _list(shape: tuple[int, ...]) -> str:
    return ", ".join(map(str, shape))


def _product(shape: tuple[int, ...]) -> int:
    result = 1
    for size in shape:
        result *= size
    return result
