"""The inline PTX of the toolkit's headers: CUB, Thrust, libcu++, cooperative groups, half types."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

FOLDERS = ("cccl", "cooperative_groups", "crt")
FILES = ("cuda_*.h", "cuda_*.hpp", "sm_*.h", "sm_*.hpp", "cooperative_groups.h")

_ASM = re.compile(r"\basm\s*(?:volatile|__volatile__)?\s*\(")
_LITERAL = re.compile(r'\s*"((?:[^"\\]|\\.)*)"')
_OPERAND = re.compile(r'(?:"([=+&]*)([a-zA-Z]+)"|\b(\w*PTR\w*))\s*\(')
_KINDS = {"h": "b16", "r": "b32", "l": "b64", "f": "f32", "d": "f64", "q": "b128", "b": "b8"}


@dataclass(frozen=True)
class InlinePtx:
    """One `asm`: its text and the kinds of its operands."""

    file: str
    text: str
    kinds: tuple[str, ...]

    @property
    def kernel(self) -> str:
        """Return an entry whose body is the text, each operand a register; an immediate is 16."""
        body = self.text
        for number in reversed(range(len(self.kinds))):
            name = "16" if self.kinds[number] == "n" else f"%in{number}"
            body = re.sub(rf"%{number}(?!\d)", name, body)
        registers = "".join(
            f"    .reg .{kind} %in{number};\n"
            for number, kind in enumerate(self.kinds)
            if kind != "n"
        )
        body = body.replace("%%", "%")
        return f".visible .entry asm_text()\n{{\n{registers}{{\n{body}\n}}\n    ret;\n}}\n"


def inline_ptx(include: Path) -> Iterator[InlinePtx]:
    """Yield every `asm` of the headers that has its text and operands in literals, once."""
    paths = [
        path
        for folder in FOLDERS
        for path in sorted((include / folder).rglob("*"))
        if path.is_file()
    ]
    paths += [path for pattern in FILES for path in sorted(include.glob(pattern))]
    seen = set()
    for path in paths:
        text = path.read_text(errors="replace")
        for match in _ASM.finditer(text):
            made = _read(str(path.relative_to(include)), text, match.end())
            if made is not None and (made.text, made.kinds) not in seen:
                seen.add((made.text, made.kinds))
                yield made


def _read(file: str, text: str, at: int) -> InlinePtx | None:
    parts = []
    while literal := _LITERAL.match(text, at):
        parts.append(literal[1])
        at = literal.end()
    rest = text[at : at + 4000].lstrip()
    if not parts or not rest.startswith((":", ")")):
        return None
    kinds = []
    depth, end = 1, at
    while depth and end < len(text):
        depth += {"(": 1, ")": -1}.get(text[end], 0)
        end += 1
    for operand in _OPERAND.finditer(text, at, end):
        letter = "l" if operand[3] else operand[2]
        kinds.append("n" if letter in {"n", "C"} else _KINDS.get(letter, "b32"))
    joined = "".join(parts)
    for escaped, plain in (("\\n", "\n"), ("\\t", " "), ('\\"', '"'), ("\\\\", "\\")):
        joined = joined.replace(escaped, plain)
    return InlinePtx(file, joined, tuple(kinds))
