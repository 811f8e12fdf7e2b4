"""A stored prompt cut at its headings, each section with the channels of the state behind it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass

ROLES = {"system", "user", "assistant"}
"""A message begins with its role as a heading (`RunFolder.write_prompt`)."""
_HEADING = re.compile(r"#{1,6} (\S.*)")
_FENCE = re.compile(r"(`{3,}|~{3,})")


@dataclass(frozen=True, kw_only=True)
class PromptSection:
    """What stands below one heading."""

    heading: str
    channels: tuple[str, ...]
    text: str


def split_prompt(text: str, channels: Mapping[str, tuple[str, ...]]) -> Mapping[str, PromptSection]:
    """Return the sections in order, by what is the same of them in every prompt of a run.

    A `#` inside a fence is no heading. `channels` are by how a heading begins.
    """
    found: dict[str, PromptSection] = {}
    heading, lines, fence, role = "", list[str](), "", ""

    def keep() -> None:
        body = "\n".join(lines).strip("\n")
        begins = max((one for one in channels if heading.startswith(one)), key=len, default=heading)
        key, number = f"{role}: {begins}", 1
        while key in found:
            number += 1
            key = f"{role}: {begins} {number}"
        if body or heading not in ROLES | {""}:
            found[key] = PromptSection(
                heading=heading, channels=channels.get(begins, ()), text=body
            )

    for line in text.split("\n"):
        mark = _FENCE.match(line)
        if mark and not fence:
            fence = mark[1]
        elif mark and line.strip() == line and set(line) == {fence[:1]} and len(line) >= len(fence):
            fence = ""
        title = None if fence else _HEADING.fullmatch(line)
        if title is None:
            lines.append(line)
            continue
        keep()
        heading, lines = title[1], []
        role = heading if heading in ROLES else role
    keep()
    return found
