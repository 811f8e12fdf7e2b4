"""Opens what a spec names of a cluster: its workers, their devices, and its compilers."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from cuda_llm.errors import CudaLLMError, MissingError, UsageError
from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.log import Log
from cuda_llm.own_thread import run_in_thread
from cuda_llm.settings import settings
from cuda_llm.tools.cluster.cluster_device import ClusterDevice
from cuda_llm.tools.cluster.compilers import ClusterCompilers
from cuda_llm.tools.cluster.connection import Node, WorkerGone, connect, list_nodes, run_task
from cuda_llm.tools.cluster.newcomers import Newcomers
from cuda_llm.tools.cluster.parcel import unpack
from cuda_llm.tools.cluster.remote_device import RemoteDevice
from cuda_llm.tools.cluster.spec import ClusterSpec, parse_cluster
from cuda_llm.tools.cluster.start_worker import Place, Worker, start_worker
from cuda_llm.tools.cluster.worker import NodeFacts, OpenDevice, code_hash, describe_node
from cuda_llm.tools.compiler.nvcc import find_toolkit
from cuda_llm.tools.device.group import DeviceGroup

EMULATED_CPUS = 0.5
"""Cores, as Ray counts, that a worker of the emulated device holds: a compiler may hold the other
half of a core."""
NODE_S = 60.0
"""Longest seconds until a machine has reported what it compiles with."""
_log = Log(__name__)


def open_device_of(
    text: str, open_device: OpenDevice, *, report: Callable[[str], None]
) -> ClusterDevice:
    """Connect to the cluster that `text` names, and open each device that it asks for in a worker.

    `open_device` opens the one device of a worker. `report` gets a line for each worker or machine
    that is not used. Raises UsageError, MissingError, HardwareError, and what opening a device
    raises where no worker could open its own.
    """
    spec = parse_cluster(text)
    for name in (spec.emulated,) if spec.emulated is not None else spec.workers:
        find_hardware(name)
    find_toolkit()
    connect(spec)
    nodes = list_nodes()
    places = places_of(spec, nodes)
    workers, compilers = run_in_thread(open_all(places, nodes, open_device, report))
    known = {one.id for one in nodes}
    return assemble(spec, workers, compilers, open_device, report, known)


def places_of(spec: ClusterSpec, nodes: Sequence[Node]) -> list[Place]:
    """Return a place for each device that `spec` asks for: one GPU each, or one core each.

    Places go to the machines in turn, so that a few devices lie on as many machines. Raises
    MissingError where no machine has a place.
    """
    emulated = spec.emulated
    places = places_on(nodes, emulated)
    if not places:
        cores = sum(one.cores for one in nodes)
        raise MissingError(
            f"the cluster has no {'GPU' if emulated is None else 'core'}: "
            f"{len(nodes)} machines with {cores} cores",
            "start a worker on a machine that has: `ray start --address=HEAD:6379`; or use the "
            "cores: --device 'ray:auto/emulated:RTX 3090 Ti'",
        )
    named = spec.workers and emulated is None
    if named or spec.max_gpus is None or spec.max_gpus >= len(places):
        # Of GPUs whose kind is named only an open one tells its kind.
        return places
    # Ray knows which are free.
    return [replace(one, node="") for one in places[: spec.max_gpus]]


def places_on(nodes: Sequence[Node], emulated: str | None) -> list[Place]:
    """Return a place for each GPU of the machines in turn, or for each core where a GPU is
    emulated."""
    found = [
        (turn, Place(spec="cuda:0", cpus=0.0, gpus=1.0, node=node.id))
        if emulated is None
        else (turn, Place(spec=f"emulated:{emulated}", cpus=EMULATED_CPUS, gpus=0.0, node=node.id))
        for node in nodes
        for turn in range(node.gpus if emulated is None else node.cores)
    ]
    return [place for _, place in sorted(found, key=lambda one: one[0])]


async def open_all(
    places: Sequence[Place],
    nodes: Sequence[Node],
    open_device: OpenDevice,
    report: Callable[[str], None],
) -> tuple[list[tuple[Place, Worker]], ClusterCompilers]:
    """Start all workers at once, and ask each machine what it compiles with.

    Raises what a worker raised where none works.
    """
    asked = asyncio.ensure_future(find_compilers(nodes, report))
    workers, faults = await start_all(places, open_device)
    compilers = await asked
    for fault in faults:
        if not isinstance(fault, CudaLLMError | WorkerGone):
            raise fault
    if not workers:
        raise _none_works(faults)
    if faults:
        report(f"note: {len(faults)} of {len(places)} workers are not used: {faults[0]}")
    return workers, compilers


async def start_all(
    places: Sequence[Place], open_device: OpenDevice
) -> tuple[list[tuple[Place, Worker]], list[BaseException]]:
    """Start a worker at each place, all at once; return the workers that work, and what the others
    raised."""
    started = await asyncio.gather(
        *(start_worker(one, open_device) for one in places), return_exceptions=True
    )
    pairs = list(zip(places, started, strict=True))
    return (
        [(place, one) for place, one in pairs if isinstance(one, Worker)],
        [one for one in started if not isinstance(one, Worker)],
    )


def _none_works(faults: Sequence[BaseException]) -> BaseException:
    known = [one for one in faults if isinstance(one, CudaLLMError)]
    if known:
        return known[0]
    remedy = "see `ray status`; every machine needs this package: pip install 'cuda-llm[ray]'"
    return MissingError(f"no worker of the cluster works: {faults[0]}", remedy)


async def find_compilers(nodes: Sequence[Node], report: Callable[[str], None]) -> ClusterCompilers:
    """Return compilers on the machines whose nvcc and code are those of this machine."""
    ours = find_toolkit().version
    with_cores = [one for one in nodes if one.cores]
    asked = await asyncio.gather(*map(_ask_node, with_cores))
    fit = []
    for node, facts in zip(with_cores, asked, strict=True):
        if facts is not None and facts.code == code_hash() and facts.nvcc == ours:
            fit.append(node)
        elif facts is not None and facts.code != code_hash():
            report(f"note: {node.host} does not compile: it has other code of cuda-llm")
        elif facts is not None and facts.nvcc:
            report(f"note: {node.host} does not compile: it has nvcc {facts.nvcc}, here is {ours}")
    return ClusterCompilers(nodes=fit)


async def _ask_node(node: Node) -> NodeFacts | None:
    """Return the facts of a machine; None where it does not report them within NODE_S."""
    try:
        async with asyncio.timeout(NODE_S):
            found: NodeFacts = unpack(await run_task(describe_node, node=node.id, cpus=0.1))
    except (TimeoutError, WorkerGone, CudaLLMError) as error:
        _log.warning("machine does not say what it has", host=node.host, error=str(error))
        return None
    return found


def assemble(
    spec: ClusterSpec,
    workers: Sequence[tuple[Place, Worker]],
    compilers: ClusterCompilers,
    open_device: OpenDevice,
    report: Callable[[str], None],
    known: set[str],
) -> ClusterDevice:
    """Return one device of the workers whose kinds `spec` names, at most `max_gpus` of them.

    Machines that are not `known` may join later. Raises UsageError where no worker has a kind that
    `spec` names.
    """
    chosen = settings()

    def hold(place: Place, worker: Worker) -> RemoteDevice:
        return RemoteDevice(
            worker,
            place=place,
            open_device=open_device,
            compilers=compilers,
            spec=str(ClusterSpec(address=spec.address, workers=spec.workers, max_gpus=1)),
            silence_s=chosen.referee_silence_s,
            limit_s=chosen.referee_limit_s,
        )

    async def open_on(nodes: Sequence[Node], most: int | None) -> Sequence[RemoteDevice]:
        compilers.nodes.extend((await find_compilers(nodes, _log.info)).nodes)
        places = places_on(nodes, spec.emulated)[:most]
        started, faults = await start_all(places, open_device)
        for fault in faults:
            _log.warning("a newcomer is not used", error=str(fault))
        return [hold(place, worker) for place, worker in started]

    groups = choose_kinds(spec, workers)
    used = {id(one) for group in groups for _, one in group}
    for _, worker in workers:
        if id(worker) not in used:
            worker.actor.kill()
    kinds = [DeviceGroup([hold(place, worker) for place, worker in group]) for group in groups]
    if len(kinds) > 1:
        what = "validation" if spec.workers else "validation and times, ranked by ratio"
        others = ", ".join(one.name for one in kinds[1:])
        report(f"note: the run is for {kinds[0].hardware.name}; {others}: {what}")
    return ClusterDevice(
        kinds,
        compilers,
        spec=str(spec),
        others_time=not spec.workers,
        newcomers=Newcomers(known=known, open_on=open_on, most=spec.max_gpus),
    )


def choose_kinds(
    spec: ClusterSpec, workers: Sequence[tuple[Place, Worker]]
) -> list[list[tuple[Place, Worker]]]:
    """Return workers by kind of device, first the kind that the run is for.

    Raises UsageError where no worker has a kind that `spec` names.
    """
    by_kind: dict[tuple[str, str], list[tuple[Place, Worker]]] = {}
    for one in workers:
        device = one[1].facts.device
        by_kind.setdefault((device.hardware.name, device.version), []).append(one)
    groups = sorted(by_kind.values(), key=len, reverse=True)
    if spec.workers and spec.emulated is None:
        wanted = list(dict.fromkeys(find_hardware(name).name for name in spec.workers))
        there = sorted({name for name, _ in by_kind})
        missing = [name for name in wanted if name not in there]
        if missing:
            raise UsageError(f"the cluster has no {missing[0]}; there are: {', '.join(there)}")
        groups = [
            one for name in wanted for one in groups if one[0][1].facts.device.hardware.name == name
        ]
    left = spec.max_gpus if spec.max_gpus is not None else len(workers)
    kept = []
    for group in groups:
        kept.append(group[:left])
        left -= len(kept[-1])
    return [one for one in kept if one]
