"""What must be there before a run makes its first step."""

import asyncio
from collections import Counter

from cuda_llm.agents.llm.budget import Budget
from cuda_llm.graph.runs.chat import Chat, Chats
from cuda_llm.graph.runs.parts import Parts
from cuda_llm.traces.events import ModelCalled


async def preflight(parts: Parts, budget: Budget | None = None) -> tuple[ModelCalled, ...]:
    """Try the models within the budget and build what the device needs; returns the trial calls.

    Raises UsageError and MissingError with the mend.
    """
    chats = Chats(parts)
    writer, critic = chats.writer, chats.critic
    asked = [writer] * parts.request.candidates + [critic, *chats.named_for_agents()]
    calls = Counter(chat for chat in asked if chat is not None and not chat.from_caller)
    told = [await check(chat, often, budget or Budget()) for chat, often in calls.items()]
    await asyncio.to_thread(parts.device.prepare)
    return tuple(told)


async def check(chat: Chat, calls: int, budget: Budget) -> ModelCalled:
    """Try one model, which a round asks `calls` times."""
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
