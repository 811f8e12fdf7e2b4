"""Tells from a CUDA source whether a function reads or writes what a pointer points to, and which
comes first. Calls and launches of functions of the source are followed; it is a guess."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from cuda_llm.source_tokens import Token, TokenKind
from cuda_llm.tasks.cuda_source import (
    CudaSource,
    DefinedFunction,
    closing,
    split_at_commas,
)


class Use(Enum):
    """One access of memory through a pointer."""

    READ = "read"
    WRITE = "write"
    CLEAR = "clear"
    """All of it is given one value."""
    UPDATE = "update"
    """It is read and written at once, as by `+=` or an atomic."""


@dataclass(frozen=True)
class Access:
    """An access, and whether it is of the first element alone."""

    use: Use
    first_only: bool = False


_UPDATES = frozenset({"+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=", "++", "--"})
_MOST_DEPTH = 6
_POINTER_CASTS = re.compile(r"reinterpret_cast|static_cast|const_cast")


def accesses(
    source: CudaSource, function: DefinedFunction, name: str, depth: int = 0
) -> Iterator[Access]:
    """Yield accesses through the parameter or member `name`, in the order of the text."""
    if depth > _MOST_DEPTH:
        return
    names = {name}
    body = function.body
    written: list[Access] = []
    """What the statement writes, which happens after it has read."""
    for at, token in enumerate(body):
        if token.text in (";", "{", "}"):
            yield from written
            written = []
        if token.kind != TokenKind.NAME or token.text not in names:
            continue
        alias = _alias(body, at)
        if alias:
            names.add(alias)
            continue
        for one in _access(source, body, at, depth):
            if one.use == Use.WRITE:
                written.append(one)
            else:
                yield one
    yield from written


def _access(source: CudaSource, body: Sequence[Token], at: int, depth: int) -> Iterator[Access]:
    before = _root(body, at)
    follows = body[at + 1].text if at + 1 < len(body) else ""
    if follows == "[":
        end = at + 1
        while end < len(body) and body[end].text == "[":
            end = closing(body, end) + 1
        first = [one.text for one in body[at + 1 : end]] == ["[", "0", "]"]
        call = _call_around(body, before)
        if call is not None and body[call].text.startswith("atomic") and _is_address(body, before):
            yield Access(Use.UPDATE, first)
            return
        if _is_address(body, before) and call is not None:
            yield from _passed(source, body, call, at, depth)
            return
        yield Access(_by_operator(body, before, end), first)
    elif before > 0 and body[before - 1].text == "*" and _is_unary(body, before - 1):
        inside = before - 1
        yield Access(_by_operator(body, inside, at + 1), True)
    elif (call := _call_around(body, before)) is not None:
        yield from _passed(source, body, call, at, depth)


def _root(body: Sequence[Token], at: int) -> int:
    """Return the index at which `p.x` or `a->b.x` begins, whose last name is at `at`."""
    while at >= 2 and body[at - 1].text in (".", "->", "::") and body[at - 2].kind == "name":
        at -= 2
    return at


def _is_address(body: Sequence[Token], before: int) -> bool:
    return before > 0 and body[before - 1].text == "&"


def _is_unary(body: Sequence[Token], at: int) -> bool:
    if at == 0:
        return True
    left = body[at - 1]
    return left.kind not in (TokenKind.NAME, TokenKind.NUMBER) and left.text not in (")", "]")


def _by_operator(body: Sequence[Token], begin: int, end: int) -> Use:
    while end + 2 < len(body) and body[end].text == ".":
        end += 2
    follows = body[end].text if end < len(body) else ""
    leads = body[begin - 1].text if begin else ""
    if follows in _UPDATES or leads in ("++", "--"):
        return Use.UPDATE
    return Use.WRITE if follows == "=" else Use.READ


def _alias(body: Sequence[Token], at: int) -> str:
    """Return the pointer that the statement around `at` declares from this one; empty for none."""
    begin = at
    while begin and body[begin - 1].text not in (";", "{", "}"):
        begin -= 1
    words = [one.text for one in body[begin:at]]
    if "=" not in words:
        return ""
    equals = words.index("=")
    left, right = words[:equals], words[equals + 1 :]
    pointed = "*" in left or (left[:1] == ["auto"] and any(map(_POINTER_CASTS.match, right)))
    follows = body[at + 1].text if at + 1 < len(body) else ""
    dereferenced = follows == "[" and "&" not in right[-3:]
    if len(left) < 2 or not pointed or dereferenced or "(" in left or "[" in left:
        return ""
    return left[-1]


def _call_around(body: Sequence[Token], at: int) -> int | None:
    """Return the index of the name of the function whose arguments hold `at`, casts left out."""
    depth = 0
    for index in range(at - 1, -1, -1):
        text = body[index].text
        if text in (";", "{", "}"):
            return None
        depth += (text in (")", "]")) - (text in ("(", "["))
        if depth < 0:
            if text == "[" or index == 0:
                return None
            depth = 0
            name = index - 1
            if body[name].text == ">>>":
                opened = next((i for i in range(name, -1, -1) if body[i].text == "<<<"), None)
                name = -1 if opened is None else opened - 1
            name = _before_template(body, name)
            if name >= 0 and body[name].kind == TokenKind.NAME:
                if _POINTER_CASTS.match(body[name].text):
                    continue
                return None if body[name].text in ("if", "while", "for", "return") else name
    return None


def _before_template(body: Sequence[Token], at: int) -> int:
    """Return the index of the name before template arguments that end at `at`; else `at`."""
    if at < 0 or not set(body[at].text) <= {">"}:
        return at
    depth = 0
    for index in range(at, -1, -1):
        text = body[index].text
        if set(text) == {">"}:
            depth += len(text)
        elif set(text) == {"<"}:
            depth -= len(text)
        if depth == 0:
            return index - 1
        if text in (";", "{", "}"):
            break
    return at


def _passed(
    source: CudaSource, body: Sequence[Token], call: int, at: int, depth: int
) -> Iterator[Access]:
    """Yield what the function called at `call` does with the argument at `at`."""
    name = body[call].text
    opening = call + 1
    while opening < len(body) and body[opening].text != "(":
        if body[opening].text == "<<<":
            while opening < len(body) and body[opening].text != ">>>":
                opening += 1
        opening += 1
    arguments = split_at_commas(body[opening + 1 : closing(body, opening)], angles=False)
    starts = [one[0].start for one in arguments if one]
    position = sum(start <= body[at].start for start in starts) - 1
    if name.startswith("atomic"):
        yield Access(Use.UPDATE, _is_bare(arguments, 0))
    elif name.startswith("cudaMemset"):
        yield Access(Use.CLEAR)
    elif name.startswith("cudaMemcpy"):
        yield Access(Use.WRITE if position == 0 else Use.READ)
    elif name in ("__ldg", "__ldcs", "__ldca", "__ldcg"):
        yield Access(Use.READ)
    else:
        called = next((one for one in source.functions if one.name == name), None)
        if called is not None and position < len(called.parameters):
            parameter = called.parameters[position]
            if parameter.const:
                yield Access(Use.READ)
            elif parameter.pointers:
                yield from accesses(source, called, parameter.name, depth + 1)


def _is_bare(arguments: Sequence[Sequence[Token]], position: int) -> bool:
    return len(arguments[position]) == 1 if position < len(arguments) else False
