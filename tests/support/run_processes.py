"""Runs in processes of their own that can be killed at any moment, started in a millisecond.

    with RunProcesses() as processes:
        processes.warm({"do": "start", "out": ..., "base_url": ...})
        pid = processes.begin({"do": "start", "out": ..., "base_url": ...})
        os.kill(pid, SIGKILL)
        assert processes.ended() == -SIGKILL

This file is also the program of the parent process: it makes one run itself, so that everything is
imported, then forks a child for each order on its stdin, and writes the child's pid and its exit
code. A run's generator and an agent ask the model at `base_url`; a table judges what is written.
"""

import asyncio
import json
import os
import subprocess
import sys
import traceback
from pathlib import Path
from types import TracebackType
from typing import Any, Self

AGENT = f"{Path(__file__).parents[2]}/examples/agents/second_opinion.py:second_opinion"


class RunProcesses:
    """Starts one run at a time, each in a process of its own."""

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            [sys.executable, "-P", __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.wait(timeout=240)
        self._process.stdout.close()

    def warm(self, order: dict[str, Any]) -> None:
        """Make a run in the parent process itself, before any other."""
        self._send(order)
        assert self._line() == "warm"

    def begin(self, order: dict[str, Any]) -> int:
        """Start a run; return its process id."""
        self._send(order)
        return int(self._line())

    def ended(self) -> int:
        """Wait for the run; return its exit code, negative for a signal."""
        return int(self._line())

    def _send(self, order: dict[str, Any]) -> None:
        assert self._process.stdin
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()

    def _line(self) -> str:
        assert self._process.stdout
        return self._process.stdout.readline().strip()


def serve() -> None:
    """Make the first order's run, then fork a child for each."""
    asyncio.run(work(json.loads(sys.stdin.readline())))
    print("warm", flush=True)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                asyncio.run(work(json.loads(line)))
                code = 0
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(code)
        print(child, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


async def work(order: dict[str, Any]) -> None:
    """Make one run, from its start or from where it was killed."""
    from graph_runs import TableBench
    from run_starts import asked, parts, the_run

    from cuda_llm.graph.runs.start import resume, start

    bench = TableBench(delay=lambda _name: order["stage_s"])
    brought = parts(bench=bench, generator=None, reflector=None)
    out = Path(order["out"])
    if order["do"] == "start":
        request = asked(
            out,
            model="scripted",
            agents=(AGENT,),
            agent_models={"second_opinion": "scripted"},
            base_url=order["base_url"],
            candidates=3,
            run_id="r",
        )
        await start(request, brought=brought)
    else:
        await resume(the_run(out), brought=brought)


if __name__ == "__main__":
    serve()
