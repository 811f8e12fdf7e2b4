"""Text from outside made fit for a prompt: clean, quoted as data, without what an agent may not
know of the GPU.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from typing import Any

from cuda_llm.components import HardwareContext
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.outcomes import Verdict
from cuda_llm.source_file import SourceSpot
from cuda_llm.source_tokens import TokenKind, tokenise

MOST_LINE = 400
"""Characters of a quoted line; what is longer loses its middle."""
EACH = 10
"""Lines from one number in a shown source to the next."""
_MARK = re.compile(r"[ \t]*//:\d+[ \t]*$", re.MULTILINE)
_FENCES = re.compile(r"`{3,}|~{3,}")

_TARGETS = re.compile(
    r"\b(?:sm|compute|lto)_\d+[af]?\b|\bcompute capability \d+(?:\.\d+)?|\b__CUDA_ARCH__\s*\W+\d+",
    re.IGNORECASE,
)
_NUMBER = r"(?:0x[0-9a-f]+|[\d][\d,.]*)"
_TOOL_LIMITS = re.compile(
    rf",?\s*(?:at most|maximum(?: of| is)?|max\.?|up to|limit(?: of| is)?|allowed are)"
    rf"\s*:?\s*{_NUMBER}(?: (?:bytes|threads|registers))?"
    rf"|,?\s*{_NUMBER}(?: bytes)? max(?:imum)?\b",
    re.IGNORECASE,
)
"""Pattern of the phrases in which nvcc, ptxas and the driver state a limit of the GPU."""
_VENDOR_WORDS = {"nvidia", "geforce", "tesla", "quadro", "emulated", "gpu", "super", "laptop"}


def clean(text: str) -> str:
    """Return `text` with line feeds and tabs as its only control characters."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.isprintable():
        return text
    return "".join(
        c if c.isprintable() or c in "\n\t" else "\N{REPLACEMENT CHARACTER}" for c in text
    )


def one_line(text: str, most: int = MOST_LINE) -> str:
    """Return `text` as one clean line that an inline quotation in backticks can hold."""
    return shorten(" ".join(clean(text).split()).replace("`", "'"), most)


def shorten(line: str, most: int = MOST_LINE) -> str:
    """Return a line of at most `most` characters: its middle is left out."""
    if len(line) <= most:
        return line
    half = (most - 5) // 2
    return f"{line[:half]} ... {line[-half:]}"


def log_lines(text: str) -> str:
    """Return a log as data: clean, no endless line, nothing that looks like a fence's end."""
    return "\n".join(shorten(_FENCES.sub("'''", line)) for line in clean(text).split("\n"))


def fence(text: str, language: str = "") -> str:
    """Return `text` in a fence that nothing within can close."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    ticks = "`" * max(3, longest + 1)
    return f"{ticks}{language}\n{text.rstrip()}\n{ticks}"


def quote_line(spot: SourceSpot | None) -> str:
    """Render ``line 14: `source` ``, or nothing. The file's name stays out: it is ours."""
    if spot is None:
        return ""
    return f"line {spot.line}" + (f": `{one_line(spot.text, 160)}`" if spot.text.strip() else "")


def mark_lines(source: str, spots: Iterable[SourceSpot]) -> str:
    """Return `source` with its number, as in `//:29`, behind each line of `spots` and every tenth.

    A comment, so that an answer that repeats it compiles; marks of an answer are taken off first. A
    line that is empty, goes on, or ends in a comment or within a token stays as it is.
    """
    source = unmark(source)
    marked = {one.line for one in spots if holds_line(source, one)}
    parts, line, position, before = list[str](), 1, 0, TokenKind.NEWLINE
    for token in tokenise(source):
        if token.kind is TokenKind.NEWLINE:
            text = source[position : token.start]
            line += text.count("\n")
            bare = before in (TokenKind.NEWLINE, TokenKind.COMMENT)
            cited = not bare and (line in marked or line % EACH == 0)
            parts.append(f"{text.rstrip()}  //:{line}" if cited else text)
            position = token.start
        if token.kind is not TokenKind.SPACE:
            before = token.kind
    return "".join((*parts, source[position:]))


def unmark(source: str) -> str:
    """Return `source` without the numbers that `mark_lines` put behind its lines."""
    return _MARK.sub("", source)


def holds_line(source: str, spot: SourceSpot) -> bool:
    """Return whether the spot is a line of this source, and not of a header."""
    lines = source.split("\n")
    return spot.line <= len(lines) and unmark(lines[spot.line - 1]).strip() == spot.text.strip()


def join_parts(*parts: str) -> str:
    """Join the parts that are not empty to one line."""
    return "; ".join(part for part in parts if part)


def hide(text: str, hardware: Hardware, context: HardwareContext) -> str:
    """Return a tool's or a model's `text` without what `context` keeps back.

    That is limits and targets, with `none` names as well. Our own sentences do not pass through
    here: what renders them knows whether it may name a figure.
    """
    if context == "full":
        return text
    text = _TOOL_LIMITS.sub("", _TARGETS.sub("the target", text))
    return _names(hardware).sub("the GPU", text) if context == "none" else text


def hide_in_verdict(verdict: Verdict, hardware: Hardware, context: HardwareContext) -> Verdict:
    """Return the verdict with `hide` applied to every text of a tool or a source that it holds."""
    if context == "full":
        return verdict
    hidden: Verdict = _map_texts(verdict, lambda text: hide(text, hardware, context))
    return hidden


def spots_in(value: Any) -> Iterator[SourceSpot]:
    """Yield each line of a source that a verdict names, at any depth."""
    if isinstance(value, SourceSpot):
        yield value
    elif isinstance(value, tuple):
        for one in value:
            yield from spots_in(one)
    elif is_dataclass(value):
        for field in fields(value):
            yield from spots_in(getattr(value, field.name))


def _map_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Return `value` with `change` applied to each string in it, down to any depth."""
    if isinstance(value, str):
        return value if isinstance(value, Enum) else change(value)
    if isinstance(value, tuple):
        return tuple(_map_texts(one, change) for one in value)
    if is_dataclass(value) and not isinstance(value, type):
        given = {one.name: getattr(value, one.name) for one in fields(value)}
        return replace(value, **{name: _map_texts(one, change) for name, one in given.items()})
    return value


def hide_in_comments(source: str, hardware: Hardware, context: HardwareContext) -> str:
    """Return `source` with `hide` applied to its comments; its code must stay as it is."""
    if context == "full":
        return source
    return "".join(
        hide(text, hardware, context) if one.kind == TokenKind.COMMENT else text
        for one in tokenise(source)
        for text in [source[one.start : one.end]]
    )


def _names(hardware: Hardware) -> re.Pattern[str]:
    """Return the names of the GPU, of its models and of its architecture, longest first."""
    names = {hardware.name, *hardware.aliases, hardware.slug, hardware.architecture}
    for name in (hardware.name, *hardware.aliases):
        words = [word for word in name.split() if word.lower() not in _VENDOR_WORDS]
        names.add(" ".join(words))
        names |= {word for word in words if re.search(r"\d", word)}
    ordered = sorted((name for name in names if name), key=len, reverse=True)
    alternatives = "|".join(re.escape(name).replace(r"\ ", r"[\s_-]*") for name in ordered)
    return re.compile(
        rf"\b(?:(?:NVIDIA|GeForce|Tesla|Quadro)\s+)*(?:{alternatives})\b", re.IGNORECASE
    )
