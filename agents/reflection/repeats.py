"""One hint for one cause, however often it is seen."""

from collections.abc import Sequence
from dataclasses import replace

from cuda_llm.agents.reflection.diagnosis import Diagnosis
from cuda_llm.agents.strategies.failures import can_be_mended
from cuda_llm.search import Attempt, Hint

MOST = 5
"""Hints a round and channel."""

Finding = tuple[Attempt, Diagnosis]


def merge(findings: Sequence[Finding], earlier: Sequence[Hint], round: int) -> tuple[Hint, ...]:
    """A hint for each (code, cause), those seen most often first, at most `MOST`.

    What several attempts share concerns everybody, and so does what nobody can mend: a reply
    without code, a repeat. What else one did concerns that one.
    """
    groups: dict[tuple[str, str], list[Finding]] = {}
    for finding in findings:
        groups.setdefault((finding[1].code, finding[1].cause), []).append(finding)
    hints = [_hint(group, _times_before(earlier, key), round) for key, group in groups.items()]
    return tuple(sorted(hints, key=lambda hint: -hint.times)[:MOST])


def _times_before(earlier: Sequence[Hint], key: tuple[str, str]) -> int:
    return max((hint.times for hint in earlier if (hint.code, hint.cause) == key), default=0)


def _hint(group: Sequence[Finding], before: int, round: int) -> Hint:
    attempt, first = group[0]
    times = before + len(group)
    names = ", ".join(one.id for one, _ in group[:4])
    hint = Hint(
        round=round,
        about=attempt.id if can_be_mended(attempt) else "",
        code=first.code,
        cause=first.cause,
        times=times,
        text=first.text,
        evidence=first.evidence,
        hardware_text=first.hardware_text,
        avoid=first.avoid,
    )
    if times == 1:
        return hint
    again = f"Seen {times} times so far ({'lately ' if before else ''}{names}). "
    return replace(hint, about="", text=again + first.text)
