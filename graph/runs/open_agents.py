"""The agents that may ask a model: who writes and who reflects, at one desk a model."""

import asyncio
from collections.abc import Callable

from cuda_llm.agents.generator import Generator
from cuda_llm.agents.llm.budget import Budget
from cuda_llm.agents.reflector import Reflector
from cuda_llm.conversation import Ask
from cuda_llm.graph.runs.chat import Chat, find_critic, find_writer
from cuda_llm.graph.runs.parts import Parts
from cuda_llm.traces.events import Record
from cuda_llm.traces.run_folder import RunFolder

OpenDesk = Callable[[Chat], Ask]


def open_agents(
    parts: Parts, folder: RunFolder, record: Record, budget: Budget
) -> tuple[Generator, Reflector]:
    """Both, within one budget and one number of calls in flight."""
    from cuda_llm.agents.llm.desk import Desk
    from cuda_llm.agents.llm.retry import policy_from_settings
    from cuda_llm.settings import settings

    slots = asyncio.Semaphore(settings().model_calls)

    def open_desk(chat: Chat) -> Ask:
        return Desk(
            model=chat.model,
            name=chat.name,
            vault=folder,
            record=record,
            budget=budget,
            slots=slots,
            policy=policy_from_settings(),
            price=chat.price,
            output_tokens=chat.output_tokens,
            seed=parts.request.seed,
        )

    writer = find_writer(parts)
    critic = find_critic(parts, writer)
    return open_generator(parts, writer, open_desk), open_reflector(parts, critic, open_desk)


def open_generator(parts: Parts, writer: Chat | None, open_desk: OpenDesk) -> Generator:
    """The one found already, else the one that asks a model."""
    if parts.generator is not None:
        return parts.generator
    from cuda_llm.agents.llm.generator import LlmGenerator

    assert writer is not None, "the generator was chosen because there is a model"
    return LlmGenerator(open_desk(writer), parts.templates)


def open_reflector(parts: Parts, critic: Chat | None, open_desk: OpenDesk) -> Reflector:
    """The one brought; else ours, with a critique where there is a model to ask."""
    from cuda_llm.agents.reflection.reflector import Reflection

    if parts.overrides.reflector is not None:
        return parts.overrides.reflector
    return Reflection(None if critic is None else open_desk(critic), parts.templates)
