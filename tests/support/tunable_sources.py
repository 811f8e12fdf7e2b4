"""Random sources with tunables, for properties that hold of all of them."""

from hypothesis import strategies as st

TUNABLES = {"TILE": (4, 8, 16), "VARIANT": (0, 1, 2), "SKEW": (-1, 0, 1)}
DECLARATIONS = """\
#define TILE 8  // tunable: 4 8 16; edge
#define VARIANT 0  // tunable: 0 1 2
#define SKEW 0  // tunable: -1 0 1
// tunable-if: TILE * TILE >= 16 or VARIANT == 0
#define ROWS (TILE / 2)
#define AREA(x) ((x) * ROWS)
"""

points = st.fixed_dictionaries({name: st.sampled_from(v) for name, v in TUNABLES.items()})

_names = st.sampled_from(sorted(TUNABLES))
_literals = st.sampled_from(["0", "1", "2", "8L", "0x10", "020", "0b11", "1'0"])
_binary = st.sampled_from(
    ["+", "-", "*", "/", "%", "<<", ">>", "<", "<=", ">", ">=", "==", "!=", "&", "|", "^"]
    + ["&&", "||"] * 4
)
_decided = st.recursive(
    _names | _literals | _names.map(lambda name: f"defined({name})"),
    lambda inner: st.one_of(
        st.tuples(inner, _binary, inner).map(" ".join),
        inner.map(lambda text: f"({text})"),
        st.tuples(st.sampled_from("!-~+"), inner).map(lambda pair: f"{pair[0]} {pair[1]}"),
        st.tuples(inner, inner, inner).map(lambda three: "{} ? {} : {}".format(*three)),
    ),
    max_leaves=5,
)
_open = st.sampled_from(["defined(__CUDACC__)", "OTHER > 1", "TILE > 4 && OTHER", "__cplusplus"])
_statements = st.sampled_from(
    [
        "int a = TILE;\n",
        "int b = AREA(VARIANT); // a comment\n",
        "f(ROWS, \\\n  SKEW);\n",
        'const char* s = "#if TILE // no comment";\n',
        'const char* r = R"x(\n#if TILE\n)x";\n',
        "/* #else\n#endif */ int c;\n",
        "\n",
        "int d = 'x';\n",
        "#pragma unroll ROWS\n",
    ]
)


def _block(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    opening = st.one_of(
        _decided.map(lambda text: f"#if {text}"),
        _decided.map(lambda text: f"#if {text}"),
        _open.map(lambda text: f"#if {text}"),
        _names.map(lambda name: f"  # ifdef {name}"),
        _names.map(lambda name: f"#ifndef {name} // not so"),
        st.just("#ifdef OTHER"),
    )
    further = st.lists(st.tuples(_decided | _open, inner), max_size=2)
    return st.tuples(opening, inner, further, st.none() | inner).map(_written)


def _written(parts: tuple[str, str, list[tuple[str, str]], str | None]) -> str:
    opening, body, further, last = parts
    elifs = "".join(f"#elif {condition}\n{text}" for condition, text in further)
    otherwise = "" if last is None else "#else\n" + last
    return f"{opening}\n{body}{elifs}{otherwise}#endif\n"


_bodies = st.recursive(
    st.lists(_statements, max_size=3).map("".join),
    lambda inner: st.one_of(_block(inner), st.tuples(inner, inner).map("".join)),
    max_leaves=8,
)

sources = st.tuples(_bodies, _bodies).map(lambda pair: f"{DECLARATIONS}{pair[0]}{pair[1]}")
"""Whole sources whose declarations are `TUNABLES`."""
