from pathlib import Path

import pytest
from gpu_drivers import attributes_of, build_driver

from cuda_llm.errors import InfrastructureError, MissingError
from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.tools.cuda.discovery import detect_gpus

GPU = attributes_of(find_hardware("RTX 4090"))


def test_every_gpu_is_read_with_all_its_attributes(tmp_path: Path) -> None:
    first, second = detect_gpus(build_driver(tmp_path, GPU, count=2))
    assert first == GPU
    assert (second.ordinal, second.name) == (1, GPU.name)
    assert first.uuid != second.uuid


def test_no_driver_is_something_the_machine_lacks(tmp_path: Path) -> None:
    with pytest.raises(MissingError, match="no CUDA driver"):
        detect_gpus(str(tmp_path / "libcuda.so.1"))


@pytest.mark.parametrize(("count", "result"), [(0, 0), (0, 100)])
def test_a_driver_without_a_gpu_is_too(tmp_path: Path, count: int, result: int) -> None:
    with pytest.raises(MissingError, match="sees no GPU"):
        detect_gpus(build_driver(tmp_path, GPU, count=count, init_result=result))


def test_a_driver_that_fails_is_told_with_its_code(tmp_path: Path) -> None:
    with pytest.raises(InfrastructureError, match="cuInit failed with CUresult 999"):
        detect_gpus(build_driver(tmp_path, GPU, init_result=999))


def test_a_driver_that_crashes_takes_nothing_with_it(tmp_path: Path) -> None:
    library = build_driver(tmp_path, GPU)
    Path(library).write_bytes(Path(library).read_bytes()[:4096])
    with pytest.raises((InfrastructureError, MissingError)):
        detect_gpus(library)
