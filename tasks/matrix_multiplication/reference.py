"""C = A B."""

from typing import Any

BATCHED = True
SPLIT = "M"


def reference(xp: Any, *, A: Any, B: Any) -> dict[str, Any]:
    return {"C": A @ B}


def scale(xp: Any, *, A: Any, B: Any) -> dict[str, Any]:
    return {"C": xp.abs(A) @ xp.abs(B)}


def project(xp: Any, vectors: Any, *, A: Any, B: Any) -> dict[str, Any]:
    return {"C": A @ (B @ vectors)}


def project_scale(xp: Any, vectors: Any, *, A: Any, B: Any) -> dict[str, Any]:
    """|| sum_k |a_k| |b_kj v_j| || <= sum_k |a_k| || b_kj v_j ||, norms over j."""
    return {"C": xp.abs(A) @ xp.sqrt(xp.square(B) @ xp.square(vectors))}
