"""The GPU's random numbers, from the source it runs, on the host."""

import numpy as np
import pytest
from launch_on_host import random_on_host

from cuda_llm.tools.cuda.arrays import CountedRandom

N = 200_000


def rng(seed: int = 7) -> CountedRandom:
    return random_on_host(np, seed)


def test_the_first_block_is_philox() -> None:
    """The known answer published for counter and key zero (Random123, ten rounds)."""
    lowest = -(1 << 63)
    drawn = rng(0).integers(lowest, (1 << 63) - 1, 2, endpoint=True)
    words = (drawn.view(np.uint64) - np.uint64(1 << 63)).view(np.uint32)
    assert [hex(word) for word in words] == ["0x6627e8d5", "0xe169c58d", "0xbc57ac4c", "0x9b00dbd8"]


def test_the_same_seed_gives_the_same_numbers_and_another_seed_others() -> None:
    first, second = rng(1), rng(1)
    assert np.array_equal(first.random(1000), second.random(1000))
    assert np.array_equal(first.standard_normal(10, np.float32), second.standard_normal(10, "f4"))
    for bit in (0, 40, 80, 127):
        assert not np.isin(rng(1).random(100), rng(1 ^ 1 << bit | 2).random(100)).any()


def test_draws_do_not_repeat_each_other() -> None:
    generator = rng()
    assert not np.isin(generator.random(1000), generator.random(1000)).any()


def test_a_long_draw_begins_like_a_short_one() -> None:
    assert np.array_equal(rng().random((10, 11))[0], rng().random(11))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_unit_numbers_are_even(dtype: type) -> None:
    values = rng().random(N, dtype)
    assert values.dtype == dtype
    assert 0 <= values.min() < 1e-4
    assert 1 - 1e-4 < values.max() < 1
    assert np.histogram(values, 16)[0] == pytest.approx(np.full(16, N / 16), rel=0.05)


def test_normals_have_the_moments_of_normals() -> None:
    values = rng().standard_normal(N, np.float32).astype(np.float64)
    assert values.mean() == pytest.approx(0, abs=0.01)
    assert values.var() == pytest.approx(1, rel=0.02)
    assert (values**4).mean() == pytest.approx(3, rel=0.05)
    assert np.mean(values[::2] * values[1::2]) == pytest.approx(0, abs=0.01)
    assert len(np.unique(values)) > 0.98 * N


def test_gammas_have_the_moments_of_gammas() -> None:
    values = rng().standard_gamma(1.5, N, np.float32).astype(np.float64)
    assert values.min() > 0
    assert values.mean() == pytest.approx(1.5, rel=0.02)
    assert values.var() == pytest.approx(1.5, rel=0.03)


def test_whole_numbers_keep_their_bounds_and_are_even() -> None:
    values = rng().integers(-3, 5, N, dtype=np.int32)
    assert values.dtype == np.int32
    assert np.bincount(values + 3) == pytest.approx(np.full(8, N / 8), rel=0.05)
    assert set(rng().integers(0, 2, 100, endpoint=True).tolist()) == {0, 1, 2}
    assert set(rng().integers(2, size=100).tolist()) == {0, 1}


@pytest.mark.parametrize(("low", "high"), [(-3, 5), (0, 256), (-(1 << 31), 1 << 31)])
def test_a_type_of_32_bits_holds_the_numbers_that_one_of_64_does(low: int, high: int) -> None:
    short, wide = (rng().integers(low, high, 1001, dtype=kind) for kind in (np.int32, np.int64))
    assert (short.dtype, wide.dtype) == (np.int32, np.int64)
    assert np.array_equal(short, wide)


def test_every_value_of_a_wide_type_can_be_drawn() -> None:
    ends = np.iinfo(np.int32)
    values = rng().integers(ends.min, ends.max, N, dtype=np.int32, endpoint=True)
    assert values.min() < -0.999 * 2**31
    assert values.max() > 0.999 * 2**31
    wide = rng().integers(0, (1 << 64) - 1, 1000, dtype=np.uint64, endpoint=True)
    assert wide.max() > np.uint64(0.99 * 2**64)


def test_choices_come_from_the_options_and_places_are_not_repeated() -> None:
    assert set(rng().choice((-0.25, 0.25), 100).tolist()) == {-0.25, 0.25}
    places = rng().choice(50, 50, replace=False)
    assert sorted(places.tolist()) == list(range(50))


def test_what_is_not_drawn_is_refused() -> None:
    with pytest.raises(ValueError, match="float32"):
        rng().standard_normal(3)
    with pytest.raises(ValueError, match=r"1\.5"):
        rng().standard_gamma(2.0, 3, np.float32)
    with pytest.raises(ValueError, match="whole numbers"):
        rng().integers(3, 3, 1)


def test_nothing_is_drawn_into_nothing() -> None:
    assert rng().random((0, 4)).shape == (0, 4)
