"""Runs compute-sanitizer at small sizes, and reads its output as verdicts. The texts are those of
version 2025.3."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from cuda_llm.outcomes import (
    AccessKind,
    DataRace,
    IllegalAccess,
    Location,
    MemoryAccess,
    MemorySpace,
    Misaligned,
    RaceKind,
    Relation,
    ThreadSpot,
    UninitialisedRead,
    Verdict,
)
from cuda_llm.source_file import SourceSpot
from cuda_llm.tools.compiler.names import without_parameters
from cuda_llm.tools.compiler.nvcc import SOURCE, Toolkit
from cuda_llm.tools.cuda.vendor_tools import ToolRun, run_untrusted, works_confined
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.device.inspection import SanitizerResult

_INVALID = re.compile(r"Invalid __(\w+)__ (read|write|atomic\w*) of size (\d+)")
_UNINITIALISED = re.compile(r"Uninitialized __(\w+)__ memory read of size (\d+)")
_RACE = re.compile(r"Error: Race reported between (\w+) access at (.+)")
_ADDRESS = re.compile(r"Access to (0x[0-9a-f]+) is")
_MISALIGNED = re.compile(r"Access to 0x[0-9a-f]+ is misaligned")
_NEAREST = re.compile(r"nearest allocation at (?P<address>0x[0-9a-f]+) of size (?P<size>\d+)")
_AND = re.compile(r"and (\w+) access at (.+?) \[(\d+) hazards?\]")
_AT = re.compile(r"^\s*(?:at|Device Frame:) (.+)")
_PLACE = re.compile(r"(?P<kernel>.+?)\+0x[0-9a-f]+(?: in (?P<file>.+):(?P<line>\d+))?\s*$")
_CAST = re.compile(r"(?<=[<, ])\([a-z ]+\)(?=[\w-])")
"""`add<(int)256>` is `add<256>` in every other tool."""
_BY = re.compile(r"by thread \((\d+),(\d+),(\d+)\) in block \((\d+),(\d+),(\d+)\)")

_SPACES: Mapping[str, MemorySpace] = {"global": "global", "shared": "shared", "local": "local"}
_ACCESSES: Mapping[str, AccessKind] = {"read": "read", "write": "write", "atomic": "atomic"}
_RACES: Mapping[tuple[str, str], RaceKind] = {
    ("write", "write"): "write-write",
    ("read", "write"): "read-write",
    ("write", "read"): "write-read",
}

_COMMENT = re.compile(r"//[^\n]*|/\*[\s\S]*?\*/")
_FUNCTION = re.compile(r"^(?=[^\n]*\.(?:entry|func)\b)", re.MULTILINE)
_ENTRY = re.compile(r"[^\n]*\.entry\s+(\w+)")
_UNFOLLOWED = re.compile(
    r"\b(?:(?:bar|barrier)(?:\.cta)?\.arrive\b|cp\.async\.bulk\.(?:tensor\.\dd\.)?shared)"
)
"""Pattern of an instruction whose order racecheck does not follow: an arrival at a block barrier,
and a bulk copy into shared memory, which an mbarrier awaits. Arrivals at mbarriers and at cluster
barriers, which racecheck follows, do not match. Racecheck 2025.3 reported races in 2 of 5 right
kernels with such copies (H200, 2026-11-29)."""
_EXIT_CODE = 86
_OPTIONS = (
    "--print-limit",
    "50",
    "--error-exitcode",
    str(_EXIT_CODE),
    "--show-backtrace",
    "device",
)
_OF_ONE = {
    "memcheck": ("--report-api-errors", "no"),
    "racecheck": ("--racecheck-report", "analysis"),
    "initcheck": (),
}
"""Options for each tool. API calls that CUDA refused are judged elsewhere: a candidate may have
found another way."""
_DOUBT = (
    "{} reports a race, but does not follow barriers at which some warps arrive without waiting "
    "(bar.arrive), nor bulk copies into shared memory (cp.async.bulk): the race counts unless the "
    "emulated device runs the kernel and finds nothing"
)


def read_findings(text: str, compiled: Compiled) -> tuple[Verdict, ...]:
    """Return every finding in `text`, in its order, each kind at a place once."""
    return _once_a_place(_blocks(text), compiled)


def _once_a_place(blocks: Sequence[list[str]], compiled: Compiled) -> tuple[Verdict, ...]:
    found: dict[tuple[str, str], Verdict] = {}
    for block in blocks:
        verdict = _verdict(block, compiled)
        if verdict is not None:
            found.setdefault((verdict.code, str(getattr(verdict, "spot", ""))), verdict)
    return tuple(found.values())


def _split_races(text: str, compiled: Compiled) -> tuple[tuple[Verdict, ...], tuple[Verdict, ...]]:
    """Return the findings that count, and the races that the tool may have made up.

    A race is laid to the kernel it is reported in, or, where that is a function of its own, to
    every kernel of the program.
    """
    blocks = _blocks(text)
    if not any(_RACE.search(line) for block in blocks for line in block):
        return read_findings(text, compiled), ()
    unfollowed = _unfollowed_kernels(compiled)
    kernels = frozenset(compiled.kernel_names.values()) | unfollowed
    sure: list[list[str]] = []
    unsure: list[list[str]] = []
    for block in blocks:
        places = [
            match[2]
            for line in block
            for pattern in (_RACE, _AND)
            if (match := pattern.search(line))
        ]
        named = kernels.intersection(_place(place, compiled)[0] for place in places)
        doubted = bool(places) and bool((named or kernels) & unfollowed)
        (unsure if doubted else sure).append(block)
    return _once_a_place(sure, compiled), _once_a_place(unsure, compiled)


def _unfollowed_kernels(compiled: Compiled) -> frozenset[str]:
    """Return the kernels with an instruction whose order racecheck does not follow.

    Any kernel may call a function that is not inlined, so such an instruction in a function counts
    for all kernels.
    """
    symbols: set[str] = set()
    for part in _FUNCTION.split(_COMMENT.sub("", compiled.ptx.read_text(encoding="utf-8"))):
        if _UNFOLLOWED.search(part):
            entry = _ENTRY.match(part)
            symbols.update(compiled.kernel_names if entry is None else {entry[1]})
    return frozenset(compiled.kernel_names.get(symbol, symbol) for symbol in symbols)


def _blocks(text: str) -> list[list[str]]:
    """Split what the tool prints at its empty lines, which separate findings."""
    blocks: list[list[str]] = [[]]
    for line in text.splitlines():
        if not line.startswith("========="):
            continue
        content = line.removeprefix("=========").rstrip()
        if content.strip():
            blocks[-1].append(content)
        else:
            blocks.append([])
    return [block for block in blocks if block]


def _verdict(block: list[str], compiled: Compiled) -> Verdict | None:
    for index, line in enumerate(block):
        rest = block[index + 1 :]
        if match := _INVALID.search(line):
            return _invalid(match[1], match[2], int(match[3]), rest, compiled)
        if match := _UNINITIALISED.search(line):
            kernel, spot = _place_of(rest, compiled)
            access = MemoryAccess(space=_SPACES.get(match[1]), kind="read", bytes=int(match[2]))
            return UninitialisedRead(access=access, thread=_thread(rest, kernel), spot=spot)
        if match := _RACE.search(line):
            return _race(match[1], match[2], rest, compiled)
    return None


def _invalid(
    space: str, access: str, size: int, rest: list[str], compiled: Compiled
) -> IllegalAccess | Misaligned:
    kernel, spot = _place_of(rest, compiled)
    thread = _thread(rest, kernel)
    made = MemoryAccess(
        space=_SPACES.get(space),
        kind=_ACCESSES.get("atomic" if access.startswith("atomic") else access),
        bytes=size,
        location=_location(rest),
    )
    if any(_MISALIGNED.search(line) for line in rest):
        return Misaligned(access=made, thread=thread, spot=spot)
    return IllegalAccess(access=made, thread=thread, spot=spot)


def _race(first: str, at: str, rest: list[str], compiled: Compiled) -> DataRace | None:
    """Return a race by its hazard with the most occurrences."""
    others = [match for line in rest if (match := _AND.search(line))]
    if not others:
        return None
    worst = max(others, key=lambda match: int(match[3]))
    _, spot = _place(at, compiled)
    _, other = _place(worst[2], compiled)
    return DataRace(
        kind=_RACES.get((first.lower(), worst[1].lower()), "write-write"),
        hazards=sum(int(match[3]) for match in others),
        spot=spot,
        other=other,
    )


def _location(rest: list[str]) -> Location | None:
    """Return the place against the nearest allocation, whose address differs from run to run."""
    access = next((match for line in rest if (match := _ADDRESS.search(line))), None)
    nearest = next((match for line in rest if (match := _NEAREST.search(line))), None)
    if access is None or nearest is None:
        return None
    offset, size = int(access[1], 16) - int(nearest["address"], 16), int(nearest["size"])
    relation: Relation = "before-start" if offset < 0 else "inside" if offset < size else "past-end"
    return Location(relation=relation, owner="allocation", offset_bytes=offset, size_bytes=size)


def _place_of(rest: list[str], compiled: Compiled) -> tuple[str, SourceSpot | None]:
    """Return kernel and line of the nearest frame in the candidate's file, else of the nearest
    frame."""
    places = [_place(match[1], compiled) for line in rest if (match := _AT.match(line))]
    own = [place for place in places if place[1] is not None and place[1].file == compiled.name]
    return (own or places or [("", None)])[0]


def _place(text: str, compiled: Compiled) -> tuple[str, SourceSpot | None]:
    match = _PLACE.match(text.strip())
    if match is None:
        return without_parameters(text.strip()), None
    kernel = without_parameters(_CAST.sub("", match["kernel"]))
    if match["file"] is None:
        return kernel, None
    file, line = match["file"].rpartition("/")[2], int(match["line"])
    if file != SOURCE:
        return kernel, SourceSpot(file=file, line=line)
    return kernel, SourceSpot(file=compiled.name, line=line, text=_line(compiled, line))


def _line(compiled: Compiled, line: int) -> str:
    lines = compiled.source.splitlines()
    return lines[line - 1].strip() if 0 < line <= len(lines) else ""


def _thread(rest: list[str], kernel: str) -> ThreadSpot | None:
    for line in rest:
        if match := _BY.search(line):
            x, y, z, a, b, c = map(int, match.groups())
            return ThreadSpot(kernel=kernel, block=(a, b, c), thread=(x, y, z))
    return None


def summary_errors(text: str) -> int | None:
    """Return how many errors the tool counted; None where it came to no summary."""
    if match := re.search(r"ERROR SUMMARY: (\d+) error", text):
        return int(match[1])
    if match := re.search(r"RACECHECK SUMMARY: \d+ hazards? displayed \((\d+) errors?", text):
        return int(match[1])
    return None


async def sanitize(
    sanitizer: Path,
    tool: str,
    program: Sequence[str],
    compiled: Compiled,
    folder: Path,
    *,
    wall_s: float,
) -> SanitizerResult:
    """Run one tool on `program`, a driver's command. A tool that did not finish has no findings."""
    options = (*_OPTIONS, *_OF_ONE[tool])
    command = [str(sanitizer), "--tool", tool, *options, *program]
    run = await run_untrusted(command, folder, wall_s=wall_s)
    return read_result(tool, run, compiled, wall_s)


