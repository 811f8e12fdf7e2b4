"""A Ray cluster of real node processes on this machine, and what runs on it."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psutil

STORE_BYTES = 80 << 20
"""Of each node's object store: next to nothing lies there."""
START_S = 240.0
WORKS = Path(__file__).parent / "cluster_works.py"
PASSED_ON = ("PATH", "HOME", "LANG", "LD_LIBRARY_PATH", "PYTHONPATH")
WORKER_MARK = "DeviceWorker"
"""In the command line of a process that holds a device: Ray names a process by its actor."""


@dataclass
class RayCluster:
    """A head and further nodes, each a process that can be killed."""

    port: int
    client_port: int
    cache: Path
    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    """Of the nodes' processes, besides what is passed on."""
    gpus: int = 0
    """That each node claims to have."""
    nodes: list[psutil.Popen] = field(default_factory=list)

    @property
    def address(self) -> str:
        """Return what stands behind `ray:`."""
        return f"127.0.0.1:{self.port}"

    @property
    def client(self) -> str:
        """Return the address of Ray's client port."""
        return f"ray://127.0.0.1:{self.client_port}"

    def add_node(self, *, cpus: int = 1) -> psutil.Popen:
        """Start one more node."""
        # A node that was killed counts as alive until the head has noticed.
        known = self._alive() if self.nodes else set()
        join: tuple[str, ...] = ("--address", self.address)
        if not self.nodes:
            join = ("--head", "--port", str(self.port))
            join += ("--ray-client-server-port", str(self.client_port))
            join += ("--include-dashboard", "false", "--temp-dir", str(self.folder))
        environment = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        environment |= {"CUDA_LLM_CACHE": str(self.cache), "RAY_USAGE_STATS_ENABLED": "0"}
        environment |= self.environment
        node = psutil.Popen(
            [
                *(str(Path(sys.executable).parent / "ray"), "start", "--block", *join),
                *("--num-cpus", str(cpus), "--num-gpus", str(self.gpus)),
                *("--object-store-memory", str(STORE_BYTES)),
                *("--include-log-monitor", "false"),
            ],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self.folder,
            start_new_session=True,
        )
        self.nodes.append(node)
        wait_until(lambda: bool(self._alive() - known), START_S)
        return node

    def _alive(self) -> set[str]:
        """Return the ids of the nodes that the head knows."""
        from ray._raylet import GcsClient  # type: ignore[attr-defined, unused-ignore]

        try:
            nodes = GcsClient(self.address).get_all_node_info()
        except Exception:  # whatever Ray raises while its head starts
            return set()
        return {str(name) for name, one in nodes.items() if one.state == 0}

    def workers(self) -> list[psutil.Process]:
        """Return the processes that hold devices, on whichever node.

        What a worker starts has its command line until it executes another program.
        """
        marked = [one for node in self.nodes for one in below(node) if WORKER_MARK in title(one)]
        started = {child.pid for one in marked for child in below(one)}
        return [one for one in marked if one.pid not in started]

    def stop(self) -> None:
        """End every process of every node, and remove what Ray has written."""
        for node in reversed(self.nodes):
            kill_tree(node)
        shutil.rmtree(self.folder, ignore_errors=True)


@contextmanager
def ray_cluster(
    cache: Path, *, nodes: int, environment: Mapping[str, str] | None = None, gpus: int = 0
) -> Iterator[RayCluster]:
    """Run a cluster of that many nodes with a core each.

    `environment` is added to that of their processes; each node claims `gpus`.
    """
    # Ray puts sockets there, whose paths may not be long.
    folder = Path(tempfile.mkdtemp(prefix="ray-"))
    cluster = RayCluster(free_port(), free_port(), cache, folder, environment or {}, gpus)
    try:
        for _ in range(nodes):
            cluster.add_node()
        yield cluster
    finally:
        cluster.stop()


@contextmanager
def works_on(
    spec: str, *works: str, stderr: int = subprocess.DEVNULL
) -> Iterator["subprocess.Popen[str]"]:
    """Run `cluster_works.py` on a device; nothing of it is left afterwards."""
    with subprocess.Popen(
        [sys.executable, str(WORKS), spec, *works],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            yield process
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def first_in_path(folder: Path) -> dict[str, str]:
    """Return an environment in which packages are looked for in this folder first."""
    before = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": os.pathsep.join(filter(None, (str(folder), before)))}


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def below(process: psutil.Process) -> list[psutil.Process]:
    """Return all descendants; none of a process that is gone."""
    try:
        return process.children(recursive=True)
    except psutil.NoSuchProcess:
        return []


def names_below(process: psutil.Process) -> set[str]:
    """Return the names of all descendants."""
    return {title(one).partition(" ")[0].rpartition("/")[2] for one in below(process)}


def title(process: psutil.Process) -> str:
    """Return a process's command line; empty where it is gone."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def kill_tree(process: psutil.Process) -> None:
    """Kill a process and all its descendants, and wait until they are gone."""
    tree = [*below(process), process]
    for one in tree:
        try:
            one.send_signal(signal.SIGKILL)
        except psutil.NoSuchProcess:
            continue
    psutil.wait_procs(tree, timeout=60)


def wait_until(is_true: Callable[[], bool], limit_s: float) -> None:
    """Wait for a condition. Raises TimeoutError."""
    until = time.monotonic() + limit_s
    while not is_true():
        if time.monotonic() > until:
            raise TimeoutError(f"not so after {limit_s:g} s")
        time.sleep(0.05)
