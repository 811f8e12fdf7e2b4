"""Runs one cuda-llm command and draws the calls between its files, as they really happened.

    python scripts/draw_calls.py evaluate vector_add kernel.cu
    python scripts/draw_calls.py --rooms run histogram --candidates 1 --rounds 1
    python scripts/draw_calls.py --from agents/reflection/reflector.py run histogram

Each line is a function that was called from another file (with --rooms: from another folder), below
its caller, in the order of first calls; calls within a file are folded into it, and calls of one
function from one place are counted. `^` marks a call that climbs: the file called is an ancestor
of the caller in the drawing, as where a callback is passed down. A task of asyncio and a thread
stand below the function that started them. The process that holds a GPU is drawn after the command;
the sandboxed runners of candidates hold no Python.
"""

import argparse
import contextlib
import contextvars
import opcode
import os
import pickle
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from inspect import CO_ASYNC_GENERATOR, CO_COROUTINE, CO_GENERATOR, CO_OPTIMIZED
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
OURS = ("src", "agents", "graph", "tools", "traces", "tasks", "hardware_profiles")

RECORDS = "DRAW_CALLS_RECORDS"
"""Variable of the environment: the folder that child processes write their calls to."""
VALUES = (
    "src/cuda_llm/outcomes.py",
    "src/cuda_llm/errors.py",
    "src/cuda_llm/log",
    "src/cuda_llm/settings.py",
)
"""Files of values, errors and log records, which everything calls: left out of drawings."""


@dataclass
class Call:
    """A function called from one place of the drawing, and what it called in turn."""

    file: str
    function: str
    times: int = 0
    below: dict[tuple[str, str], "Call"] = field(default_factory=dict)

    def enter(self, file: str, function: str) -> "Call":
        """Return the call of that function below this one, made at its first use."""
        return self.below.setdefault((file, function), Call(file, function))


class Recorder:
    """Records calls of the project's functions while it is installed as the profiler."""

    def __init__(self) -> None:
        self.root = Call("", "")
        self._files: dict[CodeType, str] = {}
        self._frames: dict[FrameType, Call] = {}
        self._current: contextvars.ContextVar[Call] = contextvars.ContextVar("call")

    def install(self) -> None:
        """Record in this thread and in those that it starts."""
        threading.setprofile(self._on_event)
        sys.setprofile(self._on_event)

    def remove(self) -> None:
        """Stop recording in this thread and in new ones."""
        sys.setprofile(None)
        threading.setprofile(None)

    def _on_event(self, frame: FrameType, event: str, _argument: Any) -> None:
        if event == "call":
            self._enter(frame)
        elif event == "return" and frame in self._frames and not _is_suspended(frame):
            call = self._frames.pop(frame)
            self._current.set(call)

    def _enter(self, frame: FrameType) -> None:
        file = self._file(frame.f_code)
        name = frame.f_code.co_name
        is_body = not frame.f_code.co_flags & CO_OPTIMIZED  # of a module or a class
        if not file or is_body or name.startswith(("<", "__")) or frame in self._frames:
            return
        parent = self._caller(frame)
        call = parent.enter(file, frame.f_code.co_qualname.replace(".<locals>", ""))
        call.times += 1
        self._frames[frame] = call
        self._current.set(call)

    def _caller(self, frame: FrameType) -> Call:
        """Return the call that `frame` was made in: by its stack, else by who started its task."""
        above = frame.f_back
        while above is not None:
            if above in self._frames:
                return self._frames[above]
            above = above.f_back
        return self._current.get(self.root)

    def _file(self, code: CodeType) -> str:
        """Return the path of a function of ours below the repository; empty for others."""
        if code not in self._files:
            path = Path(os.path.realpath(code.co_filename))
            inside = path.is_relative_to(ROOT) and path.relative_to(ROOT).parts[0] in OURS
            self._files[code] = str(path.relative_to(ROOT)) if inside else ""
        return self._files[code]


def record_children(folder: Path) -> None:
    """Record each Python process that starts from now on and runs a module of ours."""
    (folder / "sitecustomize.py").write_text(
        f"import sys\nsys.path.append({str(ROOT / 'scripts')!r})\n"
        "import draw_calls\ndraw_calls.record_this_process()\n"
    )
    known = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(folder), *filter(None, [known])])
    os.environ[RECORDS] = str(folder)


def record_this_process() -> None:
    """Record a process that runs a module of ours, from its start on; leave others alone."""
    module = sys.orig_argv[sys.orig_argv.index("-m") + 1] if "-m" in sys.orig_argv else ""
    if not module.startswith("cuda_llm"):
        return
    record = Path(os.environ[RECORDS], f"{os.getpid()}.calls")
    recorder = Recorder()
    threading.Thread(target=_keep_writing, args=(recorder, module, record), daemon=True).start()
    recorder.install()


def _keep_writing(recorder: Recorder, module: str, record: Path) -> None:
    """Write what is recorded again and again: a process that holds a GPU is killed at its end."""
    part = record.with_suffix(".part")
    while True:
        time.sleep(0.1)
        with contextlib.suppress(RuntimeError):  # a call was added meanwhile
            part.write_bytes(pickle.dumps((module, recorder.root)))
            part.replace(record)


