"""y = x + W_down (silu(W_gate r) * (W_up r)), r = rms_norm(x) * norm_weight."""

from typing import Any

SPLIT = "tokens"

LEAST_NORMAL = 2.0**-14
"""Below it halves are rounded as if they were that large."""


def reference(
    xp: Any, *, x: Any, norm_weight: Any, W_gate: Any, W_up: Any, W_down: Any, eps: float
) -> dict[str, Any]:
    r = normalised(xp, x, norm_weight, eps)
    return {"y": x + (silu(xp, r @ W_gate.T) * (r @ W_up.T)) @ W_down.T}


def scale(
    xp: Any, *, x: Any, norm_weight: Any, W_gate: Any, W_up: Any, W_down: Any, eps: float
) -> dict[str, Any]:
    """What the permitted roundings do to an element, as the root of a sum of squares.

    Each rounding of an intermediate is off by at most a unit of it, in either direction, whatever
    the others do. To first order a sum passes on the squares of its terms' errors times the squares
    of its weights, and hidden passes on those of gate and up with the slopes 1.1 |up| and
    |silu(gate)|. Rounding one value of r moves many of hidden's, but by weights of random sign.
    What r as a whole is off by, where its values are all rounded alike, moves gate and up by as
    much, and so y by its own size.
    """
    r = normalised(xp, x, norm_weight, eps)
    gate, up = r @ W_gate.T, r @ W_up.T
    held = silu(xp, gate)
    squares = xp.square(r) + LEAST_NORMAL**2
    gate_error = squares @ xp.square(W_gate).T + xp.square(gate) + LEAST_NORMAL**2
    up_error = squares @ xp.square(W_up).T + xp.square(up) + LEAST_NORMAL**2
    hidden = xp.square(held * up)
    hidden_error = 1.21 * xp.square(up) * gate_error + xp.square(held) * up_error
    hidden_error += 2 * hidden + LEAST_NORMAL**2 * (1 + xp.square(up))
    carried = xp.sqrt(hidden_error @ xp.square(W_down).T)
    added = (held * up) @ W_down.T
    return {"y": xp.abs(x + added) + xp.abs(added) + carried}


def normalised(xp: Any, x: Any, norm_weight: Any, eps: float) -> Any:
    return x / xp.sqrt(xp.mean(xp.square(x), axis=-1, keepdims=True) + eps) * norm_weight


def silu(xp: Any, value: Any) -> Any:
    return value / (1 + xp.exp(-value))
