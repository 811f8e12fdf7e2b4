import pytest

from cuda_llm.agents.tunables.read import read_space
from cuda_llm.agents.tunables.space import HintPreference, InvalidDeclaration, Space, Tunable

GOOD = "#define TILE 16  // tunable: 8 16 32\n"


def test_a_space_is_read_from_its_comments() -> None:
    source = """\
  # define TILE /* edge */ 16     // tunable: 8 16 32; edge of the tile
#define SKEW -1 //tunable: -1, 0, 1
// tunable-if: TILE * SKEW <= 1024 and TILE > 8
// tunable-hint: bank_conflicts SKEW=1 TILE=32
#define OTHER 3  // no tunable
"""
    assert read_space(source) == Space(
        tunables=(
            Tunable(name="TILE", default=16, values=(8, 16, 32)),
            Tunable(name="SKEW", default=-1, values=(-1, 0, 1)),
        ),
        conditions=("TILE * SKEW <= 1024 and TILE > 8",),
        preferences=(HintPreference(code="bank_conflicts", values={"SKEW": 1, "TILE": 32}),),
    )


@pytest.mark.parametrize(
    "source",
    [
        "int tunable;\n",
        'const char* s = "#define A 1  // tunable: 1 2";\n',
        "/* #define A 1  // tunable: 1 2\n*/\n",
        'auto s = R"(\n#define A 1  // tunable: 1 2\n)";\n',
        "// what is tunable: nothing\n",
    ],
)
def test_what_only_looks_like_a_declaration_is_none(source: str) -> None:
    assert read_space(source) is None


@pytest.mark.parametrize(
    ("source", "line", "reason"),
    [
        ("#define A 3  // tunable: 1 2\n", 1, "the default 3 of A is not among its values"),
        ("\nconstexpr int A = 1;  // tunable: 1\n", 2, "stands behind `#define NAME value`"),
        ("#define A (1)  // tunable: 1\n", 1, "expected a whole number"),
        ("#define A 1  // tunable: 1 x\n", 1, "the values of A are '1 x'; expected whole numbers"),
        ("#define A 1  // tunable:\n", 1, "expected whole numbers"),
        ("#define A 1  // tunable: 1 2 1\n", 1, "a value of A is listed twice"),
        ("#define A 1  // tunable: 1 3000000000\n", 1, "beyond 32 bits"),
        (f"{GOOD}int x;\n{GOOD}", 3, "TILE is declared twice"),
        (f"{GOOD}#undef TILE\n", 1, "TILE is defined or undefined elsewhere too"),
        (f"#if 1\n{GOOD}#endif\n", 2, "TILE is declared inside an #if block"),
        (f"{GOOD}// tunable-if: TILE < LIMIT\n", 2, "LIMIT: no such tunable"),
        (f"{GOOD}// tunable-if: TILE < 8 && 1\n", 2, "is no expression"),
        (f"{GOOD}// tunable-if: TILE.real\n", 2, "is not allowed"),
        (f"{GOOD}// tunable-if: TILE > 16\n", 2, "the defaults do not meet 'TILE > 16'"),
        (f"{GOOD}// tunable-if: 1 / (TILE - 16)\n", 2, "the defaults do not meet"),
        (f"{GOOD}// tunable-hint: latency\n", 2, "expected CODE NAME=value"),
        (f"{GOOD}// tunable-hint: latency PAD=1\n", 2, "PAD: no such tunable"),
        (f"{GOOD}// tunable-hint: latency TILE=4\n", 2, "TILE cannot be 4"),
        ("\n\n// tunable-if: 1\n", 3, "no `#define NAME value  // tunable:` stands by it"),
    ],
)
def test_a_bad_declaration_is_refused_with_its_line(source: str, line: int, reason: str) -> None:
    found = read_space(source)
    assert isinstance(found, InvalidDeclaration)
    assert found.line == line
    assert reason in found.reason
    assert str(found) == f"line {line}: {found.reason}"


def test_more_tunables_than_a_search_can_use_are_refused() -> None:
    source = "".join(f"#define A{n} 1  // tunable: 1 2\n" for n in range(40))
    found = read_space(source)
    assert isinstance(found, InvalidDeclaration)
    assert found.line == 33