def children_calls(folder: Path) -> Iterator[tuple[str, Call]]:
    """Yield the module and the calls of each process that was recorded."""
    for record in sorted(folder.glob("*.calls")):
        yield pickle.loads(record.read_bytes())


def _is_suspended(frame: FrameType) -> bool:
    """Return whether a coroutine or generator only pauses at this return: it may be resumed."""
    if not frame.f_code.co_flags & (CO_GENERATOR | CO_COROUTINE | CO_ASYNC_GENERATOR):
        return False
    code, last = frame.f_code.co_code, frame.f_lasti
    name = opcode.opname[code[last]]
    return name in {"YIELD_VALUE", "SEND", "ASYNC_GEN_WRAP", "RESUME", "RETURN_GENERATOR"}


def fold(call: Call, *, rooms: bool) -> Call:
    """Return the call with calls within its own file (or folder) folded into it."""
    folded = Call(call.file, call.function, call.times)
    for below in _hoisted(call, _place(call.file, rooms=rooms), rooms=rooms):
        inner = fold(below, rooms=rooms)
        _add(folded, inner)
    return folded


def _hoisted(call: Call, place: str, *, rooms: bool) -> Iterator[Call]:
    for below in call.below.values():
        if _place(below.file, rooms=rooms) == place:
            yield from _hoisted(below, place, rooms=rooms)
        else:
            yield below


def _add(call: Call, below: Call) -> None:
    known = call.enter(below.file, below.function)
    known.times += below.times
    for inner in below.below.values():
        _add(known, inner)


def _place(file: str, *, rooms: bool) -> str:
    return str(Path(file).parent) if rooms else file


def find(call: Call, file: str, function: str) -> Iterator[Call]:
    """Yield the topmost calls of a file's function; of every function where it is empty."""
    if call.file.endswith(file) and function in {"", call.function}:
        yield call
        return
    for below in call.below.values():
        yield from find(below, file, function)


def without_leaves(call: Call) -> Call:
    """Return the call without those below it that call nothing in another place themselves."""
    kept = Call(call.file, call.function, call.times)
    for key, below in call.below.items():
        if below.below:
            kept.below[key] = without_leaves(below)
    return kept


def leading_to(call: Call, place: str) -> Call:
    """Return the call with those of its calls alone that lead to a `FILE:START` of a function."""
    path, _, function = place.partition(":")
    kept = Call(call.file, call.function, call.times)
    for key, below in call.below.items():
        if below.file.startswith(path) and below.function.startswith(function):
            kept.below[key] = Call(below.file, below.function, below.times)
        elif (leads := leading_to(below, place)).below:
            kept.below[key] = leads
    return kept


def draw(
    call: Call, indent: str, above: tuple[str, ...], skip: frozenset[str], depth: int
) -> Iterator[str]:
    """Yield the lines of a drawing: file, function, how often."""
    shown = call.file.removeprefix("src/cuda_llm/")
    climbs = " ^" if call.file in above else ""
    times = f" x{call.times}" if call.times > 1 else ""
    yield f"{indent}{shown}: {call.function}{times}{climbs}"
    if depth == 0:
        return
    for below in call.below.values():
        if not any(below.file.startswith(one) for one in skip):
            yield from draw(below, indent + "  ", (*above, call.file), skip, depth - 1)


def main() -> None:
    """Draw the command that the command line names."""
    layout = argparse.RawTextHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=layout)
    parser.add_argument("--rooms", action="store_true", help="fold whole folders, not files")
    parser.add_argument("--from", dest="start", default="", metavar="FILE[:FUNCTION]")
    parser.add_argument(
        "--to", default="", metavar="PATH[:START]", help="only calls that lead there"
    )
    parser.add_argument("--skip", action="append", default=[], metavar="PATH", help="leave out")
    parser.add_argument("--leaves", action="store_true", help="show calls that call no further")
    parser.add_argument("--depth", type=int, default=99, help="levels below the first")
    parser.add_argument("command", nargs=argparse.REMAINDER, help="what follows cuda-llm")
    arguments = parser.parse_args()
    from cuda_llm.__main__ import main as run_command

    recorder = Recorder()
    with tempfile.TemporaryDirectory() as folder:
        record_children(Path(folder))
        sys.argv = ["cuda-llm", *arguments.command]
        recorder.install()
        try:
            run_command()
        except SystemExit as ended:
            print(f"(ended with {ended.code})", file=sys.stderr)
        finally:
            recorder.remove()
        roots = [("", recorder.root), *children_calls(Path(folder))]
    start, _, function = arguments.start.partition(":")
    skip = frozenset([*VALUES, *arguments.skip])
    for module, root in roots:
        tops = list(find(root, start, function)) if start else list(root.below.values())
        top = Call("", "")
        for one in tops:
            _add(top, one)
        if module and top.below:
            print(f"\nprocess {module}")
        for call in top.below.values():
            shown = fold(call, rooms=arguments.rooms)
            if arguments.to:
                shown = leading_to(shown, arguments.to)
            elif not arguments.leaves:
                shown = without_leaves(shown)
            print(*draw(shown, "", (), skip, arguments.depth), sep="\n")


if __name__ == "__main__":
    main()
