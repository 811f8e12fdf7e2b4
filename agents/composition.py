"""Two sources in one: each in a namespace of its own, behind a `solve` that chooses by size.

Text alone: nothing is compiled. Where the text does not show whether two kernels can stand in one
source, the composition is refused, by a typed reason.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import takewhile
from typing import Literal

from cuda_llm.source_tokens import (
    Token,
    TokenKind,
    functions_defined,
    identifiers,
    is_balanced,
    split_lines,
)

CompositionFault = Literal[
    "no_solve",
    "unbalanced",
    "directive",
    "conditional_include",
    "macro_before_include",
    "macro_clash",
    "extern_name",
    "global_name",
    "named_in_string",
    "reopened_namespace",
    "no_size_argument",
]
"""Why two kernels cannot be put together: no `solve`; brackets that do not close; a preprocessor
line nobody knows; an include under a condition, or behind a macro that may change it; a macro of
one that the other, or its headers, use; a name declared but not defined, or reached by `::name` or
in a string; an addition to a library's namespace; sizes that no argument of `solve` tells apart."""

_STEERING = ("_", "NDEBUG", "CUB_", "CUDA", "CCCL_", "LIBCUDACXX_", "THRUST_", "NV_")

SMALL, LARGE = "small_sizes", "large_sizes"
"""The namespaces."""

_WHY: dict[str, str] = {
    "no_solve": "it defines no solve",
    "unbalanced": "its brackets do not close",
    "directive": "a namespace cannot hold {name}",
    "conditional_include": "{name} is included under a condition",
    "macro_before_include": "a macro is defined before {name} is included",
    "macro_clash": "the macro {name} of one means something else in the other",
    "extern_name": "{name} is declared extern, and defined elsewhere",
    "global_name": "{name} is reached as ::{name}",
    "named_in_string": "a string names {name}",
    "reopened_namespace": "it adds to the namespace {name}",
    "no_size_argument": "no argument of solve tells the timed sizes apart",
}
LIBRARIES = frozenset({"std", "cuda", "cub", "thrust", "cooperative_groups", "nvcuda"})
_CONDITIONS = {"if": 1, "ifdef": 1, "ifndef": 1, "endif": -1, "elif": 0, "else": 0}
_HEADERS = (TokenKind.HEADER, TokenKind.LITERAL)
_HARMLESS = frozenset({"pragma", "error", "warning", "define", "undef", "include", *_CONDITIONS})
_WORD = re.compile(r"[A-Za-z_]\w*")
_SYMBOL = re.compile(r"\b[A-Za-z_]\w*\b(?!\.)")
"""A word of a string, but for opcodes of PTX: `add.f32`."""
MOST_HEAD = 1000
"""Tokens of a declaration's head."""


@dataclass(frozen=True)
class CompositionRefused:
    """The reason why two kernels cannot be put together."""

    fault: CompositionFault
    name: str = ""
    """Name of the macro, the header or the function at fault; empty where the fault has no name."""
    part: str = ""
    """Kernel at fault, `SMALL` or `LARGE`; empty where only both kernels together have the
    fault."""
    attempts: tuple[str, ...] = ()
    """Ids of the two."""


def describe_refusal(refused: CompositionRefused) -> str:
    """Describe in a sentence why there is no composition."""
    which = {SMALL: refused.attempts[:1], LARGE: refused.attempts[1:]}.get(refused.part, ())
    where = "".join(f"{name}: " for name in which)
    who = " and ".join(refused.attempts) or "two kernels"
    return f"{who} are not put together: {where}{_WHY[refused.fault].format(name=refused.name)}"


@dataclass(frozen=True)
class Part:
    """A source that fits into a namespace."""

    headers: tuple[str, ...]
    """Headers as the source includes them, in order: `<cuda_runtime.h>`."""
    macros: frozenset[str]
    names: frozenset[str]
    """Every name in the part."""
    body: str
    """Text of the part without its includes and `extern "C"`, with its macros undefined at the
    end."""


def compose(
    small: str,
    large: str,
    *,
    signature: str,
    arguments: Sequence[str],
    condition: str,
    defined: Collection[str] = (),
) -> str | CompositionRefused:
    """Return one source whose `solve` calls `small`'s where `condition` holds, and else `large`'s.

    `signature` is that of `solve` with its arguments' names `arguments`; `defined` are macros that
    the compiler's command line defines.
    """
    one, other = read_part(small), read_part(large)
    if isinstance(one, CompositionRefused):
        return replace(one, part=SMALL)
    if isinstance(other, CompositionRefused):
        return replace(other, part=LARGE)
    clash = sorted(
        (one.macros & (other.names - other.macros))
        | (other.macros & (one.names - one.macros))
        | ((one.macros | other.macros) & set(defined))
    )
    if clash:
        return CompositionRefused("macro_clash", clash[0])
    headers = dict.fromkeys((*one.headers, *other.headers))
    passed = ", ".join(arguments)
    return "\n".join(
        (
            "// Chooses one of two kernels by the size.",
            *(f"#include {header}" for header in headers),
            *(
                line
                for name, part in ((SMALL, one), (LARGE, other))
                for line in ("", f"namespace {name} {{", part.body, f"}}  // namespace {name}")
            ),
            "",
            signature,
            "{",
            f"    if ({condition}) {{",
            f"        ::{SMALL}::solve({passed});",
            "    } else {",
            f"        ::{LARGE}::solve({passed});",
            "    }",
            "}",
            "",
        )
    )


