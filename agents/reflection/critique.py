"""A model's critique of the kernel that matters most, once a round: the question, how its answer is
read, the hint.
"""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cuda_llm.agents.llm.generator import without_reasoning
from cuda_llm.agents.prompting.quote import one_line
from cuda_llm.agents.prompting.render import render_critique_prompt
from cuda_llm.agents.prompting.templates import Templates
from cuda_llm.agents.protocols import Reflected
from cuda_llm.agents.situation import Situation
from cuda_llm.agents.strategies.briefs import distinct_failures
from cuda_llm.codec import decode
from cuda_llm.conversation import Ask, Call, CallFailed, Reply
from cuda_llm.search import Attempt, Hint

MOST_REPLY = 20_000
MOST_AVOIDED = 4


@dataclass(frozen=True, kw_only=True)
class Critique:
    """One bottleneck, one change and what it is expected to save, what to avoid."""

    change: str
    bottleneck: str = ""
    avoid: tuple[str, ...] = ()
    reason: str = ""
    gain_percent: float = 0.0
    """Part of the kernel's time that the change is expected to save; 0 where nothing was said."""


@dataclass(frozen=True)
class Unreadable:
    """No critique in the reply."""

    why: str


def read_critique(reply: Reply) -> Critique | Unreadable:
    """Return the first JSON object with a change in it, wherever in the reply it stands."""
    if reply.refusal:
        return Unreadable("the model declined")
    text = without_reasoning(reply.text[:MOST_REPLY])
    for found in _find_objects(text):
        critique = _decode_critique(found)
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


def _find_objects(text: str) -> Iterator[Mapping[str, Any]]:
    """Yield every JSON object in `text`; those within another are not looked for."""
    decoder, position = json.JSONDecoder(), text.find("{")
    while position >= 0:
        try:
            value, end = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            end = position + 1
        else:
            yield value
        position = text.find("{", end)


def _decode_critique(found: Mapping[str, Any]) -> Critique | None:
    if len(found) == 1 and isinstance(next(iter(found.values())), dict):
        found = next(iter(found.values()))
    avoid = found.get("avoid") or ()
    wanted = {**found, "avoid": (avoid,) if isinstance(avoid, str) else avoid}
    wanted = {key: value for key, value in wanted.items() if value is not None}
    gain = wanted.pop("gain_percent", None)
    if isinstance(gain, (int, float)) and math.isfinite(gain):
        wanted["gain_percent"] = float(gain)
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
        gain_percent=min(max(read.gain_percent, 0.0), 99.0),
    )


async def criticise(
    ask: Ask,
    situation: Situation,
    judged: Sequence[Attempt],
    known: Sequence[Hint],
    templates: Templates,
) -> Reflected | None:
    """Ask once about the `subject`: at most one hint, and the decision to record.

    None where there is no subject, or no prompt will hold the answer.
    """
    about = subject(situation, judged)
    is_last = situation.round >= situation.plan.rounds
    if about is None or is_last or not situation.plan.components.hints:
        return None
    call = Call(
        id=f"rounds/{situation.round}/critique",
        agent="reflection",
        messages=render_critique_prompt(situation, about, known, templates),
        as_json=True,
    )
    reply = await ask(call)
    if isinstance(reply, CallFailed):
        read: Critique | Unreadable = Unreadable(f"{reply.kind}: {one_line(reply.detail, 120)}")
    else:
        read = read_critique(reply)
    if isinstance(read, Unreadable):
        return Reflected(decisions=(f"no critique of {about.id}: {read.why}",))
    hint = Hint(
        round=situation.round,
        about=about.id,
        code=(about.limited_by or "critique") if about.passed else about.code,
        text=f"{read.change} ({read.reason})" if read.reason else read.change,
        avoid=read.avoid,
        change=read.change.rstrip("."),
        gain=read.gain_percent / 100,
        by="critique",
    )
    return Reflected(
        error_hints=() if about.passed else (hint,),
        performance_hints=(hint,) if about.passed else (),
        decisions=(f"critique of {about.id}: {read.bottleneck or about.code}: {read.change}",),
    )


def subject(situation: Situation, judged: Sequence[Attempt]) -> Attempt | None:
    """Return the incumbent; while there is none, the failure of this round that came nearest."""
    return situation.incumbent or next(iter(distinct_failures(judged)), None)
