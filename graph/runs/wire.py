"""From a request to a wiring: every part that a run is made of."""

from dataclasses import fields, replace

from cuda_llm.agents.llm.budget import Budget
from cuda_llm.agents.situation import Plan
from cuda_llm.agents.tuner import Tuner
from cuda_llm.graph.judging.bench import Bench
from cuda_llm.graph.overrides import NOTHING, Overrides
from cuda_llm.graph.request import RunRequest
from cuda_llm.graph.runs.open_agents import ModelClients, open_generator, open_reflector
from cuda_llm.graph.runs.parts import Parts, find_parts
from cuda_llm.graph.runs.run_record import note_of
from cuda_llm.graph.runs.time_by_stage import time_by_stage
from cuda_llm.graph.runs.versions import versions
from cuda_llm.graph.wiring import Wiring
from cuda_llm.traces.events import Record
from cuda_llm.traces.read import read_events
from cuda_llm.traces.recorder import Recorder
from cuda_llm.traces.run_folder import RunFolder


def wire(request: RunRequest, *, overrides: Overrides = NOTHING) -> Wiring:
    """Everything a run needs, its folder and its open trace included.

    Raises UsageError and MissingError as `find_parts` does, before a folder is made.
    """
    parts = find_parts(request, overrides)
    return wire_parts(parts, Recorder(RunFolder(parts.run).events))


def wire_parts(parts: Parts, record: Record, budget: Budget | None = None) -> Wiring:
    """The wiring of parts already found; `record` is told what happens."""
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
    """What agents may know of the request: the fields of a Plan that it has too."""
    asked = vars(request)
    shared = {one.name: asked[one.name] for one in fields(Plan) if one.name in asked}
    return Plan(**shared, user_hints=request.hints)


def open_budget(parts: Parts) -> Budget:
    """The limits of the run, with what its earlier processes spent."""
    request, events = parts.request, RunFolder(parts.run).events
    budget = Budget(usd=request.budget_usd, tokens=request.max_tokens, minutes=request.max_minutes)
    if events.exists():
        recorded = read_events(events)
        budget.restore((one.event for one in recorded), time_by_stage(recorded)["total"])
    return budget


def open_tuner() -> Tuner:
    """The one that ships."""
    from cuda_llm.agents.playbook.tuner import TunableTuner

    return TunableTuner()


def open_bench(parts: Parts) -> Bench:
    """The one that ships: the candidates' inputs follow from the seed, so that a run repeats."""
    from cuda_llm.graph.judging.device_bench import DeviceBench, open_slots
    from cuda_llm.tools.judge.measured.options import L2, MeasureOptions

    return DeviceBench(
        task=parts.task,
        device=parts.device,
        slots=open_slots(parts.device),
        seed=parts.request.seed,
        options=MeasureOptions(l2=L2(parts.request.l2)),
    )
