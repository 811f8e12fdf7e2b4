"""Random statements: divergent and uniform control flow, arrays, atomics."""

from collections.abc import Callable

from random_kernels.collectives import barrier_step, warp_step
from random_kernels.expressions import condition, expression, small
from random_kernels.scope import INTEGERS, TYPES, Scope
from random_kernels.tree import Node

MAX_DEPTH = 3
_ATOMICS = (
    "atomicAdd(&acc[{0}], {1})",
    "atomicMin(&acc[8 + {0}], {1})",
    "atomicMax(reinterpret_cast<i32*>(acc) + 16 + {0}, i32({1}))",
    "atomicOr(&acc[24 + {0}], {1} & 0x01010101u)",
    "atomicXor(&acc[32 + {0}], {1})",
    "atomicAnd(&acc[40 + {0}], {1} | 0xfefefefeu)",
    "atomicAdd(reinterpret_cast<u64*>(acc) + 24 + ({0} & 3), u64({1}) * 0x10001ull)",
    "atomicMax(reinterpret_cast<u64*>(acc) + 28 + ({0} & 3), u64({1}) << 7)",
)


def statements(scope: Scope, number: int) -> list[Node]:
    """A sequence of statements."""
    return [statement(scope) for _ in range(number)]


def statement(scope: Scope) -> Node:
    """One statement of any kind that is allowed here."""
    draw = scope.random
    kinds: list[tuple[int, Callable[[Scope], Node]]] = [(4, _assign), (2, _note)]
    if scope.arrays:
        kinds.append((2, _store))
    if scope.live:
        kinds += [(2, _load), (1, _atomic), (1, _own_words)]
    if scope.depth < MAX_DEPTH:
        kinds += [(3, _branch), (1, _switch), (2, _loop)]
        if scope.mask:
            kinds += [(3, _tracked_branch), (2, _tracked_loop)]
        if scope.uniform:
            kinds += [(2, _uniform_branch), (2, _uniform_loop)]
    if scope.mask:
        kinds.append((4, warp_step))
    if scope.uniform and scope.shared:
        kinds.append((5, barrier_step))
    if scope.breakable:
        kinds.append((2, _jump))
    if scope.leave and scope.depth:
        kinds.append((1, _leave))
    weights = [weight for weight, _ in kinds]
    return draw.choices([kind for _, kind in kinds], weights)[0](scope)


def _assign(scope: Scope) -> Node:
    name, kind = scope.random.choice(scope.variables)
    return Node(f"{name} = {expression(scope, kind)};")


def _note(scope: Scope) -> Node:
    name, _ = scope.random.choice(scope.variables)
    return Node(f"h = stir(h, bits({name}));")


def _store(scope: Scope) -> Node:
    name, kind, size = scope.random.choice(scope.arrays)
    return Node(f"{name}[{small(scope, size)}] = {expression(scope, kind, 2)};")


def _load(scope: Scope) -> Node:
    at = expression(scope, "u32", 1)
    name, kind = scope.random.choice(scope.variables)
    match scope.random.randrange(6):
        case 0:
            part = scope.random.choice("xyzw")
            return Node(
                f"{{ const uint4 v = reinterpret_cast<const uint4*>(in)[{at} % (n / 4)];"
                f" h = stir(h, v.x ^ v.w); {name} = {kind}(v.{part}); }}"
            )
        case 1:
            return Node(
                f"{{ const ushort4 v = reinterpret_cast<const ushort4*>(in)[{at} % (n / 2)];"
                f" {name} = {kind}(v.y); h = stir(h, v.x + u32(v.z) * v.w); }}"
            )
        case 2:
            return Node(
                f"{{ const uchar4 v = reinterpret_cast<const uchar4*>(in)[{at} % n];"
                f" {name} = {kind}(v.z); h = stir(h, v.x - v.w); }}"
            )
        case 3:
            return Node(
                f"{{ const ulonglong2 v = reinterpret_cast<const ulonglong2*>(in)"
                f"[{at} % (n / 4)]; {name} = {kind}(v.y); h = stir(h, bits(v.x)); }}"
            )
        case 4:
            small_kind = scope.random.choice(("u8", "u16", "i8", "i16", "i64"))
            words = "2" if small_kind == "i64" else "1"
            return Node(
                f"{name} = {kind}(reinterpret_cast<const {small_kind}*>(in)[{at} % (n / {words})]);"
            )
    if kind in {"f32", "f64"}:
        return Node(f"{name} = {kind}(__uint_as_float(in[{at} % n]));")
    return Node(f"{name} = {kind}(in[{at} % n]);")


