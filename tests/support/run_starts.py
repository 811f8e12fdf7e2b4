"""Runs through `start` and `resume`, with a table for a bench and nothing to build."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from graph_runs import Learner, NoTuner, TableBench, Writer, numbered

from cuda_llm.graph.parts import Parts
from cuda_llm.run_config import RunConfig
from cuda_llm.tools.emulator.device import EmulatedDevice
from cuda_llm.tools.open_device import open_device
from cuda_llm.traces.event_log import read_events
from cuda_llm.traces.events import AttemptJudged, Event
from cuda_llm.traces.run_folder import RunFolder


@dataclass(frozen=True)
class ReadyDevice(EmulatedDevice):
    """The emulated device, with nothing left to build: a table judges instead."""

    def prepare(self) -> None:
        pass


def parts(**brought: Any) -> Parts:
    """What such a run is made of."""
    table: dict[str, Any] = {
        "device": ReadyDevice(open_device("emulated").hardware),
        "generator": Writer(numbered),
        "reflector": Learner(),
        "tuner": NoTuner(),
        "bench": TableBench(),
    }
    return Parts(**{**table, **brought})


def asked(out: Path, **more: Any) -> RunConfig:
    """Two rounds of four."""
    return RunConfig(
        **{"task": "vector_add", "candidates": 4, "rounds": 2, "out": str(out), **more}
    )


def the_run(out: Path) -> RunFolder:
    """The only run there is."""
    (path,) = [one for one in out.iterdir() if one.is_dir()]
    return RunFolder(path)


def events(run: RunFolder, *kinds: type) -> list[Event]:
    """What the run recorded, of those kinds or all."""
    recorded = [one.event for one in read_events(run.events)]
    return [one for one in recorded if not kinds or isinstance(one, kinds)]


def told_of(run: RunFolder) -> list[str]:
    """The attempts that were told of, each as often as that was done."""
    return [
        one.event.attempt.id
        for one in read_events(run.events)
        if isinstance(one.event, AttemptJudged)
    ]