@lru_cache(maxsize=16)
def read_part(source: str) -> Part | CompositionRefused:
    """Return the source as a part, or the reason why the source cannot stand in a namespace."""
    defined = functions_defined(source)
    if "solve" not in defined:
        return CompositionRefused("no_solve")
    if not is_balanced(source):
        return CompositionRefused("unbalanced")
    headers, macros, cuts = list[str](), set[str](), list[tuple[int, int, str]]()
    code, depth = list[Token](), 0
    for line in split_lines(source):
        if line.words[:1] != ("#",):
            code += line.code
            continue
        subject = line.words[2] if len(line.words) > 2 else ""
        depth += _CONDITIONS.get(line.directive, 0)
        once = line.directive == "pragma" and subject == "once"
        undone = line.directive == "undef" and subject not in macros
        if line.directive not in _HARMLESS or once or undone:
            return CompositionRefused("directive", f"#{line.directive} {subject}".strip())
        if line.directive == "define":
            macros.add(subject)
        elif line.directive == "include":
            if depth:
                return CompositionRefused("conditional_include", subject)
            if any(map(_may_steer_headers, macros)):
                return CompositionRefused("macro_before_include", subject)
            if line.code[2:3] == () or line.code[2].kind not in _HEADERS:
                return CompositionRefused("directive", f"#include {subject}")
            headers.append(subject)
            cuts.append((line.code[0].start, line.code[-1].end, ""))
    refused = _refuse_names(code, defined)
    if refused:
        return refused
    cuts += _linkage_cuts(code)
    undefined = "".join(f"\n#undef {name}" for name in sorted(macros))
    body = f"{_cut(source, cuts)}{undefined}"
    return Part(tuple(headers), frozenset(macros), identifiers(source), body)


def _may_steer_headers(macro: str) -> bool:
    """Tell whether a header of CUDA or C++ may look at a macro, by its name.

    Others, as tunables, do a header no good: in the composition they come behind it.
    """
    return macro.startswith(_STEERING)


def _refuse_names(code: Sequence[Token], defined: Collection[str]) -> CompositionRefused | None:
    """Return what of the code would mean something else in a namespace; None where nothing does."""
    texts = [token.text for token in code]
    outside = _file_scope(code)
    declared = _declared_names(code, outside)
    for at, token in enumerate(code):
        before, after = texts[at - 1] if at else "", texts[at + 1 : at + 3]
        name = after[0] if after else ""
        if token.text == "extern" and name == '"C"':
            head = texts[at + 2 : at + 2 + MOST_HEAD]
            words = list(takewhile(lambda text: text not in ("(", "{", ";", "="), head))
            if words and words[-1] not in defined:
                return CompositionRefused("extern_name", words[-1])
        elif token.text == "extern" and at in outside and "__shared__" not in after:
            return CompositionRefused("extern_name", name)
        elif token.text == "namespace" and name in LIBRARIES and before != "using":
            return CompositionRefused("reopened_namespace", name)
        elif token.text == "::" and name in declared and not _qualifies(before):
            return CompositionRefused("global_name", name)
        elif token.kind == TokenKind.LITERAL and token.text != '"C"':
            named = declared & set(_SYMBOL.findall(token.text))
            if named:
                return CompositionRefused("named_in_string", sorted(named)[0])
    return None


def _qualifies(before: str) -> bool:
    """Return whether `::` behind that token names a member of it."""
    keyword = before in ("return", "else", "case", "do")
    return before == ">" or (bool(_WORD.fullmatch(before)) and not keyword)


def _file_scope(code: Sequence[Token]) -> frozenset[int]:
    """Return the places outside all brackets, but for those of namespaces and `extern "C"`."""
    found, stack = set[int](), list[bool]()
    opens_scope = False
    for at, token in enumerate(code):
        if token.text in "([{":
            stack.append(token.text == "{" and opens_scope)
            opens_scope = False
        elif token.text in ")]}":
            if stack:
                stack.pop()
        elif all(stack):
            found.add(at)
        if token.text == "namespace" or (token.text == '"C"' and code[at - 1].text == "extern"):
            opens_scope = True
        elif token.text in ("(", ")", ";", "="):
            opens_scope = False
    return frozenset(found)


def _declared_names(code: Sequence[Token], outside: frozenset[int]) -> frozenset[str]:
    """Return the names that stand where file scope declares functions and variables."""
    return frozenset(
        token.text
        for at, token in enumerate(code[:-1])
        if at in outside
        and token.kind == TokenKind.NAME
        and code[at + 1].text in ("(", "=", "[", ";", "{")
        and not token.text.startswith("__")
    )


def _linkage_cuts(code: Sequence[Token]) -> Iterator[tuple[int, int, str]]:
    """Yield what replaces each `extern "C"`: in a namespace it would still be one name for all."""
    for at, token in enumerate(code[:-2]):
        if token.text == "extern" and code[at + 1].text == '"C"':
            block = code[at + 2].text == "{"
            yield token.start, code[at + 1].end, "namespace" if block else ""


def _cut(source: str, cuts: Sequence[tuple[int, int, str]]) -> str:
    """Return the source with those pieces replaced."""
    made, position = list[str](), 0
    for start, end, text in sorted(cuts):
        made += [source[position:start], text]
        position = end
    return "".join((*made, source[position:])).strip("\n")
