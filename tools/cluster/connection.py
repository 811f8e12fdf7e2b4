"""The connection to a Ray cluster: made once a process, its failures told in one line.

All that this package calls of Ray is here, so that Ray is imported where a cluster is asked for and
nowhere else.
"""

import asyncio
import contextlib
import logging
import os
import platform
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any, TypeVar

from cuda_llm.errors import InfrastructureError, MissingError, UsageError
from cuda_llm.log import Log
from cuda_llm.tools.cluster.spec import AUTO, ClusterSpec

T = TypeVar("T")
NAMESPACE = "cuda-llm"
CALLS_AT_ONCE = 4
"""Calls of one actor that are answered at once: while it works it is asked whether it is there."""
REACH_S = 5.0
"""Longest seconds until the head of a cluster takes a connection: Ray itself would try for half a
minute."""
INSTALL = "install it: pip install 'cuda-llm[ray]'"
TOKEN = "set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN (or RAY_AUTH_TOKEN_PATH) as on its head"
START = "start one: `ray start --head --ray-client-server-port=10001`, or name another"
_addresses: list[str] = []
"""Addresses of the cluster that this process has connected to: Ray knows one cluster a process."""
_log = Log(__name__)


class WorkerGone(Exception):
    """A process of the cluster is gone, or does not answer; whether it did its work is not
    known."""


@dataclass(frozen=True, kw_only=True)
class Node:
    """A machine of the cluster, as Ray knows it."""

    id: str
    host: str
    cores: int
    gpus: int


@dataclass(frozen=True)
class RemoteActor:
    """A process of the cluster that holds one object."""

    handle: Any

    async def call(self, method: str, *arguments: object) -> Any:
        """Call a method there. Raises WorkerGone."""
        return await _result(lambda: getattr(self.handle, method).remote(*arguments))

    def kill(self) -> None:
        """End the process; Ray gives the cores and GPUs that the process held to others."""
        import ray

        with contextlib.suppress(Exception):  # whatever Ray raises of one that is gone already
            ray.kill(self.handle, no_restart=True)


def connect(spec: ClusterSpec) -> None:
    """Connect this process to the cluster, unless it is connected.

    Raises MissingError without Ray or without a cluster there, UsageError where its versions are
    not ours.
    """
    if find_spec("ray") is None:
        raise MissingError("Ray is missing", INSTALL)
    import ray

    if ray.is_initialized():
        _require_same(spec.address)
        return
    _require_reachable(spec.address)
    _take_messages()
    with _own_signals(), _one_line(spec):
        try:
            _init(spec.address)
        except ConnectionAbortedError as error:
            # A client port starts a process for each client, and gives it half a minute.
            _log.info("connecting to a Ray cluster again", why=first_line(error))
            _init(spec.address)
    _addresses.append(spec.address)
    _log.info("connected to a Ray cluster", address=spec.address, ray=ray.__version__)


def _init(address: str) -> None:
    import ray

    ray.init(
        address=_address_of(address),
        namespace=NAMESPACE,
        log_to_driver=False,
        configure_logging=False,
        logging_level=logging.CRITICAL,
    )


def list_nodes() -> list[Node]:
    """Return the machines that are alive, those with most GPUs first."""
    import ray

    found = [
        Node(
            id=one["NodeID"],
            host=one["NodeManagerHostname"],
            cores=int(one["Resources"].get("CPU", 0)),
            gpus=int(one["Resources"].get("GPU", 0)),
        )
        for one in ray.nodes()
        if one["Alive"]
    ]
    return sorted(found, key=lambda one: (-one.gpus, one.host, one.id))


def start_actor(kind: type, *, cpus: float, gpus: float, node: str) -> RemoteActor:
    """Start an actor that holds `cpus` cores and `gpus` GPUs, on one node, or on any node where
    `node` is empty.

    The actor ends with this process, however this process ends.
    """
    import ray

    options: dict[str, Any] = {
        "num_cpus": cpus,
        "num_gpus": gpus,
        "max_concurrency": CALLS_AT_ONCE,
        "max_restarts": 0,
        "max_task_retries": 0,
    }
    if node:
        options["scheduling_strategy"] = _on(node)
    return RemoteActor(ray.remote(kind).options(**options).remote())


async def run_task(function: Callable[..., T], *arguments: object, node: str, cpus: float) -> T:
    """Run a module's function in a process on one node. Raises WorkerGone."""
    import ray

    task = ray.remote(function).options(num_cpus=cpus, max_retries=0, scheduling_strategy=_on(node))
    found: T = await _result(lambda: task.remote(*arguments))
    return found


def _on(node: str) -> Any:
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    return NodeAffinitySchedulingStrategy(node_id=node, soft=False)


