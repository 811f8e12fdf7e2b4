"""Reads the tunables that a source declares."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from cuda_llm.agents.tunables.preprocessor import OPENING_DIRECTIVES
from cuda_llm.agents.tunables.space import HintPreference, InvalidDeclaration, Space, Tunable, holds
from cuda_llm.errors import TaskError
from cuda_llm.source_tokens import Line, TokenKind, split_lines
from cuda_llm.tasks.expressions import names_in

MAX_TUNABLES = 32
MAX_VALUES = 64
MAX_MAGNITUDE = 2**31 - 1

KEYWORD = re.compile(r"//\s*(tunable(?:-if|-hint)?)\s*:\s*(.*)", re.DOTALL)
"""A comment that declares something: its keyword and its text."""
_VALUES = re.compile(r"\s*(-?\d+(?:[\s,]+-?\d+)*)\s*(?:;.*)?", re.DOTALL)
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)")
_PREFERENCE = re.compile(r"(\w+)((?:\s+\w+=-?\d+)+)\s*")


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """One comment that declares something, and the code in front of it on its line."""

    keyword: str
    """`tunable`, `tunable-if` or `tunable-hint`."""
    text: str
    line: int
    code: tuple[str, ...]
    """Tokens of the line."""
    guarded: bool
    """Whether the comment stands inside an `#if` block."""


def read_space(source: str) -> Space | InvalidDeclaration | None:
    """Return the space of tunables that `source` declares; None without declarations."""
    try:
        return _read_space(source)
    except _InvalidDeclarationError as error:
        return error.declaration


@lru_cache(maxsize=256)
def _read_space(source: str) -> Space | None:
    if "tunable" not in source:
        return None
    lines = tuple(split_lines(source))
    declarations = tuple(_declarations(source, lines))
    if not declarations:
        return None
    tunables = tuple(_tunables(declarations, _defined(lines)))
    names = {one.name: one for one in tunables}
    if not names:
        raise _InvalidDeclarationError(
            declarations[0], "no `#define NAME value  // tunable:` stands by it"
        )
    conditions = tuple(_conditions(declarations, names))
    preferences = tuple(_preferences(declarations, names))
    return Space(tunables=tunables, conditions=conditions, preferences=preferences)


def _declarations(source: str, lines: Sequence[Line]) -> Iterator[Declaration]:
    """Yield the comments of `source` that declare something, in order."""
    depth = 0
    for line in lines:
        depth += line.directive in OPENING_DIRECTIVES
        depth -= line.directive == "endif"
        for token in line.tokens:
            if token.kind == TokenKind.COMMENT and (found := KEYWORD.fullmatch(token.text)):
                yield Declaration(
                    keyword=found[1],
                    text=found[2].strip(),
                    line=source.count("\n", 0, token.start) + 1,
                    code=line.words,
                    guarded=depth > 0,
                )


def _defined(lines: Sequence[Line]) -> list[str]:
    """List the names in `#define` and `#undef` lines, each as often as it occurs."""
    return [
        line.words[2]
        for line in lines
        if line.directive in ("define", "undef") and len(line.words) > 2
    ]


def _tunables(declarations: tuple[Declaration, ...], defined: list[str]) -> Iterator[Tunable]:
    seen = set[str]()
    mine = [one for one in declarations if one.keyword == "tunable"]
    declared = [one.code[2] for one in mine if len(one.code) > 2]
    for one in mine:
        tunable = _tunable(one)
        if tunable.name in seen:
            raise _InvalidDeclarationError(one, f"{tunable.name} is declared twice")
        if defined.count(tunable.name) > declared.count(tunable.name):
            raise _InvalidDeclarationError(
                one, f"{tunable.name} is defined or undefined elsewhere too"
            )
        seen.add(tunable.name)
        if len(seen) > MAX_TUNABLES:
            raise _InvalidDeclarationError(one, f"more than {MAX_TUNABLES} tunables")
        yield tunable


def _tunable(declaration: Declaration) -> Tunable:
    match declaration.code:
        case ("#", "define", name, *body) if name.isidentifier() and body:
            text = "".join(body)
        case _:
            raise _InvalidDeclarationError(
                declaration, "`// tunable:` stands behind `#define NAME value`, on its line"
            )
    if declaration.guarded:
        raise _InvalidDeclarationError(declaration, f"{name} is declared inside an #if block")
    if not _NUMBER.fullmatch(text):
        raise _InvalidDeclarationError(
            declaration, f"the default of {name} is {' '.join(body)}; expected a whole number"
        )
    listed = _VALUES.fullmatch(declaration.text)
    if not listed:
        raise _InvalidDeclarationError(
            declaration, f"the values of {name} are {declaration.text!r}; expected whole numbers"
        )
    values = tuple(map(int, re.split(r"[\s,]+", listed[1])))
    default = int(text)
    if len(set(values)) < len(values):
        raise _InvalidDeclarationError(declaration, f"a value of {name} is listed twice")
    if default not in values:
        raise _InvalidDeclarationError(
            declaration, f"the default {default} of {name} is not among its values"
        )
    if len(values) > MAX_VALUES or max(map(abs, values)) > MAX_MAGNITUDE:
        raise _InvalidDeclarationError(
            declaration, f"{name} has more than {MAX_VALUES} values, or one beyond 32 bits"
        )
    return Tunable(name=name, default=default, values=values)


def _conditions(
    declarations: tuple[Declaration, ...], tunables: dict[str, Tunable]
) -> Iterator[str]:
    defaults = {one.name: one.default for one in tunables.values()}
    for one in declarations:
        if one.keyword != "tunable-if":
            continue
        try:
            names = names_in(one.text)
        except TaskError as error:
            raise _InvalidDeclarationError(one, str(error)) from None
        _require_known(one, names - set(tunables))
        if not holds(one.text, defaults):
            raise _InvalidDeclarationError(one, f"the defaults do not meet {one.text!r}")
        yield one.text


def _preferences(
    declarations: tuple[Declaration, ...], tunables: dict[str, Tunable]
) -> Iterator[HintPreference]:
    for one in declarations:
        if one.keyword != "tunable-hint":
            continue
        found = _PREFERENCE.fullmatch(one.text)
        if not found:
            raise _InvalidDeclarationError(
                one, f"{one.text!r} is no hint; expected CODE NAME=value ..."
            )
        values = {name: int(value) for name, value in re.findall(r"(\w+)=(-?\d+)", found[2])}
        _require_known(one, set(values) - set(tunables))
        for name, value in values.items():
            if value not in tunables[name].values:
                raise _InvalidDeclarationError(one, f"{name} cannot be {value}")
        yield HintPreference(code=found[1], values=values)


def _require_known(declaration: Declaration, unknown: set[str] | frozenset[str]) -> None:
    if unknown:
        raise _InvalidDeclarationError(
            declaration, f"{', '.join(sorted(unknown))}: no such tunable"
        )


class _InvalidDeclarationError(Exception):
    """Carries an InvalidDeclaration out of the parser."""

    def __init__(self, declaration: Declaration, reason: str) -> None:
        super().__init__(reason)
        self.declaration = InvalidDeclaration(line=declaration.line, reason=reason)
