"""The fenced blocks of a reply, as CommonMark defines them, and forgiving where models are not."""

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_REASONING = ("think", "thinking", "reasoning", "scratchpad")


@dataclass(frozen=True, kw_only=True)
class Block:
    """One fenced block."""

    language: str
    """First word behind the fence, lower case; empty where there is none."""
    text: str
    closed: bool


def find_blocks(text: str) -> tuple[Block, ...]:
    """Every fenced block, in order; the last may lack its end."""
    tokens = _parser().parse(text)
    return tuple(_block(token) for token in tokens if token.type == "fence")


def without_reasoning(text: str) -> str:
    """`text` without what a model thought aloud: `<think>...</think>` and its kin.

    A closing tag alone ends reasoning whose beginning the server cut away; an opening tag alone
    begins reasoning that never ended.
    """
    for tag in _REASONING:
        opening, closing = f"<{tag}>", f"</{tag}>"
        kept, rest = [], text
        while (start := rest.find(opening)) >= 0:
            end = rest.find(closing, start)
            kept.append(rest[:start])
            rest = rest[end + len(closing) :] if end >= 0 else ""
        text = "".join(kept) + rest.rpartition(closing)[2]
    return text


@cache
def _parser() -> "MarkdownIt":
    """A parser that knows fences and quotations alone.

    Without lists and indented code, a fence counts at any depth, and code that a model indents less
    than the list around it does not end its block.
    """
    from markdown_it import MarkdownIt

    return MarkdownIt("zero").enable(["fence", "blockquote"]).disable("inline")


def _block(token: "Token") -> Block:
    words = token.info.lower().split()
    language = words[0].strip("{}.:,") if words else ""
    first, end = token.map or (0, 0)
    inside = token.content.count("\n") + bool(token.content and token.content[-1] != "\n")
    return Block(
        language=language,
        text=token.content.removesuffix("\n"),
        closed=end - first == inside + 2,
    )
