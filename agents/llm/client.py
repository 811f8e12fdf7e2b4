"""The client of one chat model: kept replies, limits, retries and events around each call.

A call whose reply is on the disk, or the body of it, makes no request. Whatever goes wrong with a
model or its endpoint is a CallFailed; only a broken machine raises, such as a full disk.
"""

import asyncio
import random
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from cuda_llm.agents.llm.budget import (
    ASSUMED_OUTPUT_TOKENS,
    Bound,
    Budget,
    Reservation,
    Spent,
    find_bound,
    lost_by,
)
from cuda_llm.agents.llm.chat_model import (
    ask_model,
    read_answer,
    takes_json_mode,
    without_retries,
)
from cuda_llm.agents.llm.kept_body import keeping_body
from cuda_llm.agents.llm.pricing import Price, count_prompt_tokens
from cuda_llm.agents.llm.retry import (
    UNCERTAIN,
    Failure,
    RetryPolicy,
    TryFailed,
    ask_again,
    classify_error,
)
from cuda_llm.conversation import Call, CallFailed, CallStore, Reply, Usage
from cuda_llm.errors import CudaLLMError
from cuda_llm.log import bound
from cuda_llm.redaction import HIDDEN, LEAST, hide
from cuda_llm.traces.events import ModelCalled, ModelRetried, Record

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

CALLS_AT_ONCE = 8


class ModelClient:
    """Asks one chat model. Is an `Ask`."""

    def __init__(
        self,
        *,
        model: "BaseChatModel",
        name: str,
        store: CallStore,
        record: Record,
        budget: Budget | None = None,
        slots: asyncio.Semaphore | None = None,
        policy: RetryPolicy | None = None,
        price: Price | None = None,
        output_tokens: int = 0,
        seed: int = 0,
        ends_run: bool = True,
    ) -> None:
        """Take `slots`, the calls in flight, which all clients given the same ones share.

        `output_tokens` is the longest answer that requests allow, 0 where they say
        nothing; `seed` decides how long retries wait. With `ends_run` the run is over when the
        endpoint gives no access or the budget has no room for a call; else only the call fails.
        """
        self.name = name
        self.model = without_retries(model)
        self.secrets = secrets_of(model)
        hide(*self.secrets)
        self.record = record
        self.budget = budget or Budget()
        self.policy = policy or RetryPolicy()
        self.price = price
        self.output_tokens = output_tokens or ASSUMED_OUTPUT_TOKENS
        self.seed = seed
        self.ends_run = ends_run
        self.json_mode = takes_json_mode(model)
        """Whether the model is asked for JSON; False after the first server that refuses the
        option."""
        self.store = store
        self._slots = slots or asyncio.Semaphore(CALLS_AT_ONCE)

    async def __call__(self, call: Call) -> Reply | CallFailed:
        """Return the answer to a call: from the disk where an earlier process stored the answer,
        else from the model."""
        with bound(agent=call.agent, model=self.name):
            return await self._answer(call)

    async def _answer(self, call: Call) -> Reply | CallFailed:
        kept = self.store.load_reply(call.id)
        if kept is not None:
            self._count_once(call, kept)
            return kept
        self.store.write_prompt(call)
        async with self._slots:
            asking = _PendingCall(self, call)
            asking.earlier = self.store.load_body(call.id)
            try:
                answer = await asking.answer()
            except asyncio.CancelledError:
                asking.record_end("cancelled", "nobody waits for it any longer")
                raise
            if isinstance(answer, Reply):
                self.store.write_reply(call.id, answer)
                asking.record_end("ok", "", answer)
            else:
                asking.record_end(answer.kind, answer.detail)
            return answer

    def bound(self, call: Call) -> Bound:
        """Return the most that one request of `call` may use."""
        return find_bound(count_prompt_tokens(call.messages), self.output_tokens, self.price)

    def _count_once(self, call: Call, reply: Reply) -> None:
        """Count a reply that an earlier process stored but was killed before recording."""
        if not self.budget.counts(call.id):
            self.budget.count(call.id, reply.usage)
            asking = _PendingCall(self, call)
            asking.tries = reply.tries
            asking.record_end("ok", "kept by an earlier process", reply)


