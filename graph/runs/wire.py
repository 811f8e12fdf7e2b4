"""Builds the run context from the parts of a run."""

from dataclasses import fields, replace

from cuda_llm.agents.llm.budget import Budget
from cuda_llm.agents.situation import Plan
from cuda_llm.agents.tuner import Tuner
from cuda_llm.graph.judging.bench import Bench
from cuda_llm.graph.request import RunRequest
from cuda_llm.graph.runs.open_agents import ModelClients, open_generator, open_reflector
from cuda_llm.graph.runs.parts import Parts
from cuda_llm.graph.runs.run_record import note_of
from cuda_llm.graph.runs.time_by_stage import time_by_stage
from cuda_llm.graph.runs.versions import versions
from cuda_llm.graph.wiring import Wiring
from cuda_llm.traces.events import Record
from cuda_llm.traces.read import read_events
from cuda_llm.traces.run_folder import RunFolder


def wire_parts(parts: Parts, record: Record, budget: Budget | None = None) -> Wiring:
    """Build the run context of parts already found; `record` receives its events."""
    request, brought = parts.request, parts.overrides
    folder = RunFolder(parts.run)
    budget = budget or open_budget(parts)
    clients = ModelClients(parts, folder, record, budget)
    return Wiring(
        run_id=request.run_id,
        request=replace(request, model=parts.model),
        task=parts.task,
        device=parts.device,
        plan=plan_of(request),
        folder=folder,
        record=record,
        generator=open_generator(parts, clients),
        strategy=parts.strategy,
        reflector=open_reflector(parts, clients),
        tuner=brought.tuner or open_tuner(),
        agents=parts.agents,
        bench=brought.bench or open_bench(parts),
        over=budget.over,
        seconds_left=budget.seconds_left,
        client_of=clients.of_agent,
        note=note_of(parts),
        versions=versions(),
    )


def plan_of(request: RunRequest) -> Plan:
    """Return what agents see of the request: the fields that a Plan has too."""
    asked = vars(request)
    shared = {one.name: asked[one.name] for one in fields(Plan) if one.name in asked}
    return Plan(**shared, user_hints=request.hints)


def open_budget(parts: Parts) -> Budget:
    """Open the budget of the run, less what its earlier processes spent."""
    request, events = parts.request, RunFolder(parts.run).events
    budget = Budget(usd=request.budget_usd, tokens=request.max_tokens, minutes=request.max_minutes)
    if events.exists():
        recorded = read_events(events)
        budget.restore((one.event for one in recorded), time_by_stage(recorded)["total"])
    return budget


def open_tuner() -> Tuner:
    """Open the tuner that ships."""
    from cuda_llm.agents.playbook.tuner import TunableTuner

    return TunableTuner()


def open_bench(parts: Parts) -> Bench:
    """Open the bench that ships. Candidates' inputs follow from the seed, so that a run repeats."""
    from cuda_llm.tools.judge import device_bench
    from cuda_llm.tools.judge.measured.options import L2, MeasureOptions

    request, options = parts.request, MeasureOptions(l2=L2(parts.request.l2))
    return device_bench.open_bench(parts.task, parts.device, seed=request.seed, options=options)
