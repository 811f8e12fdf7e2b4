"""A search on a device, node by node, and what each of its steps took.

It stands for `cuda-llm run`: the same nodes, one after the other, without LangGraph.
"""

import asyncio
import cProfile
import importlib.util
import pstats
import random
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

from playbook_search import distinct_kernels

from cuda_llm.agents.playbook.generator import PlaybookGenerator
from cuda_llm.agents.playbook.tuner import TunableTuner
from cuda_llm.agents.protocols import Generator
from cuda_llm.agents.reflection.reflector import Reflection
from cuda_llm.agents.situation import Plan, Situation
from cuda_llm.agents.strategies.builtin import find_strategy
from cuda_llm.graph.candidate import STAGES, run_stage
from cuda_llm.graph.context import RunContext
from cuda_llm.graph.request import RunRequest
from cuda_llm.graph.round_nodes import choose, collect, hand_out, reflection, route, strategy
from cuda_llm.graph.run_nodes import baseline, finish, start
from cuda_llm.outcomes import NoCode
from cuda_llm.search import Author, Brief, Draft
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import Device
from cuda_llm.tools.judge.bench import Bench
from cuda_llm.traces.event_log import Recorder, read_events
from cuda_llm.traces.events import ContestHeld, KernelInspected, StageLeft
from cuda_llm.traces.run_folder import RunFolder

Row = dict[str, Any]


class WatchedDevice:
    """A device, and what each work on it took. All else is the device's own."""

    def __init__(self, device: Device) -> None:
        self._device = device
        self.works: list[tuple[str, float, float]] = []
        """Name, begin and end."""
        self.contests: list[Mapping[str, float]] = []
        self.inspections: list[Mapping[str, float]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)

    def pinned(self) -> "WatchedDevice":
        """See `Device.pinned`: there is one."""
        return self

    async def carry_out(self, work: Any, /, *arguments: Any, **named: Any) -> Any:
        """See `Device.carry_out`."""
        begun_s = time.monotonic()
        try:
            found = await self._device.carry_out(work, *arguments, **named)
        finally:
            self.works.append((work.__name__, begun_s, time.monotonic()))
        kept = {"contest_there": self.contests, "inspect_all_there": self.inspections}
        seconds = getattr(found, "seconds", None)
        if work.__name__ in kept and isinstance(seconds, Mapping):
            kept[work.__name__].append({one: round(took, 2) for one, took in seconds.items()})
        return found

    def summarise(self) -> dict[str, tuple[int, float]]:
        """Number and seconds of works, by name."""
        names = dict.fromkeys(name for name, _, _ in self.works)
        return {
            name: (len(took), round(sum(took), 2))
            for name in names
            for took in [[end - begin for one, begin, end in self.works if one == name]]
        }

    def busy_s(self, begin_s: float, end_s: float) -> float:
        """Seconds of that time in which some work was under way."""
        busy, until_s = 0.0, begin_s
        for _, begin, end in sorted(self.works, key=lambda one: one[1]):
            begun, ended = max(begin, until_s), min(end, end_s)
            busy += max(0.0, ended - begun)
            until_s = max(until_s, ended)
        return busy


class NeighbourGenerator:
    """Tries the playbook's kernels nearest to the incumbent's, those as near in a drawn order."""

    name = "neighbours"
    written_by: Author = "playbook"

    def __init__(self, task: Task, seed: int) -> None:
        self._left = [one for _, one in distinct_kernels(task)]
        random.Random(seed).shuffle(self._left)

    async def generate(self, brief: Brief, situation: Situation) -> Draft | NoCode:
        """Return the next kernel; NoCode where none is left."""
        best = situation.incumbent
        near = {} if best is None else best.tunables
        if not self._left:
            return NoCode(kind="exhausted")
        self._left.sort(key=lambda one: sum(one[0][key] != near.get(key) for key in one[0]))
        point, source = self._left.pop(0)
        return Draft(source=source, idea=str(point), tunables=point)


def open_generator(task: Task, seed: int) -> Generator:
    """Return the playbook's generator where it can propose."""
    able = importlib.util.find_spec("optuna") is not None
    return PlaybookGenerator(task) if able else NeighbourGenerator(task, seed)


