"""Entry point of the `cuda-llm` command."""

import os
import sys

INTERRUPTED = 130


def main() -> None:
    """Run the command line. Exits 0 done, 1 nothing passed, 2 usage, 3 machine, 130 Ctrl-C."""
    # Read when NumPy is loaded: its BLAS threads sleep after 2^4 cycles without work, not after
    # 2^26 of spinning on cores that compilers and kernels wait for.
    os.environ.setdefault("OPENBLAS_THREAD_TIMEOUT", "4")
    try:
        from cuda_llm.cli.app import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        # Typer answers Ctrl-C itself while a command runs; this is for before and after.
        print("error: interrupted", file=sys.stderr)
        code = INTERRUPTED
    if code == INTERRUPTED:
        # Python ends by the signal where it fell into an exec(), until another one has succeeded.
        exec("")
    sys.exit(code)


if __name__ == "__main__":
    main()
