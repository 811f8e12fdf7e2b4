"""Compares a kernel as it is judged now with the kernel as it was recorded."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Literal

from cuda_llm.tools.gate.plan import Accepted
from cuda_llm.tools.gate.recording import RecordedKernel, RecordedSize

Change = Literal["faster", "slower", "tie"]


@dataclass(frozen=True, kw_only=True)
class WrongVerdict:
    """The verdict is not the accepted verdict."""

    code: ClassVar[str] = "wrong-verdict"
    found: str
    accepted: str
    lines: tuple[str, ...] = ()
    """What the judge says of the kernel."""


@dataclass(frozen=True, kw_only=True)
class NotRecorded:
    """Nothing was recorded that the kernel could be compared with."""

    code: ClassVar[str] = "not-recorded"
    what: str
    """`kernel`, or the size as `M=4096,N=512`."""


@dataclass(frozen=True, kw_only=True)
class LostSpeed:
    """The speed-up over the baseline is below the recorded speed-up, beyond interval and
    acceptance."""

    code: ClassVar[str] = "slower"
    before: float
    now: float
    error: float
    """Relative half-width of the interval of `now / before`."""


@dataclass(frozen=True, kw_only=True)
class GrownCount:
    """A count has grown by more than what is accepted."""

    code: ClassVar[str] = "count-grew"
    name: str
    before: float
    now: float
    accepted: float
    size: str = ""
    """Size as `M=4096,N=512`; empty for what ptxas reports."""


Failure = WrongVerdict | NotRecorded | LostSpeed | GrownCount
"""Every reason for which the gate fails a kernel."""


@dataclass(frozen=True, kw_only=True)
class Gated:
    """One kernel, compared with its recording."""

    name: str
    before: RecordedKernel | None
    now: RecordedKernel
    failures: tuple[Failure, ...] = ()

    @property
    def ratio(self) -> float | None:
        """Return the speed-up now over the speed-up before; None where either is missing, or is
        that of other sizes."""
        if self.before is None or {*map(spell, self.before.sizes)} != {*map(spell, self.now.sizes)}:
            return None
        before, now = self.before.speedup, self.now.speedup
        return None if before is None or now is None else now / before

    @property
    def error(self) -> float:
        """Return the relative half-width of the interval of `ratio`."""
        return 0.0 if self.before is None else math.hypot(self.before.error, self.now.error)

    @property
    def change(self) -> Change | None:
        """Return whether the kernel got faster or slower beyond the interval; None where `ratio`
        is."""
        if self.ratio is None:
            return None
        if abs(math.log(self.ratio)) <= math.log1p(self.error):
            return "tie"
        return "faster" if self.ratio > 1 else "slower"


def compare(
    name: str,
    before: RecordedKernel | None,
    now: RecordedKernel,
    accept: Accepted,
    lines: tuple[str, ...] = (),
    *,
    may_be_new: bool = False,
) -> Gated:
    """Compare a kernel with the kernel before. `lines` say why its verdict is what it is.

    A kernel that there was not before fails unless it `may_be_new`.
    """
    gated = Gated(name=name, before=before, now=now)
    found = find_failures(gated, accept, lines)
    failures = tuple(one for one in found if not (may_be_new and one == NotRecorded(what="kernel")))
    return Gated(name=name, before=before, now=now, failures=failures)


def find_failures(gated: Gated, accept: Accepted, lines: tuple[str, ...]) -> Iterator[Failure]:
    """Yield every reason to fail a kernel: its verdict alone where that is not accepted."""
    if gated.now.verdict != accept.verdict:
        yield WrongVerdict(found=gated.now.verdict, accepted=accept.verdict, lines=lines)
        return
    if gated.before is None:
        yield NotRecorded(what="kernel")
        return
    recorded = {spell(one): one for one in gated.before.sizes}
    missing = [spell(one) for one in gated.now.sizes if spell(one) not in recorded]
    if missing:
        yield NotRecorded(what=missing[0])
        return
    ratio = gated.ratio
    if ratio is not None and ratio * (1 + gated.error) < 1 - accept.slower:
        assert gated.before.speedup and gated.now.speedup, "a ratio has both"
        yield LostSpeed(before=gated.before.speedup, now=gated.now.speedup, error=gated.error)
    for size in gated.now.sizes:
        counts = recorded[spell(size)].counts
        for name, now in size.counts.items():
            if has_grown(counts.get(name), now, accept.counts):
                yield GrownCount(
                    name=name,
                    before=counts[name],
                    now=now,
                    accepted=accept.counts,
                    size=spell(size),
                )
    for name, now in gated.now.resources.items():
        before = gated.before.resources.get(name)
        if before is not None and has_grown(before, now, accept.counts):
            yield GrownCount(name=name, before=before, now=now, accepted=accept.counts)


def has_grown(before: float | None, now: float, accepted: float) -> bool:
    """Return whether a count that was recorded has grown by more than the accepted share."""
    return before is not None and now > before * (1 + accepted)


def spell(size: RecordedSize) -> str:
    """Return the dims as the command line takes them: `M=4096,N=512`."""
    return ",".join(f"{name}={value}" for name, value in size.dims.items())
