"""Sessions whose calls are timed in batches, by our own clock: what a device that duels opens."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

from cuda_llm.outcomes import Verdict
from cuda_llm.tools.arrays import Array
from cuda_llm.tools.buffers import BufferSpec, Slots
from cuda_llm.tools.device.session import SCRATCH_BYTES, Argument, CallOptions, Session


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Timed calls in one go: each opens its slot's inputs, flushes L2, solves, tags the outputs."""

    order: tuple[int, ...]
    """Slots in the order of the calls; none twice."""
    key: bytes
    """16 secret bytes, new for each batch: inputs are sealed and outputs tagged under it."""
    flush: bool = True
    """Write more than L2 holds before each call (`--l2 cold`)."""
    solve: bool = True
    """False leaves the call of `solve` out: what all the rest takes."""
    keys: tuple[bytes, ...] = ()
    """Of each call, instead of `key`; each is handed out when the call before is over: until then
    nothing tells the inputs."""


class TimeClass(StrEnum):
    """What a measured time contains."""

    DEVICE = "device"
    """One call in a captured graph: kernels, copies and the gaps between them."""
    HOST_INCLUSIVE = "host-inclusive"
    """`solve` decides on results it reads back, so it cannot be captured: its host part counts."""


@dataclass(frozen=True, kw_only=True)
class ClockReading:
    """What the hardware says of its clocks, heat and power at one moment."""

    sm_mhz: float
    celsius: float | None
    """None where it does not say."""
    watts: float | None
    throttled: bool
    """It holds its clocks down, for heat or power."""


@runtime_checkable
class TimedSession(Session, Protocol):
    """Calls can be captured, and timed in batches by our own clock."""

    async def place_slots(
        self, buffers: Sequence[BufferSpec], count: int, *, scratch_bytes: int = SCRATCH_BYTES
    ) -> Slots:
        """Lay out `count` slots. Replaces the previous layout, as `place` does.

        Beside them is room for `solve` to hold `scratch_bytes` at once, and never less than
        SCRATCH_BYTES, but where memory is short: then it is what is left. Waits for memory that
        others are giving back, where it is needed.
        """
        ...

    async def capture(
        self, arguments: Sequence[Argument], options: CallOptions
    ) -> TimeClass | Verdict:
        """One call on slot 0 as a warm-up, then one captured call for each slot, none of them run.

        The slots' buffers must hold valid inputs. Call it once after each `place_slots`.
        """
        ...

    def seal(self, slots: Sequence[int], key: bytes, contents: Mapping[str, Array]) -> None:
        """Encrypt the inputs of these slots into their `sealed` arrays.

        `contents` of an input has one axis more in front, one index for each of `slots`.
        """
        ...

    @property
    def not_stepwise(self) -> str:
        """Why keys could not be handed out for the last batch to be armed; else empty."""
        ...

    async def arm(self, batch: Batch) -> Verdict | None:
        """Have the runner put the batch together: nothing of the candidate runs until `go`.

        A batch with keys of its calls that cannot be has an InfraFailed and sets `not_stepwise`;
        the session is as it was.
        """
        ...

    async def go(self, limit_s: float) -> float | Verdict:
        """Run the armed batch; seconds by our own clock from the order to having read all tags."""
        ...

    def find_late_write(self) -> str | None:
        """Name of an output of the batch that is not what it was when its call was over."""
        ...
