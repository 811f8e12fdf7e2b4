"""`evaluate --inspect` on a GPU that accepts a kernel with a race."""

import asyncio
import json
from dataclasses import replace

import jsonschema
import pytest
from corpus import FIXTURES, ROOT
from measured_runs import measuring_device

from cuda_llm.cli.evaluate import inspect_all, with_inspection
from cuda_llm.cli.evaluate_output import evaluate_document, inspected_rows
from cuda_llm.outcomes import Passed
from cuda_llm.profile import Profile, SizeTime
from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.device.inspection import Inspection
from cuda_llm.tools.judge.compile import compile_source
from cuda_llm.tools.judge.judged import Judged

WHOLE = load_task("histogram")
TASK = replace(WHOLE, sizes=replace(WHOLE.sizes, large=()))
"""Nothing here executes gigabytes."""
DEVICE = measuring_device()
SCHEMA = json.loads((ROOT / "docs/schemas/evaluate.schema.json").read_text())


@pytest.fixture(scope="module")
def accepted() -> Judged:
    name = "missing_barrier.cu"
    source = (FIXTURES / "mutants/histogram" / name).read_text()
    compiled = asyncio.run(compile_source(TASK, DEVICE, source, name))
    assert isinstance(compiled, Compiled)
    size = SizeTime(dims=TASK.sizes.edge[0], time_us=2.0, baseline_us=4.0, source="measured")
    profile = Profile(
        device=DEVICE.name, hardware=DEVICE.hardware.name, source="measured", sizes=(size,)
    )
    return Judged(name=name, verdict=Passed(profile=profile), compiled=compiled)


def test_what_the_emulated_device_finds_is_the_verdict(accepted: Judged) -> None:
    looked = asyncio.run(inspect_all(TASK, DEVICE, [accepted]))
    judged = with_inspection(TASK, DEVICE, accepted, looked[0])
    assert judged.verdict.code == "DATA_RACE"
    lines = [line for _, line in inspected_rows(looked[0])]
    assert "the emulated device found DATA_RACE at a small size" in lines
    written = json.loads(evaluate_document(TASK, DEVICE, [judged], looked))
    jsonschema.validate(written, SCHEMA)
    assert written["results"][0]["inspection"]["fault"] == "DATA_RACE"
    clean = replace(looked[0], emulated=None)
    assert with_inspection(TASK, DEVICE, accepted, clean).verdict.code == "PASSED"


def test_a_kernel_that_could_not_be_inspected_keeps_its_verdict_and_that_is_said(
    accepted: Judged,
) -> None:
    found = Inspection(not_inspected="gpu_host: out of memory", notes=("elsewhere it is clean",))
    judged = with_inspection(TASK, DEVICE, accepted, found)
    assert judged.verdict.code == "PASSED"
    rows = list(inspected_rows(found))
    assert rows == [("NOT INSPECTED", found.not_inspected), ("", found.notes[0])]
    written = json.loads(evaluate_document(TASK, DEVICE, [judged], {0: found}))
    jsonschema.validate(written, SCHEMA)
    assert written["results"][0]["inspection"]["not_inspected"] == "gpu_host: out of memory"
