"""Unlike GPUs in one cluster: times count on the first kind, and others help as the run says."""

import asyncio
from dataclasses import dataclass, field, replace

import pytest
from small_tasks import small_task

from cuda_llm.errors import HardwareError, MissingError, UsageError
from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.outcomes import Passed
from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.cluster.cluster_device import ClusterDevice
from cuda_llm.tools.cluster.compilers import ClusterCompilers
from cuda_llm.tools.cluster.connection import Node, RemoteActor
from cuda_llm.tools.cluster.open_cluster import choose_kinds, places_of
from cuda_llm.tools.cluster.spec import ClusterSpec, parse_cluster
from cuda_llm.tools.cluster.start_worker import Place, Worker
from cuda_llm.tools.cluster.worker import describe
from cuda_llm.tools.device import T, Work
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.device.group import DeviceGroup
from cuda_llm.tools.emulator.device import EmulatedDevice
from cuda_llm.tools.judge.judge import judge, open_bench

FIRST, OTHER = find_hardware("RTX 4090"), find_hardware("RTX 3090 Ti")
RIGHT = load_task("vector_add").baseline.read_text()
ONLY_ON_FIRST = f"""
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ != {FIRST.target.removeprefix("sm_")}0
#error only for the first kind
#endif
{RIGHT}"""


@dataclass(frozen=True)
class Noting(EmulatedDevice):
    """An emulated device that keeps a list of its works, with the targets of their kernels."""

    works: list[tuple[str, frozenset[str]]] = field(default_factory=list)

    async def carry_out(self, work: Work[T]) -> T:
        targets = frozenset(one.target for one in work.arguments if isinstance(one, Compiled))
        self.works.append((work.function.__name__, targets))
        return await super().carry_out(work)


def cluster_of(*, others_time: bool) -> tuple[ClusterDevice, Noting, Noting]:
    first, other = Noting(FIRST), Noting(OTHER)
    device = ClusterDevice(
        [DeviceGroup([first]), DeviceGroup([other])],
        ClusterCompilers(nodes=[]),
        spec="ray:auto",
        others_time=others_time,
    )
    return device, first, other


def judge_some(device: ClusterDevice, source: str, count: int) -> list[Passed]:
    """Judge variants of a kernel, all at once; every one has to pass."""

    async def run() -> list[Passed]:
        bench = open_bench(small_task("vector_add"), device, seed=1)
        baseline = await bench.time_baseline()
        texts = [f"{source}\n// {number}\n" for number in range(count)]
        found = await asyncio.gather(
            *(judge(bench, text, "source.cu", baseline=baseline) for text in texts)
        )
        verdicts = [one.verdict for one in found]
        assert all(isinstance(one, Passed) for one in verdicts), verdicts
        return [one for one in verdicts if isinstance(one, Passed)]

    return asyncio.run(run())


def test_others_validate_and_only_the_first_kind_times() -> None:
    device, first, other = cluster_of(others_time=False)
    passed = judge_some(device, RIGHT, 2)

    assert {name for name, _ in other.works} == {"validate_there"}
    assert "time_calls_there" in {name for name, _ in first.works}
    assert all(targets <= {OTHER.target} for _, targets in other.works), "compiled for it anew"
    assert all(targets <= {FIRST.target} for _, targets in first.works)
    profiles = [one.profile for one in passed]
    assert {one.hardware for one in profiles if one is not None} == {FIRST.name}


def test_what_cannot_be_compiled_for_another_kind_is_judged_on_the_first() -> None:
    device, first, other = cluster_of(others_time=False)
    judge_some(device, ONLY_ON_FIRST, 2)
    assert other.works == []
    assert sum(name == "validate_there" for name, _ in first.works) == 2


def test_a_device_of_a_cluster_is_described_by_its_first_kind() -> None:
    device, _, _ = cluster_of(others_time=True)
    assert (device.hardware, device.hardware.target) == (FIRST, FIRST.target)
    assert device.devices == device.first.devices
    assert OTHER.name in device.name and FIRST.name in device.name
    assert device.pinned().hardware == FIRST


def worker(gpu: str, version: str = "1") -> tuple[Place, Worker]:
    facts = describe(EmulatedDevice(find_hardware(gpu)))
    facts = replace(facts, device=replace(facts.device, version=version))
    place = Place(spec="cuda:0", cpus=0.0, gpus=1.0)
    return place, Worker(actor=RemoteActor(None), facts=facts)


def kinds(spec: str, *workers: tuple[Place, Worker]) -> list[list[str]]:
    groups = choose_kinds(parse_cluster(spec), workers)
    return [[one.facts.device.hardware.short_name for _, one in group] for group in groups]


def test_the_kind_that_is_named_first_is_what_the_run_is_for() -> None:
    there = [worker("RTX 4090"), worker("RTX 4090"), worker("H200")]
    assert kinds("ray:auto/H200,RTX 4090", *there) == [["H200"], ["RTX 4090", "RTX 4090"]]
    assert kinds("ray:auto/H200", *there) == [["H200"]]
    assert kinds("ray:auto/H200,H200", *there) == [["H200"]]
    assert kinds("ray:auto", *there) == [["RTX 4090", "RTX 4090"], ["H200"]]
    assert kinds("ray:auto/RTX 4090?max_gpus=1", *there) == [["RTX 4090"]]


def test_gpus_of_one_name_with_other_drivers_are_two_kinds() -> None:
    there = [worker("H200", "driver 1"), worker("H200", "driver 1"), worker("H200", "driver 2")]
    assert kinds("ray:auto/H200", *there) == [["H200", "H200"], ["H200"]]


def test_a_kind_that_is_not_there_is_named_with_those_that_are() -> None:
    with pytest.raises(UsageError, match=r"has no .*H200; there are: .*4090"):
        kinds("ray:auto/H200", worker("RTX 4090"))
    with pytest.raises(HardwareError):
        kinds("ray:auto/RTX 9999", worker("RTX 4090"))


NODES = [
    Node(id="a", host="a", cores=2, gpus=2),
    Node(id="b", host="b", cores=4, gpus=0),
    Node(id="c", host="c", cores=2, gpus=1),
]


def test_every_gpu_or_every_core_has_a_place() -> None:
    assert [one.node for one in places_of(ClusterSpec(), NODES)] == ["a", "c", "a"]
    emulated = places_of(parse_cluster("ray:auto/emulated:H200"), NODES)
    assert sorted(one.node for one in emulated) == ["a", "a", "b", "b", "b", "b", "c", "c"]
    assert {(one.spec, one.gpus) for one in emulated} == {("emulated:H200", 0.0)}


def test_fewer_than_all_are_placed_where_ray_finds_room() -> None:
    few = places_of(parse_cluster("ray:auto?max_gpus=2"), NODES)
    assert [(one.node, one.gpus) for one in few] == [("", 1.0), ("", 1.0)]


def test_a_cluster_without_a_gpu_is_told() -> None:
    with pytest.raises(MissingError, match="the cluster has no GPU: 1 machines with 4 cores"):
        places_of(ClusterSpec(), NODES[1:2])
