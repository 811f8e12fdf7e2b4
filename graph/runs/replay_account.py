"""How far the record of one run answered another."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cuda_llm.graph.runs.recorded_replies import NOT_RECORDED, OTHER
from cuda_llm.graph.runs.recorded_verdicts import COMPONENT
from cuda_llm.graph.runs.replay import ASKED, OURS, PREFLIGHT
from cuda_llm.outcomes import component_of
from cuda_llm.traces.event_log import read_events
from cuda_llm.traces.events import AttemptJudged, ModelCalled
from cuda_llm.traces.run_folder import RunFolder


@dataclass(frozen=True, kw_only=True)
class ReplayAccount:
    """How far the record of a run answered another."""

    of: Path
    """The recorded run."""
    measurements: bool
    answered: int
    """Calls of models and of a generator of the user's that the record answered."""
    unanswered: tuple[str, ...]
    """Those it holds no answer to: `rounds/2/critique`, `candidates/r2-c1`."""
    prompts_differ: tuple[str, ...]
    """Calls answered although they were asked in other words, or by another brief."""
    unjudged: tuple[str, ...]
    """Candidates whose kernel was never judged there."""

    @property
    def differs_at(self) -> str:
        """Return where below both folders the first prompts that differ lie; empty without any.

        Questions of an agent are named by their words, so its whole turn is where to look.
        """
        if not self.prompts_differ:
            return ""
        call = self.prompts_differ[0]
        turn, _, name = call.rpartition("/")
        if name.startswith("ask-"):
            return turn
        file = "prompt.md" if (self.of / call / "prompt.md").exists() else "brief.json"
        return f"{call}/{file}"


def replay_account(folder: RunFolder) -> ReplayAccount | None:
    """Return how far the record answered; None where the run is no replay."""
    run = folder.read_run()
    of = run["request"].get("replay", "")
    if not of:
        return None
    events = [one.event for one in read_events(folder.events)]
    calls = {one.call: one for one in events if isinstance(one, ModelCalled)}
    calls.pop(PREFLIGHT, None)
    missing = [one.call for one in calls.values() if one.outcome == NOT_RECORDED]
    other = [one.call for one in calls.values() if one.replayed == OTHER]
    judged = (one.attempt for one in events if isinstance(one, AttemptJudged))
    codes = {one.id: one.code for one in judged}
    record = RunFolder(Path(of))
    drafts = _recorded_drafts(folder, run) if (record.path / "run.json").exists() else []
    for name in drafts:
        if record.draft(name) is None:
            missing.append(f"candidates/{name}")
        elif record.brief(name) != folder.brief(name):
            other.append(f"candidates/{name}")
    return ReplayAccount(
        of=record.path,
        measurements=bool(run["request"].get("replay_measurements")),
        answered=len(calls) + len(drafts) - len(missing),
        unanswered=tuple(missing),
        prompts_differ=tuple(other),
        unjudged=tuple(one for one, code in codes.items() if component_of(code) == COMPONENT),
    )


def _recorded_drafts(folder: RunFolder, run: Mapping[str, Any]) -> list[str]:
    """Return the candidates that a record drafted in place of a generator of the user's own."""
    if run["generator"] in OURS or "generator" in run["brought"]:
        return []
    asked = ((name, folder.brief(name)) for name in folder.candidates())
    return [name for name, brief in asked if brief is not None and brief.kind in ASKED]