async def _result(ask: Callable[[], Any]) -> Any:
    """Call `ask` and wait for the answer.

    Raises WorkerGone for Ray's own errors, InfrastructureError for an error of the code that was
    called. Where the wait is cancelled the answer is not: Ray's futures cannot be cancelled.
    """
    import ray.exceptions

    async def wait() -> Any:
        return await ask()

    task = asyncio.ensure_future(wait())
    task.add_done_callback(_look_at)
    try:
        return await asyncio.shield(task)
    except ray.exceptions.RayTaskError as error:
        raise InfrastructureError("worker", first_line(error.cause or error)) from error
    except (ray.exceptions.RayError, ConnectionError) as error:
        raise WorkerGone(first_line(error)) from error


def _look_at(task: "asyncio.Task[Any]") -> None:
    """Read how a call ended that nobody waits for any more, so that asyncio reports no lost
    error."""
    if not task.cancelled():
        task.exception()


def first_line(error: BaseException) -> str:
    """Return the first line of an error's message: messages of Ray have paragraphs."""
    lines = str(error).strip().splitlines()
    return lines[0].strip() if lines else type(error).__name__


def _take_messages() -> None:
    """Have our log take what Ray would print on stdout of workers that die: Ray has no setting for
    that."""
    from ray._private import worker

    def note(data: Mapping[str, Any], *_arguments: object, **_named: object) -> None:
        _log.debug("message of Ray", lines=data.get("lines"))

    if hasattr(worker, "print_to_stdstream"):
        worker.print_to_stdstream = note


def _address_of(address: str) -> str:
    return f"ray:{address}" if address.startswith("//") else address


def _require_reachable(address: str) -> None:
    """Raise MissingError where nothing listens at the address; `auto` is the cluster that runs on
    this machine. Raises UsageError where the address has no port."""
    if address == AUTO:
        if not os.environ.get("RAY_ADDRESS") and not _is_local():
            raise MissingError("no Ray cluster runs on this machine", START)
        return
    host, colon, port = address.removeprefix("//").rpartition(":")
    if not (colon and port.isdecimal()):
        raise UsageError(f"{address!r} names no port; expected HOST:10001 or HOST:6379")
    if not _speaks_grpc(f"{host}:{port}"):
        raise MissingError(f"no Ray cluster answers at {host}:{port}", START)


def _speaks_grpc(address: str) -> bool:
    """Return whether a gRPC server listens at `HOST:PORT`: Ray itself would try for minutes.

    True where Ray uses TLS: then a connection of Ray's alone can show that.
    """
    import grpc

    if os.environ.get("RAY_USE_TLS", "0") not in {"", "0"}:
        return True
    with grpc.insecure_channel(address) as channel:
        try:
            grpc.channel_ready_future(channel).result(timeout=REACH_S)
        except grpc.FutureTimeoutError:
            return False
    return True


def _require_same(address: str) -> None:
    """Raise UsageError where this process is connected to another cluster."""
    known = _addresses[-1] if _addresses else AUTO
    if address not in {known, AUTO}:
        raise UsageError(
            f"this process is connected to the cluster at {known} and cannot use that at "
            f"{address}, too; use a process for each"
        )


def _is_local() -> bool:
    from ray._private import services

    return bool(services.find_gcs_addresses())


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """Keep this process's handler of SIGTERM: Ray installs a handler of its own."""
    before = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if signal.getsignal(signal.SIGTERM) is not before:
            signal.signal(signal.SIGTERM, before)


@contextlib.contextmanager
def _one_line(spec: ClusterSpec) -> Iterator[None]:
    """Raise an error of ours, in one line with its remedy, for whatever keeps Ray from connecting.

    Raises MissingError, and UsageError where the cluster has another version of Ray or Python.
    """
    from ray.exceptions import RayError

    place = spec.address.removeprefix("//")
    try:
        yield
    except (RayError, RuntimeError, ConnectionError, OSError, ValueError) as error:
        text = str(error)
        if "token" in text.lower() or "authenticat" in text.lower():
            msg = f"the cluster at {place} refuses this process: {first_line(error)}"
            raise MissingError(msg, TOKEN) from error
        if "version" in text.lower():
            told = " ".join(text.split())[:300]
            remedy = f"install the Ray and the Python that it runs (here {_ours()})"
            msg = f"the cluster at {place} is of another version: {told}; {remedy}"
            raise UsageError(msg) from error
        what = f"no Ray cluster can be used at {place}: {' '.join(text.split())[:200]}"
        raise MissingError(what, START) from error


def _ours() -> str:
    return f"Ray {version('ray')}, Python {platform.python_version()}"