def _atomic(scope: Scope) -> Node:
    text = scope.random.choice(_ATOMICS)
    return Node(text.format(small(scope, 8), expression(scope, "u32", 2)) + ";")


def _own_words(scope: Scope) -> Node:
    """Global memory that only this thread uses, written before."""
    at, value = small(scope, 8), expression(scope, "u32", 2)
    match scope.random.randrange(3):
        case 0:
            return Node(f"own[{at}] = {value};")
        case 1:
            return Node(
                f"reinterpret_cast<uint2*>(own)[{at} & 3] = make_uint2({value}, own[{at}]);"
            )
    return Node(f"h = stir(h, own[{at}]);")


def _jump(scope: Scope) -> Node:
    return Node(f"if ({condition(scope)}) {scope.random.choice(('break', 'continue'))};")


def _leave(scope: Scope) -> Node:
    return Node(f"if ({condition(scope)}) {{ {scope.leave} }}")


def _chosen(scope: Scope, text: str) -> tuple[str, Node]:
    """A condition in a variable, so that it can be turned."""
    name = scope.name("c")
    return name, Node(f"const bool {name} = {text};", turned=f"const bool {name} = !({text});")


def _branch(scope: Scope) -> Node:
    inner = scope.inner(mask=None, uniform=False)
    name, chosen = _chosen(scope, condition(scope))
    yes = Node(f"if ({name}) {{", statements(inner, scope.random.randint(1, 3)), "}")
    if scope.random.random() < 0.5:
        return Node("{", [chosen, yes], "}")
    no = Node("else {", statements(inner, scope.random.randint(1, 3)), "}")
    return Node("{", [chosen, yes, no], "}")


def _tracked_branch(scope: Scope) -> Node:
    """Both sides know their lanes."""
    name, chosen = _chosen(scope, condition(scope))
    yes, no = scope.name("m"), scope.name("m")
    masks = [
        Node(f"const u32 {yes} = __ballot_sync({scope.mask}, {name});"),
        Node(f"const u32 {no} = {scope.mask} & ~{yes};"),
    ]

    def side(mask: str) -> list[Node]:
        inner = scope.inner(mask=mask, whole_warps=False, uniform=False, breakable=False)
        return statements(inner, scope.random.randint(1, 3))

    sides = [Node(f"if ({name}) {{", side(yes), "}")]
    if scope.random.random() < 0.6:
        sides.append(Node("else {", side(no), "}"))
    return Node("{", [chosen, *masks, *sides], "}")


def _uniform_branch(scope: Scope) -> Node:
    draw = scope.random
    text = draw.choice(
        ("blockIdx.x & 1", "turns > 2", "knobs.word[blockIdx.x & 3] & 1", "knobs.byte < 0")
    )
    name, chosen = _chosen(scope, f"({text}) != 0")
    inner = scope.inner(breakable=False)
    sides = [Node(f"if ({name}) {{", statements(inner, draw.randint(1, 3)), "}")]
    if draw.random() < 0.5:
        sides.append(Node("else {", statements(inner, draw.randint(1, 2)), "}"))
    return Node("{", [chosen, *sides], "}")


def _switch(scope: Scope) -> Node:
    inner = scope.inner(mask=None, uniform=False, breakable=False)
    draw = scope.random
    cases = []
    for label in draw.sample(range(8), draw.randint(2, 7)):
        tail = "break; }" if draw.random() < 0.8 else "}"
        cases.append(Node(f"case {label}: {{", statements(inner, draw.randint(1, 2)), tail))
    if draw.random() < 0.7:
        at = draw.randrange(len(cases) + 1)
        cases.insert(at, Node("default: {", statements(inner, 1), "break; }"))
    return Node(f"switch ({small(scope, 8)}) {{", cases, "}")


