"""A model's critique of the kernel that matters most, once a round: the question, how its answer is
read, and the hint that it becomes as far as the check lets it stand.
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
from cuda_llm.agents.protocols import Contribution
from cuda_llm.agents.reflection.check_critique import Avoided, Critique, Fix, check
from cuda_llm.agents.situation import Situation
from cuda_llm.agents.strategies.briefs import distinct_failures
from cuda_llm.codec import decode
from cuda_llm.conversation import Ask, Call, CallFailed, Reply
from cuda_llm.critique import describe_objection
from cuda_llm.search import Attempt, Hint

MOST_REPLY = 20_000
MOST_CHANGE = 1500
"""Most characters of a change: two sentences of a strong model take up to 900. What is longer loses
its middle, and cannot be carried out."""
MOST_FIX = 600
MOST_AVOIDED = 4
MOST_FIXES = 4


@dataclass(frozen=True)
class Unreadable:
    """The reply holds no critique."""

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
    """Yield every outermost JSON object in `text`."""
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
    # A plain text among what to avoid names no attempt.
    avoid = [
        {"changed": one} if isinstance(one, str) else one for one in _as_list(found.get("avoid"))
    ]
    fixes = [one for one in _as_list(found.get("fixes")) if isinstance(one, dict)]
    wanted = {**found, "avoid": avoid, "brings": _as_list(found.get("brings")), "fixes": fixes}
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
        change=one_line(read.change, MOST_CHANGE),
        bottleneck=one_line(read.bottleneck, 160),
        brings=tuple(one_line(one, 40) for one in read.brings),
        avoid=tuple(
            Avoided(changed=one_line(one.changed, 160), attempt=one_line(one.attempt, 40))
            for one in read.avoid
            if one.changed.strip()
        )[:MOST_AVOIDED],
        fixes=tuple(
            Fix(attempt=one.attempt.strip(), fix=one_line(one.fix, MOST_FIX))
            for one in read.fixes
            if one.fix.strip()
        )[:MOST_FIXES],
        reason=one_line(read.reason, 300),
        gain_percent=min(max(read.gain_percent, 0.0), 99.0),
    )


def _as_list(found: Any) -> list[Any]:
    return found if isinstance(found, list) else [found] if found else []


async def criticise(
    ask: Ask,
    situation: Situation,
    judged: Sequence[Attempt],
    found: Contribution,
    templates: Templates,
) -> Contribution | None:
    """Ask once about the `subject`; return at most one hint, and the checked critique.

    `found` are the diagnosis' own hints. Where nothing of the round passed, the answer may hold a
    way out for each kernel that was refused, which becomes an error hint. A change that something
    speaks against becomes a hint for the next critique alone. None where there is no subject, or no
    prompt will hold the answer.
    """
    about = subject(situation, judged)
    is_last = situation.round >= situation.config.rounds
    if about is None or is_last or not situation.config.components.hints:
        return None
    # Why others failed says nothing of a kernel that passed.
    known = (*(() if about.passed else found.error_hints), *found.performance_hints)
    failures = failures_beside(about, judged)
    call = Call(
        id=f"rounds/{situation.round}/critique",
        agent="reflection",
        messages=render_critique_prompt(situation, about, known, templates, failures),
        as_json=True,
    )
    reply = await ask(call)
    if isinstance(reply, CallFailed):
        read: Critique | Unreadable = Unreadable(f"{reply.kind}: {one_line(reply.detail, 120)}")
    else:
        read = read_critique(reply)
    if isinstance(read, Unreadable):
        return Contribution(decisions=(f"no critique of {about.id}: {read.why}",))
    kept = check(situation, about, read)
    fixes = tuple(_fix_hints(situation, read, failures))
    refusal = kept.refusal
    hint = Hint(
        round=situation.round,
        about=about.id,
        code=kept.bottleneck,
        text=f"{read.change} ({read.reason})" if read.reason else read.change,
        avoid=kept.avoid,
        change=kept.change,
        refused=describe_objection(refusal) if refusal else "",
        brings=kept.brings,
        gain=kept.gain,
        by="critique",
    )
    return Contribution(
        error_hints=fixes if about.passed else (hint, *fixes),
        performance_hints=(hint,) if about.passed else (),
        critique=kept,
    )


def failures_beside(about: Attempt, judged: Sequence[Attempt]) -> tuple[Attempt, ...]:
    """Return one attempt for each distinct failure of a round in which nothing passed, without
    `about`; none where an attempt of the round passed."""
    if any(one.passed for one in judged):
        return ()
    return tuple(one for one in distinct_failures(judged) if one.id != about.id)[:MOST_FIXES]


def _fix_hints(situation: Situation, read: Critique, failures: Sequence[Attempt]) -> Iterator[Hint]:
    """Yield a hint for each of `failures` that the critique names, which every writer is to see."""
    by_id = {one.id: one for one in failures}
    for one in read.fixes:
        failed = by_id.pop(one.attempt, None)
        if failed is not None:
            text = f"{failed.id} was refused: {one.fix}"
            yield Hint(round=situation.round, about="", code=failed.code, text=text, by="critique")


def subject(situation: Situation, judged: Sequence[Attempt]) -> Attempt | None:
    """Return the incumbent; without an incumbent, the failure of this round nearest to being
    right."""
    return situation.incumbent or next(iter(distinct_failures(judged)), None)
