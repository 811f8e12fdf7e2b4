"""A run as a folder: everything large, and everything a killed run needs to go on.

docs/traces.md lists its files. Attempts, briefs and hints are stored in their files and nowhere
else: the checkpoint, the events, the situations and the briefs name them by id. Every file is whole
or missing, whenever the process dies. The last file of a step says that the step is done:
reply.json, draft.json, verdict.json, attempt.json.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

from cuda_llm.codec import decode, decode_verdict, encode, encode_verdict
from cuda_llm.conversation import Call, Message, Reply
from cuda_llm.errors import UnusableFile, UsageError
from cuda_llm.lessons import Lesson
from cuda_llm.log import Log
from cuda_llm.outcomes import NoCode, Passed, Verdict
from cuda_llm.search import Attempt, Brief, Draft, Hint
from cuda_llm.traces.files import broken, copy_file, read_json, read_text, write_file, write_json

T = TypeVar("T")
_log = Log(__name__)

VERSION = 2
"""Of run.json and the folder. Files and keys are only added; what changes a meaning raises it."""

FILES: Mapping[type, str] = {
    Attempt: "candidates/{}/attempt.json",
    Brief: "candidates/{}/brief.json",
    Hint: "hints/{}.json",
}
"""Path of a value of that type, by its id."""
NEW_RUN = "restore it, or start a new run"
WORKED_OUT_AGAIN = "resume works the run out again from what its folder holds"
HINTS = ("error_hints", "performance_hints")
"""Channels of hints, in the state and in briefs."""
LESSONS = "lessons.json"
BODY = "reply.http"
"""Beside a prompt: an answer that came whole, and whose reply is still to be read."""
UNFIT = (ValueError, KeyError, TypeError, AttributeError)
"""Raised where a file holds other JSON than a run writes."""
_ROLE = re.compile(r"^## (system|user|assistant)$", re.MULTILINE)
"""Head of a message in `prompt.md`."""
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


class RunFolder:
    """One run on disk: its archive, and the store of its calls."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._looked_up: dict[tuple[Any, str], Any] = {}
        self._hints: dict[Hint, Hint] | None = None
        """Each hint to itself as written, with its id; None until they are read."""
        self._lessons: tuple[Lesson, ...] | None = None

    @property
    def name(self) -> str:
        """The run's id."""
        return self.path.name

    @property
    def events(self) -> Path:
        """One event a line."""
        return self.path / "events.jsonl"

    @property
    def checkpoint(self) -> Path:
        """The graph's own database."""
        return self.path / "checkpoint.sqlite"

    @property
    def best(self) -> Path:
        """Folder of the result."""
        return self.path / "best"

    def candidate(self, name: str) -> Path:
        """Return the folder of one candidate."""
        return self._below(f"candidates/{name}")

    def candidates(self) -> tuple[str, ...]:
        """Return the ids of all candidates that have a folder, `r2-c10` after `r2-c9`."""
        folder = self.path / "candidates"
        names = [one.name for one in folder.iterdir()] if folder.is_dir() else []
        return tuple(sorted(names, key=_natural))

    def write_run(self, run: Mapping[str, Any]) -> None:
        """Write run.json from plain JSON."""
        write_json(self.path / "run.json", {"version": VERSION, **encode(run)})

    def read_run(self) -> dict[str, Any]:
        """Return what run.json holds. Raises UsageError: no run, broken, or of another version."""
        run = read_json(self.path / "run.json", NEW_RUN)
        if run is None:
            raise UnusableFile(self.path, "no run.json", "expected the folder of a run")
        found = run.get("version") if isinstance(run, dict) else None
        if not isinstance(found, int):
            raise UnusableFile(self.path / "run.json", "has no version", NEW_RUN)
        if found != VERSION:
            what = f"version {found}, this program reads version {VERSION}"
            raise UnusableFile(self.path / "run.json", what, "use the cuda-llm that wrote it")
        return {key: value for key, value in run.items() if key != "version"}

    def look_up(self, kind: type[T], named: str) -> T:
        """Return the Attempt, Brief or Hint of that id; nothing changes it once it is named.

        Raises UsageError where its file is gone.
        """
        value: T | None = self._looked_up.get((kind, named))
        if value is None:
            file = FILES[kind].format(named)
            value = self._read_value(file, kind)
            if value is None:
                raise self.gone(self.path / file)
            self._looked_up[kind, named] = value
        return value

    def gone(self, path: Path) -> UnusableFile:
        """Return the error of a missing file that was written before it was named."""
        return UnusableFile(path, "gone", self.remedy)

    @property
    def remedy(self) -> str:
        """The remedy for files that resume writes again where it has no checkpoint."""
        return f"restore it, or remove {self.checkpoint}: {WORKED_OUT_AGAIN}"

    def keep_hints(self, hints: Iterable[Hint]) -> tuple[Hint, ...]:
        """Write the hints; return them with the ids they have from now on.

        Equal hints have the same id, also when a kill came between two calls.
        """
        if self._hints is None:
            names = [one.stem for one in (self.path / "hints").glob("*.json")]
            # A broken one is written again where it is learned again.
            kept = (self.usable(self.hint, name) for name in sorted(names, key=_natural))
            self._hints = {one: one for one in kept if one is not None}
        return tuple(self._keep_hint(one, self._hints) for one in hints)

    def _keep_hint(self, hint: Hint, kept: dict[Hint, Hint]) -> Hint:
        if hint not in kept:
            taken = {one.id for one in kept}
            names = (f"r{hint.round}-h{number}" for number in count(1))
            named = replace(hint, id=next(one for one in names if one not in taken))
            write_json(self.path / FILES[Hint].format(named.id), encode(named))
            kept[named] = named
        return kept[hint]

    def hint(self, name: str) -> Hint | None:
        """Return the hint of that id; None where there is none."""
        return self._read_value(FILES[Hint].format(name), Hint)

    def write_lessons(self, lessons: Sequence[Lesson]) -> None:
        """Write the lessons of other tasks that this run's prompts may hold."""
        write_json(self.path / LESSONS, encode(lessons))
        self._lessons = tuple(lessons)

    def lessons(self) -> tuple[Lesson, ...] | None:
        """Return the lessons of other tasks; None where the run has asked for none."""
        if self._lessons is None:
            path = self.path / LESSONS
            data = read_json(path, NEW_RUN)
            try:
                kept = None if data is None else tuple(decode(Lesson, one) for one in data)
            except UNFIT:
                raise broken(path, NEW_RUN) from None
            self._lessons = kept
        return self._lessons

    def write_brief(self, brief: Brief) -> None:
        """Write a candidate's brief, and hints of the strategy's own."""
        ids = {name: [one.id for one in self.keep_hints(getattr(brief, name))] for name in HINTS}
        self._looked_up.pop((Brief, brief.id), None)
        write_json(self.candidate(brief.id) / "brief.json", encode(brief) | ids)

    def brief(self, name: str) -> Brief | None:
        """Return a candidate's brief. Raises UsageError where a hint it names is gone."""
        return self._read_value(FILES[Brief].format(name), Brief)

    def write_source(self, name: str, text: str) -> str:
        """Write a source; return its SHA-256."""
        write_file(self.candidate(name) / "source.cu", text)
        return _sha(text)

    def source(self, attempt: str) -> str:
        """Return a candidate's source; empty where it has none."""
        return read_text(self.candidate(attempt) / "source.cu") or ""

    def same_source(self, attempt: str, sha: str) -> str:
        """Return a candidate's source of that SHA-256. Raises UsageError where it is lost."""
        text = self.source(attempt)
        if _sha(text) != sha:
            path = self.candidate(attempt) / "source.cu"
            raise UnusableFile(path, "not the source that was judged", "restore it, then resume")
        return text

    def write_draft(self, name: str, draft: Draft | NoCode) -> None:
        """Write a generator's answer to a brief."""
        if isinstance(draft, NoCode):
            write_json(self.candidate(name) / "draft.json", encode_verdict(draft))
            return
        sha = self.write_source(name, draft.source)
        about = {"idea": draft.idea, "tunables": encode(draft.tunables), "source_sha": sha}
        write_json(self.candidate(name) / "draft.json", about)

    def draft(self, name: str) -> Draft | NoCode | None:
        """Return a generator's answer; None where there is none yet.

        Raises UsageError where the source is no longer what it answered.
        """
        path = self.candidate(name) / "draft.json"
        about = read_json(path)
        try:
            if about is None:
                return None
            if about.get("code") == NoCode.code:
                refused = decode_verdict(about)
                return refused if isinstance(refused, NoCode) else None
            return decode(Draft, {"source": self.same_source(name, about["source_sha"]), **about})
        except UNFIT:
            raise broken(path) from None

    def keep_file(self, name: str, file: str, made: Path) -> None:
        """Copy a tool's file to a candidate's folder. Raises UsageError where it cannot."""
        copy_file(self.candidate(name) / file, made)

    def write_build_log(self, name: str, lines: Sequence[str]) -> None:
        """Write the compiler's messages, where there are any."""
        if lines:
            write_file(self.candidate(name) / "build.log", "\n".join(lines) + "\n")

    def write_verdict(self, name: str, verdict: Verdict) -> None:
        """Write a candidate's verdict; the profile of one that passed beside it."""
        fields = encode_verdict(verdict)
        if isinstance(verdict, Passed) and verdict.profile is not None:
            write_json(self.candidate(name) / "profile.json", fields.pop("profile"))
        write_json(self.candidate(name) / "verdict.json", fields)

    def kept_verdict(self, name: str) -> Verdict | None:
        """Return a candidate's verdict; None where it is not judged yet."""
        path = self.candidate(name) / "verdict.json"
        fields = read_json(path)
        try:
            if fields is None:
                return None
            if fields["code"] == Passed.code and "profile" not in fields:
                path = path.with_name("profile.json")
                fields["profile"] = read_json(path)
            return decode_verdict(fields)
        except UNFIT:
            raise broken(path) from None

    def usable(self, read: Callable[[str], T], name: str) -> T | None:
        """Return what `read` reads of that name; None also where the file is broken."""
        try:
            return read(name)
        except UsageError as error:
            _log.warning("a file of the run is of no use", error=str(error))
            return None

    def verdict(self, attempt: str) -> Verdict:
        """Return a candidate's verdict. Raises KeyError where it is not judged yet."""
        found = self.kept_verdict(attempt)
        if found is None:
            raise KeyError(attempt)
        return found

    def write_attempt(self, attempt: Attempt) -> None:
        """Write a judged candidate in one line."""
        self._looked_up.pop((Attempt, attempt.id), None)
        write_json(self.candidate(attempt.id) / "attempt.json", encode(attempt))

    def attempt(self, name: str) -> Attempt | None:
        """Return a judged candidate in one line; None where it is not judged yet."""
        return self._read_value(FILES[Attempt].format(name), Attempt)

    def load_reply(self, call: str) -> Reply | None:
        """Return the reply of a call; None where it has none that can be read."""
        return self.usable(lambda name: self._read_value(f"{name}/reply.json", Reply), call)

    def write_prompt(self, call: Call) -> None:
        """Write the prompt of a call. A prompt without a reply is a call that never ended."""
        parts = [f"## {message.role}\n\n{message.text.rstrip()}\n" for message in call.messages]
        write_file(self._below(call.id) / "prompt.md", "\n".join(parts))

    def prompt(self, call: str) -> tuple[Message, ...]:
        """Return the messages of a call's prompt; none where there is no such prompt."""
        parts = _ROLE.split(read_text(self._below(call) / "prompt.md") or "")[1:]
        return tuple(
            decode(Message, {"role": role, "text": text.strip("\n")})
            for role, text in zip(parts[::2], parts[1::2], strict=True)
        )

    def write_body(self, call: str, body: bytes) -> None:
        """Write an answer as it came; it goes when its reply is written."""
        write_file(self._below(call) / BODY, body)

    def load_body(self, call: str) -> bytes | None:
        """Return the answer as it came; None where there is none, or its reply is written."""
        path = self._below(call) / BODY
        return path.read_bytes() if path.is_file() else None

    def write_reply(self, call: str, reply: Reply) -> None:
        """Write a reply; reply.json first, because it is what says that the call is over."""
        write_json(self._below(call) / "reply.json", encode(reply))
        write_file(self._below(call) / "reply.md", reply.text)
        (self._below(call) / BODY).unlink(missing_ok=True)

    def _below(self, name: str) -> Path:
        """Return a path inside the run. Raises UsageError for a name that could leave it."""
        if not all(_NAME.fullmatch(part) for part in name.split("/")):
            raise UsageError(f"{name!r}: expected names of letters, digits, `_`, `-` and `.`")
        return self.path / name

    def _read_value(self, name: str, kind: type[T]) -> T | None:
        path = self._below(name)
        data = read_json(path, self.remedy)
        try:
            return None if data is None else self._decode(kind, data)
        except UNFIT:
            raise broken(path, self.remedy) from None

    def _decode(self, kind: type[T], data: Any) -> T:
        if kind is Brief:
            hints = {
                name: [self.look_up(Hint, one) for one in data.get(name, ())] for name in HINTS
            }
            data = {**data, **hints}
        return decode(kind, data)


def _sha(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()


def _natural(name: str) -> tuple[tuple[bool, int, str], ...]:
    """Return a sort key in which digits count as numbers."""
    parts = re.findall(r"\d+|\D+", name)
    return tuple((part.isdigit(), int(part) if part.isdigit() else 0, part) for part in parts)
