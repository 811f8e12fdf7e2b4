"""What is judged travels to a GPU host process and back: to a real site, with real runners."""

import asyncio
import pickle
from collections.abc import Iterator

import psutil
import pytest
from host_works import emulated
from hosted_device import hosted

from cuda_llm.outcomes import Verdict, WrongResult
from cuda_llm.tasks.loader import list_tasks, load_task
from cuda_llm.tools.cuda.device import CudaDevice, check_known_answer
from cuda_llm.tools.cuda.messages import OpenSite
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.emulator.device import EmulatedDevice
from cuda_llm.tools.judge.compile import compile_source
from cuda_llm.tools.judge.judge import time_compiled, validate_compiled
from cuda_llm.tools.timing.failures import without_case
from cuda_llm.tools.timing.times import KernelTimes
from cuda_llm.tools.validator.validate import Validated

pytestmark = pytest.mark.usefixtures("found_by_children")

TASK = load_task("vector_add")
GOOD = TASK.baseline.read_text(encoding="utf-8")
WRONG = GOOD.replace("A[i] + B[i]", "A[i] - B[i]")


@pytest.fixture
def device() -> Iterator[CudaDevice]:
    made = hosted(7, OpenSite(site=emulated, known_answer=check_known_answer))
    yield made
    made.client.close()


async def compiled(device: CudaDevice, source: str) -> Compiled:
    made = await compile_source(TASK, device, source, "mine.cu")
    assert isinstance(made, Compiled)
    return made


@pytest.mark.parametrize("name", list_tasks())
def test_a_task_travels_whole(name: str) -> None:
    task = load_task(name)
    assert pickle.loads(pickle.dumps(task)) == task


def test_a_candidate_is_validated_and_timed_in_the_host_process(device: CudaDevice) -> None:
    async def judge() -> tuple[
        Validated | Verdict, KernelTimes | Verdict, KernelTimes | Verdict, Verdict
    ]:
        here = EmulatedDevice(device.hardware)
        good = await compiled(device, GOOD)
        wrong = await compiled(device, WRONG)
        checked: Validated | Verdict = without_case(
            await validate_compiled(TASK, device, wrong, nonce=b"same")
        )
        assert not isinstance(checked, Validated)
        return (
            without_case(await validate_compiled(TASK, device, good, nonce=b"same")),
            without_case(await time_compiled(TASK, device, good, nonce=b"same")),
            without_case(await time_compiled(TASK, here, good, nonce=b"same")),
            checked,
        )

    validated, timed, timed_here, wrong = asyncio.run(judge())
    assert isinstance(validated, Validated)
    assert validated.nonce == b"same"
    assert isinstance(timed, KernelTimes)
    assert timed == timed_here
    assert isinstance(wrong, WrongResult)
    assert psutil.Process(device.client.pid).children() == []
