"""`--device`, `--cluster`, `--workers` and `--max-gpus` as the one text that opens a device."""

import re

from cuda_llm.errors import UsageError
from cuda_llm.tools.cluster.spec import AUTO, PREFIX, ClusterSpec, parse_cluster
from cuda_llm.tools.device.group import MAX_GPUS, split_most

HOST = re.compile(r"(ray:)?(//)?([^\s/?:\[\]]+|\[[0-9A-Fa-f:.]+\]):[0-9]{1,5}")
"""`ray://HOST:10001`, or `HOST:6379`."""


def compose_device(
    device: str, cluster: str = "", workers: str = "", max_gpus: int | None = None
) -> str:
    """Return the text for `open_device`; the device as it is where no other option is given.

    Where a cluster is named, `auto` says nothing of the device. Raises UsageError where the options
    contradict each other.
    """
    if max_gpus is not None and max_gpus < 1:
        raise UsageError(f"--max-gpus {max_gpus}: expected a whole number of at least 1")
    if cluster:
        return _compose_cluster(_name_cluster(cluster, device), workers, max_gpus)
    if not workers and max_gpus is None:
        return device
    if device.strip().startswith(PREFIX):
        return _compose_cluster(parse_cluster(device), workers, max_gpus)
    if workers:
        raise UsageError(f"--workers {workers}: of which cluster? name it with --cluster ADDRESS")
    return _compose_group(device.strip(), max_gpus)


def _name_cluster(address: str, device: str) -> ClusterSpec:
    """Return the cluster at an address."""
    if device.strip() != AUTO:
        remedy = "use emulated devices of a cluster with --workers emulated:GPU"
        more = f"; {remedy}" if device.strip().startswith("emulated") else ""
        raise UsageError(f"--cluster {address} and --device {device}: name one of them{more}")
    text = address.strip()
    match = HOST.fullmatch(text)
    if text != AUTO and (match is None or bool(match[1]) != bool(match[2])):
        raise UsageError(f"--cluster {address}: expected auto, ray://HOST:10001 or HOST:6379")
    return ClusterSpec(address=text.removeprefix(PREFIX))


def _compose_cluster(named: ClusterSpec, workers: str, max_gpus: int | None) -> str:
    """Return the cluster's text with what of it is used."""
    if workers and named.workers:
        raise UsageError(f"--workers {workers} and --device {named}: say once which are used")
    if max_gpus is not None and named.max_gpus is not None:
        raise UsageError(f"--max-gpus {max_gpus} and --device {named}: say once how many are used")
    names = tuple(filter(None, map(str.strip, workers.split(",")))) or named.workers
    most = named.max_gpus if max_gpus is None else max_gpus
    whole = ClusterSpec(address=named.address, workers=names, max_gpus=most)
    if (workers and not names) or parse_cluster(str(whole)) != whole:
        raise UsageError(f"--workers {workers}: expected names of GPUs, as in H200,RTX 4090")
    return str(whole)


def _compose_group(device: str, max_gpus: int | None) -> str:
    """Return the text of no more than so many GPUs of this machine."""
    text, most = split_most(device, "expected cuda:all?max_gpus=N")
    kind, _, which = text.partition(":")
    if kind != "cuda" or not (which.strip() == "all" or "," in which):
        remedy = "it counts the GPUs of a cluster, cuda:all or cuda:0,1"
        raise UsageError(f"--max-gpus {max_gpus} and --device {device}: {remedy}")
    if most is not None:
        raise UsageError(f"--max-gpus {max_gpus} and --device {device}: say once how many are used")
    return f"{text}?{MAX_GPUS}={max_gpus}"
