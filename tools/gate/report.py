"""Words the outcome of a gate: lines for a terminal, Markdown for a review, JUnit XML for a CI."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from xml.etree import ElementTree

from cuda_llm.tools.gate.comparison import (
    Failure,
    Gated,
    GrownCount,
    LostSpeed,
    NotRecorded,
    WrongVerdict,
)

COUNTS = {
    "warp_instructions": "warp instructions",
    "l2_bytes": "bytes from L2",
    "dram_bytes": "bytes from DRAM",
    "bank_ways": "ways of bank conflicts a shared access, 1 without conflicts,",
    "registers": "registers a thread",
    "shared_bytes": "static shared bytes a block",
    "spill_load_bytes": "bytes of spill loads",
    "spill_store_bytes": "bytes of spill stores",
}
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML 1.0 cannot hold."""


@dataclass(frozen=True, kw_only=True)
class GateReport:
    """The outcome of a gate on one device."""

    device: str
    time_source: str
    """`measured` or `modelled`."""
    beside: str
    """`compared with` a recording or a commit, or `recorded in` a file."""
    gone: Sequence[str] = ()
    """Kernels that are recorded and that `kernels.toml` no longer names."""
    kernels: Sequence[Gated]

    @property
    def failed(self) -> int:
        """Return how many kernels fail."""
        return sum(bool(one.failures) for one in self.kernels)


def describe_failure(failure: Failure) -> str:
    """Return one line that says why a kernel fails, with the figures that decide it."""
    match failure:
        case WrongVerdict(found=found, accepted=accepted, lines=lines):
            why = f": {lines[0]}" if lines else ""
            return f"{found}, expected {accepted}{why}"
        case NotRecorded(what="kernel"):
            return "not recorded; cuda-llm gate --record records the kernel"
        case NotRecorded(what=what):
            return f"{what} is not recorded; cuda-llm gate --record records the size"
        case LostSpeed(before=before, now=now, error=error):
            return (
                f"slower: {now / before:.3f}x of the speed-up before, within {error:.1%} "
                f"({now:,.2f}x over the baseline, {before:,.2f}x before)"
            )
        case GrownCount(name=name, before=before, now=now, accepted=accepted, size=size):
            where = f" at {size}" if size else ""
            share = f" ({now / before - 1:+.1%}, accepted {accepted:.1%})" if before else ""
            return f"{COUNTS.get(name, name)}{where}: {now:,g}, before {before:,g}{share}"


def describe_change(gated: Gated) -> str:
    """Return `faster`, `slower` or `tie` with its figure; a dash where nothing was compared."""
    if gated.ratio is None:
        return "–"
    return f"{gated.change}: {gated.ratio:.3f}x within {gated.error:.1%}"


def speedup_of(gated: Gated) -> str:
    """Return the speed-up over the baseline; a dash where the kernel was not timed."""
    return "–" if gated.now.speedup is None else f"{gated.now.speedup:,.2f}x"


def lines(report: GateReport) -> list[str]:
    """Return the outcome for a terminal."""
    found = []
    for one in report.kernels:
        mark = "FAILED" if one.failures else "ok"
        found.append(
            f"{mark:<6} {one.name}: {one.now.verdict}, {speedup_of(one)} over the baseline, "
            f"{describe_change(one)}"
        )
        found += [f"       {describe_failure(failure)}" for failure in one.failures]
    return [*found, summary(report)]


def summary(report: GateReport) -> str:
    """Return what was compared with what, and how many kernels fail."""
    many = len(report.kernels)
    passed = f"{many - report.failed} of {many} kernel{'s' * (many != 1)} pass"
    gone = f"; recorded, but no longer named: {', '.join(report.gone)}" if report.gone else ""
    return f"{passed} on {report.device} ({report.time_source}), {report.beside}{gone}"


def markdown(report: GateReport) -> str:
    """Return the outcome as a table for a review."""
    head = (
        "| kernel | verdict | speed-up over the baseline | change | why it fails |",
        "|---|---|---|---|---|",
    )
    rows = [
        "| "
        + " | ".join(
            _cell(text)
            for text in (
                one.name,
                one.now.verdict,
                speedup_of(one),
                describe_change(one),
                "; ".join(map(describe_failure, one.failures)) or "–",
            )
        )
        + " |"
        for one in report.kernels
    ]
    mark = "❌" if report.failed else "✅"
    return "\n".join((f"### {mark} {summary(report)}", "", *head, *rows, ""))


def _cell(text: str) -> str:
    """Return a text that ends no cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def junit(report: GateReport) -> str:
    """Return the outcome as JUnit XML: one test case a kernel."""
    suite = ElementTree.Element(
        "testsuite",
        name=f"cuda-llm gate on {report.device}",
        tests=str(len(report.kernels)),
        failures=str(report.failed),
        errors="0",
        skipped="0",
    )
    for one in report.kernels:
        case = ElementTree.SubElement(suite, "testcase", classname="cuda-llm.gate", name=one.name)
        if one.failures:
            said = [describe_failure(failure) for failure in one.failures]
            for failure in one.failures:
                said += failure.lines[1:] if isinstance(failure, WrongVerdict) else ()
            found = ElementTree.SubElement(
                case, "failure", message=_NOT_XML.sub("?", said[0]), type=one.failures[0].code
            )
            found.text = _NOT_XML.sub("?", "\n".join(said))
        output = ElementTree.SubElement(case, "system-out")
        output.text = f"{speedup_of(one)} over the baseline, {describe_change(one)}"
    whole = ElementTree.Element("testsuites")
    whole.append(suite)
    ElementTree.indent(whole)
    return ElementTree.tostring(whole, encoding="unicode", xml_declaration=True) + "\n"
