"""A device that computes something else is found out."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cuda_llm.errors import InfrastructureError
from cuda_llm.tools.cuda.device import KNOWN_WORDS, check_known_answer
from cuda_llm.tools.device.buffers import HOST

pytestmark = pytest.mark.usefixtures("found_by_children")


@dataclass(frozen=True)
class Flipping:
    """NumPy, but for one bit of what comes back."""

    word: int

    def to_host(self, array: Any) -> Any:
        copy = np.array(array)
        if copy.ndim:
            copy[self.word] ^= 1
        return copy


def site(**parts: Any) -> Any:
    return SimpleNamespace(arrays=SimpleNamespace(xp=np, **parts))


def test_a_device_that_computes_right_is_let_through() -> None:
    brought: list[int] = []

    def to_host(array: Any) -> Any:
        brought.append(array.size)
        return HOST.to_host(array)

    check_known_answer(site(to_host=to_host))
    assert brought == [KNOWN_WORDS, 1]


@pytest.mark.parametrize("word", [0, KNOWN_WORDS // 2, KNOWN_WORDS - 1])
def test_one_wrong_bit_is_found(word: int) -> None:
    with pytest.raises(InfrastructureError, match="1 of 16,384 known words are wrong"):
        check_known_answer(site(to_host=Flipping(word).to_host))
