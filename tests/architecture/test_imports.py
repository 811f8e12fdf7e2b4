"""The help of every command is there at once: it imports no framework, no arrays, no driver."""

import subprocess
import sys

HEAVY = ("langgraph", "langchain_core", "openai", "numpy", "cupy", "torch", "rich")
COMMANDS = ((), ("run",), ("evaluate",), ("tasks",), ("trace", "show"))


def test_the_package_and_the_help_of_commands_import_nothing_heavy() -> None:
    """In a process of its own, as this one has imported everything by now."""
    code = (
        "import contextlib, io, sys\n"
        "import cuda_llm\n"
        "assert 'cuda_llm.tasks' not in sys.modules\n"
        "assert callable(cuda_llm.load_task)\n"
        "from cuda_llm.cli.app import run\n"
        f"for command in {COMMANDS!r}:\n"
        "    with contextlib.redirect_stdout(io.StringIO()):\n"
        "        assert run([*command, '--help']) == 0\n"
        f"print(*[name for name in {HEAVY!r} if name in sys.modules])\n"
    )
    done = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.split()) == (0, []), done.stderr