async def sanitizer_works_confined(
    sanitizer: Path, toolkit: Toolkit, target: str, *, wall_s: float
) -> bool:
    """Return whether memcheck runs a confined program on this machine without errors."""

    def is_right(run: ToolRun) -> bool:
        return run.exit_code == 0 and summary_errors(run.output) == 0

    options = ("--tool", "memcheck", *_OPTIONS)
    return await works_confined(sanitizer, options, is_right, toolkit, target, wall_s=wall_s)


def read_result(tool: str, run: ToolRun, compiled: Compiled, wall_s: float) -> SanitizerResult:
    """Return the result that a tool's output reports."""
    verdicts, doubted = _split_races(run.output, compiled)
    if verdicts or doubted:
        return SanitizerResult(
            tool=tool,
            state="found" if verdicts else "doubted",
            verdicts=verdicts,
            doubted=doubted,
            note=_DOUBT.format(tool) if doubted else "",
            missing=run.missing,
        )
    if run.timed_out:
        note = f"{tool} did not finish within {wall_s:.0f} s"
        return SanitizerResult(tool=tool, state="not finished", note=note, missing=run.missing)
    if run.exit_code == 0 and summary_errors(run.output) == 0:
        return SanitizerResult(tool=tool, state="clean", missing=run.missing)
    lines = [line.removeprefix("=========").strip() for line in run.output.splitlines()]
    output = [line for line in lines if line and line != "COMPUTE-SANITIZER"] or ["no output"]
    ours = [line for line in output if line.startswith("driver:")]
    note = f"{tool} gave no result (code {run.exit_code}): {(ours or output)[0][:200]}"
    return SanitizerResult(tool=tool, state="not run", note=note, missing=run.missing)
