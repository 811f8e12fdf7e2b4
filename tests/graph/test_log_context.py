"""Log records of agents hold the run, the round, the candidate, the stage and the agent."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import structlog
from graph_runs import Writer, context_in, numbered, run_graph

from cuda_llm.agents.protocols import Contribution, PlacedAgent, Stage
from cuda_llm.agents.situation import Situation
from cuda_llm.outcomes import NoCode
from cuda_llm.search import Attempt, Brief, Draft


def test_log_records_of_agents_name_where_in_the_run_they_were_made(tmp_path: Path) -> None:
    seen: dict[str, dict[str, Any]] = {}

    def write(brief: Brief, situation: Situation) -> Draft | NoCode:
        seen["generator"] = structlog.contextvars.get_contextvars()
        return numbered(brief, situation)

    async def advise(situation: Situation) -> Contribution:
        seen["agent"] = structlog.contextvars.get_contextvars()
        return Contribution()

    class SeeingReflector:
        name = "seeing"

        async def reflect(self, situation: Situation, judged: Sequence[Attempt]) -> Contribution:
            seen["reflector"] = structlog.contextvars.get_contextvars()
            return Contribution()

    context = context_in(
        tmp_path,
        generator=Writer(write),
        agents=(PlacedAgent(name="adviser", agent=advise, after=Stage.STRATEGY),),
        reflector=SeeingReflector(),
        candidates=1,
        rounds=1,
    )
    asyncio.run(run_graph(context))

    run = {"run_id": "run", "round": 1}
    candidate = {"candidate": "r1-c1", "stage": "generator", "agent": "writer"}
    assert seen["generator"] == run | candidate
    assert seen["agent"] == run | {"stage": "adviser", "agent": "adviser"}
    assert seen["reflector"] == run | {"stage": "reflection", "agent": "seeing"}
