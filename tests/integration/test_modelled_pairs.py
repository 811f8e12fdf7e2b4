"""Work hidden from the time model, compared with honest twins of the same work."""

import asyncio
from functools import cache

import pytest
from corpus import FIXTURES
from corpus_sample import sample
from modelled_calls import roofline_us
from task_fixtures import read_table

from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.outcomes import Verdict
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.task import Task
from cuda_llm.tools.device import CallReport, Level, Session
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.emulator.device import EmulatedDevice
from cuda_llm.tools.judge.compile import compile_source
from cuda_llm.tools.validator.check_case import run_case

FOLDER = FIXTURES / "modelled"
TABLE = read_table(FOLDER / "table.toml")
PAIRS = [name for name, row in TABLE.items() if "codes" not in row]
HIDDEN = sample(PAIRS, every=40)
LEAST = 0.8
GPU = "RTX 3090 Ti"
NONCE = b"the same for all"


def emulated(gpu: str) -> EmulatedDevice:
    return EmulatedDevice(find_hardware(gpu))


async def call(
    source: str, name: str, task: Task, device: EmulatedDevice, nonce: bytes = NONCE
) -> CallReport:
    outcome = await outcome_of(source, name, task, device, nonce)
    assert isinstance(outcome, CallReport), outcome
    return outcome


async def outcome_of(
    source: str, name: str, task: Task, device: EmulatedDevice, nonce: bytes = NONCE
) -> CallReport | Verdict:
    compiled = await compile_source(task, device, source, name)
    if not isinstance(compiled, Compiled):
        return compiled
    async with device.open(compiled) as session:
        if not isinstance(session, Session):
            return session
        dims = task.sizes.emulated[0]
        return await run_case(task, session, dims, level=Level.ACCOUNT, nonce=nonce)


@cache
def modelled_us(name: str, twin: bool) -> float:
    source = (FOLDER / f"{name}.cu").read_text()
    if twin:
        source = f"#define TWIN\n{source}"
    row = TABLE[name]
    device = emulated(row.get("gpu", GPU))
    return asyncio.run(call(source, f"{name}.cu", load_task(row["task"]), device)).time_us


@pytest.mark.parametrize("name", HIDDEN)
def test_hidden_work_costs_what_it_costs_in_the_open(name: str) -> None:
    least = TABLE[name].get("least", LEAST)
    assert modelled_us(name, twin=False) >= least * modelled_us(name, twin=True)


def test_every_kernel_on_disk_is_in_the_table() -> None:
    assert {path.stem for path in FOLDER.glob("*.cu")} == set(TABLE)


@pytest.mark.parametrize("name", HIDDEN)
def test_no_hidden_work_takes_less_than_the_roofline_of_the_task(name: str) -> None:
    task, device = load_task(TABLE[name]["task"]), emulated(TABLE[name].get("gpu", GPU))
    least_us = roofline_us(task, device.hardware, task.sizes.emulated[0])
    assert modelled_us(name, twin=False) >= least_us


def test_a_modelled_time_does_not_depend_on_the_nonce() -> None:
    task, device = load_task("vector_add"), emulated(GPU)
    source = task.baseline.read_text()
    times = {
        asyncio.run(call(source, "add.cu", task, device, bytes([number]) * 16)).time_us
        for number in range(3)
    }
    assert len(times) == 1