class _PendingCall:
    """One call under way: its tries and what they cost."""

    def __init__(self, client: ModelClient, call: Call) -> None:
        self.client = client
        self.call = call
        self.bound = client.bound(call)
        self.tries = 0
        self.lost = Spent()
        self.began_s = time.monotonic()
        self.reservation: Reservation | None = None
        self.earlier: bytes | None = None
        """Body of an answer that an earlier process received, and that no process has read yet."""

    async def answer(self) -> Reply | CallFailed:
        """Ask under one deadline, which begins when the budget has room."""
        client = self.client
        try:
            self.reservation = await self._reserve()
            self.began_s = time.monotonic()
            limit_s = min(client.policy.deadline_s, max(client.budget.seconds_left(), 0.0))
            async with asyncio.timeout(limit_s):
                chance = random.Random(f"{client.seed}:{self.call.id}")
                reply = await ask_again(
                    self._try, client.policy, chance, self._record_retry, limit_s
                )
            return replace(reply, tries=self.tries, seconds=self._seconds())
        except TryFailed as error:
            return self._failed(error.failure)
        except TimeoutError:
            over = client.budget.over()
            late = Failure(kind="timed_out", detail=f"no answer within {limit_s:g} s")
            return self._failed(Failure(kind="over_budget", detail=over) if over else late)
        finally:
            if self.reservation is not None:
                self.reservation.free()

    async def _try(self) -> Reply:
        """Send one request. Raises TryFailed."""
        json_mode = self.call.as_json and self.client.json_mode
        try:
            return await self._request(json_mode=json_mode)
        except TryFailed as error:
            if not json_mode or error.failure.kind != "refused_request":
                raise
            self._record_retry(error.failure, 0.0)
            reply = await self._request(json_mode=False)
            self.client.json_mode = False
            return reply

    async def _request(self, *, json_mode: bool) -> Reply:
        client = self.client
        reservation = self.reservation or await self._reserve()
        self.reservation = None
        self.tries += 1
        try:
            with keeping_body(self._take_earlier(), self._keep_body):
                async with asyncio.timeout(client.policy.try_s):
                    message = await ask_model(client.model, self.call, json_mode=json_mode)
            answer = read_answer(client.model, message, self.call, client.price)
            reply = remove_reply_secrets(client.secrets, answer)
        except asyncio.CancelledError:
            self._lose(reservation)
            raise
        except Exception as error:
            failure = error.failure if isinstance(error, TryFailed) else classify_error(error)
            failure = replace(failure, detail=remove_secrets(client.secrets, failure.detail))
            if failure.kind in UNCERTAIN:
                self._lose(reservation)
            reservation.free()
            raise TryFailed(failure) from error
        reservation.settle(self.call.id, reply.usage)
        return reply

    def _take_earlier(self) -> bytes | None:
        earlier, self.earlier = self.earlier, None
        return earlier

    def _keep_body(self, body: bytes) -> None:
        for secret in self.client.secrets:
            body = body.replace(secret.encode(), HIDDEN.encode())
        # A disk that is full is told of by the reply, which follows.
        with suppress(CudaLLMError):
            self.client.store.write_body(self.call.id, body)

    async def _reserve(self) -> Reservation:
        found = await self.client.budget.reserve(self.bound, ends_run=self.client.ends_run)
        if isinstance(found, str):
            raise TryFailed(Failure(kind="over_budget", detail=found))
        return found

    def _lose(self, reservation: Reservation) -> None:
        reservation.lose()
        self.lost += lost_by(self.bound)

    def _failed(self, failure: Failure) -> CallFailed:
        asked_s = failure.retry_after_s or 0.0
        limit_s = self.client.policy.retry_after_limit_s
        waits = f"; it asks to wait {asked_s:g} s, more than {limit_s:g} s" * (asked_s > limit_s)
        if failure.kind == "no_access" and self.client.ends_run:
            self.client.budget.close(f"{self.client.name}: {failure.detail}")
        return CallFailed(
            kind=failure.kind,
            detail=failure.detail + waits,
            status=failure.status,
            tries=self.tries,
            seconds=self._seconds(),
        )

    def _seconds(self) -> float:
        return time.monotonic() - self.began_s

    def _record_retry(self, failure: Failure, wait_s: float) -> None:
        reason = f"{failure.kind}: {failure.detail}"
        retried = ModelRetried(call=self.call.id, attempt=self.tries, reason=reason, wait_s=wait_s)
        self.client.record(retried)

    def record_end(self, outcome: str, detail: str, reply: Reply | None = None) -> None:
        """Record that the call has ended."""
        usage = reply.usage if reply else Usage()
        self.client.record(
            ModelCalled(
                call=self.call.id,
                agent=self.call.agent,
                model=(reply and reply.model) or self.client.name,
                outcome=outcome,
                detail=detail,
                tries=self.tries,
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                cached_tokens=usage.cached_tokens,
                reasoning_tokens=usage.reasoning_tokens,
                usd=usage.usd,
                estimated=usage.estimated,
                lost_tries=self.lost.lost_tries,
                lost_tokens=self.lost.lost_tokens,
                lost_usd=None if self.client.price is None else self.lost.lost_usd,
                seconds=reply.seconds if reply else self._seconds(),
            )
        )


def secrets_of(model: "BaseChatModel") -> tuple[str, ...]:
    """Return what a client keeps secret: fields of pydantic's SecretStr."""
    fields = getattr(model, "__dict__", {}).values()
    found = (one.get_secret_value() for one in fields if hasattr(one, "get_secret_value"))
    return tuple(one for one in found if isinstance(one, str) and len(one) >= LEAST)


def remove_secrets(secrets: Iterable[str], text: str) -> str:
    """Return the text with each secret replaced."""
    for secret in secrets:
        text = text.replace(secret, HIDDEN)
    return text


def remove_reply_secrets(secrets: Iterable[str], reply: Reply) -> Reply:
    """Return the reply with each secret replaced."""
    hidden = tuple(secrets)
    return replace(
        reply,
        text=remove_secrets(hidden, reply.text),
        reasoning=remove_secrets(hidden, reply.reasoning),
        refusal=remove_secrets(hidden, reply.refusal),
        finish=remove_secrets(hidden, reply.finish),
        model=remove_secrets(hidden, reply.model),
    )
