"""Memory is lent again, scrubbed, and freed where a larger piece is needed."""

import pytest

from cuda_llm.tools.gpu.arenas import LEAST_BYTES, Arenas
from cuda_llm.tools.gpu.memory import ArenaFull, HostMemory

MIB = 1 << 20


class Supply:
    """Gives memory while there is some."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self.live: list[HostMemory] = []

    def __call__(self, size_bytes: int) -> HostMemory | None:
        supply = self
        used = sum(memory.size_bytes for memory in self.live)
        if used + size_bytes > self.most_bytes:
            return None

        class Counted(HostMemory):
            def close(self) -> None:
                super().close()
                supply.live.remove(self)

        memory = Counted(size_bytes)
        self.live.append(memory)
        return memory


def test_what_was_given_back_is_lent_again_and_holds_nothing() -> None:
    supply = Supply(1 << 40)
    arenas = Arenas(supply)
    first = arenas.lend(300 * MIB, 0)
    first.view(5, 6)[...] = 7
    arenas.take_back(first)
    second = arenas.lend(200 * MIB, 0)

    assert second is first
    assert second.view(5, 6)[0] == 0
    assert len(supply.live) == 1
    arenas.take_back(second)
    arenas.close()
    assert not supply.live


def test_two_at_once_are_apart() -> None:
    supply = Supply(1 << 40)
    arenas = Arenas(supply)
    both = [arenas.lend(1, 0), arenas.lend(1, 0)]

    assert both[0] is not both[1]
    assert all(memory.size_bytes >= LEAST_BYTES for memory in both)
    for memory in both:
        arenas.take_back(memory)
    arenas.close()


def test_what_is_kept_makes_room_for_a_larger_piece() -> None:
    supply = Supply(1000 * MIB)
    arenas = Arenas(supply)
    arenas.take_back(arenas.lend(500 * MIB, 0))
    larger = arenas.lend(900 * MIB, 900 * MIB)

    assert larger.size_bytes >= 900 * MIB
    assert supply.live == [larger]
    larger.close()


def test_where_all_is_not_to_be_had_less_will_do() -> None:
    supply = Supply(600 * MIB)
    arenas = Arenas(supply)
    lent = arenas.lend(900 * MIB, 500 * MIB)

    assert 500 * MIB <= lent.size_bytes <= 600 * MIB
    with pytest.raises(ArenaFull):
        arenas.lend(500 * MIB, 500 * MIB)
    lent.close()


def test_what_is_asked_for_beforehand_is_there_to_be_lent() -> None:
    supply = Supply(1000 * MIB)
    arenas = Arenas(supply)
    arenas.take_back(arenas.lend(500 * MIB, 0))

    assert arenas.has(900 * MIB)
    assert not arenas.has(1001 * MIB)
    assert arenas.has(900 * MIB)
    lent = arenas.lend(900 * MIB, 900 * MIB)
    assert supply.live == [lent]
    assert not arenas.has(300 * MIB)
    lent.close()


def test_less_than_all_is_as_much_as_there_is_by_steps() -> None:
    supply = Supply(800 * MIB)
    lent = Arenas(supply).lend(1000 * MIB, 200 * MIB)

    assert lent.size_bytes == 800 * MIB
    lent.close()
