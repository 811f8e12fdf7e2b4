"""Several commands on all cores; none outlives the call."""

import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence

POLL_S = 0.005


def run_together(commands: Sequence[Sequence[str]], environment: Mapping[str, str]) -> str | None:
    """Run the commands, as many at once as there are cores.

    Returns None when all succeed, else what the first failing one wrote to stderr; the others are
    ended then, as they are when an exception (Ctrl-C) comes in between.
    """
    waiting = list(reversed(commands))
    running: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryFile() as stderr:
        try:
            while waiting or running:
                while waiting and len(running) < (os.cpu_count() or 1):
                    running.append(
                        subprocess.Popen(
                            waiting.pop(),
                            stdin=subprocess.DEVNULL,
                            stdout=subprocess.DEVNULL,
                            stderr=stderr,
                            env=environment,
                            process_group=0,
                        )
                    )
                time.sleep(POLL_S)
                for process in [one for one in running if one.poll() is not None]:
                    running.remove(process)
                    if process.returncode != 0:
                        stderr.seek(0)
                        return stderr.read().decode(errors="replace")
        finally:
            for process in running:
                # The compiler proper is a child of the driver we started.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    return None
