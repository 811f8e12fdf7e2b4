"""The referee dies with whoever started it."""

import signal
import subprocess
import sys
import time

import psutil
import pytest

from cuda_llm.tools.cuda.host_process import without_secrets

pytestmark = pytest.mark.usefixtures("found_by_children")

ORCHESTRATOR = """
import asyncio, threading
from refereed import PLAIN, be_slow, be_stuck, pid
from cuda_llm.tools.cuda.client import Client, Patience

client = Client(PLAIN, Patience())
starting = threading.Thread(target=client.warm)
starting.start()
starting.join()

async def ask():
    print(await client.ask(pid), flush=True)
    await client.ask({work}, 3600)

asyncio.run(ask())
"""


def referee_of(work: str) -> "tuple[subprocess.Popen[str], psutil.Process]":
    """An orchestrator whose referee was started on a thread that is gone, and that referee."""
    command = [sys.executable, "-c", ORCHESTRATOR.format(work=work)]
    orchestrator = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert orchestrator.stdout is not None
    return orchestrator, psutil.Process(int(orchestrator.stdout.readline()))


def test_a_killed_orchestrator_takes_its_referee_along_even_one_that_hangs() -> None:
    orchestrator, referee = referee_of("be_stuck")
    time.sleep(0.2)
    assert referee.status() != psutil.STATUS_ZOMBIE
    orchestrator.kill()
    orchestrator.communicate()
    assert gone(referee)


def test_an_interrupted_orchestrator_leaves_no_referee() -> None:
    orchestrator, referee = referee_of("be_slow")
    orchestrator.terminate()
    orchestrator.communicate()
    assert gone(referee)


def test_ctrl_c_ends_the_referee_before_the_orchestrator_is_gone() -> None:
    orchestrator, referee = referee_of("be_slow")
    orchestrator.send_signal(signal.SIGINT)
    orchestrator.communicate()
    assert not referee.is_running() or referee.status() == psutil.STATUS_ZOMBIE


def test_secrets_stay_with_the_orchestrator() -> None:
    environment = {"PATH": "/bin", "OPENAI_API_KEY": "1", "HF_token": "2", "CUDA_LLM_CACHE": "/c"}
    assert without_secrets(environment) == {"PATH": "/bin", "CUDA_LLM_CACHE": "/c"}


def gone(process: psutil.Process) -> bool:
    """Within two seconds."""
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline:
        if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.01)
    return False
