"""The level of isolation is what a probe met; other GPUs are those the driver files list."""

import asyncio
from pathlib import Path

import pytest

from cuda_llm.tools.sandbox.isolation import IsolationLevel, find_isolation_level, other_gpus

FIRST = "GPU-11111111-2222-3333-4444-555555555555"
SECOND = "GPU-66666666-7777-8888-9999-aaaaaaaaaaaa"
INFORMATION = "Model: \t\t NVIDIA H200\nGPU UUID: \t {uuid}\nDevice Minor: \t {minor}\n"


def test_this_machine_confines_files_network_and_processes() -> None:
    level = asyncio.run(find_isolation_level())

    assert level.files == (level.landlock_abi > 0)
    assert level.network
    assert level.tracing
    assert level.leftovers


def test_missing_isolation_is_described_in_words() -> None:
    level = IsolationLevel(
        landlock_abi=0,
        files=False,
        network=True,
        tracing=True,
        signals=True,
        own_pids=False,
        leftovers=True,
    )

    assert not level.full
    assert len(level.missing) == 2
    assert "Landlock" in level.missing[0]


@pytest.fixture
def machine(tmp_path: Path) -> tuple[Path, Path]:
    """Nodes and driver's files of a machine on which GPUs are numbered in another order."""
    devices, driver = tmp_path / "dev", tmp_path / "gpus"
    devices.mkdir()
    for node in ("nvidia0", "nvidia1", "nvidia10", "nvidiactl", "nvidia-uvm", "nvidia-caps"):
        (devices / node).touch()
    for place, (uuid, minor) in enumerate(((FIRST, 1), (SECOND, 0))):
        (driver / f"0000:0{place}:00.0").mkdir(parents=True)
        file = driver / f"0000:0{place}:00.0" / "information"
        file.write_text(INFORMATION.format(uuid=uuid, minor=minor))
    return devices, driver


def test_every_numbered_node_but_its_own_is_another_gpu(machine: tuple[Path, Path]) -> None:
    devices = machine[0]
    assert other_gpus(FIRST, *machine) == (str(devices / "nvidia0"), str(devices / "nvidia10"))
    assert other_gpus(SECOND, *machine) == (str(devices / "nvidia1"), str(devices / "nvidia10"))


@pytest.mark.parametrize("unknown", ["", "0", "GPU-", "MIG-11111111-2222-3333-4444-555555555555"])
def test_no_other_gpu_is_named_for_an_unknown_one(unknown: str, machine: tuple[Path, Path]) -> None:
    assert other_gpus(unknown, *machine) == ()


def test_no_other_gpu_is_named_without_its_own_node(machine: tuple[Path, Path]) -> None:
    (machine[0] / "nvidia1").unlink()
    assert other_gpus(FIRST, *machine) == ()


def test_no_other_gpu_is_named_where_the_driver_is_unreadable(
    machine: tuple[Path, Path],
) -> None:
    (machine[1] / "0000:02:00.0/information").mkdir(parents=True)
    assert other_gpus(SECOND, *machine) == ()


def test_no_other_gpu_is_named_without_a_driver(tmp_path: Path) -> None:
    assert other_gpus(FIRST, tmp_path / "dev", tmp_path / "gpus") == ()
