"""Makes the context of a run from its parts: chat models, which are tried before any work starts,
their clients, budget, tuner and bench."""

import asyncio
import platform
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, fields
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING

from cuda_llm.agents.llm.budget import Budget, Round
from cuda_llm.agents.llm.pricing import Price
from cuda_llm.agents.protocols import Generator, Reflector, Tuner
from cuda_llm.conversation import Ask, Call, CallFailed, Reply
from cuda_llm.errors import MissingError, UsageError
from cuda_llm.graph.context import RunContext, no_client
from cuda_llm.graph.parts import RunParts, name_of
from cuda_llm.graph.runs.replay import RecordedClients
from cuda_llm.graph.runs.result import time_by_stage
from cuda_llm.tools.judge.bench import Bench
from cuda_llm.tools.native import build_in_thread
from cuda_llm.tools.open_device import ReportLine, open_watcher, prepare_device, print_line
from cuda_llm.traces.event_log import read_events
from cuda_llm.traces.events import ModelCalled, Record

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel


PACKAGES = ("cuda-llm", "langgraph", "langchain-openai", "numpy")


@dataclass(frozen=True, kw_only=True, eq=False)
class RunModel:
    """A chat model with endpoint, price and limits. One model of a run is one object."""

    name: str
    model: "BaseChatModel"
    endpoint: str
    price: Price | None
    output_tokens: int
    from_caller: bool
    """Whether the caller passed the model as an object: such a model is not tried beforehand and
    has no known price."""


class RunModels:
    """The chat models of a run; each model is opened once, when the model is first needed.

    Methods raise UsageError for a bad address and MissingError without a key.
    """

    def __init__(self, parts: RunParts) -> None:
        self.parts = parts
        self._opened: dict[tuple[str, int], RunModel] = {}

    @property
    def writer(self) -> RunModel | None:
        """The model that writes kernels; None where no model writes."""
        parts = self.parts
        return self._find(parts.model, parts.brought.model) if parts.model else None

    @property
    def critic(self) -> RunModel | None:
        """The model that reflection asks, often the writer's model; None where reflection asks no
        model."""
        parts = self.parts
        if not parts.critic:
            return None
        return self._find(parts.critic, parts.brought.reflection_model)

    def of_agent(self, agent: str) -> RunModel | None:
        """Return the model of a user's agent, generator or reflector; None where no model is
        named."""
        parts = self.parts
        own = parts.brought.agent_models.get(agent)
        if own is not None:
            return self._find(name_of(own), own)
        named = parts.config.agent_models.get(agent)
        if named:
            return self._find(named, None)
        return self._find(parts.named_model, parts.brought.model) if parts.named_model else None

    def named_for_agents(self) -> tuple[RunModel, ...]:
        """Return the models that agents have of their own by name."""
        own = self.parts.brought.agent_models
        names = (one for one in self.parts.config.agent_models if one not in own)
        found = (self.of_agent(name) for name in names)
        return tuple(dict.fromkeys(one for one in found if one is not None))

    def _find(self, name: str, own: "BaseChatModel | None") -> RunModel:
        writer = self.parts.brought.model
        if own is None and writer is not None and name == self.parts.model:
            own = writer
        key = (name, id(own))
        if key not in self._opened:
            self._opened[key] = open_model(self.parts, name, own)
        return self._opened[key]


def open_model(parts: RunParts, name: str, own: "BaseChatModel | None") -> RunModel:
    """Open a model by its name, or take the caller's `own`.

    Raises UsageError for a bad address, MissingError without a key.
    """
    from cuda_llm.agents.llm.chat_model import find_endpoint, open_chat_model, options_from_settings
    from cuda_llm.agents.llm.pricing import find_price
    from cuda_llm.settings import settings

    options = options_from_settings()
    endpoint = find_endpoint(parts.config.base_url)
    is_ours = own is None
    return RunModel(
        name=name,
        model=own or open_chat_model(name, base_url=endpoint, options=options),
        endpoint=endpoint,
        price=find_price(name, endpoint, settings().prices) if is_ours else None,
        output_tokens=options.output_tokens if is_ours else 0,
        from_caller=not is_ours,
    )


async def preflight(
    parts: RunParts, budget: Budget | None = None, report: ReportLine = print_line
) -> tuple[ModelCalled, ...]:
    """Try the models within the budget and build what the device needs; return the trial calls.

    Raises UsageError and MissingError with the remedy.
    """
    from cuda_llm.graph.runs.drive import find_live_sender

    find_live_sender()
    trials: list[ModelCalled] = []
    if parts.replay is None:
        chats = RunModels(parts)
        writer, critic = chats.writer, chats.critic
        asked = [writer] * parts.config.candidates + [critic, *chats.named_for_agents()]
        calls = Counter(chat for chat in asked if chat is not None and not chat.from_caller)
        trials = [await try_model(chat, often, budget or Budget()) for chat, often in calls.items()]
    await build_in_thread(lambda: prepare_device(parts.device, report))
    return tuple(trials)


async def try_model(chat: RunModel, calls: int, budget: Budget) -> ModelCalled:
    """Try one model, which a round asks `calls` times."""
    from cuda_llm.agents.llm.preflight import check_model
    from cuda_llm.agents.llm.retry import policy_from_settings

    return await check_model(
        chat.model,
        chat.name,
        endpoint=chat.endpoint,
        budget=budget,
        price=chat.price,
        round=Round(calls=calls),
        output_tokens=chat.output_tokens,
        policy=policy_from_settings(),
    )


