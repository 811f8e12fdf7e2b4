"""compile, validate and profile as LangChain tools, for real."""

import asyncio
from pathlib import Path

import pytest
from small_tasks import small_task

from cuda_llm import judge_tools
from cuda_llm.errors import UsageError
from cuda_llm.graph.toolbox import bench_tools
from cuda_llm.tools.judge.bench import Bench
from cuda_llm.tools.judge.judge import open_bench
from cuda_llm.tools.open_device import open_device

TASK = small_task("vector_add")
GOOD = TASK.baseline.read_text(encoding="utf-8")
WRONG = GOOD.replace("A[i] + B[i]", "A[i] - B[i]")
BROKEN = GOOD.replace("A[i] + B[i]", "A[i] + ")


async def ask(name: str, source: str) -> str:
    bench = open_bench(TASK, open_device("emulated"), seed=1)
    tool = next(one for one in bench_tools(bench) if one.name == name)
    return str(await tool.ainvoke({"source": source}))


@pytest.mark.parametrize(
    ("name", "source", "first", "more"),
    [
        ("compile_kernel", GOOD, "COMPILED", "registers"),
        ("compile_kernel", BROKEN, "COMPILE_FAILED", "source.cu:"),
        ("validate_kernel", WRONG, "WRONG_RESULT", "should be"),
        (
            "profile_kernel",
            GOOD,
            "PASSED",
            "limited by",
        ),
    ],
)
def test_a_tool_answers_in_words(name: str, source: str, first: str, more: str) -> None:
    answer = asyncio.run(ask(name, source))

    assert answer.startswith(first)
    assert more in answer


def test_the_tools_describe_their_input() -> None:
    async def make() -> Bench:
        return open_bench(TASK, open_device("emulated"))

    tools = bench_tools(asyncio.run(make()))
    assert [one.name for one in tools] == ["compile_kernel", "validate_kernel", "profile_kernel"]
    assert all(one.description and list(one.args) == ["source"] for one in tools)


def test_no_answer_names_a_path_of_this_machine() -> None:
    answer = asyncio.run(ask("compile_kernel", BROKEN))
    assert str(Path.home()) not in answer
    assert "/tmp" not in answer


def test_tools_are_called_from_several_loops_and_from_within_one() -> None:
    compile_kernel, validate_kernel, _ = judge_tools(TASK, "emulated")

    async def all_at_once() -> list[str]:
        waiting = [compile_kernel.ainvoke({"source": GOOD}) for _ in range(3)]
        return [*await asyncio.gather(*waiting), validate_kernel.invoke({"source": WRONG})]

    for _ in range(2):
        *compiled, checked = asyncio.run(all_at_once())
        assert all(one.startswith("COMPILED") for one in compiled)
        assert checked.startswith("WRONG_RESULT")


@pytest.mark.parametrize(
    ("task", "device", "complaint"),
    [
        ("vector_sum", "emulated", "did you mean vector_add"),
        ("vector_add", "tpu", "unknown device"),
    ],
)
def test_tools_of_what_is_not_there_are_refused_at_once(
    task: str, device: str, complaint: str
) -> None:
    with pytest.raises(UsageError, match=complaint):
        judge_tools(task, device)
