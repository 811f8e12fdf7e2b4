"""An agent of one's own: tells every later prompt which mistakes repeat and which changes paid.

cuda-llm run histogram --agent examples/agents/lessons.py:lessons
"""

from collections import Counter

from cuda_llm.extend import Contribution, Note, Situation, Stage, placed

OFTEN = 2
GAIN = 1.05


@placed(after=Stage.REFLECTION)
async def lessons(situation: Situation) -> Contribution:
    """A note for prompts: failures seen at least `OFTEN` times, changes worth at least `GAIN`."""
    failures = Counter(one.code for one in situation.attempts if not one.passed)
    speedups = {one.id: one.speedup or 0.0 for one in situation.attempts if one.passed}
    paid = [
        f"{one.direction} ({speedups[one.id] / speedups[one.parent]:.2f}x)"
        for one in situation.attempts
        if one.passed
        and one.parent in speedups
        and one.direction
        and speedups[one.id] > GAIN * speedups[one.parent]
    ]
    often = [f"{code} {count} times" for code, count in failures.most_common() if count >= OFTEN]
    told = [f"Avoid what failed before: {', '.join(often)}."] if often else []
    told += [f"What paid so far: {'; '.join(paid)}."] if paid else []
    note = Note(text=" ".join(told), data={"failures": dict(failures), "paid": paid})
    return Contribution(note=note, decisions=tuple(told) or ("no lesson yet",))
