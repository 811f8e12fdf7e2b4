"""Counts the tokens of a prompt, and fits its sections into a budget, least important cut first.

Tokens are estimated without a tokeniser, rather too many than too few: tokenisers differ and load
their tables from the network. All of them split text into words, digits, punctuation and white
space first, so those pieces are counted: a token for every four letters of a word begun, every
digit, every punctuation mark, every run of blanks but a single space, and every byte that is not
ASCII. The estimate of two texts together is at most the sum of both.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

_PIECES = re.compile(r"([A-Za-z]+)|( )(?=\S)|(\n[ \t]*|[ \t\r\f\v]+)|([^\x00-\x7f]+)|.", re.DOTALL)


def count_tokens(text: str) -> int:
    """Count the tokens of `text`, rather too many than too few."""
    total = 0
    for match in _PIECES.finditer(text):
        word, space, _, foreign = match.groups()
        if word:
            total += -(-len(word) // 4)
        elif foreign:
            total += len(foreign.encode(errors="surrogatepass"))
        elif not space:
            total += 1
    return total


Cut = Literal["whole", "lines", "entries"]
"""Way in which a section is shortened: not at all, from its middle, or by its least important
entries."""


@dataclass(frozen=True, kw_only=True)
class Section:
    """One part of a prompt and its claim to the budget."""

    name: str
    """Name of the section in templates."""
    priority: int
    """Rank of the section: 1 is served first; a section of rank 0 is outside the budget and
    never cut."""
    least: float = 0.0
    """Part of the room that is its own, whatever the others need, in order of priority."""
    most: float = 1.0
    """Part of the room that the section may take while another section lacks room, 0 to 1."""
    cut: Cut = "lines"


SECTIONS = (
    Section(name="task", priority=0, cut="whole"),
    Section(name="signature", priority=0, cut="whole"),
    Section(name="direction", priority=0, cut="whole"),
    Section(name="parent_source", priority=0, cut="whole"),
    Section(name="failure", priority=1, least=0.25, most=0.5),
    Section(name="real_names", priority=2, least=0.05, most=0.1, cut="entries"),
    Section(name="profile", priority=3, least=0.1, most=0.3, cut="entries"),
    Section(name="second_source", priority=4, least=0.1, most=0.3),
    Section(name="host_code", priority=5, least=0.15, most=0.5),
    Section(name="hints", priority=6, least=0.1, most=0.3, cut="entries"),
    Section(name="ordered", priority=7, most=0.1, cut="entries"),
    Section(name="hardware", priority=8, least=0.1, most=0.2, cut="entries"),
    Section(name="history", priority=9, least=0.1, most=0.3, cut="entries"),
    Section(name="notes", priority=10, least=0.05, most=0.2),
    Section(name="baseline", priority=11, most=0.3),
)
"""Every section that holds something of the run. What a template says itself is never cut."""


@dataclass(frozen=True, kw_only=True)
class Passage:
    """The whole text of one section, before it is cut."""

    entries: tuple[str, ...] = ()
    """Entries in the order of the prompt; the lines of one entry stay together."""
    ranking: tuple[int, ...] = ()
    """Indices of entries, the most important entry first; empty for entries in order of
    importance."""
    noun: str = "entries"
    """Plural noun for entries, in the note that some entries are left out."""

    @property
    def text(self) -> str:
        """Return all entries as one text."""
        return "\n".join(self.entries)


def fit(passages: Mapping[str, Passage], room: int) -> dict[str, str]:
    """Return the text of each section, those that may be cut within `room` tokens."""
    room = max(0, room)
    needs = {name: count_tokens(passage.text) for name, passage in passages.items()}
    movable = sorted((one for one in SECTIONS if one.priority), key=lambda one: one.priority)
    movable = [one for one in movable if needs.get(one.name)]
    grants = _share_out(movable, needs, room)
    texts = {name: passage.text for name, passage in passages.items()}
    for section in movable:
        passage, grant = passages[section.name], grants[section.name]
        if needs[section.name] > grant:
            cut = cut_entries if section.cut == "entries" else cut_lines
            texts[section.name] = cut(passage, grant)
    return texts


def _share_out(movable: list[Section], needs: Mapping[str, int], room: int) -> dict[str, int]:
    """Return each section's tokens: first its least, then up to its most, then what is left."""
    grants = dict.fromkeys(needs, 0)
    steps: tuple[Callable[[Section], float], ...] = (
        lambda one: one.least,
        lambda one: one.most,
        lambda _: 1.0,
    )
    left = room
    for share in steps:
        for section in movable:
            wanted = min(needs[section.name], int(share(section) * room))
            more = min(left, max(0, wanted - grants[section.name]))
            grants[section.name] += more
            left -= more
    return grants


def cut_lines(passage: Passage, limit: int) -> str:
    """Return head and tail of a log in `limit` tokens, and between them how much is missing."""
    lines = passage.text.split("\n")
    # 0, last, 1, last but one ...
    order = [at // 2 if at % 2 == 0 else len(lines) - 1 - at // 2 for at in range(len(lines))]
    return _cut(lines, order, limit, "lines", in_a_row=True)


def cut_entries(passage: Passage, limit: int) -> str:
    """Return the most important entries that `limit` tokens hold, in their order."""
    order = passage.ranking or range(len(passage.entries))
    return _cut(passage.entries, order, limit, passage.noun, in_a_row=False)


def _cut(
    texts: Sequence[str], order: Sequence[int], limit: int, noun: str, *, in_a_row: bool
) -> str:
    """Return the first texts of `order` that `limit` tokens hold, and how many are left out.

    With `in_a_row` the first that is too long ends it, and the count stands at the gap; else
    shorter ones may follow, and it stands in front.
    """
    spent = count_tokens(_missing(len(texts), noun)) + 1
    taken: set[int] = set()
    for index in order:
        cost = count_tokens(texts[index]) + 1
        if spent + cost <= limit:
            taken.add(index)
            spent += cost
        elif in_a_row:
            break
    if not taken:
        return ""
    left_out = [index for index in range(len(texts)) if index not in taken]
    shown = [texts[index] for index in sorted(taken)]
    if left_out:
        shown.insert(left_out[0] if in_a_row else 0, _missing(len(left_out), noun))
    return "\n".join(shown)


def _missing(count: int, noun: str) -> str:
    return f"... {count} {noun} left out"
