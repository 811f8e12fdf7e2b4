"""Ctrl-C while Python tries where temporary files can go leaves none."""

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = """
import os, signal, sys
from cuda_llm.cli.app import find_tempdir

def watch(event, arguments):
    if event == "open" and str(arguments[0]).startswith(os.environ["TMPDIR"]):
        os.kill(os.getpid(), signal.SIGINT)
        print("tried")

sys.addaudithook(watch)
try:
    find_tempdir()
except KeyboardInterrupt:
    print("interrupted", os.listdir(os.environ["TMPDIR"]))
"""


def test_an_interrupt_waits_until_the_folder_was_tried(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", SCRIPT],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == ["tried", "interrupted []"]
    assert list(tmp_path.iterdir()) == []
