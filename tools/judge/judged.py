"""What became of one kernel: its verdict, and what follows from the verdict for a caller."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from cuda_llm.outcomes import Passed, PublishedCheck, Verdict
from cuda_llm.profile import Profile, SizeTime, TimeSource
from cuda_llm.tools.device.candidate import Compiled


@dataclass(frozen=True, kw_only=True)
class Judged:
    """One kernel, its verdict, and the time of each step. Everything else is read from the verdict.

    `verdict` is one value of `cuda_llm.extend.outcomes`; `verdict.code` is its stable name.
    """

    name: str
    """Name of the source file, in places and diagnostics."""
    verdict: Verdict
    compiled: Compiled | None = None
    """The compiled candidate; None where it did not compile."""
    seconds: Mapping[str, float] = field(default_factory=dict)
    """Wall time by stage: `compile`, `validate`, `time`."""
    isolation: str = ""
    """How the candidate's runner was confined on a GPU; empty on an emulated device, and where
    nothing ran."""
    published: PublishedCheck | None = None
    """What the check that is published with the task says; None where the task has none."""
    advice: str = ""
    """What is wrong or limits it, where, and what to try, in a few lines for a model; empty where
    the judge was not asked for words."""

    @property
    def passed(self) -> bool:
        """Whether the kernel is right in every check that was made."""
        return isinstance(self.verdict, Passed)

    @property
    def profile(self) -> Profile | None:
        """Times, launches and bottlenecks; None unless the kernel passed."""
        return self.verdict.profile if isinstance(self.verdict, Passed) else None

    @property
    def speedup(self) -> float | None:
        """Score of all timed sizes over the task's baseline; None unless the kernel passed."""
        return None if self.profile is None else self.profile.speedup

    @property
    def speedup_half_width(self) -> float | None:
        """Half the 95 % interval of the least sure speed-up of a size, relatively; None where no
        size has one: modelled times have none."""
        widths = (one.speedup_half_width for one in self.sizes)
        return max((one for one in widths if one is not None), default=None)

    @property
    def speedup_interval(self) -> tuple[float, float] | None:
        """Ends of an interval that holds `speedup`, as sure as the least sure size; None where no
        size has one."""
        speedup, half = self.speedup, self.speedup_half_width
        return (
            None
            if speedup is None or half is None
            else (speedup / (1 + half), speedup * (1 + half))
        )

    @property
    def time_source(self) -> TimeSource | None:
        """`measured` or, on an emulated device, `modelled`; None unless the kernel passed."""
        return None if self.profile is None else self.profile.source

    @property
    def sizes(self) -> tuple[SizeTime, ...]:
        """Time, baseline's time and speed-up of each timed size; none unless the kernel passed."""
        return () if self.profile is None else self.profile.sizes
