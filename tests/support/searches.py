"""Hand-made searches for tests of what decides on them."""

from dataclasses import replace
from functools import cache
from typing import Any

from cuda_llm.agents.situation import Situation
from cuda_llm.capabilities import Capabilities
from cuda_llm.hardware_profiles.hardware import Hardware
from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.outcomes import NoCode, Verdict
from cuda_llm.run_config import RunConfig
from cuda_llm.search import Attempt, Kind
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.task import Task


class EmptyArchive:
    """No attempt has a source."""

    def source(self, attempt: str) -> str:
        return ""

    def verdict(self, attempt: str) -> Verdict:
        return NoCode(message=f"{attempt} is not kept")


@cache
def _transpose_on_ampere() -> tuple[Task, Hardware]:
    """Read once: properties ask for a search hundreds of times."""
    return load_task("matrix_transpose"), find_hardware("RTX 3090 Ti")


def attempt(name: str, speedup: float | None = None, **fields: Any) -> Attempt:
    """An attempt called `r<round>-c<index>`: passed where it has a speed-up, else wrong."""
    round_part, _, index_part = name.partition("-")
    baseline_us = (100.0, 200.0)
    given: dict[str, Any] = {
        "id": name,
        "round": int(round_part[1:]),
        "index": int(index_part[1:]),
        "kind": Kind.FIRST,
        "written_by": "model",
        "source_sha": f"sha of {name}",
        "normal_sha": f"normal sha of {name}",
        "code": "WRONG_RESULT" if speedup is None else "PASSED",
        "speedup": speedup,
        "times_us": () if speedup is None else tuple(one / speedup for one in baseline_us),
    }
    return Attempt(**(given | fields))


def situation(*attempts: Attempt, incumbent: str | None = None, **fields: Any) -> Situation:
    """A search of `matrix_transpose` after `attempts`, planning the round after theirs."""
    of_the_run = RunConfig.model_fields.keys() - Situation.__dataclass_fields__.keys()
    options = {name: fields.pop(name) for name in of_the_run & fields.keys()}
    task, hardware = _transpose_on_ampere()
    whole = Situation(
        task=task,
        hardware=hardware,
        device="emulated RTX 3090 Ti",
        capabilities=Capabilities(full_isa=False),
        config=RunConfig(**options),
        round=max((one.round for one in attempts), default=0) + 1,
        attempts=attempts,
        sizes=task.sizes.emulated[:2],
        baseline_us=(100.0, 200.0),
        archive=EmptyArchive(),
    )
    chosen = None if incumbent is None else whole.attempt(incumbent)
    return replace(whole, incumbent=chosen, **fields)
