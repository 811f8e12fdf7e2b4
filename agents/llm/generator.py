"""The generator that asks a chat model, and reads the kernel out of the reply or names what is
wrong with it.
"""

import html
import re
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from cuda_llm.agents.prompting.quote import one_line, unmark
from cuda_llm.agents.prompting.render import PROMPT_TOKENS, render_prompt
from cuda_llm.agents.prompting.templates import Templates
from cuda_llm.agents.situation import Situation
from cuda_llm.agents.tunables.read import read_space
from cuda_llm.agents.tunables.space import Space
from cuda_llm.conversation import Ask, Call, CallFailed, Reply
from cuda_llm.outcomes import NoCode, ReplyFault
from cuda_llm.search import Author, Brief, Draft
from cuda_llm.source_tokens import (
    defines_solve,
    is_balanced,
    kernels_defined,
    kernels_launched,
)

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_REASONING = ("think", "thinking", "reasoning", "scratchpad")

MOST_SOURCE = 200_000
"""Largest number of characters of a kernel: more than any kernel written by hand."""
MOST_REPLY = 1_000_000
MOST_IDEA = 100
CUDA_LANGUAGES = {
    "",
    "cuda",
    "cu",
    "cpp",
    "c++",
    "cxx",
    "c",
    "cc",
    "cuh",
    "text",
    "txt",
    "plaintext",
}
_PYTHON = re.compile(
    r"^[ \t]*(?:import [\w.]+(?: as \w+)?[ \t]*$|from [\w.]+ import |def \w+\(.*:[ \t]*$|@\w+)",
    re.MULTILINE,
)
_FENCE_INSIDE_LINE = re.compile(r"(?<=[^\n`])```")
_HUNK = re.compile(r"^@@ .*@@|^(?:---|\+\+\+) \S", re.MULTILINE)
_CODE_BEGINS = re.compile(
    r"^(?:#\s*(?:include|define|pragma|if)|//|/\*|template\b|__global__|__device__|extern\b|static\b"
    r"|using\b|namespace\b|constexpr\b|typedef\b|struct\b)",
    re.MULTILINE,
)
_ESCAPED = re.compile(r"#\s*include\s*&lt;|&lt;&lt;&lt;")
_REFUSAL = re.compile(
    r"\b(?:I(?:'m| am) (?:sorry|unable|not able)|I (?:can(?:no|')t|won't|will not|must decline))\b",
    re.IGNORECASE,
)
_IDEA = re.compile(r"^\s*(?:[#*>\s]*)(?:idea|approach|name)\b[\s*]*[:\-]\s*(.+)$", re.I | re.M)
_COMMENT = re.compile(r"\s*(?://+|/\*+)\s*(.*?)\s*(?:\*/)?\s*\Z")


@dataclass(frozen=True, kw_only=True)
class FencedBlock:
    """A block of code between fences of a model's reply."""

    language: str
    """First word behind the fence, lower case; empty where there is none."""
    text: str
    closed: bool


def find_blocks(text: str) -> tuple[FencedBlock, ...]:
    """Return every fenced block, in order; the last may lack its end."""
    tokens = _parser().parse(text)
    return tuple(_block(token) for token in tokens if token.type == "fence")


