"""Clients and a generator that answer from the record of a run, and ask nobody."""

import asyncio
from collections.abc import Container, Sequence
from dataclasses import dataclass, replace

from cuda_llm.agents.llm.budget import Budget
from cuda_llm.agents.situation import Situation
from cuda_llm.conversation import Ask, Call, CallFailed, Reply
from cuda_llm.graph.context import no_client
from cuda_llm.graph.runs.recorded_course import RecordedCourse
from cuda_llm.outcomes import NoCode
from cuda_llm.search import Author, Brief, Draft
from cuda_llm.traces.event_log import Recorded
from cuda_llm.traces.events import ModelCalled, ModelRetried, Record
from cuda_llm.traces.files import read_text
from cuda_llm.traces.run_folder import RunFolder

NOT_RECORDED = "not_recorded"
"""Outcome of a call, and kind of a NoCode, for which the record holds no answer."""
SAME, OTHER = "same", "other"
"""Of `ModelCalled.replayed`: the recorded prompt was the same, or another."""


class RecordedReplies:
    """Replies of a run by the place of their call, with what was told of each."""

    def __init__(self, folder: RunFolder, recorded: Sequence[Recorded]) -> None:
        self.folder = folder
        events = [one.event for one in recorded]
        self.calls = {one.call: one for one in events if isinstance(one, ModelCalled)}
        """The last of each place: a run that was killed may have asked again."""
        self.retries = [one for one in events if isinstance(one, ModelRetried)]
        self._taken: set[str] = set()

    def take(self, call: str) -> str | None:
        """Return the place of the answer to a call; None where none was recorded.

        Questions of agents are named by their words: one that words its question otherwise gets
        the next answer of its turn that is left.
        """
        found: str | None = call
        if call not in self.calls and self.folder.load_reply(call) is None:
            turn, name = call.rpartition("/")[::2]
            left = (one for one in self.calls if one.rpartition("/")[0] == turn)
            is_agents = name.startswith("ask-")
            found = next((one for one in left if is_agents and one not in self._taken), None)
        if found is not None:
            self._taken.add(found)
        return found


@dataclass(frozen=True, kw_only=True)
class RecordedClients:
    """Clients of the models of a run, none of which is opened."""

    replies: RecordedReplies
    course: RecordedCourse
    store: RunFolder
    record: Record
    budget: Budget
    model: str
    """Name of the model that writes."""
    critic_model: str
    """Name of the model that reflection asks; empty where it asks none."""
    named: Container[str] | None
    """Agents of the user's with a model; None where each has one."""
    ended: str
    """Why the recorded run ended."""

    def writer(self) -> Ask:
        """Return what answers the generator."""
        return self._client(self.model, ends_run=True)

    def critic(self) -> Ask | None:
        """Return what answers reflection; None where it asks no model."""
        return self._client(self.critic_model, ends_run=True) if self.critic_model else None

    def of_agent(self, agent: str) -> Ask:
        """Return what answers an agent, generator or reflector of the user's."""
        if self.named is not None and agent not in self.named:
            return no_client(agent)
        return self._client("", ends_run=False)

    def _client(self, model: str, *, ends_run: bool) -> "RecordedClient":
        return RecordedClient(
            replies=self.replies,
            course=self.course,
            store=self.store,
            record=self.record,
            budget=self.budget,
            model=model,
            closes_with=self.ended if ends_run else None,
        )


@dataclass(frozen=True, kw_only=True)
class RecordedClient:
    """Answers each call with the recorded reply of the same place. Is an `Ask`."""

    replies: RecordedReplies
    course: RecordedCourse
    store: RunFolder
    record: Record
    budget: Budget
    model: str
    closes_with: str | None = None
    """Why the run ends where it got no access, or its budget had no room; None: it goes on."""

    async def __call__(self, call: Call) -> Reply | CallFailed:
        """Return the answer; a CallFailed of kind `not_recorded` where there is none."""
        self.store.write_prompt(call)
        place = self.replies.take(call.id)
        if place is None:
            return self._not_recorded(call)
        told = self.replies.calls.get(place)
        try:
            if call.id.startswith("candidates/"):
                await self.course.hold(call.id.split("/")[1], "generate")
        except asyncio.CancelledError:
            if told is not None and told.outcome == "cancelled":
                self._tell(call, place, told)
            raise
        reply = self.replies.folder.load_reply(place)
        if reply is not None:
            self._tell(call, place, told if told and told.outcome == "ok" else _told(call, reply))
            self.store.write_reply(call.id, reply)
            return reply
        if told is None or told.outcome == "cancelled":
            return self._not_recorded(call)
        self._tell(call, place, told)
        if self.closes_with is not None and told.outcome in ("no_access", "over_budget"):
            self.budget.close(self.closes_with or told.detail)
        return CallFailed(
            kind=told.outcome, detail=told.detail, tries=told.tries, seconds=told.seconds
        )

    def _not_recorded(self, call: Call) -> CallFailed:
        detail = f"the record of {self.replies.folder.name} holds no answer to {call.id}"
        self.record(
            ModelCalled(
                call=call.id,
                agent=call.agent,
                model=self.model,
                outcome=NOT_RECORDED,
                detail=detail,
                tries=0,
            )
        )
        if self.closes_with is not None and self.course.is_beyond:
            name, last = self.replies.folder.name, self.course.last_round
            self.budget.close(f"the record of {name} ends with round {last}")
        return CallFailed(kind=NOT_RECORDED, detail=detail, tries=0)

    def _tell(self, call: Call, place: str, told: ModelCalled) -> None:
        """Record the call and its retries, and count what it cost, once."""
        if told.outcome == "ok" and self.budget.counts(call.id):
            return
        for one in self.replies.retries:
            if one.call == place:
                self.record(replace(one, call=call.id))
        asked, recorded = (_prompt(self.store, call.id), _prompt(self.replies.folder, place))
        now = replace(told, call=call.id, replayed=SAME if asked == recorded else OTHER)
        self.budget.restore([now])
        self.record(now)


def _prompt(folder: RunFolder, call: str) -> str | None:
    return read_text(folder.path / call / "prompt.md")


def _told(call: Call, reply: Reply) -> ModelCalled:
    """Return the event of a reply whose own a kill prevented."""
    return ModelCalled(
        call=call.id,
        agent=call.agent,
        model=reply.model,
        outcome="ok",
        tries=reply.tries,
        seconds=reply.seconds,
        **vars(reply.usage),
    )


@dataclass(frozen=True)
class RecordedGenerator:
    """Answers each brief with the draft that a generator of the user's own once gave."""

    folder: RunFolder
    course: RecordedCourse
    name: str
    written_by: Author

    async def generate(self, brief: Brief, situation: Situation) -> Draft | NoCode:
        """Return the recorded draft; a NoCode of kind `not_recorded` where there is none."""
        await self.course.hold(brief.id, "generate")
        draft = self.folder.draft(brief.id)
        if draft is None:
            message = f"the record of {self.folder.name} holds no draft of {brief.id}"
            return NoCode(kind=NOT_RECORDED, message=message)
        return draft
