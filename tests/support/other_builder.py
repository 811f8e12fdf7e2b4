"""Another process that builds native parts for as long as a test says so."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HOLDS_LOCKS = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX)
print("locked", flush=True)
sys.stdin.read()
"""


@contextmanager
def builds_all(cache: Path) -> Iterator[subprocess.Popen[str]]:
    """Have another process hold the lock of every part in `cache`, until its stdin is closed."""
    (cache / "locks").mkdir(parents=True, exist_ok=True)
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS_LOCKS, str(cache / "locks" / "building")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as builder:
        assert builder.stdout is not None
        assert builder.stdout.readline() == "locked\n"
        yield builder
