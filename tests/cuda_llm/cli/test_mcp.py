"""`cuda-llm mcp` judges for the SDK's own client, over both transports."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from commands import Command
from mcp import Client, MCPError, StdioServerParameters
from tiny_tasks import tiny_task

TRANSPORTS = ("stdio", "http")


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_task(tmp_path_factory.mktemp("mcp"), "tiny")


@pytest.fixture(scope="module")
def source(task: Path) -> str:
    return (task / "baseline.cu").read_text()


def server_command(*arguments: str) -> list[str]:
    return [sys.executable, "-P", "-m", "cuda_llm", "mcp", "--device", "emulated", *arguments]


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@contextmanager
def http_server(folder: Path) -> Iterator[str]:
    """A server in a process of its own, which ends on Ctrl-C with nothing left."""
    port = free_port()
    with subprocess.Popen(
        server_command("--transport", "http", "--port", str(port)),
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as server:
        assert server.stderr is not None
        try:
            address = server.stderr.readline().partition(": ")[0]
            while not is_open(port):
                assert server.poll() is None
                time.sleep(0.05)
            yield address
            children = psutil.Process(server.pid).children(recursive=True)
        finally:
            server.send_signal(signal.SIGINT)
            said = server.stderr.read()
        assert server.wait() == 130, said
        assert "Traceback" not in said
        assert not psutil.wait_procs(children, timeout=30)[1]


def is_open(port: int) -> bool:
    with socket.socket() as trial:
        return trial.connect_ex(("127.0.0.1", port)) == 0


@asynccontextmanager
async def client_of(transport: str, folder: Path) -> AsyncIterator[Client]:
    if transport == "http":
        with http_server(folder) as address:
            async with Client(address) as client:
                yield client
        return
    first, *others = server_command()
    server = StdioServerParameters(command=first, args=others, env={**os.environ}, cwd=folder)
    async with Client(server) as client:
        yield client


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_a_right_and_a_racy_kernel_get_their_verdicts(
    transport: str, task: Path, source: str, tmp_path: Path
) -> None:
    seen: list[tuple[float, float | None, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append((progress, total, message))

    async def talk() -> None:
        async with client_of(transport, tmp_path) as client:
            tools = {one.name: one for one in (await client.list_tools()).tools}
            assert {*tools} >= {"list_tasks", "show_task", "judge", "compare", "explain"}
            assert "verdict" in tools["judge"].output_schema["properties"]  # type: ignore[index]
            shown = await client.call_tool("show_task", {"task": str(task)})
            assert "solve(" in shown.content[0].text  # type: ignore[union-attr]
            racy = source.replace("C[i] =", "__shared__ int last; last = i; C[last] =")
            found = await client.call_tool(
                "compare",
                {"task": str(task), "sources": {"racy": racy, "plain": source}},
                progress_callback=on_progress,
            )
            answer: Any = found.structured_content
            assert answer["fastest"] == "plain"
            plain, wrong = answer["kernels"]
            assert (plain["passed"], wrong["verdict"]) == (True, "DATA_RACE")
            assert any("kernel" in line or "racy" in line for line in wrong["what"])
            refused = await client.call_tool("judge", {"task": "nowhere", "source": source})
            assert refused.is_error
            assert "\n" not in refused.content[0].text  # type: ignore[union-attr]

    asyncio.run(talk())
    done = [one[0] for one in seen]
    assert done == sorted(done) and (done[0], done[-1]) == (0, 8)


def test_a_call_that_is_cancelled_ends_its_work_and_the_server_goes_on(
    task: Path, source: str, tmp_path: Path
) -> None:
    endless = source.replace("C[i] =", "for (volatile int k = 0; k >= 0; k = 0); C[i] =")

    async def talk() -> None:
        async with client_of("stdio", tmp_path) as client:
            entered = asyncio.Event()

            async def on_progress(
                progress: float, total: float | None, message: str | None
            ) -> None:
                if message and message.endswith("validate"):
                    entered.set()

            arguments = {"task": str(task), "source": endless}
            calling = asyncio.create_task(
                client.call_tool("judge", arguments, progress_callback=on_progress)
            )
            await entered.wait()
            calling.cancel()
            await asyncio.gather(calling, return_exceptions=True)
            listed = await client.call_tool("list_tasks", {})
            assert "vector_add" in json.dumps(listed.structured_content)

    asyncio.run(talk())
    left = psutil.Process().children(recursive=True)
    assert not psutil.wait_procs(left, timeout=30)[1]


SCALED = """__global__ void scale(const float* x, float* y, float by, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * by;
}
"""


def test_a_task_is_drafted_around_a_kernel_and_names_what_to_confirm(tmp_path: Path) -> None:
    async def talk() -> None:
        async with client_of("stdio", tmp_path) as client:
            made = await client.call_tool("import_task", {"name": "scaled", "source": SCALED})
            answer: Any = made.structured_content
            assert (answer["task"], answer["entry"]) == ("scaled", "scale")
            shown = await client.call_tool("show_task", {"task": "scaled"})
            assert "float by" in shown.content[0].text  # type: ignore[union-attr]
            outside = {"name": "../scaled", "source": SCALED}
            assert (await client.call_tool("import_task", outside)).is_error

    asyncio.run(talk())
    assert (tmp_path / "scaled/task.toml").exists()
    assert {one.name for one in tmp_path.parent.iterdir()}.isdisjoint({"scaled"})


def test_without_the_sdk_one_line_names_the_extra(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [one for one in sys.modules if one.split(".")[0] == "mcp"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.delitem(sys.modules, "cuda_llm.cli.mcp_server", raising=False)
    monkeypatch.setitem(sys.modules, "mcp", None)
    assert "pip install 'cuda-llm[mcp]'" in command("mcp", "--device", "emulated").complaint


def test_a_port_that_is_taken_is_one_line(process: Command) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        ran = process("mcp", "--transport", "http", "--port", port, "--device", "emulated")
    assert ran.code == 2 and f"--port {port}" in ran.stderr and "Traceback" not in ran.stderr


def test_runs_are_resources(tmp_path: Path) -> None:
    runs = Path(__file__).parents[3] / "benchmarks/experiments/paper-without-a-gpu/runs"

    async def talk() -> None:
        first, *others = server_command("--runs", str(runs))
        server = StdioServerParameters(command=first, args=others, env={**os.environ})
        async with Client(server) as client:
            names = await client.read_resource("cuda-llm://runs")
            assert "reduction" in names.contents[0].text  # type: ignore[union-attr]
            one = await client.read_resource("cuda-llm://runs/reduction/r1-c1")
            assert "extern" in one.contents[0].text  # type: ignore[union-attr]
            with pytest.raises(MCPError, match="no candidate"):
                await client.read_resource("cuda-llm://runs/reduction/r9-c9")

    asyncio.run(talk())
