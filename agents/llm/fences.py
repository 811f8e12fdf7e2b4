"""The fenced blocks of a reply, as CommonMark defines them, and forgiving where models are not."""

import re
from dataclasses import dataclass

_OPENING = re.compile(r"(?P<indent>[ \t>]*)(?P<fence>`{3,}|~{3,})[ \t]*(?P<info>[^`\n]*)\Z")
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
    blocks: list[Block] = []
    held: list[str] = []
    opening: re.Match[str] | None = None
    for line in text.split("\n"):
        match = _OPENING.match(line)
        if opening is None:
            opening, held = match, []
        elif match and _closes(match, opening):
            blocks.append(_block(opening, held, closed=True))
            opening = None
        else:
            held.append(line.removeprefix(opening["indent"]))
    if opening is not None:
        blocks.append(_block(opening, held, closed=False))
    return tuple(blocks)


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


def _closes(match: re.Match[str], opening: re.Match[str]) -> bool:
    fence, begun = match["fence"], opening["fence"]
    return fence[0] == begun[0] and len(fence) >= len(begun) and not match["info"].strip()


def _block(opening: re.Match[str], lines: list[str], *, closed: bool) -> Block:
    words = opening["info"].lower().split()
    language = words[0].strip("{}.:,") if words else ""
    return Block(language=language, text="\n".join(lines), closed=closed)
