"""Compiles candidates on all cores of a cluster whose nvcc is ours."""

import asyncio
from dataclasses import dataclass, field

from cuda_llm.each_loop import EachLoop
from cuda_llm.errors import WorkerLost
from cuda_llm.log import Log
from cuda_llm.outcomes import Verdict
from cuda_llm.tools.cluster.bundle import Contents
from cuda_llm.tools.cluster.connection import Node, WorkerGone, run_task
from cuda_llm.tools.cluster.parcel import exchange, pack
from cuda_llm.tools.cluster.worker import compile_there
from cuda_llm.tools.compiler.compile import compile_candidate
from cuda_llm.tools.compiler.known_outcomes import find_known, remember
from cuda_llm.tools.cuda.messages import WorkFailed
from cuda_llm.tools.device.candidate import Compiled, CompileRequest

COMPILER_CPUS = 0.5
"""Cores, as Ray counts, that one compiler holds: a worker of the emulated device may hold the other
half of a core. No more compilers are started than there are cores."""
QUEUE_S = 300.0
"""Longest seconds that a source waits for a core, beyond the limit of its compilation: other jobs
use the cores, too."""
_log = Log(__name__)


@dataclass(frozen=True, kw_only=True)
class ClusterCompilers:
    """Sends each source to the node with the most cores to spare, and keeps what comes back."""

    nodes: list[Node]
    """Machines whose nvcc and code are ours; where there is none, this process compiles."""
    busy: dict[str, int] = field(default_factory=dict)
    """Number of compilers at work, by id of the node."""
    gone: set[str] = field(default_factory=set)
    """Nodes that did not answer; they are asked again once all have failed to."""
    known: dict[str, set[str]] = field(default_factory=dict)
    """Keys of the bundles that have arrived, by id of the node."""
    turns: EachLoop[asyncio.Semaphore] = field(default_factory=EachLoop)
    """Slots of compilers, which several runs may share."""

    @property
    def slots(self) -> int:
        """Return how many sources compile at once; 0 where this process compiles."""
        return sum(one.cores for one in self.nodes)

    async def compile(self, request: CompileRequest) -> Compiled | Verdict:
        """Compile and audit one source as `compile_candidate` does; the outcome is cached on this
        machine, too."""
        if not self.nodes:
            return await compile_candidate(request)
        known = find_known(request)
        if known is not None:
            return known
        async with self.turns.here(lambda: asyncio.Semaphore(self.slots)):
            return remember(request, await self._compile_anywhere(request))

    async def _compile_anywhere(self, request: CompileRequest) -> Compiled | Verdict:
        """Compile on the least busy of the machines that last compiled what they were sent, here
        where there is none.

        Raises WorkerLost where the machine is gone: it is sent no source until all others are gone,
        too.
        """
        fit = [one for one in self.nodes if one.id not in self.gone]
        if not fit:
            self.gone.clear()
            return await compile_candidate(request)
        node = min(fit, key=lambda one: self.busy.get(one.id, 0) / one.cores)
        self.busy[node.id] = self.busy.get(node.id, 0) + 1
        try:
            return await self._compile_on(node, request)
        except WorkerGone as error:
            _log.warning("compiler is gone", host=node.host, reason=str(error))
            self.gone.add(node.id)
            raise WorkerLost("compiler", f"{node.host} is gone: {error}") from error
        finally:
            self.busy[node.id] -= 1

    async def _compile_on(self, node: Node, request: CompileRequest) -> Compiled | Verdict:
        parcel = pack(request)

        async def ask(contents: Contents) -> tuple[bytes, Contents]:
            work = run_task(
                compile_there, parcel.payload, contents, node=node.id, cpus=COMPILER_CPUS
            )
            try:
                async with asyncio.timeout(request.limits.wall_s + QUEUE_S):
                    return await work
            except TimeoutError:
                raise WorkerGone(f"{node.host} had no core for a compiler in time") from None

        reply = await exchange(parcel, self.known.setdefault(node.id, set()), ask)
        if isinstance(reply, WorkFailed):
            raise reply.error
        outcome: Compiled | Verdict = reply.result
        return outcome