def _loop(scope: Scope) -> Node:
    """A loop whose lanes leave when they like."""
    draw = scope.random
    inner = scope.inner(mask=None, uniform=False, breakable=True)
    name, body = scope.name("i"), statements(inner, draw.randint(1, 3))
    trips = small(scope, 8)
    body.append(Node(f"h = stir(h, {name});"))
    match draw.randrange(4):
        case 0:
            return Node(f"for (u32 {name} = 0; {name} < {trips}; ++{name}) {{", body, "}")
        case 1:
            return Node(f"for (u32 {name} = {trips}; {name}-- > 0;) {{", body, "}")
        case 2:
            text = condition(scope)
            head = f"for (u32 {name} = 0; {name} < 5 && {text}; ++{name}) {{"
            return Node(head, body, "}")
    return Node(f"{{ u32 {name} = {trips}; do {{", body, f"}} while ({name}-- > 1); }}")


def _tracked_loop(scope: Scope) -> Node:
    """A loop that knows, in each turn, which lanes are still in it."""
    draw = scope.random
    trips, turn, loop, here = (scope.name(stem) for stem in "nimm")
    inner = scope.inner(mask=here, whole_warps=False, uniform=False, breakable=False)
    body = [
        Node(f"{loop} = __ballot_sync({loop}, {turn} < {trips});"),
        Node(f"if ({turn} >= {trips}) break;"),
        Node(f"u32 {here} = {loop};"),
        *statements(inner, draw.randint(1, 2)),
    ]
    if draw.random() < 0.4:
        name, chosen = _chosen(scope, condition(scope))
        body += [
            Node(
                "",
                [
                    chosen,
                    Node(f"{loop} = __ballot_sync({here}, !{name});"),
                    Node(f"if ({name}) break;"),
                    Node(f"{here} = {loop};"),
                ],
            ),
            *statements(inner, 1),
        ]
    elif draw.random() < 0.5:
        name, chosen = _chosen(scope, condition(scope))
        skip = [
            chosen,
            Node(f"{here} = __ballot_sync({here}, !{name});"),
            Node(f"if ({name}) continue;"),
        ]
        body += [Node("", skip), *statements(inner, 1)]
    start = [
        Node(f"const u32 {trips} = {small(scope, 8)};"),
        Node(f"u32 {loop} = {scope.mask};"),
    ]
    return Node("{", [*start, Node(f"for (u32 {turn} = 0;; ++{turn}) {{", body, "}")], "}")


def _uniform_loop(scope: Scope) -> Node:
    draw = scope.random
    name = scope.name("i")
    unroll = draw.choice(("", "#pragma unroll", "#pragma unroll 1"))
    trips = draw.choice(("turns", "3", "4", "knobs.word[1] & 3", "blockIdx.x + 1"))
    body = statements(scope.inner(breakable=False), draw.randint(1, 3))
    body.append(Node(f"h = stir(h, {name});"))
    loop = Node(f"for (u32 {name} = 0; {name} < ({trips}); ++{name}) {{", body, "}")
    return Node("", [*([Node(unroll)] if unroll else []), loop])


def declared(scope: Scope, number: int) -> list[Node]:
    """New variables of mixed types, added to the scope."""
    nodes = []
    for _ in range(number):
        kind = scope.random.choice(TYPES)
        value = expression(scope, kind, 1)
        name = scope.name("v")
        nodes.append(Node(f"{kind} {name} = {value};"))
        scope.variables.append((name, kind))
    return nodes


def declared_array(scope: Scope) -> Node:
    """A new local array, filled."""
    kind, size = scope.random.choice(TYPES), scope.random.choice((4, 8, 16))
    name, value = scope.name("a"), expression(scope, kind, 1)
    step = f"{kind}(i)" if kind in INTEGERS else f"{kind}(i) * {kind}(0.5)"
    plus = f"add({value}, {step})" if kind in INTEGERS else f"({value} + {step})"
    scope.arrays.append((name, kind, size))
    return Node(f"{kind} {name}[{size}]; for (int i = 0; i < {size}; ++i) {name}[i] = {plus};")
