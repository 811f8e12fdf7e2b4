"""Compiles candidates on all cores of a cluster whose nvcc is ours."""

import asyncio
import weakref
from dataclasses import dataclass, field

from cuda_llm.errors import InfrastructureError
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

MOST_NODES = 3
"""That one source may cost before it is what is broken."""
COMPILER_CPUS = 0.5
"""Of a core, as Ray counts: a worker of the emulated device may hold the other half. No more
compilers are started than there are cores."""
QUEUE_S = 300.0
"""That a source may wait beyond the time for compiling it: other jobs use the cores, too."""
_log = Log(__name__)


@dataclass(frozen=True, kw_only=True)
class ClusterCompilers:
    """Sends each source to the node with the most cores to spare, and keeps what comes back."""

    nodes: list[Node]
    """Those that have the compiler; without one, this process compiles."""
    busy: dict[str, int] = field(default_factory=dict)
    """Compilers at work, by node."""
    known: dict[str, set[str]] = field(default_factory=dict)
    """Keys of the bundles that have arrived, by node."""
    _turns: "weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore]" = field(
        default_factory=weakref.WeakKeyDictionary
    )

    @property
    def slots(self) -> int:
        """Return how many compile at once; 0 where this process does."""
        return sum(one.cores for one in self.nodes)

    async def compile(self, request: CompileRequest) -> Compiled | Verdict:
        """Compile and audit, as `compile_candidate` does; outcomes are cached here, too."""
        if not self.nodes:
            return await compile_candidate(request)
        known = find_known(request)
        if known is not None:
            return known
        async with self._turn():
            return remember(request, await self._compile_anywhere(request))

    def _turn(self) -> asyncio.Semaphore:
        """Return the event loop's queue for a core: several runs may share these compilers."""
        loop = asyncio.get_running_loop()
        return self._turns.setdefault(loop, asyncio.Semaphore(self.slots))

    async def _compile_anywhere(self, request: CompileRequest) -> Compiled | Verdict:
        """Compile on the least busy node, on another where it is gone, here where none is left."""
        gone: dict[str, str] = {}
        while len(gone) < MOST_NODES:
            left = [one for one in self.nodes if one.id not in gone]
            if not left:
                return await compile_candidate(request)
            node = min(left, key=lambda one: self.busy.get(one.id, 0) / one.cores)
            self.busy[node.id] = self.busy.get(node.id, 0) + 1
            try:
                return await self._compile_on(node, request)
            except WorkerGone as error:
                _log.warning("compiler is gone", host=node.host, reason=str(error))
                gone[node.id] = str(error)
                continue
            finally:
                self.busy[node.id] -= 1
        lost = "; ".join(gone.values())
        raise InfrastructureError("compiler", f"{len(gone)} machines did not compile it: {lost}")

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
