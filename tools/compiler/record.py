"""Outcomes of the compiler as plain JSON values, and back."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from cuda_llm.outcomes import CompileFailed, Diagnostic, LoadFailed, PolicyViolation
from cuda_llm.profile import KernelResources
from cuda_llm.spots import SourceSpot

Failure = CompileFailed | PolicyViolation | LoadFailed
"""What a source is to blame for: the same next time, so worth remembering."""

FAILURES: dict[str, type[Failure]] = {
    kind.code: kind for kind in (CompileFailed, PolicyViolation, LoadFailed)
}


def failure_record(failure: Failure) -> dict[str, Any]:
    """`failure` as JSON values."""
    return {"code": failure.code, **asdict(failure)}


def read_failure(record: Mapping[str, Any]) -> Failure:
    """The inverse of `failure_record`."""
    fields = dict(record)
    kind = FAILURES[fields.pop("code")]
    if fields.get("spot") is not None:
        fields["spot"] = SourceSpot(**fields["spot"])
    if "diagnostics" in fields:
        fields["diagnostics"] = tuple(_diagnostic(d) for d in fields["diagnostics"])
    return kind(**fields)


def success_record(
    kernels: tuple[KernelResources, ...], warnings: tuple[Diagnostic, ...], compile_s: float
) -> dict[str, Any]:
    """What is remembered of a compiled candidate besides its files."""
    return {
        "code": "COMPILED",
        "kernels": [asdict(kernel) for kernel in kernels],
        "warnings": [asdict(warning) for warning in warnings],
        "compile_s": compile_s,
    }


def read_kernels(record: Mapping[str, Any]) -> tuple[KernelResources, ...]:
    """Kernels of a `success_record`."""
    return tuple(KernelResources(**kernel) for kernel in record["kernels"])


def read_warnings(record: Mapping[str, Any]) -> tuple[Diagnostic, ...]:
    """Warnings of a `success_record`."""
    return tuple(_diagnostic(warning) for warning in record["warnings"])


def _diagnostic(fields: Mapping[str, Any]) -> Diagnostic:
    spot = fields["spot"]
    return Diagnostic(**{**fields, "spot": None if spot is None else SourceSpot(**spot)})
