"""What must be there before a run makes its first step."""

import asyncio

from cuda_llm.agents.llm.budget import Budget
from cuda_llm.graph.runs.chat import Chat, find_critic, find_writer
from cuda_llm.graph.runs.parts import Parts
from cuda_llm.traces.events import ModelCalled


async def preflight(parts: Parts, budget: Budget | None = None) -> tuple[ModelCalled, ...]:
    """Try the models within the budget, and build what the device needs; what the trial cost.

    Raises UsageError and MissingError with the mend.
    """
    writer = find_writer(parts)
    critic = find_critic(parts, writer)
    ours = [chat for chat in dict.fromkeys((writer, critic)) if chat and not chat.brought]
    calls = {chat: _calls(parts, chat, writer, critic) for chat in ours}
    told = [await check(chat, calls[chat], budget or Budget()) for chat in ours]
    await asyncio.to_thread(parts.device.prepare)
    return tuple(told)


async def check(chat: Chat, calls: int, budget: Budget) -> ModelCalled:
    """Try one model."""
    from cuda_llm.agents.llm.preflight import Round, check_model
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


def _calls(parts: Parts, chat: Chat, writer: Chat | None, critic: Chat | None) -> int:
    """How often one round asks it."""
    return parts.request.candidates * (chat is writer) + (chat is critic)