class ModelClients:
    """Clients of the models of a run, within one budget and one limit of calls in flight."""

    def __init__(self, parts: RunParts, record: Record, budget: Budget) -> None:
        from cuda_llm.settings import settings

        self.chats = RunModels(parts)
        self._folder = parts.folder
        self._record = record
        self._budget = budget
        self._slots = asyncio.Semaphore(settings().model_calls)
        self._seed = parts.config.seed
        self._opened: dict[RunModel, Ask] = {}

    def open(self, chat: RunModel, *, ends_run: bool = True) -> Ask:
        """Return the client of a model; only the first call of a model decides `ends_run`."""
        from cuda_llm.agents.llm.client import ModelClient
        from cuda_llm.agents.llm.retry import policy_from_settings

        if chat not in self._opened:
            self._opened[chat] = ModelClient(
                model=chat.model,
                name=chat.name,
                store=self._folder,
                record=self._record,
                budget=self._budget,
                slots=self._slots,
                policy=policy_from_settings(),
                price=chat.price,
                output_tokens=chat.output_tokens,
                seed=self._seed,
                ends_run=ends_run,
            )
        return self._opened[chat]

    def writer(self) -> Ask:
        """Return the client of the model that writes kernels."""
        writer = self.chats.writer
        assert writer is not None, "the generator was chosen because there is a model"
        return self.open(writer)

    def critic(self) -> Ask | None:
        """Return the client of the model of reflection; None where reflection asks no model."""
        critic = self.chats.critic
        return None if critic is None else self.open(critic)

    def of_agent(self, agent: str) -> Ask:
        """Return what asks the model of a user's agent, generator or reflector.

        The model is opened with the first question: an agent that asks none needs none.
        """

        async def ask(call: Call) -> Reply | CallFailed:
            try:
                chat = self.chats.of_agent(agent)
            except (MissingError, UsageError) as error:
                return CallFailed(kind="no_access", detail=str(error), tries=0)
            if chat is None:
                return await no_client(agent)(call)
            return await self.open(chat, ends_run=False)(call)

        return ask


Clients = ModelClients | RecordedClients


def open_clients(parts: RunParts, record: Record, budget: Budget) -> Clients:
    """Return the clients of the run's models, or clients that answer from a record."""
    if parts.replay is None:
        return ModelClients(parts, record, budget)
    return RecordedClients(
        replay=parts.replay,
        store=parts.folder,
        record=record,
        budget=budget,
        asks_critic=bool(parts.critic),
    )


def open_generator(parts: RunParts, clients: Clients) -> Generator:
    """Return the generator found already, else open ours that asks a model."""
    if parts.generator is not None:
        return parts.generator
    from cuda_llm.agents.llm.generator import LlmGenerator

    return LlmGenerator(clients.writer(), parts.templates)


def open_reflector(parts: RunParts, clients: Clients) -> Reflector:
    """Return the caller's reflector, else ours, with a critique where there is a model to ask."""
    from cuda_llm.agents.reflection.reflector import Reflection

    if parts.brought.reflector is not None:
        return parts.brought.reflector
    return Reflection(clients.critic(), parts.templates)


def versions() -> dict[str, str]:
    """Return versions by package name; what is not installed is left out."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def build_context(parts: RunParts, record: Record, budget: Budget | None = None) -> RunContext:
    """Build the run context of parts already found; `record` receives the events of the run."""
    brought, replay = parts.brought, parts.replay
    budget = budget or open_budget(parts)
    clients = open_clients(parts, record, budget)
    found = {one.name: getattr(parts, one.name) for one in fields(RunParts)}
    return RunContext(
        **{**found, "generator": open_generator(parts, clients)},
        record=record,
        reflector=open_reflector(parts, clients),
        tuner=brought.tuner or (replay and replay.tuner) or open_tuner(parts),
        bench=brought.bench or (replay and replay.bench) or open_bench(parts),
        stop_reason=budget.over,
        seconds_left=budget.seconds_left,
        client_of=clients.of_agent,
        versions=versions(),
    )


def open_budget(parts: RunParts) -> Budget:
    """Open the budget of the run, less what its earlier processes spent."""
    asked, events = parts.config, parts.folder.events
    usd, tokens, minutes = asked.budget_usd, asked.max_tokens, asked.max_minutes
    budget = Budget(usd=usd, tokens=tokens, minutes=minutes)
    if events.exists():
        recorded = read_events(events)
        budget.restore((one.event for one in recorded), time_by_stage(recorded)["total"])
    return budget


def open_bench(parts: RunParts) -> Bench:
    """Open the bench that ships. The inputs of candidates follow from the run's seed."""
    from cuda_llm.tools.judge import judge
    from cuda_llm.tools.timing.options import L2, MeasureOptions

    return judge.open_bench(
        parts.task,
        parts.device,
        watcher=open_watcher(parts.device),
        seed=parts.config.seed,
        options=MeasureOptions(l2=L2(parts.config.l2)),
    )


def open_tuner(parts: RunParts) -> Tuner:
    """Open the tuner that ships. Where it works alone, it rewrites kernels without tunables too."""
    from cuda_llm.agents.playbook.tuner import TunableTuner

    return TunableTuner(rewrites=parts.generator_choice.name == "tuner")
