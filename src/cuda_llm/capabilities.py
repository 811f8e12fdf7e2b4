"""What a device can do. Whoever needs something of a device asks here, never what kind it is."""

from dataclasses import dataclass

from cuda_llm.profile import TimeSource


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """The defaults are a device that runs kernels one at a time and promises nothing else."""

    measures_time: bool = False
    """Its times are measured on the hardware; otherwise a model gives them."""
    bench_sizes: bool = False
    """It times a task's `bench` sizes; otherwise the small `emulated` ones."""
    samples: bool = False
    """It models `bench` sizes from some blocks of each launch, which nobody compares: results are
    looked at where it executes all of them, at `emulated` sizes."""
    duels: bool = False
    """Its sessions are TimedSessions: two kernels can be timed in turn, by our own clock."""
    sets_l2: bool = False
    """A timed call begins with a cold or a warm L2 cache, as asked. Only where it duels."""
    sanitizers: bool = False
    """compute-sanitizer can watch a kernel where the device is."""
    counters: bool = False
    """Nsight Compute can count a kernel's events where the device is."""
    sees_races: bool = False
    """It watches every access itself: races, misused barriers, reads of what nobody wrote."""
    full_isa: bool = True
    """It executes whatever its GPU executes; otherwise the subset of docs/emulator.md."""
    confines: bool = False
    """Candidates reach no files, no network and no process of the user's."""
    batched: bool = False
    """Its works are gathered and done in batches, hours apart perhaps: what a round may need is
    asked for at once, and no two kernels are timed in turn."""
    at_once: int = 1
    """Candidates it takes at once; more wait for their turn."""

    @property
    def time_source(self) -> TimeSource:
        """How its times are labelled."""
        return "measured" if self.measures_time else "modelled"
