"""The judge that programs call: one kernel, several, and a judge that stays open."""

import asyncio
import gc
import os
import re
import signal
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from small_tasks import small_task

from cuda_llm import Judge, Judged, ajudge, judge, judge_many
from cuda_llm.errors import TaskError, UsageError
from cuda_llm.tools.emulator.device import EmulatedDevice
from cuda_llm.tools.open_device import open_device

ADD, SCALE = small_task("vector_add"), small_task("relu")
GOOD = ADD.baseline.read_text(encoding="utf-8")
WRONG = GOOD.replace("A[i] + B[i]", "A[i] - B[i]")
BROKEN = GOOD.replace("A[i] + B[i]", "A[i] + ")
LATE = GOOD.replace("if (i <", "if (i <=")
LINE = GOOD[: GOOD.index("A[i] + B[i]")].count("\n") + 1


def test_a_right_kernel_has_its_times_and_what_to_try_next() -> None:
    judged = judge(ADD, GOOD, device="emulated")
    assert judged.passed
    assert judged.speedup == pytest.approx(1.0)
    assert judged.time_source == "modelled"
    assert judged.speedup_interval is None, "modelled times have no interval"
    assert [dict(one.dims) for one in judged.sizes] == [*map(dict, ADD.sizes.emulated)]
    first, *others = judged.advice.splitlines()
    assert first.startswith("PASSED: ") and "limited by" in first
    assert any(line.startswith("try: ") for line in others)


@pytest.mark.parametrize(
    ("source", "code", "place"),
    [
        (WRONG, "WRONG_RESULT", "should be"),
        (
            BROKEN,
            "COMPILE_FAILED",
            f"line {LINE}: ",
        ),
        (LATE, "ILLEGAL_ACCESS", f"line {LINE}: "),
        (f"#include <unistd.h>\n{GOOD.replace('{', '{ fork();', 1)}", "COMPILE_FAILED", "fork"),
        ("", "COMPILE_FAILED", "holds no code"),
        ("I am sorry, I cannot help with that.\ud800\0", "COMPILE_FAILED", "line 1: "),
    ],
    ids=["wrong", "broken", "past the end", "host call", "empty", "no code"],
)
def test_a_bad_kernel_is_a_verdict_with_what_where_and_what_to_try(
    source: str, code: str, place: str
) -> None:
    judged = judge(ADD, source, device="emulated")
    assert (judged.passed, judged.verdict.code) == (False, code)
    assert (judged.speedup, judged.time_source, judged.sizes) == (None, None, ())
    what, *others = judged.advice.splitlines()
    assert what.startswith(f"{code}: ")
    assert place in judged.advice
    assert others[-1].startswith("try: ")
    assert len(others) <= 3


def test_a_path_is_a_file_and_names_the_place(tmp_path: Path) -> None:
    file = tmp_path / "mine.cu"
    file.write_text(BROKEN)
    judged = judge(ADD, file, device="emulated")
    assert judged.name == str(file)
    assert f"{file}:" in judged.advice
    with pytest.raises(UsageError, match="expected its Path"):
        judge(ADD, str(file), device="emulated")
    with pytest.raises(UsageError, match="No such file"):
        judge(ADD, tmp_path / "other.cu", device="emulated")


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        ({"task": "vector_sum"}, "did you mean vector_add"),
        ({"device": "tpu"}, "unknown device"),
        ({"precision": "hihg"}, "did you mean high"),
        ({"sizes": ["n=0"]}, "at least 1"),
        ({"objective": "worst", "weights": [1.0]}, "--weight"),
    ],
)
def test_what_cannot_be_judged_so_is_a_usage_error(asked: dict[str, Any], complaint: str) -> None:
    task = asked.pop("task", ADD)
    with pytest.raises(UsageError, match=complaint):
        judge(task, GOOD, **{"device": "emulated", **asked})


def test_a_task_without_a_right_baseline_is_a_task_error(tmp_path: Path) -> None:
    from tiny_tasks import tiny_task

    folder = tiny_task(tmp_path, "vector_add")
    (folder / "baseline.cu").write_text(LATE)
    with pytest.raises(TaskError, match="baseline"):
        judge(folder, GOOD, device="emulated")


def test_sizes_and_objective_are_the_callers() -> None:
    judged = judge(ADD, GOOD, device="emulated", objective="worst", sizes=["n=77"])
    assert judged.profile is not None
    assert judged.profile.objective == "worst"
    assert [dict(one.dims) for one in judged.sizes] == [{"n": 77}]


def test_several_kernels_come_back_in_their_order() -> None:
    codes = [one.verdict.code for one in judge_many(ADD, [WRONG, GOOD, BROKEN], device="emulated")]
    assert codes == ["WRONG_RESULT", "PASSED", "COMPILE_FAILED"]
    assert judge_many(ADD, [], device="emulated") == []


