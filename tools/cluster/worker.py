"""What runs on a cluster's machines: an actor that holds one device, and a task that compiles.

Neither imports Ray: the orchestrator makes Ray's actor and remote function of them. They need this
package on the machine where they run, and get no keys.
"""

import asyncio
import contextlib
import hashlib
import os
import platform
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from cuda_llm import errors
from cuda_llm.errors import CudaLLMError
from cuda_llm.hardware_profiles import hardware
from cuda_llm.log import Log
from cuda_llm.redaction import names_a_secret
from cuda_llm.tasks import task as task_module
from cuda_llm.tools.cluster.bundle import Contents, keep_all
from cuda_llm.tools.cluster.parcel import BundlesMissing, pack, unpack
from cuda_llm.tools.compiler.compile import compile_candidate
from cuda_llm.tools.compiler.nvcc import find_toolkit
from cuda_llm.tools.cuda.host import portable_error
from cuda_llm.tools.cuda.messages import WorkDone, WorkFailed
from cuda_llm.tools.device import DescribedDevice, Device, Work
from cuda_llm.tools.device.candidate import CompileRequest
from cuda_llm.tools.native import add_files, build_in_thread, find_gxx, give

OpenDevice = Callable[..., Device]
Order = TypeVar("Order")
_log = Log(__name__)


@dataclass(frozen=True, kw_only=True)
class WorkerFacts:
    """The device that a worker holds, and whether its machine has compilers."""

    device: DescribedDevice
    """Its name and its notes name the machine; it takes one work at a time."""
    builds: bool
    """The machine has compilers, which build the native parts that the device needs."""


@dataclass(frozen=True, kw_only=True)
class OpenOrder:
    """Order to a worker to open the device that it is to hold."""

    open_device: OpenDevice
    """A module's function that returns the device which `spec` names."""
    spec: str
    """`cuda:0`, the one GPU that Ray lets the worker see, or `emulated:GPU`."""


@dataclass(frozen=True, kw_only=True)
class PrepareOrder:
    """Order to a worker to prepare its device, with native parts that its machine cannot build."""

    parts: Mapping[str, Path]
    """Files of native parts, by the name of the part."""


@dataclass(frozen=True, kw_only=True)
class NodeFacts:
    """The code and the nvcc of one machine of a cluster."""

    code: str
    """Hash of this package there."""
    nvcc: str
    """Version of nvcc; empty where the machine lacks nvcc, or g++, which nvcc calls."""


class DeviceWorker:
    """Holds one device of one machine, and does one work at a time; `ping` answers meanwhile."""

    def __init__(self) -> None:
        forget_secrets()
        take_usual_priority()
        self._device: Device | None = None

    async def tell_code(self) -> tuple[str, str]:
        """Return the name of this machine, and the hash of this package's code on it."""
        return socket.gethostname(), code_hash()

    async def open(self, order: bytes) -> bytes:
        """Open the device; return its WorkerFacts, or a WorkFailed."""
        return pack(await answer(OpenOrder, self._open, order, {}, functions=True)).payload

    async def _open(self, order: OpenOrder) -> WorkerFacts:
        self._device = order.open_device(order.spec, report=lambda line: _log.info(line))
        return describe(self._device)

    async def prepare(self, order: bytes, contents: Contents) -> tuple[bytes, Contents]:
        """Take the parts of a packed PrepareOrder and build the others; return a WorkDone,
        WorkFailed or BundlesMissing, and its files."""
        return send(await answer(PrepareOrder, self._prepare, order, contents))

    async def _prepare(self, order: PrepareOrder) -> None:
        assert self._device is not None, "it is opened before it is prepared"
        for name, file in order.parts.items():
            await asyncio.to_thread(give, name, file)
        await build_in_thread(self._device.prepare)

    async def carry_out(self, order: bytes, contents: Contents) -> tuple[bytes, Contents]:
        """Do a packed Work; return a WorkDone, WorkFailed or BundlesMissing, and its files."""
        assert self._device is not None, "it is opened before it works"
        done = await answer(Work, self._device.carry_out, order, contents, functions=True)
        return send(done)

    async def ping(self) -> None:
        """Answer, which shows that the worker's event loop turns."""


def compile_there(order: bytes, contents: Contents) -> tuple[bytes, Contents]:
    """Compile a packed CompileRequest on this machine; return a WorkDone, WorkFailed or
    BundlesMissing, and its files."""
    forget_secrets()
    return send(asyncio.run(answer(CompileRequest, compile_candidate, order, contents)))


async def answer(
    kind: type[Order],
    do: Callable[[Order], Awaitable[object]],
    order: bytes,
    contents: Contents,
    *,
    functions: bool = False,
) -> WorkDone | WorkFailed | BundlesMissing:
    """Call `do` with a packed order of type `kind`; return a WorkDone with the result, a WorkFailed
    with what was raised, or BundlesMissing where this machine lacks files of the order.

    With `functions` the order may name functions of this package.
    """
    try:
        keep_all(contents)
        request = unpack(order, functions=functions)
        if isinstance(request, BundlesMissing):
            return request
        assert isinstance(request, kind), "nothing else is sent"
        return WorkDone(result=await do(request))
    except Exception as error:
        return WorkFailed(error=portable_error(error))


def describe_node() -> bytes:
    """Return the NodeFacts of this machine, packed."""
    return pack(NodeFacts(code=code_hash(), nvcc=find_nvcc_version())).payload


def find_nvcc_version() -> str:
    """Return the version of this machine's nvcc; empty where it, or g++, is missing."""
    try:
        find_gxx()
        return find_toolkit().version
    except CudaLLMError:
        return ""


def describe(device: Device) -> WorkerFacts:
    """Return the facts of a device as a worker holds it: one work at a time, and its machine's name
    in its name and notes."""
    host = socket.gethostname()
    described = DescribedDevice(
        name=f"{device.name} on {host}",
        hardware=device.hardware,
        capabilities=replace(device.capabilities, at_once=1),
        version=device.version,
        notes=tuple(f"{host}: {note}" for note in device.notes),
    )
    return WorkerFacts(device=described, builds=bool(find_nvcc_version()))


def send(reply: object) -> tuple[bytes, Contents]:
    """Return a reply as it travels, with the files of all paths in the reply."""
    parcel = pack(reply)
    return parcel.payload, parcel.contents(parcel.bundles.keys())


def forget_secrets() -> None:
    """Remove variables that look like keys from the environment: no work of a worker needs a
    key."""
    for name in [name for name in os.environ if names_a_secret(name)]:
        del os.environ[name]


def take_usual_priority() -> None:
    """Set this process's nice value to 0, where that is allowed: Ray starts workers with 15."""
    with contextlib.suppress(PermissionError):
        os.setpriority(os.PRIO_PROCESS, 0, 0)


@lru_cache
def code_hash(*, python: bool = True) -> str:
    """Return a hash of all code that orchestrator and workers have in common, with `python` of the
    minor release of Python, too."""
    digest = hashlib.blake2b(digest_size=8)
    digest.update(f"{platform.python_version_tuple()[:2] if python else ()}".encode())
    for module in (errors, task_module, hardware):
        for file in sorted(Path(str(module.__file__)).parent.glob("*.py")):
            digest.update(file.name.encode() + b"\0" + file.read_bytes())
    add_files(digest, [Path(str(hardware.__file__)).parent], {".toml"})
    folders = [Path(__file__).parent.parent]
    add_files(digest, folders, {".py", ".h", ".c", ".cpp", ".cu", ".map"})
    return digest.hexdigest()
