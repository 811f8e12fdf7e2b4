"""Secret, replayable, independent streams."""

from hypothesis import given
from hypothesis import strategies as st

from cuda_llm.tools.validator.cases import NONCE_BYTES, fresh_nonce, generator

NONCES = st.binary(min_size=NONCE_BYTES, max_size=NONCE_BYTES)
KEYS = st.tuples(NONCES, st.text(max_size=8), st.text(max_size=8), st.integers(0, 1 << 40))


@given(KEYS)
def test_a_key_replays_its_stream(key: tuple[bytes, str, str, int]) -> None:
    assert generator(*key).bytes(32) == generator(*key).bytes(32)


@given(KEYS, KEYS)
def test_keys_that_differ_anywhere_give_other_streams(
    one: tuple[bytes, str, str, int], other: tuple[bytes, str, str, int]
) -> None:
    assert (generator(*one).bytes(16) == generator(*other).bytes(16)) == (one == other)


def test_parts_of_a_key_are_not_run_together() -> None:
    nonce = bytes(NONCE_BYTES)
    assert generator(nonce, "ab", "c", 1).bytes(16) != generator(nonce, "a", "bc", 1).bytes(16)
    assert generator(nonce, "a", "b1", 2).bytes(16) != generator(nonce, "a", "b", 12).bytes(16)


def test_nonces_are_sixteen_bytes_and_never_repeat() -> None:
    drawn = {fresh_nonce() for _ in range(100)}
    assert len(drawn) == 100
    assert {len(nonce) for nonce in drawn} == {NONCE_BYTES}
