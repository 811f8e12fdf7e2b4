"""A round in, hints and decisions out."""

import asyncio

from reflection_scenes import BANK_CONFLICTS, UNPADDED, failed, judged, passed
from searches import attempt

from cuda_llm.agents.protocols import Contribution
from cuda_llm.agents.reflection.reflector import Reflection
from cuda_llm.agents.situation import Situation
from cuda_llm.agents.strategies.briefs import newest_hints
from cuda_llm.codec import decode, encode
from cuda_llm.outcomes import (
    CompileFailed,
    Diagnostic,
    Duplicate,
    InfraFailed,
    MemoryAccess,
    NoCode,
    UninitialisedRead,
)
from cuda_llm.search import Hint
from cuda_llm.source_file import SourceSpot

UNDEFINED = CompileFailed(
    compiler_output='identifier "lane" is undefined',
    diagnostics=(
        Diagnostic(
            severity="error",
            message='identifier "lane" is undefined',
            spot=SourceSpot(file="solve.cu", line=3, text="int a = lane;"),
            fault="undefined-name",
            subject="lane",
        ),
    ),
)
SYNTAX = CompileFailed(
    compiler_output='expected a ";"',
    diagnostics=(Diagnostic(severity="error", message='expected a ";"', fault="syntax"),),
)


def reflect(situation: Situation) -> Contribution:
    return asyncio.run(Reflection().reflect(situation, situation.attempts))


def test_a_failure_and_a_slow_kernel_each_get_a_hint() -> None:
    found = reflect(
        judged(
            (failed("r1-c1", UNDEFINED), "int a = lane;", UNDEFINED),
            (attempt("r1-c2", 1.5, times_us=(4.0, 41.0)), UNPADDED, passed(BANK_CONFLICTS)),
            incumbent="r1-c2",
        )
    )
    assert [(one.about, one.code, one.cause) for one in found.error_hints] == [
        ("r1-c1", "COMPILE_FAILED", "undefined lane")
    ]
    assert [(one.about, one.code) for one in found.performance_hints] == [
        ("r1-c2", "bank_conflicts")
    ]
    assert found.decisions[0] == "1 of 2 failed: COMPILE_FAILED (undefined lane) once"
    assert found.decisions[1].startswith("r1-c2, the kernel to beat: bank conflicts; 40%")


def test_one_cause_in_several_candidates_is_one_hint_that_says_so() -> None:
    situation = judged(
        (failed("r1-c1", UNDEFINED), "", UNDEFINED),
        (failed("r1-c2", UNDEFINED), "", UNDEFINED),
        (failed("r1-c3", SYNTAX), "", SYNTAX),
    )
    first, second = reflect(situation).error_hints
    assert (first.cause, first.times, first.about) == ("undefined lane", 2, "")
    assert first.text.startswith("Seen 2 times so far (r1-c1, r1-c2). ")
    assert (second.cause, second.times, second.about) == ("syntax", 1, "r1-c3")


def test_a_failure_of_an_earlier_round_is_counted_on() -> None:
    earlier = Hint(
        round=1, about="r1-c1", code="COMPILE_FAILED", cause="undefined lane", text="...", times=2
    )
    situation = judged((failed("r2-c1", UNDEFINED), "", UNDEFINED), error_hints=(earlier,))
    (hint,) = reflect(situation).error_hints
    assert hint.times == 3
    assert hint.text.startswith("Seen 3 times so far (lately r2-c1). ")
    assert newest_hints((earlier, hint)) == (hint,)


def test_hints_of_different_authors_do_not_replace_each_other() -> None:
    user = Hint(round=0, about="", code="USER", text="stay simple", by="user")
    other = Hint(round=0, about="", code="USER", text="no atomics", by="user")
    assert newest_hints((user, other)) == (user, other)


def test_hints_stay_few() -> None:
    kept = []
    for number in range(1, 9):
        text = f'identifier "name{number}" is undefined'
        unknown = Diagnostic(
            severity="error", message=text, fault="undefined-name", subject=f"name{number}"
        )
        verdict = CompileFailed(compiler_output=text, diagnostics=(unknown,))
        kept.append((failed(f"r1-c{number}", verdict), "", verdict))
    assert len(reflect(judged(*kept)).error_hints) == 5


def test_our_own_faults_give_no_hint_and_are_recorded() -> None:
    broken = InfraFailed(component="runner", detail="died")
    found = reflect(judged((failed("r1-c1", broken), "", broken)))
    assert found.error_hints == ()
    assert (
        "r1-c1: a part of cuda-llm failed, which says nothing about the kernel" in found.decisions
    )


def test_a_reply_without_code_teaches_the_form_of_the_next() -> None:
    cut = NoCode(message="cut off", kind="truncated")
    (hint,) = reflect(judged((failed("r1-c1", cut, source_sha=""), "", cut))).error_hints
    assert "whole file" in hint.text
    assert hint.about == ""


MISDECLARED = "#define TILE 12  // tunable: 8 16\n" + UNPADDED


def test_tunables_that_cannot_be_read_become_a_hint() -> None:
    slow = (attempt("r1-c1", 1.5, times_us=(4.0, 41.0)), MISDECLARED, passed(BANK_CONFLICTS))
    found = reflect(judged(slow, incumbent="r1-c1"))
    (hint,) = found.error_hints
    assert hint.evidence == "line 1: the default 12 of TILE is not among its values"
    assert hint.about == "", "whoever writes the next kernel is to know"
    assert "// tunable: 8 16 32" in hint.text
    assert f"r1-c1 cannot be tuned: {hint.evidence}" in found.decisions
    assert not any("failed" in one for one in found.decisions)


def test_tunables_of_others_and_of_repeats_are_not_looked_at() -> None:
    by_playbook = attempt("r1-c1", 1.5, times_us=(4.0, 41.0), written_by="playbook")
    repeat = failed("r1-c2", Duplicate(of="r0-c1"))
    situation = judged(
        (by_playbook, MISDECLARED, passed(BANK_CONFLICTS)),
        (repeat, MISDECLARED, Duplicate(of="r0-c1")),
    )
    assert [one.code for one in reflect(situation).error_hints] == ["DUPLICATE"]


def test_a_failed_playbook_kernel_is_not_quoted() -> None:
    verdict = UninitialisedRead(
        access=MemoryAccess(space="shared", kind="read"),
        spot=SourceSpot(file="solve.cu", line=9, text="x = tile[i];"),
    )
    one = failed("r1-c1", verdict, written_by="playbook")
    (hint,) = reflect(judged((one, "__shared__ float tile[9];", verdict))).error_hints
    assert "tile" not in hint.evidence
    assert "line 9" in hint.evidence


def test_hints_are_plain_data() -> None:
    (hint,) = reflect(judged((failed("r1-c1", SYNTAX), "", SYNTAX))).error_hints
    assert decode(Hint, encode(hint)) == hint


def test_an_empty_round_teaches_nothing() -> None:
    situation = judged((attempt("r1-c1", 1.0), "", passed()), incumbent="r1-c1")
    assert asyncio.run(Reflection().reflect(situation, ())) == Contribution()