def without_reasoning(text: str) -> str:
    """Return `text` without what a model thought aloud: `<think>...</think>` and its kin.

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
    """Return a parser that knows fences and quotations alone.

    Without lists and indented code, a fence counts at any depth, and code that a model indents less
    than the list around it does not end its block.
    """
    from markdown_it import MarkdownIt

    return MarkdownIt("zero").enable(["fence", "blockquote"]).disable("inline")


def _block(token: "Token") -> FencedBlock:
    words = token.info.lower().split()
    language = words[0].strip("{}.:,") if words else ""
    first, end = token.map or (0, 0)
    inside = token.content.count("\n") + bool(token.content and token.content[-1] != "\n")
    return FencedBlock(
        language=language,
        text=token.content.removesuffix("\n"),
        closed=end - first == inside + 2,
    )


def read_reply(reply: Reply) -> Draft | NoCode:
    """Return the kernel in `reply`. A NoCode names what is wrong by its kind."""
    if reply.finish == "content_filter":
        return _no_code("content_filter")
    text = without_reasoning(_normal(reply.text[:MOST_REPLY])).strip()
    blocks = find_blocks(text)
    if _choose(blocks) is None:
        blocks = find_blocks(_FENCE_INSIDE_LINE.sub("\n```", text))
    source = _choose(blocks) or _bare(text, blocks)
    cut = reply.finish == "length"
    if source is None:
        return _why_none(reply, text, blocks, cut=cut)
    if _is_cut(blocks, source, cut=cut):
        return _no_code("truncated")
    source = html.unescape(source) if _ESCAPED.search(source) else source
    if len(source) > MOST_SOURCE:
        return NoCode(kind="too_long", most_characters=MOST_SOURCE)
    source = unmark(source).strip("\n") + "\n"
    return Draft(source=source, idea=_idea(source, text))


def _normal(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\ufeff", "").replace("\0", "")


def _choose(blocks: tuple[FencedBlock, ...]) -> str | None:
    """Return the last block with `solve`, and before it what it launches and does not define."""
    code = [block for block in blocks if _is_cuda(block)]
    whole = [block for block in code if defines_solve(_plain(block.text))]
    if not whole:
        return None
    chosen = whole[-1].text
    missing = kernels_launched(chosen).difference(kernels_defined(chosen))
    if not missing:
        return chosen
    parts = [block.text for block in code if block not in whole]
    useful = [part for part in parts if missing.intersection(kernels_defined(part))]
    found = frozenset().union(*(kernels_defined(part) for part in useful))
    return "\n\n".join([*useful, chosen]) if missing <= found else chosen


def _bare(text: str, blocks: tuple[FencedBlock, ...]) -> str | None:
    """Return unfenced code, from the first line that looks like code to the last `}`."""
    if blocks or _is_python(text) or not defines_solve(_plain(text)):
        return None
    begin = _CODE_BEGINS.search(_plain(text))
    code = text[begin.start() if begin else 0 :]
    whole = code[: code.rfind("}") + 1]
    return whole if defines_solve(_plain(whole)) else code


def _is_cut(blocks: tuple[FencedBlock, ...], source: str, *, cut: bool) -> bool:
    """Return whether the file ends before its end: unclosed, and cut off or with open braces."""
    unclosed = not blocks or (not blocks[-1].closed and blocks[-1].text in source)
    return unclosed and (cut or not is_balanced(source))


def _why_none(reply: Reply, text: str, blocks: tuple[FencedBlock, ...], *, cut: bool) -> NoCode:
    if reply.refusal:
        return _no_code("refused", one_line(reply.refusal))
    if cut or (blocks and not blocks[-1].closed and not is_balanced(blocks[-1].text)):
        return _no_code("truncated")
    if not text:
        thought = reply.reasoning.strip() or reply.text.strip()
        return _no_code("only_reasoning" if thought else "empty")
    if any(block.language in ("diff", "patch") or _HUNK.search(block.text) for block in blocks):
        return _no_code("diff")
    if _HUNK.search(text):
        return _no_code("diff")
    if any(_is_python(block.text) for block in blocks) or _is_python(text):
        return _no_code("other_language")
    if blocks or "__global__" in text:
        return _no_code("no_solve")
    if _REFUSAL.search(text[:400]):
        return _no_code("refused", one_line(text))
    return _no_code("no_code")


def _no_code(kind: ReplyFault, quoted: str = "") -> NoCode:
    return NoCode(kind=kind, said=quoted)


def _is_cuda(block: FencedBlock) -> bool:
    if _HUNK.search(block.text):
        return False
    return block.language in CUDA_LANGUAGES and not _is_python(block.text)


def _is_python(text: str) -> bool:
    return _PYTHON.search(text) is not None


def _plain(text: str) -> str:
    return html.unescape(text) if _ESCAPED.search(text) else text


def _idea(source: str, text: str) -> str:
    """Return the comment the file begins with; else what the prose calls its idea."""
    for line in source.strip().split("\n")[:3]:
        comment = _COMMENT.match(line)
        if comment is None:
            break
        words = re.sub(r"^(?:idea|name)\s*:\s*", "", comment[1], flags=re.I).strip("*=- ")
        if words and not words.endswith((".cu", ".cuh", ".cpp")):
            return one_line(words, MOST_IDEA)
    named = _IDEA.search(text.partition("```")[0])
    return one_line(named[1].strip("* "), MOST_IDEA) if named else ""


class LlmGenerator:
    """Renders a brief, asks, and reads the reply."""

    name = "llm"
    written_by: Author = "model"

    def __init__(
        self, ask: Ask, templates: Templates, *, prompt_tokens: int = PROMPT_TOKENS
    ) -> None:
        self._ask = ask
        self._templates = templates
        self._prompt_tokens = prompt_tokens

    async def generate(self, brief: Brief, situation: Situation) -> Draft | NoCode:
        """Ask once a brief, below `candidates/<id>`; a call without an answer is a NoCode."""
        messages = render_prompt(brief, situation, self._templates, self._prompt_tokens)
        call = Call(id=f"candidates/{brief.id}", agent="generator", messages=messages)
        reply = await self._ask(call)
        if isinstance(reply, CallFailed):
            return NoCode(kind="call_failed", call_fault=reply.kind, said=reply.detail)
        drafted = read_reply(reply)
        return drafted if isinstance(drafted, NoCode) else with_tunables(drafted)


def with_tunables(draft: Draft) -> Draft:
    """Return the draft with the defaults of the tunables it declares."""
    space = read_space(draft.source)
    if not isinstance(space, Space):
        return draft
    return replace(draft, tunables={one.name: one.default for one in space.tunables})
