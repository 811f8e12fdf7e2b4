"""The referee process: `python -P -m cuda_llm.tools.referee SOCKET LIFELINE
RECORDS LEVEL`.

Three are descriptors that the orchestrator left open: the socket to talk over, a pipe that it
never writes to, and a pipe for log records from LEVEL on.
"""

import asyncio
import fcntl
import os
import select
import signal
import socket
import sys

from cuda_llm.tools.referee.serve import serve


def main(connection: int, lifeline: int, records: int, level: int) -> int:
    """Serve until the orchestrator hangs up; end with it at once when it dies."""
    from cuda_llm.log_pipe import send_records

    die_with(lifeline)
    send_records(records, level, process="referee", pid=os.getpid())
    with socket.socket(fileno=connection) as ours:
        ours.set_inheritable(False)
        asyncio.run(serve(ours))
    return 0


def die_with(lifeline: int) -> None:
    """Have the kernel kill us when the other end of the pipe is closed.

    PR_SET_PDEATHSIG would do so when the *thread* that started us ends, and a run may be prepared
    on a thread of its own. This also works while a call into the driver does not return.
    """
    os.set_inheritable(lifeline, False)
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(lifeline, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(lifeline, fcntl.F_SETFL, fcntl.fcntl(lifeline, fcntl.F_GETFL) | os.O_ASYNC)
    watched = select.poll()
    watched.register(lifeline, select.POLLIN)
    if watched.poll(0):
        os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
