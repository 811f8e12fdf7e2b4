"""Verdicts as they were recorded before they had fields for what they know."""

from typing import Any

import pytest

from cuda_llm.codec import decode_verdict, encode_verdict
from cuda_llm.outcomes import (
    IllegalAccess,
    InvalidSync,
    LaunchFailed,
    MemoryAccess,
    Misaligned,
    UninitialisedRead,
    Verdict,
    WrongResult,
)
from cuda_llm.verdict_wording import describe

PLACE = {"thread": None, "spot": {"file": "a.cu", "line": 3, "text": ""}}
WRONG = {
    "code": "WRONG_RESULT",
    "size_class": "hidden",
    "dims": {},
    "distribution": "normal",
    "buffer": "C",
    "index": [],
    "got": 1.0,
    "expected": 2.0,
    "error": "inf",
    "limit": 4.0,
    "wrong": 0,
    "elements": 0,
    "looks_like": "all zeros; right only where M equals N",
    "failed_cases": 2,
    "cases": 9,
}


@pytest.mark.parametrize(
    ("data", "kind", "access", "words"),
    [
        (
            {
                "code": "ILLEGAL_ACCESS",
                "space": "global",
                "access": "read",
                "bytes": 4,
                "detail": "reads 4 bytes at byte 4000 of buffer C (4000 bytes)",
                **PLACE,
            },
            IllegalAccess,
            MemoryAccess(space="global", kind="read", bytes=4),
            "reads 4 bytes at byte 4000 of buffer C (4000 bytes)",
        ),
        (
            {
                "code": "ILLEGAL_ACCESS",
                "space": "global",
                "access": "",
                "bytes": 0,
                "detail": "a thread touched memory (cudaErrorIllegalAddress in add)",
            },
            IllegalAccess,
            None,
            "a thread touched memory (cudaErrorIllegalAddress in add)",
        ),
        (
            {"code": "MISALIGNED", "space": "", "bytes": 0, "detail": "an address is not", **PLACE},
            Misaligned,
            None,
            "an address is not",
        ),
        (
            {"code": "UNINITIALISED_READ", "space": "shared", "detail": "4 bytes that", **PLACE},
            UninitialisedRead,
            MemoryAccess(space="shared"),
            "4 bytes that",
        ),
    ],
)
def test_an_access_in_words_keeps_them(
    data: dict[str, Any], kind: type[Verdict], access: MemoryAccess | None, words: str
) -> None:
    found = decode_verdict(data)
    assert isinstance(found, kind)
    assert getattr(found, "access", "none") == access
    assert describe(found)[0] == words
    assert decode_verdict(encode_verdict(found)) == found


def test_a_pattern_in_words_keeps_them_and_held_back_figures_are_unknown() -> None:
    found = decode_verdict(WRONG)
    assert isinstance(found, WrongResult)
    assert (found.looks_like, found.wrong, found.elements) == (None, None, None)
    assert describe(found)[-1] == "all zeros; right only where M equals N"
    assert decode_verdict(encode_verdict(found)) == found


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"kind": "deadlock", "detail": "no thread can go on", **PLACE}, "deadlock: no thread"),
        ({"kernel": "k", "error": "cudaErrorInvalidValue", "detail": "2048 threads"}, "k: cuda"),
    ],
)
def test_what_was_said_in_a_detail_is_shown(data: dict[str, Any], words: str) -> None:
    kind = InvalidSync if "kind" in data else LaunchFailed
    found = decode_verdict({"code": kind.code, **data})
    assert isinstance(found, kind)
    assert describe(found)[0].startswith(words)
    assert any(data["detail"] in line for line in describe(found))


OLD_SENTENCES: list[tuple[dict[str, Any], str]] = [
    ({"code": "NO_CODE", "reason": "the reply held no kernel", "kind": "empty"}, ""),
    ({"code": "NO_CODE", "reason": "the model declined", "said": "I can't"}, ": I can't"),
    ({"code": "COMPILE_FAILED", "reason": "a.cu:3: expected a ';'", "diagnostics": []}, ""),
    ({"code": "QUARANTINED", "reason": "the first calls of a batch take longer"}, ""),
]


@pytest.mark.parametrize(("data", "more"), OLD_SENTENCES)
def test_a_reason_in_words_is_shown_as_it_was(data: dict[str, Any], more: str) -> None:
    found = decode_verdict(data)
    assert describe(found) == (f"{data['reason']}{more}",)
    assert decode_verdict(encode_verdict(found)) == found


def test_the_words_of_a_broken_rule_are_shown_as_they_were() -> None:
    words = "a kernel may not call fopen, system"
    found = decode_verdict({"code": "POLICY_VIOLATION", "rule": "import", "detail": words})
    assert describe(found) == (f"import: {words}",)
    assert decode_verdict(encode_verdict(found)) == found


def test_errors_that_an_old_reason_repeats_are_shown_once() -> None:
    error = {"severity": "error", "message": "expected a ';'", "spot": PLACE["spot"]}
    old = {"code": "COMPILE_FAILED", "reason": "a.cu:3: expected a ';'", "diagnostics": [error]}
    assert describe(decode_verdict(old)) == ("a.cu:3: expected a ';'",)
