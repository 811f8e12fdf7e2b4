"""A part of the user's own is held to its protocol before a run."""

from typing import Any

import pytest

from cuda_llm.agents.protocols import Generator, Tuner
from cuda_llm.errors import UsageError
from cuda_llm.own_part import find_misfit, make_part
from cuda_llm.tools.device import Device
from cuda_llm.tools.open_device import open_device


class Named:
    name = "own"
    written_by = "human"


class Plain(Named):
    def generate(self, brief: Any, situation: Any) -> Any: ...


class Short(Named):
    async def generate(self, brief: Any) -> Any: ...


class Long(Named):
    async def generate(self, brief: Any, situation: Any, more: Any) -> Any: ...


class Renamed(Named):
    async def generate(self, order: Any, *rest: Any, temperature: float = 1) -> Any: ...


class Waiting:
    async def propose(self, situation: Any, judged: Any, count: int) -> Any: ...


class Narrow(type(open_device("emulated"))):  # type: ignore[misc]
    async def carry_out(self, work: Any, site: Any, **named: Any) -> Any: ...


WANTED = "needs `async def generate(brief, situation)`, has"


@pytest.mark.parametrize(
    ("part", "protocol", "misfit"),
    [
        (object(), Generator, "lacks name, written_by, generate"),
        (Plain(), Generator, f"{WANTED} `def generate(brief, situation)`"),
        (Short(), Generator, f"{WANTED} `async def generate(brief)`"),
        (Long(), Generator, f"{WANTED} `async def generate(brief, situation, more)`"),
        (Renamed(), Generator, ""),
        (
            Waiting(),
            Tuner,
            "needs `def propose(situation, judged, count)`, "
            "has `async def propose(situation, judged, count)`",
        ),
        (open_device("emulated"), Device, ""),
        (
            Narrow(open_device("emulated").hardware),
            Device,
            "needs `async def carry_out(work)`, has `async def carry_out(work, site, **named)`",
        ),
    ],
)
def test_a_misfit_is_told_by_its_member(part: object, protocol: type, misfit: str) -> None:
    assert find_misfit(part, protocol) == misfit


def test_a_class_is_made_where_no_argument_is_needed() -> None:
    class Writer:
        def __init__(self, folder: str) -> None: ...

    assert isinstance(make_part(Plain, "generator=Plain"), Plain)
    with pytest.raises(UsageError) as caught:
        make_part(Writer, "generator=Writer")
    assert (
        str(caught.value) == "generator=Writer: Writer needs folder; pass one: Writer(folder=...)"
    )
