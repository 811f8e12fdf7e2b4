"""The text after `--device` for a Ray cluster: its address, and which of its devices are used.

ray:auto                              all GPUs of the cluster that this machine belongs to
ray://HOST:10001                      all GPUs of another cluster, through Ray's client port
ray:auto/H200                         GPUs of one kind
ray:auto/H200,RTX 4090                times count on the first kind; others help with validation
ray:auto/emulated:RTX 3090 Ti         the emulated device on the cluster's cores
ray:auto/H200?max_gpus=4              at most four devices
"""

from dataclasses import dataclass

from cuda_llm.errors import UsageError
from cuda_llm.tools.device.group import MAX_GPUS, split_most

PREFIX = "ray:"
AUTO = "auto"
EXPECTED = (
    "expected ray:auto or ray://HOST:10001, then maybe /WORKERS as in /H200 or "
    "/emulated:RTX 3090 Ti, then maybe ?max_gpus=N"
)


@dataclass(frozen=True, kw_only=True)
class ClusterSpec:
    """A cluster, and which of its devices a run uses."""

    address: str = AUTO
    """`auto`, `//HOST:PORT` of a client port, or `HOST:PORT` of a head in reach."""
    workers: tuple[str, ...] = ()
    """Names of GPUs, first the kind whose times count, or one `emulated:GPU`; empty for every
    GPU."""
    max_gpus: int | None = None

    def __str__(self) -> str:
        """Return the text that `parse_cluster` reads."""
        workers = f"/{','.join(self.workers)}" if self.workers else ""
        most = "" if self.max_gpus is None else f"?{MAX_GPUS}={self.max_gpus}"
        return f"{PREFIX}{self.address}{workers}{most}"

    @property
    def emulated(self) -> str | None:
        """Name of the GPU that emulated devices stand for; None where `workers` names real GPUs."""
        kind, colon, gpu = self.workers[0].partition(":") if self.workers else ("", "", "")
        return gpu if colon and kind == "emulated" else None


def parse_cluster(spec: str) -> ClusterSpec:
    """Return the cluster and devices that the text names. Raises UsageError with what was
    expected."""
    whole, most = split_most(spec, EXPECTED)
    text = whole.removeprefix(PREFIX)
    remote = text.startswith("//")
    address, _, workers = text.removeprefix("//").partition("/")
    names = tuple(filter(None, map(str.strip, workers.split(","))))
    if not address.strip():
        raise UsageError(f"{spec!r} names no cluster; {EXPECTED}")
    if len(names) > 1 and any(name.startswith("emulated") for name in names):
        raise UsageError(f"{spec!r}: emulated devices stand for one GPU, alone; {EXPECTED}")
    return ClusterSpec(
        address=f"//{address}" if remote else address.strip(), workers=names, max_gpus=most
    )
