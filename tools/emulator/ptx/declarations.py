"""Variables and registers: `.shared .align 4 .b8 tile[1024];`, `.reg .b32 %r<12>;`."""

from collections.abc import Callable

from cuda_llm.tools.emulator.ptx.literals import BYTES, data_bytes, literal, minus
from cuda_llm.tools.emulator.ptx.module import Symbol, Variable
from cuda_llm.tools.emulator.ptx.tokens import Cursor

SPACES = frozenset({".global", ".const", ".shared", ".local", ".param"})
LINKAGE = frozenset({".extern", ".visible", ".weak", ".common"})


def register_names(cursor: Cursor) -> tuple[str, list[str]]:
    """Read a declaration after `.reg`. Returns the PTX type and the names it declares."""
    kind = cursor.take()[1:]
    if kind not in BYTES:
        raise cursor.error(f"unknown register type .{kind}")
    names: list[str] = []
    while True:
        name = cursor.take()
        if cursor.accept("<"):
            names.extend(f"{name}{i}" for i in range(cursor.number()))
            cursor.expect(">")
        else:
            names.append(name)
        if not cursor.accept(","):
            break
    cursor.expect(";")
    return kind, names


def variable(
    cursor: Cursor,
    space: str,
    *,
    external: bool = False,
    rename: Callable[[str], str] = lambda name: name,
) -> list[Variable]:
    """Read the rest of a declaration after its space, up to its end (`;`, `,` or `)` stay)."""
    align = 0
    lanes = 1
    kind = ""
    while cursor.peek().startswith("."):
        word = cursor.take()
        if word == ".align":
            align = cursor.number()
        elif word == ".ptr":
            _skip_pointer_attributes(cursor)
        elif word in {".v2", ".v4"}:
            lanes = int(word[2:])
        elif word == ".attribute":
            cursor.skip_past(")")
        elif word[1:] in BYTES:
            kind = word[1:]
        elif word[1:] in {"texref", "samplerref", "surfref"}:
            kind = "b64"
        else:
            raise cursor.error(f"unexpected {word} in a declaration")
    if not kind:
        raise cursor.error("a declaration without a type")
    size = BYTES[kind] * lanes
    found = [_one(cursor, space, size, align or size, BYTES[kind], external, rename)]
    while space != "param" and cursor.accept(","):
        found.append(_one(cursor, space, size, align or size, BYTES[kind], external, rename))
    return found


def _skip_pointer_attributes(cursor: Cursor) -> None:
    while cursor.peek() in SPACES or cursor.peek() == ".align":
        if cursor.take() == ".align":
            cursor.number()


def _one(
    cursor: Cursor,
    space: str,
    size: int,
    align: int,
    element: int,
    external: bool,
    rename: Callable[[str], str],
) -> Variable:
    name = rename(cursor.take())
    count: int | None = 1
    while cursor.accept("["):
        if cursor.accept("]"):
            count = None
            continue
        length = cursor.number()
        cursor.expect("]")
        count = length if count is None else count * length
    initial: bytes | None = None
    pointers: tuple[tuple[int, Symbol], ...] = ()
    if cursor.accept("="):
        initial, pointers = _initialiser(cursor, element)
        if count is None:
            count = -(-len(initial) // size)
    return Variable(
        name=name,
        space=space,
        size=size * (count or 0),
        align=align,
        initial=initial,
        pointers=pointers,
        external=external,
    )


def _initialiser(cursor: Cursor, element: int) -> tuple[bytes, tuple[tuple[int, Symbol], ...]]:
    data = bytearray()
    pointers: list[tuple[int, Symbol]] = []
    depth = 0
    while True:
        text = cursor.peek()
        if text in {"{", "}", ","}:
            depth += {"{": 1, "}": -1, ",": 0}[text]
            cursor.take()
        else:
            _item(cursor, element, data, pointers)
        if depth == 0:
            return bytes(data), tuple(pointers)


def _item(
    cursor: Cursor, element: int, data: bytearray, pointers: list[tuple[int, Symbol]]
) -> None:
    negative = cursor.accept("-")
    text = cursor.take()
    if (value := literal(text)) is not None:
        data += data_bytes(minus(value) if negative else value, element)
        return
    if text == "generic":
        cursor.expect("(")
        text = cursor.take()
        cursor.expect(")")
    if element != 8:
        raise cursor.error("part of an address as an initial value")
    offset = cursor.number() if cursor.accept("+") else 0
    pointers.append((len(data), Symbol(text, offset)))
    data += bytes(element)
