"""A GPU host process dies with the process that started it."""

import signal
import subprocess
import sys
import time

import psutil
import pytest
from ended import ends_within, has_ended

from cuda_llm.tools.cuda.client import without_secrets

pytestmark = pytest.mark.usefixtures("found_by_children")

ORCHESTRATOR = """
import asyncio, threading
from host_works import PLAIN, be_slow, be_stuck, pid
from cuda_llm.tools.cuda.client import HostClient, HostTimeouts
from cuda_llm.tools.device import Work

client = HostClient(PLAIN, HostTimeouts())
starting = threading.Thread(target=client.start)
starting.start()
starting.join()

async def run():
    print(await client.ask(Work.of(pid)), flush=True)
    await client.ask(Work.of({work}, 3600))

asyncio.run(run())
"""


def start_both(work: str) -> "tuple[subprocess.Popen[str], psutil.Process]":
    """Start an orchestrator whose GPU host process starts on a thread that ends; return both."""
    command = [sys.executable, "-c", ORCHESTRATOR.format(work=work)]
    orchestrator = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert orchestrator.stdout is not None
    return orchestrator, psutil.Process(int(orchestrator.stdout.readline()))


def test_a_killed_orchestrator_ends_its_host_process_even_one_that_hangs() -> None:
    orchestrator, host = start_both("be_stuck")
    time.sleep(0.2)
    assert host.status() != psutil.STATUS_ZOMBIE
    orchestrator.kill()
    orchestrator.communicate()
    assert ends_within(host, limit_s=30)


def test_an_interrupted_orchestrator_leaves_no_host_process() -> None:
    orchestrator, host = start_both("be_slow")
    orchestrator.terminate()
    orchestrator.communicate()
    assert ends_within(host, limit_s=30)


def test_ctrl_c_ends_the_host_process_before_the_orchestrator_is_gone() -> None:
    orchestrator, host = start_both("be_slow")
    orchestrator.send_signal(signal.SIGINT)
    orchestrator.communicate()
    assert has_ended(host)


def test_secrets_stay_with_the_orchestrator() -> None:
    environment = {"PATH": "/bin", "OPENAI_API_KEY": "1", "HF_token": "2", "CUDA_LLM_CACHE": "/c"}
    assert without_secrets(environment) == {"PATH": "/bin", "CUDA_LLM_CACHE": "/c"}
