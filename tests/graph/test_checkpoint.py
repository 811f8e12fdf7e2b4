"""A checkpoint stays small, loads anywhere, and a run goes on from it."""

import asyncio
import os
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from graph_runs import Learner, TableBench, Writer, context_in, numbered

from cuda_llm.agents.protocols import Contribution
from cuda_llm.agents.situation import Situation
from cuda_llm.graph.context import RunContext
from cuda_llm.search import Attempt, Brief, Draft, Hint

MOST_BYTES = 2_000_000


class Teacher(Learner):
    """Hints as long as real ones."""

    async def reflect(self, situation: Situation, judged: "Any") -> Contribution:
        return Contribution(
            performance_hints=tuple(self.teach(situation, one) for one in judged[:4]),
            error_hints=tuple(self.teach(situation, one) for one in judged[4:]),
            decisions=("looked",),
        )

    def teach(self, situation: Situation, attempt: Attempt) -> Hint:
        return Hint(
            round=situation.round,
            about=attempt.id,
            code="bank_conflicts",
            text="pad the tile by one column so that a column lies in 32 banks " * 3,
            evidence="source.cu:14: tile[threadIdx.x][threadIdx.y] = in[y * n + x]; 32-way " * 2,
            hardware_text="32 banks of 4 bytes on this chip, one word a clock each " * 2,
            avoid=("larger blocks", "more registers a thread"),
        )


def distinct(brief: Brief, _: Situation) -> Draft:
    return Draft(
        source=f"int ok_{60 + brief.round * 8 + brief.index}_1;\n" + "float x[32];\n" * 100
    )


INPUT = {"task": "vector_add"}


async def run_saved(context: RunContext, first: Any = INPUT) -> dict[str, Any]:
    """Run with the sqlite checkpointer in the run's folder, as `cuda-llm run` does."""
    from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver

    from cuda_llm.graph.runs.build_graph import build_graph

    config: Any = {"configurable": {"thread_id": context.run_id}, "recursion_limit": 500}
    async with AsyncSqliteSaver.from_conn_string(str(context.folder.checkpoint)) as saver:
        graph = build_graph(agents=context.agents).compile(checkpointer=saver)
        try:
            await graph.ainvoke(first, config, context=context, durability="sync")
            return dict((await graph.aget_state(config)).values)
        finally:
            context.record.close()  # type: ignore[attr-defined]


def test_five_rounds_of_eight_stay_below_two_megabytes(tmp_path: Path) -> None:
    context = context_in(
        tmp_path, generator=Writer(distinct), reflector=Teacher(), candidates=8, rounds=5
    )
    state = asyncio.run(run_saved(context))

    assert len(state["attempts"]) == 40
    with sqlite3.connect(context.folder.checkpoint) as database:
        database.execute("pragma wal_checkpoint(truncate)")
    database.close()
    assert context.folder.checkpoint.stat().st_size <= MOST_BYTES


LOAD = """
import asyncio, sys, warnings
warnings.simplefilter("error")
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
async def main():
    async with AsyncSqliteSaver.from_conn_string(sys.argv[1]) as saver:
        found = await saver.aget({"configurable": {"thread_id": "run"}})
        print(len(found["channel_values"]["attempts"]))
asyncio.run(main())
"""


def test_a_checkpoint_loads_where_only_plain_types_may(tmp_path: Path) -> None:
    """In a process without our code; whatever is blocked there would be logged and come as text."""
    context = context_in(tmp_path, generator=Writer(numbered), candidates=4, rounds=2)
    asyncio.run(run_saved(context))

    done = subprocess.run(
        [sys.executable, "-P", "-c", LOAD, str(context.folder.checkpoint)],
        env={**os.environ, "LANGGRAPH_STRICT_MSGPACK": "true"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "8"
    assert done.stderr == ""


class Dies(TableBench):
    """Its machine is gone when `source` is to be validated, the first time."""

    async def take(self, stage: str, source: str) -> None:
        await super().take(stage, source)
        if stage == "validate" and "ok_62_1" in source and "died" not in self.log:
            self.log.append("died")
            await asyncio.sleep(0.1)
            from cuda_llm.errors import MissingError

            raise MissingError("no power", "plug it in")


def two(brief: Brief, _: Situation) -> Draft:
    return Draft(source=f"int ok_{60 + brief.index}_{brief.round};\n")


def test_a_run_goes_on_where_it_stood_and_repeats_nothing_that_was_done(tmp_path: Path) -> None:
    from cuda_llm.errors import MissingError

    asked: list[str] = []

    def write(brief: Brief, situation: Situation) -> Draft:
        asked.append(brief.id)
        return two(brief, situation)

    bench = Dies()
    context = context_in(tmp_path, generator=Writer(write), bench=bench, candidates=3, rounds=2)
    with pytest.raises(MissingError):
        asyncio.run(run_saved(context))
    again = context_in(tmp_path, generator=Writer(write), bench=bench, candidates=3, rounds=2)
    state = asyncio.run(run_saved(again, None))

    untouched = context_in(tmp_path / "other", generator=Writer(two), candidates=3, rounds=2)
    whole = asyncio.run(run_saved(untouched))
    assert state["attempts"] == whole["attempts"]
    assert state["incumbent"] == whole["incumbent"]
    assert asked == ["r1-c1", "r1-c2", "r1-c3", "r2-c1", "r2-c2", "r2-c3"]
    searched = bench.log[:-3]
    assert searched.count("validate int ok_61_1;") == 1
    assert searched.count("validate int ok_62_1;") == 2, "it was under way"
    assert bench.log[-3:] == [f"{one} int ok_61_1;" for one in ("compile", "validate", "profile")]
