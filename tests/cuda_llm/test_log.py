"""Log records: where they go, what they carry, and whose configuration decides."""

import asyncio
import json
import logging
import os
import subprocess
import sys
import warnings
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any, Literal

import pytest
import structlog
from run_starts import asked, parts, the_run

from cuda_llm.graph.runs.start import start
from cuda_llm.log import CommandLine, Log, bound
from cuda_llm.log_setup import command_line_logging
from cuda_llm.redaction import hide

SECRET = "kx-0123456789-abcdef"


def run_python(
    code: str, *arguments: str, **environment: str
) -> "subprocess.CompletedProcess[str]":
    """Run a script in a process of its own: logging is configured for a whole process."""
    return subprocess.run(
        [sys.executable, "-P", "-W", "error", "-c", code, *arguments],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, **environment},
    )


def records(text: str) -> list[dict[str, Any]]:
    """The lines of a log in JSON; each must be one document."""
    return [json.loads(line) for line in text.splitlines()]


Logged = Callable[..., str]


@pytest.fixture
def in_a_command(capsys: pytest.CaptureFixture[str]) -> Logged:
    """Returns what a command with these options writes to stderr while it does `work`."""

    def logged(
        work: Callable[[], object],
        format: Literal["console", "json"] = "json",
        level: Literal["debug", "info"] = "info",
    ) -> str:
        with command_line_logging(format, level, None):
            work()
        written = capsys.readouterr()
        assert written.out == ""
        return written.err

    return logged


log = Log("cuda_llm.part")


def test_each_record_is_a_line_of_json_with_time_level_event_and_logger(
    in_a_command: Logged,
) -> None:
    (one,) = records(in_a_command(lambda: log.info("compiled", seconds=1.5)))
    at = one.pop("timestamp")
    assert at.endswith("Z")
    assert one == {
        "level": "info",
        "event": "compiled",
        "logger": "cuda_llm.part",
        "seconds": 1.5,
    }


def test_records_below_the_level_are_not_written(in_a_command: Logged) -> None:
    assert in_a_command(lambda: log.debug("a"), level="info") == ""


def test_what_is_bound_is_on_each_record_of_a_task_and_of_those_it_begins(
    in_a_command: Logged,
) -> None:
    async def candidate(name: str) -> None:
        with bound(candidate=name, round=None):
            await asyncio.create_task(step(name))

    async def step(name: str) -> None:
        await asyncio.sleep(0.01)
        log.info("step", name=name)

    async def both() -> None:
        with bound(run_id="r"):
            await asyncio.gather(candidate("c1"), candidate("c2"))
        log.info("over")

    *steps, over = records(in_a_command(lambda: asyncio.run(both())))
    assert sorted((one["candidate"], one["name"], one["run_id"]) for one in steps) == [
        ("c1", "c1", "r"),
        ("c2", "c2", "r"),
    ]
    assert all("round" not in one for one in steps)
    assert "run_id" not in over


def test_a_traceback_is_structured_data_without_local_variables(in_a_command: Logged) -> None:
    (one,) = records(in_a_command(lambda: log.error("x", exc_info=ZeroDivisionError())))
    (exception,) = one["exception"]
    assert exception["exc_type"] == "ZeroDivisionError"

    def divide() -> None:
        try:
            _ = 1 / 0
        except ZeroDivisionError as error:
            log.error("x", exc_info=error)

    (one,) = records(in_a_command(divide))
    (exception,) = one["exception"]
    assert exception["frames"][-1].keys() == {"filename", "lineno", "name"}


