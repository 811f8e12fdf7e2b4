"""Does feedback make a strong model's kernels faster? Two strategies, one model, equal calls.

    python benchmarks/model_comparison.py collect RUN --arm fsr --task conv2d
    python benchmarks/model_comparison.py summarise            (of recorded files: no model, no GPU)

`collect` writes all that one run asked a model, and what came of it, to
`results/model_comparison/TASK_ARM.jsonl`: a line for each call with prompt and reply, and for each
kernel that no model was asked for (the tuner's trials, compositions). `summarise` writes
`model_comparison.json` from those files alone. Of a round it tells the speed-ups of the model's
kernels as written, their best and geometric mean, failed ones apart; and the best so far after each
call, other kernels counted with the last call of their round. A critique is a call like any other.
"""

import argparse
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import record

FOLDER = record.RESULTS / "model_comparison"
ARMS = ("fsr", "best-of-n")
CRITIQUE = "critique"


@dataclass(frozen=True, kw_only=True)
class Line:
    """A call of the model, or a kernel that none was asked for."""

    id: str
    """Of the candidate, or `critique`."""
    round: int
    prompt: str
    """Empty where no model was asked, as is `reply`."""
    reply: str
    direction: str
    code: str
    """The verdict's; empty of a critique."""
    speedup: float | None
    times_us: Sequence[float]

    @property
    def is_call(self) -> bool:
        """Return whether a model was asked."""
        return bool(self.prompt)


def read_run(folder: Path) -> Iterator[Line]:
    """Yield candidates in order of round and index, each round's critique behind them."""
    attempts = [json.loads(path.read_text()) for path in folder.glob("candidates/*/attempt.json")]
    ordered = sorted(attempts, key=lambda one: (one["round"], "-c" not in one["id"], one["index"]))
    for number in dict.fromkeys(one["round"] for one in ordered):
        for one in ordered:
            if one["round"] == number:
                yield read_candidate(folder / "candidates" / one["id"], one)
        prompt, reply = read_texts(folder / "rounds" / str(number) / CRITIQUE)
        if reply:
            yield Line(
                id=CRITIQUE,
                round=number,
                prompt=prompt,
                reply=reply,
                direction="",
                code="",
                speedup=None,
                times_us=(),
            )


def read_candidate(folder: Path, attempt: Mapping[str, Any]) -> Line:
    """Return one candidate with its prompt and reply, where a model was asked."""
    prompt, reply = read_texts(folder)
    return Line(
        id=attempt["id"],
        round=attempt["round"],
        prompt=prompt,
        reply=reply,
        direction=attempt["direction"],
        code=attempt["code"],
        speedup=attempt["speedup"],
        times_us=attempt["times_us"],
    )


def read_texts(folder: Path) -> tuple[str, str]:
    """Return the prompt and the reply that a folder holds, empty where it holds none."""
    paths = (folder / "prompt.md", folder / "reply.md")
    prompt, reply = (path.read_text() if path.exists() else "" for path in paths)
    return prompt, reply


def collect() -> None:
    """Write the lines of one run."""
    parser = argparse.ArgumentParser()
    parser.add_argument("run", type=Path)
    parser.add_argument("--task", required=True)
    parser.add_argument("--arm", required=True, choices=ARMS)
    parser.add_argument("--rounds", type=int, help="of a run that was stopped: how many count")
    chosen = parser.parse_args()
    FOLDER.mkdir(exist_ok=True)
    target = FOLDER / f"{chosen.task}_{chosen.arm}.jsonl"
    most = chosen.rounds or math.inf
    lines = [json.dumps(asdict(one)) for one in read_run(chosen.run) if one.round <= most]
    target.write_text("\n".join(lines) + "\n")
    print(f"{target.name}: {len(lines)} lines")


def read_lines(path: Path) -> tuple[Line, ...]:
    """Return what `collect` wrote."""
    return tuple(Line(**json.loads(line)) for line in path.read_text().splitlines())


def by_round(lines: Sequence[Line]) -> dict[int, list[Line]]:
    """Return the lines of each round."""
    found: dict[int, list[Line]] = {}
    for one in lines:
        found.setdefault(one.round, []).append(one)
    return found


def geometric_mean(values: Sequence[float]) -> float | None:
    """Return the mean; None of nothing."""
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None


def describe_round(number: int, lines: Sequence[Line]) -> dict[str, Any]:
    """Return what the model's kernels of a round reached as written, and the best of all."""
    asked = [one for one in lines if one.is_call and one.code]
    passed = [one.speedup for one in asked if one.speedup]
    return {
        "round": number,
        "calls": sum(one.is_call for one in lines),
        "kernels": len(asked),
        "passed": len(passed),
        "best": max(passed, default=None),
        "mean": geometric_mean(passed),
        "best_of_all": max((one.speedup for one in lines if one.speedup), default=None),
    }


def best_after_calls(lines: Sequence[Line]) -> list[float | None]:
    """Return the best speed-up after each call, of all kernels that are known by then."""
    found: list[float | None] = []
    best: float | None = None
    for own in by_round(lines).values():
        calls = [one for one in own if one.is_call]
        written = [one for one in calls if one.code]
        others = [one.speedup for one in own if not one.is_call and one.speedup]
        for call in calls:
            known = [call.speedup] if call.speedup else []
            known += others if written and call is written[-1] else []
            best = max([*known, *([best] if best else [])], default=None)
            found.append(best)
    return found


def summarise_arm(lines: Sequence[Line]) -> dict[str, Any]:
    """Return the rounds of one run, its last over its first, and its best after each call."""
    rounds = [describe_round(number, own) for number, own in by_round(lines).items()]
    first, last = rounds[0], rounds[-1]
    ratios = {
        name: last[name] / first[name] if first[name] and last[name] else None
        for name in ("best", "mean", "best_of_all")
    }
    return {
        "rounds": rounds,
        "last_over_first": ratios,
        "best_after_call": best_after_calls(lines),
    }


def compare(arms: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the best of both strategies after as many calls as both have."""
    calls = min(len(one["best_after_call"]) for one in arms.values())
    return {"calls": calls, **{arm: one["best_after_call"][calls - 1] for arm, one in arms.items()}}


def summarise_all(folder: Path) -> dict[str, Any]:
    """Return the figures of all files, and their means over the tasks of both strategies."""
    found: dict[str, Any] = {}
    for path in sorted(folder.glob("*.jsonl")):
        task, arm = path.stem.rsplit("_", 1)
        found.setdefault(task, {})[arm] = summarise_arm(read_lines(path))
    both = {task: arms for task, arms in found.items() if set(arms) == set(ARMS)}
    equal = {task: compare(arms) for task, arms in both.items()}
    gains = {
        name: geometric_mean([arms["fsr"]["last_over_first"][name] for arms in both.values()])
        for name in ("best", "mean", "best_of_all")
    }
    ahead = geometric_mean([one["fsr"] / one["best-of-n"] for one in equal.values()])
    return {
        "tasks": found,
        "at_equal_calls": equal,
        "fsr_last_round_over_first": gains,
        "fsr_over_best_of_n_at_equal_calls": ahead,
    }


def summarise() -> None:
    """Write the figures of all files."""
    device = {"device": "emulated RTX 3090 Ti", "source": "modelled"}
    print(record.write("model_comparison", {**device, **summarise_all(FOLDER)}).read_text())


if __name__ == "__main__":
    record.dispatch({"collect": collect, "summarise": summarise})
