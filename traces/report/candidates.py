"""One candidate for its pane: brief, answer, verdict, times, profile and the texts they came from.

A file that is gone or damaged costs what it held and one line of `missing`, never the rest.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from cuda_llm.codec import encode
from cuda_llm.errors import UnusableFile, UsageError, describe_error
from cuda_llm.figure_wording import describe_dims, describe_share, name_sizes
from cuda_llm.outcomes import NoCode, Passed
from cuda_llm.profile import Bottleneck, LaunchProfile, Profile
from cuda_llm.redaction import printable
from cuda_llm.search import Attempt, Brief
from cuda_llm.traces.files import read_text
from cuda_llm.traces.report.view import CandidateView
from cuda_llm.traces.run_folder import RunFolder
from cuda_llm.traces.run_text import describe_brief
from cuda_llm.traces.text import describe_circumstances, describe_idea
from cuda_llm.verdict_wording import describe, phrase

T = TypeVar("T")
PANES = {"prompt": "prompt.md", "reply": "reply.md", "source": "source.cu", "log": "build.log"}
"""Text panes and their files in the folder of a candidate."""


class CandidateReader:
    """Reads the files of a run, and remembers in one line each what could not be read."""

    def __init__(self, run: RunFolder) -> None:
        self.run = run
        self.missing: dict[str, None] = {}
        self.texts: dict[str, str] = {}
        """Every text that a pane shows, by its name, unable to control what shows it."""

    def read(self, found: Callable[[], T]) -> T | None:
        """Return what `found` reads, None where that is gone or broken."""
        try:
            return found()
        except UnusableFile as error:
            place = error.path.relative_to(self.run.path)
            self.missing[f"{place}: {error.what}" if place.parts else error.what] = None
        except (UsageError, OSError, KeyError, ValueError) as error:
            self.missing[describe_error(error)] = None
        return None

    def keep_text(self, name: str, file: str) -> str:
        """Keep the text of a file under `name`; return the name, or nothing without a text."""
        text = self.read(lambda: read_text(self.run.path / file))
        if not text:
            return ""
        self.texts[name] = harmless(text)
        return name


def harmless(text: str) -> str:
    """Return the text with its lines and tabs, every other control character made visible."""
    if text.isprintable():
        return text
    lines = text.replace("\r\n", "\n").split("\n")
    return "\n".join(
        line if line.isprintable() else "\t".join(printable(part) for part in line.split("\t"))
        for line in lines
    )


def view_candidate(
    reader: CandidateReader, name: str, brief: Brief | None, attempt: Attempt | None, generator: str
) -> CandidateView:
    """Return all that is known of one candidate."""
    run = reader.run
    verdict = reader.read(lambda: run.kept_verdict(name))
    profile = verdict.profile if isinstance(verdict, Passed) else None
    if verdict is not None:
        lines = tuple(harmless(line) for line in describe(verdict))
    else:
        lines = (harmless(attempt.summary),) if attempt else ()
    if attempt is not None and attempt.source_sha:
        sha = attempt.source_sha
        reader.read(lambda: run.same_source(name, sha))
    if attempt is not None and attempt.times_us and verdict is not None and profile is None:
        reader.missing[f"candidates/{name}/profile.json: gone"] = None
    known = brief or attempt
    folder = f"candidates/{name}"
    texts = {
        pane: reader.keep_text(f"{folder}/{pane}", f"{folder}/{file}")
        for pane, file in PANES.items()
    }
    hints = (*brief.error_hints, *brief.performance_hints) if brief else ()
    return CandidateView(
        id=name,
        order=harmless(describe_brief(known, generator)) if known else "",
        hints=tuple((one.id, one.code, harmless(one.text)) for one in hints),
        history=brief.history if brief else (),
        answer=harmless(_answer(reader, name, attempt)),
        verdict=lines,
        checked=_checked(profile),
        times=tuple(_times(profile)) if profile else (),
        profile=_profile(profile) if profile else None,
        texts={pane: key for pane, key in texts.items() if key},
    )


def _answer(reader: CandidateReader, name: str, attempt: Attempt | None) -> str:
    if attempt is not None and (attempt.idea or attempt.tunables):
        return describe_idea(attempt.idea, attempt.tunables)
    draft = reader.read(lambda: reader.run.draft(name))
    if isinstance(draft, NoCode):
        return f"no kernel ({draft.kind}): {describe(draft)[0]}"
    return describe_idea(draft.idea, draft.tunables) if draft is not None else ""


def _checked(profile: Profile | None) -> str:
    if profile is None or not profile.checked:
        return ""
    return ", ".join(f"{value:,} {name}" for name, value in profile.checked.items())


def _times(profile: Profile) -> Iterable[Mapping[str, Any]]:
    labels = name_sizes([size.dims for size in profile.sizes])
    for label, size in zip(labels, profile.sizes, strict=True):
        yield {
            "label": label,
            "dims": describe_dims(size.dims),
            "us": encode(size.time_us),
            "baseline_us": encode(size.baseline_us),
            "spread": size.spread,
            "baseline_spread": size.baseline_spread,
            "speedup": encode(size.speedup),
            "low": size.speedup_low,
            "high": size.speedup_high,
            "outcome": size.outcome,
            "source": size.source,
            "l2": size.l2,
            "note": harmless(size.note),
        }


def _profile(profile: Profile) -> Mapping[str, Any]:
    return {
        "device": profile.device,
        "source": profile.source,
        "bottlenecks": [_bottleneck(one) for one in profile.bottlenecks],
        "launches": [_launch(one) for one in profile.launches],
        "resources": [
            {
                "kernel": harmless(one.kernel),
                "registers": one.registers,
                "shared": one.shared_bytes,
                "spilled": one.spill_store_bytes + one.spill_load_bytes,
            }
            for one in profile.resources
        ],
        "circumstances": describe_circumstances(profile.sizes),
        "isolation": harmless(profile.isolation),
    }


def _bottleneck(found: Bottleneck) -> Mapping[str, Any]:
    return {
        "code": found.code,
        "share": found.share,
        "worth": describe_share(found),
        "text": harmless(found.explanation),
        "spot": harmless(phrase(found.spot)) if found.spot else "",
        "line": found.spot.line if found.spot else 0,
        "advice": harmless(found.advice),
    }


def _launch(one: LaunchProfile) -> Mapping[str, Any]:
    return {
        "kernel": harmless(one.kernel),
        "grid": " x ".join(f"{count:,}" for count in one.grid),
        "block": " x ".join(f"{count:,}" for count in one.block),
        "shared": one.shared_bytes,
        "occupancy": one.occupancy,
        "us": encode(one.time_us),
        "terms": encode(one.terms_us),
        "figures": encode(one.figures),
        "dram_bytes": encode(one.figures.get("dram_bytes")),
    }