def test_it_is_called_where_a_loop_runs_already_and_awaited() -> None:
    async def notebook() -> tuple[Judged, Judged]:
        return judge(ADD, BROKEN, device="emulated"), await ajudge(ADD, BROKEN, device="emulated")

    assert [one.verdict.code for one in asyncio.run(notebook())] == ["COMPILE_FAILED"] * 2


def test_an_open_judge_serves_several_coroutines_threads_and_tasks_and_mixes_none_up() -> None:
    kernels = [
        (ADD, GOOD, "PASSED"),
        (SCALE, SCALE.baseline.read_text(encoding="utf-8"), "PASSED"),
        (ADD, WRONG, "WRONG_RESULT"),
        (SCALE, "int x;\n", "LOAD_FAILED"),
    ]

    async def all_at_once(opened: Judge) -> list[str]:
        waiting = [opened.ajudge(task, source) for task, source, _ in kernels]
        return [one.verdict.code for one in await asyncio.gather(*waiting)]

    with Judge("emulated") as opened, ThreadPoolExecutor(2) as threads:
        loops = [threads.submit(lambda: asyncio.run(all_at_once(opened))) for _ in range(2)]
        here = [opened.judge(task, source).verdict.code for task, source, _ in kernels]
        expected = [code for *_, code in kernels]
        assert [here, *(one.result() for one in loops)] == [expected] * 3
        assert [one.passed for one in opened.judge_many(ADD, [GOOD, WRONG])] == [True, False]
    with pytest.raises(UsageError, match="this Judge is closed"):
        opened.judge(ADD, GOOD)


class Interrupted(EmulatedDevice):
    """A device at which somebody presses Ctrl-C while it holds its first kernel."""

    opened = closed = 0

    @asynccontextmanager
    async def open(self, candidate: Any) -> AsyncIterator[Any]:
        type(self).opened += 1
        if type(self).opened == 1:
            os.kill(os.getpid(), signal.SIGINT)
        try:
            await asyncio.sleep(600)
            yield
        finally:
            type(self).closed += 1


def test_ctrl_c_ends_the_work_and_leaves_the_judge_open() -> None:
    Interrupted.opened = Interrupted.closed = 0
    device = Interrupted(open_device("emulated").hardware)
    with Judge(device) as opened:
        with pytest.raises(KeyboardInterrupt):
            opened.judge(ADD, GOOD)
        assert opened.judge(ADD, BROKEN).verdict.code == "COMPILE_FAILED"
    assert Interrupted.closed == Interrupted.opened > 0
    Interrupted.opened = Interrupted.closed = 0
    with pytest.raises(KeyboardInterrupt):
        judge_many(ADD, [GOOD, WRONG], device=device)
    assert Interrupted.closed == Interrupted.opened > 0


def test_a_caller_that_gives_up_leaves_the_baseline_to_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def give_up(opened: Judge) -> tuple[Any, Judged]:
        first = asyncio.create_task(opened.ajudge(SCALE, SCALE.baseline))
        second = asyncio.create_task(opened.ajudge(SCALE, SCALE.baseline))
        await asyncio.sleep(0.05)
        first.cancel()
        return await asyncio.gather(first, return_exceptions=True), await second

    with Judge("emulated:H200") as opened:
        (given_up,), judged = asyncio.run(give_up(opened))
    assert isinstance(given_up, asyncio.CancelledError)
    assert judged.passed
    gc.collect()
    assert caplog.text == "", "asyncio complains of an error that nobody has read"


def test_the_page_stands_as_it_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    """Each block of "Call the judge" is executed, one after another."""
    page = (Path(__file__).parents[2] / "docs/judge.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {"source_text": BROKEN, "sources": [BROKEN, ""]}
    for block in blocks:
        exec(block, names)
    assert capsys.readouterr().out.startswith("False COMPILE_FAILED None COMPILE_FAILED: ")
    assert names["rewards"] == [0.0, 0.0]
    assert not names["first"].passed


@pytest.mark.parametrize(
    ("call", "complaint"),
    [
        (lambda: judge_many("vector_add", "text", device="emulated"), "expected a list"),
        (lambda: judge("vector_add", b"text", device="emulated"), "found bytes"),  # type: ignore[arg-type]
        (lambda: judge("vector_add", "", sizes=[{"n": 4}]), "M=4096"),  # type: ignore[list-item]
        (lambda: judge("vector_add", "", sizes="n=4"), "expected a list"),
    ],
)
def test_an_argument_of_another_type_is_one_line(
    call: Callable[[], object], complaint: str
) -> None:
    with pytest.raises(UsageError, match=complaint):
        call()