def open_context(
    task: Task, device: Device, bench: Bench, folder: Path, generator: Generator, plan: Plan
) -> RunContext:
    """Return the context of a search as `cuda-llm run` makes it, without a model."""
    run = RunFolder(folder / "run")
    asked = RunRequest(task=task.name, candidates=plan.candidates, rounds=plan.rounds)
    return RunContext(
        run_id="run",
        request=asked,
        task=task,
        device=device,
        plan=plan,
        folder=run,
        record=Recorder(run.events),
        generator=generator,
        strategy=find_strategy("fsr"),
        reflector=Reflection(),
        tuner=TunableTuner(),
        agents=(),
        bench=bench,
    )


async def search(context: RunContext) -> Row:
    """Run all rounds, node by node; return what they took."""
    state: Row = {"task": context.task.name}
    grown = ("attempts", "error_hints", "performance_hints")
    spent_s: defaultdict[str, float] = defaultdict(float)
    periods: list[tuple[str, float, float]] = []

    async def step(node: Any) -> None:
        begun = time.monotonic()
        for key, value in (await node(state, context)).items():
            if key in grown and node is not start:
                state[key] = [*state[key], *value]
            elif key in ("notes", "unfit") and node is not start:
                state[key] = {**state[key], **value}
            else:
                state[key] = value
        spent_s[node.__name__] += time.monotonic() - begun
        periods.append((node.__name__, begun, time.monotonic()))

    async def candidates(state: Row, context: RunContext) -> Row:
        await asyncio.gather(*(one_candidate(context, name) for name in state["briefs"]))
        return {}

    of_a_round: tuple[Any, ...] = (strategy, hand_out, candidates, collect)
    of_a_round += (choose, reflection, route)
    for node in (start, baseline):
        await step(node)
    while not state["stop"]:
        for one in of_a_round:
            await step(one)
    await step(finish)
    events = [one.event for one in read_events(context.folder.events)]
    # A contest with several contenders has an event for each.
    held = {(one.round, one.seconds): one for one in events if isinstance(one, ContestHeld)}
    stages_s: defaultdict[str, float] = defaultdict(float)
    for one in events:
        if isinstance(one, StageLeft):
            stages_s[one.stage] += one.seconds
    watched = context.device
    steps: Row = {"stages_s": {stage: round(took_s, 2) for stage, took_s in stages_s.items()}}
    if isinstance(watched, WatchedDevice):
        works = watched.summarise()
        own_s = {"validate": "validate_there", "profile": "measure_candidate"}
        rounds = [(begin, end) for name, begin, end in periods if name == "candidates"]
        steps |= {
            "works_s": works,
            "waited_s": {
                stage: round(stages_s[stage] - works.get(work, (0, 0.0))[1], 2)
                for stage, work in own_s.items()
            },
            "rounds_s": [round(end - begin, 2) for begin, end in rounds],
            "idle_s": [round(end - begin - watched.busy_s(begin, end), 2) for begin, end in rounds],
            "contest_parts_s": watched.contests,
            "inspection_parts_s": watched.inspections,
        }
    return {
        **steps,
        "generator": context.generator.name,
        "speedup": state["best"] and round(state["best"]["speedup"], 3),
        "stop": state["stop"],
        "by_node_s": {name: round(seconds, 2) for name, seconds in spent_s.items()},
        "contests_s": [round(one.seconds, 2) for one in held.values()],
        "outcomes": [one.outcome or one.fault for one in events if isinstance(one, ContestHeld)],
        "inspections_s": [round(e.seconds, 2) for e in events if isinstance(e, KernelInspected)],
    }


async def one_candidate(context: RunContext, name: str) -> None:
    """Take one candidate through its stages until one of them ends it."""
    for stage in STAGES:
        if await run_stage(context, name, stage):
            return


async def profiled_functions_there(
    site: Any, work: Callable[..., Awaitable[Any]], *arguments: Any, most: int = 40
) -> dict[str, tuple[int, float]]:
    """Return calls and seconds, with what they call, of our functions that `work` spent most in."""
    profile = cProfile.Profile()
    profile.enable()
    try:
        await work(site, *arguments)
    finally:
        profile.disable()
    entries: dict[tuple[str, int, str], Any] = pstats.Stats(profile).stats  # type: ignore[attr-defined]
    spent: dict[str, tuple[int, float]] = {}
    for (file, _line, function), (_primitive, calls, _own, whole_s, _) in entries.items():
        if "tools/" in file or "tasks/" in file:
            spent[f"{Path(file).stem}.{function}"] = (calls, round(whole_s, 3))
    dearest = sorted(spent.items(), key=lambda one: -one[1][1])
    return dict(dearest[:most])
