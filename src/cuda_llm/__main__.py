"""Entry point of the `cuda-llm` command."""

import sys


def main() -> None:
    """Run the command line. Exits 0 done, 1 nothing passed, 2 usage, 3 machine, 130 Ctrl-C."""
    try:
        from cuda_llm.cli.app import run

        code = run(sys.argv[1:])
    except KeyboardInterrupt:
        # Typer answers Ctrl-C itself while a command runs; this is for before and after.
        print("error: interrupted", file=sys.stderr)
        code = 130
    sys.exit(code)


if __name__ == "__main__":
    main()
