"""Inputs nobody can predict: every call draws from its own key under a secret nonce."""

import hashlib
import secrets

from cuda_llm.tasks.task import Task
from cuda_llm.tools.arrays import HOST, Arrays, Random

NONCE_BYTES = 16


def fresh_nonce() -> bytes:
    """A new secret for one evaluation. It stays with the referee until the verdict is out."""
    return secrets.token_bytes(NONCE_BYTES)


def case_generator(nonce: bytes, task: Task, number: int, arrays: Arrays = HOST) -> Random:
    """The stream that case `number` of a validation draws from."""
    return generator(nonce, task.name, "case", number, arrays)


def generator(nonce: bytes, task: str, phase: str, call: int, arrays: Arrays = HOST) -> Random:
    """The random stream of one call. The same values give the same stream, for a replay."""
    digest = hashlib.blake2b(key=nonce, digest_size=16)
    for part in (task, phase, str(call)):
        encoded = part.encode()
        digest.update(len(encoded).to_bytes(4, "little") + encoded)
    return arrays.generator(int.from_bytes(digest.digest(), "little"))
