"""Random kernels do on the emulated device, to the last bit, what the same text does as C++.

Longer campaigns: `PYTHONPATH=tests/support python -m random_kernels.campaign --seconds 600`.
"""

import asyncio
from pathlib import Path
from random import Random

import pytest
from corpus_sample import sample
from random_kernels.oracle import draw_buffers, expected
from random_kernels.program import Program, draw_program
from random_kernels.trial import CALLS, FLAGS, compare, try_program

Trial = tuple[int, str, tuple[str, ...]]
TRIALS: list[Trial] = [(1, "sm_75", ()), (2, "sm_120", ()), (3, "sm_86", ("-G",))]
"""Seed, target and flags."""


TRIED = sample(TRIALS, every=3)


@pytest.mark.parametrize(
    ("seed", "target", "flags"),
    TRIED,
    ids=lambda value: "-".join(value) or "optimised" if isinstance(value, tuple) else None,
)
def test_random_kernels_agree_with_cpp_and_raise_no_alarm(
    seed: int, target: str, flags: tuple[str, ...], tmp_path: Path
) -> None:
    """At every level, in several orders of blocks and warps."""
    program = draw_program(seed, 4)
    trial = try_program(program, seed, tmp_path, target=target, flags=(*FLAGS, *flags))
    assert asyncio.run(trial) == []


@pytest.mark.evidence
def test_a_turned_condition_is_noticed(tmp_path: Path) -> None:
    """One branch of each kernel is the other way round on the device: seen where it matters."""
    plain = draw_program(4, 8)
    draw = Random(4)
    chosen = {k.index: draw.choice(k.conditions) for k in plain.kernels if k.conditions}
    turned = Program(plain.kernels, frozenset(chosen.values()))
    buffers = draw_buffers(4, 8)
    right = expected(plain.text(), 8, buffers, tmp_path / "plain")
    wrong = expected(turned.text(), 8, buffers, tmp_path / "turned")
    matters = {index for index in range(8) if compare(index, wrong, right)}
    assert matters
    trial = try_program(plain, 4, tmp_path, target="sm_86", on_device=turned, calls=CALLS[:1])
    assert {difference.kernel for difference in asyncio.run(trial)} == matters
