"""The agents that may ask a model, and the clients they ask with: one client a model."""

import asyncio

from cuda_llm.agents.generator import Generator
from cuda_llm.agents.llm.budget import Budget
from cuda_llm.agents.reflector import Reflector
from cuda_llm.conversation import Ask, Call, CallFailed, Reply
from cuda_llm.errors import MissingError, UsageError
from cuda_llm.graph.runs.chat import Chat, Chats
from cuda_llm.graph.runs.parts import Parts
from cuda_llm.traces.events import Record
from cuda_llm.traces.run_folder import RunFolder


class ModelClients:
    """Clients within one budget and one number of calls in flight."""

    def __init__(self, parts: Parts, folder: RunFolder, record: Record, budget: Budget) -> None:
        from cuda_llm.settings import settings

        self.chats = Chats(parts)
        self._folder = folder
        self._record = record
        self._budget = budget
        self._slots = asyncio.Semaphore(settings().model_calls)
        self._seed = parts.request.seed
        self._opened: dict[Chat, Ask] = {}

    def open(self, chat: Chat, *, ends_run: bool = True) -> Ask:
        """The client of a model; `ends_run` counts when it is opened first."""
        from cuda_llm.agents.llm.desk import Desk
        from cuda_llm.agents.llm.retry import policy_from_settings

        if chat not in self._opened:
            self._opened[chat] = Desk(
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

    def of_agent(self, agent: str) -> Ask:
        """What asks the model of an agent, generator or reflector of the user's.

        The model is opened with the first question: an agent that asks none needs none.
        """

        async def ask(call: Call) -> Reply | CallFailed:
            try:
                chat = self.chats.of_agent(agent)
            except (MissingError, UsageError) as error:
                return CallFailed(kind="no_access", detail=str(error), tries=0)
            if chat is None:
                mend = f"name one with --agent-model {agent}=MODEL, or with --model"
                detail = f"no model is named for {agent}; {mend}"
                return CallFailed(kind="no_model", detail=detail, tries=0)
            return await self.open(chat, ends_run=False)(call)

        return ask


def open_generator(parts: Parts, clients: ModelClients) -> Generator:
    """Return the generator found already, else open ours that asks a model."""
    if parts.generator is not None:
        return parts.generator
    from cuda_llm.agents.llm.generator import LlmGenerator

    writer = clients.chats.writer
    assert writer is not None, "the generator was chosen because there is a model"
    return LlmGenerator(clients.open(writer), parts.templates)


def open_reflector(parts: Parts, clients: ModelClients) -> Reflector:
    """Return the caller's reflector, else ours, with a critique where there is a model to ask."""
    from cuda_llm.agents.reflection.reflector import Reflection

    if parts.overrides.reflector is not None:
        return parts.overrides.reflector
    critic = clients.chats.critic
    return Reflection(None if critic is None else clients.open(critic), parts.templates)
