"""Questions of the user's own agents, asked as calls of the run."""

import asyncio
import hashlib
import json
import math
import re
from collections import Counter
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from cuda_llm.conversation import Ask, Call, CallFailed, Message, Reply

SHARE_OF_TIME = 0.95
"""Part of an agent's time in which its questions must be answered, 0 to 1: the agent writes its
answer in the rest."""


class AgentAsk:
    """An `AskModel` that lasts while its `with` block does: one turn of one agent.

    A question is identified by its text, and by how often the turn has asked it before. So an agent
    that is run again finds its replies, in whatever order it asks.
    """

    def __init__(self, ask: Ask, agent: str, folder: str, limit_s: float = math.inf) -> None:
        """Take the `folder` below the run's for prompts and replies, and the agent's `limit_s`."""
        self._ask = ask
        self._agent = agent
        self._folder = folder
        self._limit_s = limit_s * SHARE_OF_TIME
        self._asked: Counter[str] = Counter()
        self._in_flight: set[asyncio.Task[Reply | CallFailed]] = set()
        self._is_over = False

    def __enter__(self) -> Self:
        self._began_s = asyncio.get_running_loop().time()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Cancel what tasks that the agent left behind still wait for."""
        self._is_over = True
        for task in self._in_flight:
            task.cancel()

    async def __call__(
        self, prompt: str | Sequence[Message], *, system: str = "", as_json: bool = False
    ) -> Reply | CallFailed:
        """Return the answer; a CallFailed of kind `timed_out` when the agent's time is up."""
        if self._is_over:
            return self._late()
        call = self._call(conversation(prompt, system), as_json=as_json)
        limited = not math.isinf(self._limit_s)
        until_s = self._began_s + self._limit_s if limited else None
        task = asyncio.ensure_future(self._ask(call))
        self._in_flight.add(task)
        try:
            async with asyncio.timeout_at(until_s):
                return await task
        except TimeoutError:
            return self._late()
        except asyncio.CancelledError:
            waiting = asyncio.current_task()
            if not self._is_over or waiting is None or waiting.cancelling():
                raise
            return self._late()
        finally:
            self._in_flight.discard(task)

    def _call(self, messages: tuple[Message, ...], *, as_json: bool) -> Call:
        question = json.dumps([as_json, *([one.role, one.text] for one in messages)])
        key = f"ask-{hashlib.sha256(question.encode()).hexdigest()[:12]}"
        self._asked[key] += 1
        again = f"-{self._asked[key]}" if self._asked[key] > 1 else ""
        name = f"{self._folder}/{key}{again}"
        return Call(id=name, agent=self._agent, messages=messages, as_json=as_json)

    def _late(self) -> CallFailed:
        took_s = asyncio.get_running_loop().time() - self._began_s
        why = "the turn is over" if self._is_over else f"no answer within {self._limit_s:.3g} s"
        return CallFailed(kind="timed_out", detail=f"{self._agent}: {why}", tries=0, seconds=took_s)


def conversation(prompt: str | Sequence[Message], system: str) -> tuple[Message, ...]:
    """Return a prompt as messages. Raises TypeError for what is neither a text nor messages."""
    messages = (Message(role="user", text=prompt),) if isinstance(prompt, str) else tuple(prompt)
    if not messages or not all(isinstance(one, Message) for one in messages):
        raise TypeError("ask: expected a text, or one Message or more")
    return (Message(role="system", text=system), *messages) if system else messages


def folder_of_turn(round_: int, agent: str) -> str:
    """Return the folder of a turn's prompts and replies in `round_`, below the run's."""
    return f"rounds/{round_}/{re.sub(r'[^A-Za-z0-9_]+', '_', agent) or '_'}"
