"""Entry point of the `cuda-llm` command."""

import os
import signal
import sys
from types import FrameType

INTERRUPTED = 130
TERMINATED = 143


def main() -> None:
    """Run the command line; docs/judge.md lists the exit codes."""
    ended = _interrupt_on_sigterm()
    # Read when NumPy is loaded: its BLAS threads sleep after 2^4 cycles without work, not after
    # 2^26 of spinning on cores that compilers and kernels wait for.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
    try:
        from cuda_llm.cli.app import run

        code = run(sys.argv[1:], ended)
    except KeyboardInterrupt:
        # Typer answers Ctrl-C itself while a command runs; this is for before and after.
        print("error: interrupted", file=sys.stderr)
        code = TERMINATED if ended else INTERRUPTED
    if code in (INTERRUPTED, TERMINATED):
        # Python ends by the signal where it fell into an exec(), until another one has succeeded.
        exec("")
    sys.exit(code)


def _interrupt_on_sigterm() -> list[int]:
    """Have SIGTERM do what Ctrl-C does; return a list that is empty until one comes."""
    received: list[int] = []
    process = os.getpid()

    def interrupt(number: int, _frame: FrameType | None) -> None:
        if os.getpid() != process:
            # A process that was forked ends as it would have.
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        received.append(number)
        if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
            # A shell that runs a script has its background jobs ignore Ctrl-C.
            signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.raise_signal(signal.SIGINT)

    signal.signal(signal.SIGTERM, interrupt)
    return received


if __name__ == "__main__":
    main()
