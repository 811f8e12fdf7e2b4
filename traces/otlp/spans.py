"""The events of a run as a tree of spans, whoever sends them.

run > round > candidate > generate (with its model calls), compile, validate, profile; baseline,
contests, inspections, the last check and agents stand below the run or their round. docs/otlp.md
lists what each of them says.
"""

from collections.abc import Iterator
from dataclasses import replace

from cuda_llm.outcomes import Passed
from cuda_llm.search import Attempt, Brief
from cuda_llm.traces.event_log import Recorded
from cuda_llm.traces.events import (
    AgentDecided,
    AgentFailed,
    AttemptJudged,
    AttemptRepeated,
    BaselineJudged,
    CandidateLate,
    ContestHeld,
    HintGiven,
    IncumbentChosen,
    KernelInspected,
    ModelCalled,
    ModelRetried,
    RoundBegan,
    RunFinished,
    RunForked,
    RunInterrupted,
    RunResumed,
    RunStarted,
    StageEntered,
    StageLeft,
    TunerSearched,
    WinnerRemeasured,
)
from cuda_llm.traces.otlp import attributes as said
from cuda_llm.traces.otlp.attributes import Attributes
from cuda_llm.traces.otlp.span import RUN, AgentWork, Moment, Span, nanoseconds
from cuda_llm.traces.run_folder import RunFolder
from cuda_llm.traces.text import describe_stop

GENERATE = "generate"


