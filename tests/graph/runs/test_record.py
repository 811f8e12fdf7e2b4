"""What run.json says of the device, and of how to judge the winner again."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from measured_runs import measuring_device
from run_starts import asked, parts, the_run

from cuda_llm.graph.runs.parts import find_parts
from cuda_llm.graph.runs.start import start
from cuda_llm.tools.emulator.device import EmulatedDevice
from cuda_llm.tools.open_device import spec_of
from cuda_llm.traces.best import verify_command


class Named(EmulatedDevice):
    """A GPU that is not there."""

    @property
    def name(self) -> str:
        return "cuda:1 NVIDIA H200"

    @property
    def spec(self) -> str:
        return "cuda:1"


@pytest.mark.parametrize(
    ("asked_for", "spec"),
    [("auto", "cuda:1"), ("cuda:1", "cuda:1"), ("cuda:all", "cuda:all")],
)
def test_what_auto_found_can_be_named_again(tmp_path: Path, asked_for: str, spec: str) -> None:
    found = Named(measuring_device().hardware)
    brought = replace(parts(), device=found)
    whole = find_parts(asked(tmp_path, device=asked_for), brought)
    assert spec_of(whole.device, asked_for) == spec


def test_a_warm_run_is_verified_warm(tmp_path: Path) -> None:
    asyncio.run(start(asked(tmp_path, l2="warm", rounds=1), brought=parts()))
    assert verify_command(the_run(tmp_path).read_run()).endswith("--l2 warm")
