"""What a model answered to the request for a critique, read with patience."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from cuda_llm.agents.llm.fences import without_reasoning
from cuda_llm.agents.quote import one_line
from cuda_llm.codec import decode
from cuda_llm.conversation import Reply

MOST_REPLY = 20_000
MOST_AVOIDED = 4


@dataclass(frozen=True, kw_only=True)
class Critique:
    """One bottleneck, one change, what to avoid."""

    change: str
    bottleneck: str = ""
    avoid: tuple[str, ...] = ()
    reason: str = ""


@dataclass(frozen=True)
class Unreadable:
    """No critique in the reply."""

    why: str


def read_critique(reply: Reply) -> Critique | Unreadable:
    """The first JSON object with a change in it, wherever in the reply it stands."""
    if reply.refusal:
        return Unreadable("the model declined")
    text = without_reasoning(reply.text[:MOST_REPLY])
    for found in _objects(text):
        critique = _read(found)
        if critique is not None:
            return critique
    if reply.finish == "length":
        return Unreadable("the answer was cut off at the length limit")
    if not text.strip():
        return Unreadable("the answer was empty")
    return Unreadable(
        "the answer holds no JSON object"
        if "{" not in text
        else "its JSON is not what was asked for"
    )


def _objects(text: str) -> Iterator[Mapping[str, Any]]:
    """Every JSON object in `text`, from its start on; nested ones are not looked into."""
    decoder, position = json.JSONDecoder(), text.find("{")
    while position >= 0:
        try:
            value, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            end = position + 1
        else:
            yield value
        position = text.find("{", end)


def _read(found: Mapping[str, Any]) -> Critique | None:
    if len(found) == 1 and isinstance(next(iter(found.values())), dict):
        found = next(iter(found.values()))
    avoid = found.get("avoid") or ()
    wanted = {**found, "avoid": (avoid,) if isinstance(avoid, str) else avoid}
    wanted = {key: value for key, value in wanted.items() if value is not None}
    try:
        read = decode(Critique, wanted)
    except ValueError:
        return None
    if not read.change.strip():
        return None
    return Critique(
        change=one_line(read.change, 500),
        bottleneck=one_line(read.bottleneck, 160),
        avoid=tuple(one_line(one, 160) for one in read.avoid if one.strip())[:MOST_AVOIDED],
        reason=one_line(read.reason, 300),
    )