class SpanTree:
    """Turns events into spans, each sent when it has ended; the run itself by `close`."""

    def __init__(self, folder: RunFolder, *, content: bool = False) -> None:
        """`content`: prompts, replies and what agents decided are sent too."""
        self._folder, self._content = folder, content
        self.began_at = ""
        """Of the first event; empty before it."""
        self._first_ns = self._last_ns = 0
        self._run = said.run_attributes(folder.name, None)
        self._run_name = "invoke_workflow"
        self._error: str | None = None
        self._generator = ""
        self._model = ""
        self._round: int | None = None
        self._round_ns = 0
        self._moments: dict[str, list[Moment]] = {}
        self._briefs: dict[str, Brief] = {}
        self._entered: dict[tuple[str, str], int] = {}
        self._began: dict[str, int] = {}
        """When each candidate that is not judged yet entered its first stage."""
        self._ready: dict[str, int] = {}
        """When each candidate had left its last stage."""
        self._judged: dict[str, tuple[int, int]] = {}
        """Begin and end of those that were judged: a later verdict changes neither."""
        self._agents: dict[str, AgentWork] = {}

    def add(self, one: Recorded) -> Iterator[Span]:
        """Yield the spans that have ended with this event."""
        at_ns = nanoseconds(one.at)
        if not self.began_at:
            self.began_at, self._first_ns = one.at, at_ns
        # A clock that is set back makes no span that ends before it begins.
        at_ns = max(at_ns, self._first_ns)
        yield from self._add(one, at_ns)
        self._last_ns = at_ns

    def _add(self, one: Recorded, at_ns: int) -> Iterator[Span]:
        match one.event:
            case RunStarted() as event:
                self._run = said.run_attributes(self._folder.name, event)
                self._run_name = f"invoke_workflow {event.strategy}"
                self._generator, self._model = event.generator, event.model
            case RoundBegan(round=number, briefs=briefs):
                yield from self._end_round()
                self._round, self._round_ns = number, at_ns
                self._briefs |= {brief.id: brief for brief in briefs}
            case StageEntered(candidate=name, stage=stage):
                self._entered[name, stage] = at_ns
                self._began.setdefault(name, at_ns)
            case StageLeft() as event:
                yield self._stage(event, at_ns)
            case ModelCalled() as event:
                yield self._call(event, at_ns)
            case ModelRetried() as event:
                self._tell(f"call/{event.call}", "retry", at_ns, said.of(event, "call"))
            case AttemptJudged(attempt=attempt) | AttemptRepeated(attempt=attempt):
                yield self._candidate(attempt, at_ns)
            case AgentDecided(agent=agent, decisions=decisions):
                found = self._agent(agent, at_ns)
                found.decisions += [*decisions]
            case AgentFailed(agent=agent, error=error):
                self._agent(agent, at_ns).error = error
            case BaselineJudged() as event:
                yield self._tool("baseline", "baseline", at_ns, event.seconds, said.of(event))
            case ContestHeld(contender=name, incumbent=other) as event:
                key = f"contest/{event.round}/{name}/{other}"
                span = self._tool("contest", key, at_ns, event.seconds, said.of(event))
                links = (f"candidate/{name}", f"candidate/{other}")
                fault = f"{event.fault} {event.detail}".strip() or None
                yield replace(span, parent=self._here, links=links, error=fault)
            case KernelInspected(attempt=name) as event:
                key = f"inspect/{event.round}/{name}"
                span = self._tool("inspect", key, at_ns, event.seconds, said.of(event))
                yield replace(
                    span, parent=self._here, links=(f"candidate/{name}",), error=event.code or None
                )
            case WinnerRemeasured(attempt=name) as event:
                yield from self._end_round()
                # Its seconds are not recorded: nothing else happens since the event before.
                seconds = (at_ns - (self._last_ns or at_ns)) / 1e9
                span = self._tool("recheck", f"recheck/{name}", at_ns, seconds, said.of(event))
                failed = None if event.stands else f"{event.code} {event.detail}".strip()
                yield replace(span, links=(f"candidate/{name}",), error=failed)
            case HintGiven(channel=channel, hint=hint):
                about = said.hint_attributes(channel, hint, content=self._content)
                self._tell(self._here, "hint_given", at_ns, about)
            case CandidateLate() | TunerSearched() | IncumbentChosen() as event:
                self._tell(self._here, event.kind, at_ns, said.of(event))
            case RunResumed() | RunForked() as event:
                self._error = None
                self._tell(RUN, event.kind, at_ns, said.of(event))
            case RunFinished() as event:
                yield from self._end_round()
                self._run = {**self._run, **said.of(event, "usage")}
                self._error = None if event.best else "no kernel passed"
            case RunInterrupted() as event:
                self._run = {**self._run, "cuda_llm.reason": describe_stop(event)}
            case _:
                pass

    def close(self) -> Iterator[Span]:
        """Yield what has not ended, as far as it has got, and the run, the last of all."""
        if not self.began_at:
            return
        for (name, stage), start_ns in self._entered.items():
            yield self._open_stage(name, stage, start_ns, self._last_ns, said.UNFINISHED)
        for name, start_ns in self._began.items():
            if name in self._judged:
                continue
            yield Span(
                key=f"candidate/{name}",
                name=f"candidate {name}",
                parent=self._here,
                start_ns=start_ns,
                end_ns=self._last_ns,
                attributes={**said.candidate_attributes(name, None), **said.UNFINISHED},
                links=self._parents(self._briefs.get(name)),
            )
        yield from self._end_round()
        yield Span(
            key=RUN,
            name=self._run_name,
            parent=None,
            start_ns=self._first_ns,
            end_ns=self._last_ns,
            attributes={**self._run, **said.failure(self._error and "no_kernel_passed")},
            error=self._error,
            moments=tuple(self._moments.get(RUN, ())),
        )

    @property
    def _here(self) -> str:
        """Key of the round under way; of the run before and after them."""
        return RUN if self._round is None else f"round/{self._round}"

    def _tell(self, key: str, name: str, at_ns: int, attributes: Attributes) -> None:
        moment = Moment(name=name, at_ns=at_ns, attributes=attributes)
        self._moments.setdefault(key, []).append(moment)

    def _end_round(self) -> Iterator[Span]:
        """Yield the agents at work since the round began, and the round."""
        for name, agent in self._agents.items():
            yield Span(
                key=self._agent_key(name),
                name=f"invoke_agent {name}",
                parent=self._here,
                start_ns=agent.start_ns,
                end_ns=agent.end_ns,
                attributes={
                    **said.agent_attributes(name, self._folder.name),
                    **said.decision_attributes(agent.decisions if self._content else ()),
                    **said.failure("agent_failed" if agent.error else None),
                },
                error=agent.error,
            )
        self._agents.clear()
        if self._round is not None:
            yield Span(
                key=self._here,
                name=f"round {self._round}",
                parent=RUN,
                start_ns=self._round_ns,
                end_ns=max(self._last_ns, self._round_ns),
                attributes=said.round_attributes(self._round),
                moments=tuple(self._moments.pop(self._here, ())),
            )
        self._round = None

    def _agent_key(self, name: str) -> str:
        return f"agent/{self._round or 0}/{name}"

    def _agent(self, name: str, at_ns: int, start_ns: int | None = None) -> AgentWork:
        """Return the agent of this round, at work from `start_ns` to now."""
        start_ns = at_ns if start_ns is None else start_ns
        found = self._agents.setdefault(name, AgentWork(start_ns=start_ns, end_ns=at_ns))
        found.start_ns, found.end_ns = min(found.start_ns, start_ns), max(found.end_ns, at_ns)
        return found

    def _call(self, event: ModelCalled, at_ns: int) -> Span:
        start_ns = self._since(at_ns, event.seconds)
        folder, _, rest = event.call.partition("/")
        name = rest.partition("/")[0]
        parent = RUN
        if folder == "candidates":
            key = f"candidate/{name}"
            parent = f"{key}/{GENERATE}" if (name, GENERATE) in self._entered else key
        elif folder == "rounds":
            self._agent(event.agent, at_ns, start_ns)
            parent = self._agent_key(event.agent)
        asked = self._model if event.agent == "generator" else ""
        about = said.call_attributes(event, self._folder.name, asked)
        if self._content:
            about = {**about, **said.content_attributes(self._folder, event.call)}
        key = f"call/{event.call}"
        return Span(
            key=key,
            name=f"chat {about['gen_ai.request.model']}",
            parent=parent,
            start_ns=start_ns,
            end_ns=at_ns,
            attributes=about,
            error=None if event.outcome == "ok" else f"{event.outcome} {event.detail}".strip(),
            is_client=True,
            moments=tuple(self._moments.pop(key, ())),
        )

    def _stage(self, event: StageLeft, at_ns: int) -> Span:
        name, stage = event.candidate, event.stage
        # Between entering a stage and its work a candidate may have waited for a slot.
        entered = self._entered.pop((name, stage), self._first_ns)
        start_ns = max(entered, self._since(at_ns, event.seconds))
        self._began.setdefault(name, start_ns)
        self._ready[name] = at_ns
        outcome = None if event.outcome == "ok" else event.outcome
        span = self._open_stage(name, stage, start_ns, at_ns, said.failure(outcome))
        return replace(span, error=outcome)

    def _open_stage(
        self, name: str, stage: str, start_ns: int, end_ns: int, more: Attributes
    ) -> Span:
        run = self._folder.name
        is_agent = stage == GENERATE
        about = (
            said.agent_attributes(self._generator, run) if is_agent else said.tool_attributes(stage)
        )
        return Span(
            key=f"candidate/{name}/{stage}",
            name=f"invoke_agent {self._generator}" if is_agent else f"execute_tool {stage}",
            parent=f"candidate/{name}",
            start_ns=start_ns,
            end_ns=end_ns,
            attributes={**about, "cuda_llm.candidate": name, **more},
        )

    def _candidate(self, attempt: Attempt, at_ns: int) -> Span:
        name = attempt.id
        end_ns = self._ready.pop(name, at_ns)
        began_ns = self._began.pop(name, self._round_ns if attempt.round == self._round else end_ns)
        times = self._judged.setdefault(name, (min(began_ns, end_ns), end_ns))
        return Span(
            key=f"candidate/{name}",
            name=f"candidate {name}",
            parent=f"round/{attempt.round}" if attempt.round else RUN,
            start_ns=times[0],
            end_ns=times[1],
            attributes=said.candidate_attributes(name, attempt),
            error=None if attempt.passed else f"{attempt.code} {attempt.summary}".strip(),
            links=self._parents(attempt if attempt.parent else self._briefs.get(name)),
        )

    def _parents(self, known: Attempt | Brief | None) -> tuple[str, ...]:
        names = (known.parent, known.second) if known else ()
        return tuple(f"candidate/{name}" for name in names if name)

    def _tool(self, tool: str, key: str, at_ns: int, seconds: float, about: Attributes) -> Span:
        failed = str(about.get("cuda_llm.fault") or about.get("cuda_llm.code") or "")
        error = "" if failed == Passed.code else failed
        return Span(
            key=key,
            name=f"execute_tool {tool}",
            parent=RUN,
            start_ns=self._since(at_ns, seconds),
            end_ns=at_ns,
            attributes={**said.tool_attributes(tool), **about, **said.failure(error or None)},
        )

    def _since(self, at_ns: int, seconds: float) -> int:
        """Return when something began that took so long, never before the run did."""
        return max(self._first_ns, at_ns - round(seconds * 1e9))
