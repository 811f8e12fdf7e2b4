"""What a GPU host process logs reaches the log of its orchestrator."""

import asyncio
import json
import logging
from pathlib import Path
from typing import Any

import pytest
from host_works import PLAIN, be_slow, crash, log_something, stumble

from cuda_llm.errors import InternalError
from cuda_llm.log import bound
from cuda_llm.log_setup import command_line_logging
from cuda_llm.tools.cuda.client import HostBroken, HostClient, HostTimeouts
from cuda_llm.tools.device import Work

pytestmark = pytest.mark.usefixtures("found_by_children")


def client() -> HostClient:
    return HostClient(PLAIN, HostTimeouts(silence_s=20, work_s=60))


def records(path: Path, **wanted: object) -> list[dict[str, Any]]:
    """Records of the log that have these fields."""
    read = [json.loads(line) for line in path.read_text().splitlines()]
    return [one for one in read if wanted.items() <= one.items()]


def test_records_of_a_work_arrive_with_what_is_bound_where_it_was_asked_for(
    tmp_path: Path,
) -> None:
    path = tmp_path / "log.jsonl"
    with command_line_logging("json", "info", path):
        asked = client()
        with bound(run_id="r", candidate="r1-c2"):
            asyncio.run(asked.ask(Work.of(log_something)))
        pid = asked.pid
        asked.close()
    found = records(path, run_id="r", candidate="r1-c2", process="gpu-host")
    assert [one["event"] for one in found] == ["from afar", "so are libraries", "from a thread"]
    assert [one["logger"] for one in found] == ["cuda_llm.work", "library", "cuda_llm.work"]
    assert found[0]["seconds"] == 1.5
    assert len(found[2]["text"]) == 200_000
    assert {one["pid"] for one in found} == {pid}
    assert records(path, event="GPU host process has ended", status=0)


def test_only_records_of_the_level_are_sent(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    with command_line_logging("json", "warning", path):
        asked = client()
        asyncio.run(asked.ask(Work.of(log_something)))
        asked.close()
    assert [one["event"] for one in records(path)] == ["so are libraries"]


def test_a_bug_in_a_work_is_logged_with_its_traceback(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    with command_line_logging("json", "warning", path):
        asked = client()
        with pytest.raises(InternalError):
            asyncio.run(asked.ask(Work.of(stumble)))
        asked.close()
    (one,) = records(path, event="work raised")
    assert one["exception"][0]["exc_type"] == "ZeroDivisionError"
    assert one["exception"][0]["frames"][-1]["name"] == "stumble"


def test_a_crash_of_a_host_process_and_its_being_killed_are_logged(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"

    async def cancelled(asked: HostClient) -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await asked.ask(Work.of(be_slow, 60))

    with command_line_logging("json", "info", path):
        asked = client()
        with pytest.raises(HostBroken):
            asyncio.run(asked.ask(Work.of(crash)))
        asyncio.run(cancelled(asked))
    assert len(records(path, event="GPU host process is started")) == 2
    assert "status -9" in records(path, event="GPU host process is broken")[0]["reason"]
    assert records(path, event="GPU host process is killed", left=[])


def test_as_a_library_they_reach_the_users_own_handlers(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        asked = client()
        with bound(run_id="r"):
            asyncio.run(asked.ask(Work.of(log_something)))
        asked.close()
    (one,) = [each for each in caplog.records if each.getMessage().startswith("from afar")]
    assert one.name == "cuda_llm.work"
    assert "run_id='r'" in one.getMessage()