def test_secrets_are_hidden_wherever_they_stand(
    in_a_command: Logged, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", "from-the-environment")

    def work() -> None:
        hide(SECRET)
        log.info(
            f"has {SECRET}", text=f"a {SECRET} b", deep=[{"x": (SECRET,)}], api_key="0123456789"
        )
        log.info("of the environment: " + os.environ["SOME_API_KEY"])
        address = "https://user:pass@host/v1?k=sk-abcdefghijklmnopqrstu"
        logging.getLogger("httpx").info("GET %s", address)
        headers = {"authorization": "Bearer abcdefghijk"}
        logging.getLogger("openai").warning("headers", extra=headers)
        log.error("raised", exc_info=ValueError(f"no such key: {SECRET}"))

    logged = in_a_command(work)
    for secret in (SECRET, "from-the-environment", "0123456789", "user:pass", "sk-abc", "abcdefgh"):
        assert secret not in logged
    assert [one["event"] for one in records(logged)][1] == "of the environment: (key)"


def test_libraries_records_and_warnings_are_joined_in_from_info_on(in_a_command: Logged) -> None:
    def work() -> None:
        with bound(run_id="r"), warnings.catch_warnings():
            warnings.simplefilter("always")
            logging.getLogger("httpx").info("HTTP %s", 200)
            logging.getLogger("httpcore").debug("every byte")
            warnings.warn("old", stacklevel=1)
        log.debug("ours")

    logged = records(in_a_command(work, level="debug"))
    assert [one["logger"] for one in logged] == ["httpx", "py.warnings", "cuda_llm.part"]
    assert logged[0]["event"] == "HTTP 200"
    assert logged[0]["run_id"] == "r"


def test_what_a_users_agent_logs_with_structlog_goes_where_our_records_go(
    in_a_command: Logged,
) -> None:
    def work() -> None:
        with bound(agent="mine"):
            structlog.get_logger().info("hi", a=1)

    (one,) = records(in_a_command(work))
    assert (one["event"], one["a"], one["agent"]) == ("hi", 1, "mine")


def test_a_line_for_people_is_one_line_and_steers_no_terminal(in_a_command: Logged) -> None:
    def work() -> None:
        log.info("compiled", text="a\x1b[31m\nb")

    logged = in_a_command(work, format="console")
    assert logged.count("\n") == 1
    assert "\x1b" not in logged
    assert "compiled" in logged


AS_A_LIBRARY = """
import logging, sys
from cuda_llm.log import Log, bound
log = Log("cuda_llm.part")
{setup}
before = {state}
with bound(run_id="r"):
    log.debug("small", seconds=1.5)
    log.warning("large", key={secret!r})
assert before == {state}
"""
STATE = "(logging.getLogger().handlers[:], logging.getLogger('cuda_llm').level)"


def as_a_library(setup: str) -> str:
    """What a program that imports us writes to stderr, where it has set up logging like this."""
    code = AS_A_LIBRARY.format(setup=setup, state=STATE, secret=SECRET)
    return run_python(code, SOME_TOKEN=SECRET).stderr


def test_as_a_library_records_go_to_the_users_own_handlers_as_plain_text() -> None:
    logged = as_a_library("logging.basicConfig(level=logging.INFO, format='%(name)s %(message)s')")
    assert logged == "cuda_llm.part large key='(key)' run_id='r'\n"


def test_a_file_is_appended_to(tmp_path: Path) -> None:
    path = tmp_path / "new" / "log.jsonl"
    for number in range(2):
        with command_line_logging("json", "info", path):
            Log("cuda_llm.part").info("begins", number=number)
    assert [one["number"] for one in records(path.read_text())] == [0, 1]


def test_after_a_command_logging_is_as_it_was() -> None:
    def state() -> tuple[object, ...]:
        root = logging.getLogger()
        return (root.level, list(root.handlers), logging.getLogger("cuda_llm").level)

    before = state()
    with command_line_logging("json", "debug", None):
        assert state() != before
    assert state() == before
    assert not CommandLine.is_in_charge


A_RUN = """
import asyncio, logging, sys
from pathlib import Path
import structlog
from run_starts import asked, parts
from cuda_llm.graph.runs.start import start

def check():
    assert not structlog.is_configured()
    assert not logging.getLogger().handlers
    assert logging.getLogger("cuda_llm").level == logging.NOTSET

check()
asyncio.run(start(asked(Path(sys.argv[1])), brought=parts()))
check()
"""
SUPPORT = Path(__file__).parents[1] / "support"


def test_a_run_of_a_program_that_has_set_up_nothing_writes_and_configures_nothing(
    tmp_path: Path,
) -> None:
    done = run_python(A_RUN, str(tmp_path), PYTHONPATH=str(SUPPORT))
    assert (done.stdout, done.stderr) == ("", "")


def test_a_run_of_a_program_with_its_own_structlog_goes_through_it(tmp_path: Path) -> None:
    written = StringIO()
    structlog.configure(
        processors=[structlog.contextvars.merge_contextvars, structlog.processors.JSONRenderer()],
        logger_factory=structlog.PrintLoggerFactory(written),
    )
    try:
        before = structlog.get_config().copy()
        asyncio.run(start(asked(tmp_path), brought=parts()))
        assert structlog.get_config() == before
    finally:
        structlog.reset_defaults()
    logged = records(written.getvalue())
    (run,) = {one["run_id"] for one in logged if one["event"] == "run_started"}
    assert all(one["run_id"] == run for one in logged if "seq" in one)
    (entered,) = [
        one
        for one in logged
        if (one["event"], one.get("candidate"), one.get("stage"))
        == ("stage_entered", "r2-c1", "compile")
    ]
    assert entered["round"] == 2
    assert [one["event"] for one in logged if "seq" in one][-1] == "run_finished"


def test_events_of_a_run_can_be_sent_elsewhere_by_one_handler(tmp_path: Path) -> None:
    sent: list[dict[str, Any]] = []

    class Send(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            assert isinstance(record.msg, dict)
            sent.append(record.msg)

    handler, logger = Send(), logging.getLogger("cuda_llm.events")
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        asyncio.run(start(asked(tmp_path), brought=parts()))
    finally:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)
    kept = records((the_run(tmp_path).events).read_text())
    assert [(one["seq"], one["event"]) for one in sent] == [
        (one["seq"], one["kind"]) for one in kept
    ]


TWO_THREADS = """
import logging, sys, threading, time
from cuda_llm.log import Log
from cuda_llm.log_setup import command_line_logging

class SlowDisk:
    def find_spec(self, name, path, target=None):
        if name.startswith("structlog"):
            time.sleep(0.02)

def ours():
    Log("cuda_llm.part").error("ours")

def theirs():
    while "structlog.processors" not in sys.modules:
        time.sleep(0.001)
    logging.getLogger("asyncio").warning("theirs")

sys.meta_path.insert(0, SlowDisk())
with command_line_logging("json", "warning", None):
    both = [threading.Thread(target=one) for one in (ours, theirs)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
"""


def test_two_threads_may_write_the_first_record_at_once() -> None:
    written = run_python(TWO_THREADS).stderr
    assert {one["event"] for one in records(written)} == {"ours", "theirs"}
