"""Devices of the user's own, named by code: what is opened, and what is said where that fails."""

from pathlib import Path

import pytest

from cuda_llm.capabilities import Capabilities
from cuda_llm.errors import InfrastructureError, UsageError
from cuda_llm.tools.device import Device
from cuda_llm.tools.open_device import open_device, open_emulated, spec_of

OWN = """
from cuda_llm.extend import Capabilities, InfrastructureError, open_device

device = open_device("emulated:RTX 4090")


class Unconfined(type(device)):
    capabilities = Capabilities()


def open_unconfined():
    return Unconfined(device.hardware)


class Bare:
    name = "bare"
    notes = ()
    pinned = prepare = 7


number = 7


class Boastful(type(device)):
    capabilities = {"duels": True}


def boastful():
    return Boastful(device.hardware)


class Chatty(type(device)):
    notes = "one line"


def chatty():
    return Chatty(device.hardware)


class Vague(type(device)):
    version = 86


def vague():
    return Vague(device.hardware)


class Waiting(type(device)):
    async def prepare(self):
        pass


def waiting():
    return Waiting(device.hardware)


def stumble():
    return {}["key"]


def unplugged():
    raise InfrastructureError("worker", "nobody answers")
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    """Where they are written."""
    path = tmp_path / "own_devices.py"
    path.write_text(OWN)
    return str(path)


def opened(spec: str) -> tuple[Device, list[str]]:
    """The device and what was said of it."""
    told: list[str] = []
    return open_device(spec, report=told.append), told


def test_a_device_may_be_an_object_of_a_file(file: str) -> None:
    device, told = opened(f"{file}:device")
    assert device.name == "emulated RTX 4090"
    assert told == []


def test_a_device_may_be_made_by_a_function_of_a_module(
    file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(file).parent))
    device, (line,) = opened("own_devices:open_unconfined")
    assert device.capabilities == Capabilities()
    assert line.startswith("note: emulated RTX 4090 confines no candidate")


@pytest.mark.parametrize(
    ("attribute", "said"),
    [
        ("number", "gives an int that lacks name, hardware"),
        ("Bare", "gives a Bare that lacks hardware, capabilities, version, pinned, prep"),
        ("boastful", "member capabilities is of type dict; expected Capabilities"),
        ("chatty", "member notes is of type str; expected tuple"),
        ("vague", "member version is of type int; expected str"),
        ("waiting", r"needs `def prepare\(\)`, has `async def prepare\(\)`"),
        ("stumble", "it cannot be opened: KeyError: 'key'"),
        ("nothing", "has no 'nothing'"),
    ],
)
def test_what_is_no_device_is_told_in_one_line(file: str, attribute: str, said: str) -> None:
    with pytest.raises(UsageError, match=said) as raised:
        opened(f"{file}:{attribute}")
    assert str(raised.value).startswith(f"device '{file}:{attribute}'")
    assert "\n" not in str(raised.value)


def test_what_a_device_raises_of_ours_stays_what_it_is(file: str) -> None:
    with pytest.raises(InfrastructureError, match="worker: nobody answers"):
        opened(f"{file}:unplugged")


def test_a_module_that_is_not_there_is_told_beside_what_there_is() -> None:
    with pytest.raises(UsageError, match=r"cannot import cude: .*there are: auto, cuda, .*"):
        opened("cude:RTX")


@pytest.mark.parametrize(
    ("asked", "spec"),
    [
        ("auto", "emulated:RTX 4090"),
        ("emulated", "emulated:RTX 4090"),
        ("my_pkg.dev:open_device", "my_pkg.dev:open_device"),
        ("cuda:all", "cuda:all"),
    ],
)
def test_what_was_opened_can_be_opened_again(asked: str, spec: str) -> None:
    assert spec_of(open_emulated("RTX 4090"), asked) == spec
