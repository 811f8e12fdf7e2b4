"""loss[0] = the mean of logsumexp(logits[i]) - logits[i, labels[i]]."""

from typing import Any

BATCHED = True


def reference(xp: Any, *, logits: Any, labels: Any) -> dict[str, Any]:
    largest, chosen, spread = _parts(xp, logits, labels)
    return {"loss": xp.mean(largest - chosen + xp.log(spread), axis=-1, keepdims=True)}


def scale(xp: Any, *, logits: Any, labels: Any) -> dict[str, Any]:
    """What a sample may be off by, in rounding units: |max| + |logit| + log C + 1, averaged.

    With m the largest logit, p the softmax and s the sum of exp(x - m), an honest kernel rounds
    numbers no larger than |m| + log s and |logit|, however it groups m + log s - logit. Rounding
    x - m moves log s by at most u E_p[m - x], and E_p[m - x] + log s, the entropy of p, is at most
    log C. exp, the sum and log add a few units, and what a chain of C terms adds is in `terms`.
    """
    largest, chosen, _ = _parts(xp, logits, labels)
    most = xp.abs(largest) + xp.abs(chosen) + (xp.log(xp.float64(logits.shape[-1])) + 1)
    return {"loss": xp.mean(most, axis=-1, keepdims=True)}


def _parts(xp: Any, logits: Any, labels: Any) -> tuple[Any, Any, Any]:
    """Returns for each sample the largest logit, that of its label, and the sum of exp(x - m)."""
    largest = xp.max(logits, axis=-1)
    chosen = xp.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]
    return largest, chosen, xp.sum(xp.exp(logits - largest[..., None]), axis=-1)
