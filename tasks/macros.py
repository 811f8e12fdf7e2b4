"""Expands the macros that a CUDA source defines itself, as far as its declarations need it.

Headers are not read. Of the branches of an `#if` the first is taken that the source does not rule
out: by `#if 0`, or by `#ifdef` of what it does not define.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cuda_llm.source_tokens import Line, Token, TokenKind, split_lines, tokenise

_PREDEFINED = frozenset({"__cplusplus", "__CUDACC__", "__NVCC__"})
_MOST_TOKENS = 1 << 16
"""Macros that expand to more are left as they are: a source may double its text a line."""


@dataclass(frozen=True)
class _Macro:
    parameters: tuple[str, ...] | None
    """Names of the parameters; None for a macro without parentheses."""
    body: tuple[Token, ...]


def expand_macros(source: str) -> tuple[Token, ...]:
    """Return the tokens of `source` that a compiler sees, without blanks and directives.

    What a macro stands for lies, by `start` and `end`, where the macro is used.
    """
    macros: dict[str, _Macro] = {}
    code: list[Token] = []
    expanded: list[Token] = []
    taken = _Branches(macros)
    for line in split_lines(source):
        if line.words[:1] == ("#",):
            # A macro may be called over several lines, but not over a directive.
            expanded += _expand(code, macros, frozenset(), [_MOST_TOKENS])
            code = []
            taken.read(line)
            if taken.now:
                _define(line, macros)
        elif taken.now:
            code += line.code
    return (*expanded, *_expand(code, macros, frozenset(), [_MOST_TOKENS]))


class _Branches:
    """The branches of `#if` around a line."""

    def __init__(self, macros: Mapping[str, _Macro]) -> None:
        self._macros = macros
        self._open: list[tuple[bool, bool]] = []
        """Whether a branch is taken, and whether one of the same `#if` was before."""

    @property
    def now(self) -> bool:
        """Whether a line here is seen by the compiler."""
        return all(taken for taken, _ in self._open)

    def read(self, line: Line) -> None:
        directive = line.directive
        if directive in ("if", "ifdef", "ifndef"):
            holds = self._holds(line)
            self._open.append((holds, holds))
        elif directive in ("else", "elif") and self._open:
            _, before = self._open[-1]
            holds = not before and (directive == "else" or self._holds(line))
            self._open[-1] = holds, before or holds
        elif directive == "endif" and self._open:
            self._open.pop()

    def _holds(self, line: Line) -> bool:
        words = line.words[2:]
        name = words[0] if words else ""
        defined = name in self._macros or name in _PREDEFINED
        match line.directive:
            case "ifdef":
                return defined
            case "ifndef":
                return not defined
            case _:
                return words != ("0",)


def _define(line: Line, macros: dict[str, _Macro]) -> None:
    if line.directive == "undef":
        macros.pop(" ".join(line.words[2:3]), None)
    if not line.defines:
        return
    code = line.code
    parameters, body = None, code[3:]
    if body and body[0].text == "(" and body[0].start == code[2].end:
        closing = next((i for i, one in enumerate(body) if one.text == ")"), len(body))
        parameters = tuple(one.text for one in body[1:closing] if one.text != ",")
        body = body[closing + 1 :]
    macros[line.defines] = _Macro(parameters, body)


def _expand(
    tokens: Sequence[Token], macros: Mapping[str, _Macro], hidden: frozenset[str], left: list[int]
) -> list[Token]:
    """Return `tokens` with macros expanded, but for those `hidden`, which are being expanded."""
    result: list[Token] = []
    at = 0
    while at < len(tokens):
        token = tokens[at]
        macro = macros.get(token.text) if token.kind == TokenKind.NAME else None
        at += 1
        if macro is None or token.text in hidden or left[0] <= 0:
            result.append(token)
            continue
        end = token.end
        arguments: list[list[Token]] = []
        if macro.parameters is not None:
            if at == len(tokens) or tokens[at].text != "(":
                result.append(token)
                continue
            arguments, at = _arguments(tokens, at)
            end = tokens[at - 1].end
        body = list(_substitute(macro, arguments, macros, hidden, left))
        left[0] -= len(body)
        placed = [one._replace(start=token.start, end=end) for one in body]
        result += _expand(placed, macros, hidden | {token.text}, left)
    return result


def _arguments(tokens: Sequence[Token], opening: int) -> tuple[list[list[Token]], int]:
    """Return the arguments between the parentheses from `opening` on, and where they end."""
    arguments: list[list[Token]] = [[]]
    depth = 0
    for at in range(opening, len(tokens)):
        text = tokens[at].text
        depth += (text in ("(", "[", "{")) - (text in (")", "]", "}"))
        if depth == 0:
            return arguments, at + 1
        if text == "," and depth == 1:
            arguments.append([])
        elif at > opening:
            arguments[-1].append(tokens[at])
    return arguments, len(tokens)


def _substitute(
    macro: _Macro,
    arguments: Sequence[Sequence[Token]],
    macros: Mapping[str, _Macro],
    hidden: frozenset[str],
    left: list[int],
) -> Iterator[Token]:
    """Yield a macro's body with its arguments in their places, `#` and `##` carried out."""
    names = macro.parameters or ()
    given: dict[str, Sequence[Token]] = dict(zip(names, arguments, strict=False))
    if names[-1:] == ("...",):
        rest: list[Token] = []
        for number, one in enumerate(arguments[len(names) - 1 :]):
            rest += [*([Token(TokenKind.PUNCTUATOR, ",", 0, 0)] if number else []), *one]
        given["__VA_ARGS__"] = rest
    pieces: list[Token] = []
    at, body = 0, macro.body
    while at < len(body):
        token = body[at]
        at += 1
        if token.text == "#" and at < len(body) and body[at].text in given:
            pieces.append(Token(TokenKind.LITERAL, '""', 0, 0))
            at += 1
        elif token.text == "##" and pieces and at < len(body):
            right = list(given.get(body[at].text, (body[at],)))
            at += 1
            if right:
                pasted = next(tokenise(pieces.pop().text + right[0].text))
                pieces += [pasted, *right[1:]]
        elif token.text in given:
            raw = list(given[token.text])
            is_pasted = at < len(body) and body[at].text == "##"
            pieces += raw if is_pasted else _expand(raw, macros, hidden, left)
        else:
            pieces.append(token)
    yield from pieces


def spell(tokens: Sequence[Token]) -> str:
    """Return tokens as text that a compiler reads as the same tokens."""
    text = ""
    for token in tokens:
        joins = re.search(r"[\w$]$", text) and re.match(r"[\w$\"']", token.text)
        apart = joins or token.text in _SPACED or (text and text.split(" ")[-1] in _SPACED)
        comma = text.endswith(",") or text.endswith(";")
        text += f" {token.text}" if text and (apart or comma) else token.text
    return text


_SPACED = frozenset({
    "+", "-", "*", "/", "%", "=", "==", "!=", "<=", ">=", "<", ">", "&&", "||", "?", ":", "+=",
    "-=", "*=", "/=", "<<", ">>", "|", "&", "^",
})  # fmt: skip
