"""Reads what nvcc and the programs it runs print: messages, why they failed, kernels' resources."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cuda_llm.outcomes import BuildFault, CompileFailed, CompilerStop, Diagnostic
from cuda_llm.profile import KernelResources
from cuda_llm.tools.compiler.build_faults import find_fault, with_fault
from cuda_llm.tools.compiler.names import OUTSIDE, PathNames, demangle, without_parameters
from cuda_llm.tools.compiler.nvcc import PTX
from cuda_llm.tools.device.candidate import CompileRequest
from cuda_llm.tools.sandbox.jail import JailResult

MOST_DIAGNOSTICS = 20
MOST_MESSAGE_CHARACTERS = 400
MOST_TOTAL_CHARACTERS = 6000

EDG = re.compile(
    r"(?P<file>[^\s(][^(]*)\((?P<line>\d+)\): (?P<severity>catastrophic error|error|warning)"
    r"(?: #\d+(?:-D)?)?: (?P<message>.*)"
)
AT_END = re.compile(
    r"At end of source: (?P<severity>catastrophic error|error|warning)(?: #\d+(?:-D)?)?: "
    r"(?P<message>.*)"
)
OPENED = re.compile(r"(?P<file>[^\s(][^(]*)\((?P<line>\d+)\): note #3196-D: .*")
"""Names the bracket that is not closed, behind a message about the end of the source."""
GCC = re.compile(
    r"(?P<file>[^\s:][^:]*):(?P<line>\d+):(?:\d+:)? "
    r"(?P<severity>fatal error|error|warning|Error|Warning): (?P<message>.*)"
)
PTXAS_LINE = re.compile(
    r"ptxas (?P<file>.+), line (?P<line>\d+); (?P<severity>error|warning|fatal)\s*: (?P<message>.*)"
)
TOOL = re.compile(
    r"(?P<tool>ptxas|nvcc|nvlink|cicc|cudafe\+\+)\s+(?P<severity>error|fatal|warning)\s*: "
    r"(?P<message>.*)"
)
LINKER = re.compile(r"(?:\S*/)?ld: (?P<message>.*)")
TOOL_OF_PATTERN = {EDG: "nvcc", AT_END: "nvcc", GCC: "g++", PTXAS_LINE: "ptxas", LINKER: "ld"}

MANGLED = re.compile(r"\b_Z\w+")

SUMMARY = ("Ptx assembly aborted", "ld returned ", "error detected", "errors detected")

ENTRY = re.compile(r"Compiling entry function '([^']+)'")
FRAME = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
USED = re.compile(r"Used (\d+) registers")
SHARED = re.compile(r"(\d+) bytes smem")
CONSTANT = re.compile(r"(\d+) bytes cmem")


@dataclass(frozen=True, kw_only=True)
class Diagnostics:
    """Errors in their order, then warnings in their order, bounded in number."""

    messages: tuple[Diagnostic, ...]
    omitted: int
    """Number of messages that were left out."""

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """Return the errors alone."""
        return tuple(d for d in self.messages if d.severity == "error")

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """Return the warnings alone."""
        return tuple(d for d in self.messages if d.severity == "warning")


def parse_diagnostics(output: str, places: PathNames) -> Diagnostics:
    """Return every message of `output`, once each."""
    found: list[Diagnostic] = []
    for line in output.splitlines():
        diagnostic = _parse(line, places)
        if diagnostic is not None:
            found.append(diagnostic)
        elif found and found[-1].spot is None and (opened := OPENED.fullmatch(line.rstrip())):
            spot = places.spot(opened["file"], int(opened["line"]))
            found[-1] = replace(found[-1], spot=spot)
        elif found and line.startswith(" " * 10) and line.strip(" ^"):
            # EDG breaks long messages onto deeply indented lines.
            last = found[-1]
            found[-1] = replace(last, message=f"{last.message}; {line.strip()}")
    return limit_diagnostics(dict.fromkeys(found))


async def demangle_messages(diagnostics: Diagnostics, places: PathNames) -> Diagnostics:
    """Demangle function names in messages, find their lines in the source, and add the fault of
    each message.

    ptxas prints mangled symbols.
    """
    symbols = {s for d in diagnostics.messages for s in MANGLED.findall(d.message)}
    names = await demangle(sorted(symbols))
    messages = (with_fault(_named(one, names, places)) for one in diagnostics.messages)
    return replace(diagnostics, messages=tuple(messages))


def _named(diagnostic: Diagnostic, names: Mapping[str, str], places: PathNames) -> Diagnostic:
    found = MANGLED.search(diagnostic.message)
    if found is None:
        return diagnostic
    return replace(
        diagnostic,
        message=MANGLED.sub(lambda match: names[match[0]], diagnostic.message),
        spot=diagnostic.spot or places.definition(names[found[0]]),
    )


def limit_diagnostics(diagnostics: Iterable[Diagnostic]) -> Diagnostics:
    """Return errors first, then warnings, cut to a length for a person or a prompt."""
    ordered = sorted(diagnostics, key=lambda diagnostic: diagnostic.severity != "error")
    shown: list[Diagnostic] = []
    room = MOST_TOTAL_CHARACTERS
    for diagnostic in ordered[:MOST_DIAGNOSTICS]:
        message = diagnostic.message
        if len(message) > MOST_MESSAGE_CHARACTERS:
            message = message[:MOST_MESSAGE_CHARACTERS] + " ..."
        room -= len(message) + len(diagnostic.spot.text if diagnostic.spot else "")
        if room < 0:
            break
        shown.append(replace(diagnostic, message=message))
    return Diagnostics(messages=tuple(shown), omitted=len(ordered) - len(shown))


def _parse(line: str, places: PathNames) -> Diagnostic | None:
    for pattern in (PTXAS_LINE, TOOL, EDG, AT_END, GCC, LINKER):
        match = pattern.fullmatch(line.rstrip())
        if match is None or any(words in line for words in SUMMARY):
            continue
        parts = match.groupdict()
        severity = "warning" if parts.get("severity", "").lower() == "warning" else "error"
        file, number = parts.get("file"), int(parts.get("line") or 0)
        if pattern is LINKER and not re.search(r"error|undefined|multiple|cannot", line):
            return None
        if pattern is PTXAS_LINE and file is not None:
            file, number = _ptx_origin(places.folder / PTX, number)
        spot = places.spot(file, number) if file else None
        message = parts["message"]
        if pattern is AT_END:
            message = f"{message} at the end of the file"
        if spot is not None and spot.file == OUTSIDE:
            message = "this file is outside the kernel's folder"
        return Diagnostic(
            severity=severity,
            message=places.clean(message),
            spot=spot,
            tool=parts.get("tool") or TOOL_OF_PATTERN[pattern],
        )
    return None


def _ptx_origin(ptx: Path, line: int) -> tuple[str | None, int]:
    """Return the source file and line that a line of the PTX was generated from."""
    try:
        text = ptx.read_text(errors="replace").splitlines()
    except OSError:
        return None, 0
    files = {n: file for n, file in _matches(r'\s*\.file\s+(\d+)\s+"([^"]+)"', text)}
    for n, at in reversed(list(_matches(r"\s*\.loc\s+(\d+)\s+(\d+)", text[:line]))):
        return files.get(n), int(at)
    return None, 0


def _matches(pattern: str, lines: Sequence[str]) -> Iterable[tuple[str, str]]:
    return ((m[1], m[2]) for line in lines if (m := re.match(pattern, line)))


def compile_failed(
    result: JailResult, diagnostics: Diagnostics, places: PathNames
) -> CompileFailed:
    """Return the verdict on a source that nvcc refuses, the first error as its reason."""
    failed = CompileFailed(diagnostics=diagnostics.messages, omitted=diagnostics.omitted)
    errors = diagnostics.errors
    if any(_is_about_signature(error.message, error.spot) for error in errors):
        wanted = declaration(places.request)
        return replace(failed, fault="signature", declaration=wanted)
    if errors:
        return failed
    last = places.clean(result.stderr.text).strip().splitlines()[-1:]
    if not last:
        stop = CompilerStop(kind="exit-code", program="nvcc", exit_code=result.exit_code)
        return replace(failed, stop=stop)
    fault: BuildFault | None
    fault, _ = find_fault(last[0][:300])
    return replace(failed, compiler_output=last[0][:300], fault=fault)


def declaration(request: CompileRequest) -> str:
    """Return the declaration of `solve` in the prelude on one line; empty without a declaration."""
    found = re.search(r"[^;{}#\n]*\bsolve\s*\([^;]*\)", request.prelude)
    return " ".join(found[0].split()) if found else ""


def _is_about_signature(message: str, spot: object) -> bool:
    if '"solve' in message and re.search(r"overloaded|linkage|incompatible", message):
        return True
    clash = "distinguished by return type" in message
    return clash and re.search(r"\bsolve\s*\(", getattr(spot, "text", "")) is not None


def parse_resources(lines: Iterable[str]) -> tuple[KernelResources, ...]:
    """Read kernels in ptxas's order, named by their symbols; device functions are left out."""
    found: list[KernelResources] = []
    symbol, frame = "", (0, 0, 0)
    for line in lines:
        if entry := ENTRY.search(line):
            symbol = entry[1]
        elif numbers := FRAME.search(line):
            frame = (int(numbers[1]), int(numbers[2]), int(numbers[3]))
        elif symbol and (used := USED.search(line)):
            shared = SHARED.search(line)
            found.append(
                KernelResources(
                    kernel=symbol,
                    symbol=symbol,
                    registers=int(used[1]),
                    shared_bytes=int(shared[1]) if shared else 0,
                    stack_bytes=frame[0],
                    spill_store_bytes=frame[1],
                    spill_load_bytes=frame[2],
                    constant_bytes=sum(int(size) for size in CONSTANT.findall(line)),
                )
            )
            symbol = ""
    return tuple(found)


async def name_kernels(kernels: Iterable[KernelResources]) -> tuple[KernelResources, ...]:
    """Set each `kernel` to its name in the source, without parameters: `tile<4>`."""
    kernels = tuple(kernels)
    names = await demangle([kernel.symbol for kernel in kernels])
    return tuple(
        replace(kernel, kernel=without_parameters(names[kernel.symbol])) for kernel in kernels
    )
