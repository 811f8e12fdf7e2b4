"""Task folders: what loads, and the one line that says why another does not."""

import re
from pathlib import Path

import pytest

from cuda_llm.errors import TaskError
from cuda_llm.tasks.loader import list_tasks, load_task
from cuda_llm.tasks.task import ArgumentRole, DimRange, SummationOrder


def change(folder: Path, old: str, new: str) -> None:
    file = folder / "task.toml"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


def complaint(folder: Path) -> str:
    with pytest.raises(TaskError) as caught:
        load_task(folder)
    message = str(caught.value)
    assert "\n" not in message
    return message


PUBLISHED = 20
"""Tasks of the CUDA-LLM benchmark (arXiv 2506.09092)."""
OTHERS = {"vector_add", "softmax", "rms_norm", "gemm_fp16", "attention_fp16", "mlp_block"}


def test_the_tasks_of_the_paper_and_those_asked_for_first_ship() -> None:
    tasks = [load_task(name) for name in list_tasks()]
    published = [task for task in tasks if task.published is not None]
    assert {task.name for task in tasks} - {task.name for task in published} == OTHERS
    numbers = sorted(int(re.findall(r"task (\d+) of", task.origin)[0]) for task in published)
    assert numbers == list(range(1, PUBLISHED + 1))
    for task in published:
        assert task.published is not None
        assert len(task.sizes.bench) == 5
        assert {one.gpu for one in task.published.speedups} == {"GTX 1660 SUPER", "RTX 3090 Ti"}


def test_a_folder_loads_by_path_and_by_its_file(folder: Path) -> None:
    task = load_task(folder)
    assert task.name == "mine"
    assert [argument.role for argument in task.arguments] == [
        ArgumentRole.IN,
        ArgumentRole.OUT,
        ArgumentRole.SCALAR,
    ]
    assert task.reference == folder.resolve() / "reference.py"
    assert load_task(str(folder / "task.toml")) == task


def test_what_is_published_and_the_libraries_belong_to_the_task(folder: Path) -> None:
    assert load_task(folder).published is None
    assert load_task(folder).libraries == ()
    file = folder / "task.toml"
    file.write_text(
        file.read_text() + "\n[published]\nabsolute_tolerance = 1e-2\n"
        'speedups = [{ gpu = "RTX 3090 Ti", factor = 1.5, source = "a table" }]\n'
    )
    (folder / "vendor.cu").write_text("// CUB")
    task = load_task(folder)
    assert task.published is not None
    assert task.published.absolute_tolerance == 1e-2
    assert [(one.gpu, one.factor) for one in task.published.speedups] == [("RTX 3090 Ti", 1.5)]
    assert task.libraries == (folder.resolve() / "vendor.cu",)


def test_a_published_factor_is_positive(folder: Path) -> None:
    file = folder / "task.toml"
    file.write_text(
        file.read_text() + "\n[published]\nabsolute_tolerance = 1e-2\n"
        'speedups = [{ gpu = "RTX 3090 Ti", factor = 0, source = "a table" }]\n'
    )
    assert "published.speedups[0].factor" in complaint(folder)


def test_a_scalar_named_after_a_dim_has_its_value(folder: Path) -> None:
    assert load_task(folder).arguments[2].value == "n"


def test_without_a_reference_the_baseline_is_the_oracle(folder: Path) -> None:
    (folder / "reference.py").unlink()
    assert load_task(folder).reference is None


def test_hidden_sizes_span_the_known_ones_by_default(folder: Path) -> None:
    file = folder / "task.toml"
    lines = file.read_text().splitlines()
    start = lines.index("[sizes.hidden]")
    end = lines.index("", start)
    file.write_text("\n".join(lines[:start] + lines[end:]))
    hidden = load_task(folder).sizes.hidden
    assert hidden.dims == {"n": DimRange(minimum=1, maximum=262144)}
    assert hidden.max_cost == 9 * 262144


def test_a_host_file_of_its_own_replaces_the_generated_one(folder: Path) -> None:
    (folder / "host.cu").write_text("// mine\n")
    assert load_task(folder).host == "// mine\n"


def test_an_unknown_task_suggests_the_nearest() -> None:
    with pytest.raises(TaskError, match="did you mean histogram"):
        load_task("histogramm")
    with pytest.raises(TaskError, match="known: attention_fp16, "):
        load_task("zzz")


@pytest.mark.parametrize("path", ["./nothing", "nothing/here", Path("nothing")])
def test_a_path_without_a_folder_lists_no_tasks(path: str | Path) -> None:
    with pytest.raises(TaskError) as caught:
        load_task(path)
    assert str(caught.value).endswith("no such folder; expected the folder of a task.toml")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('title = "', 'titel = "', "title: found nothing; expected some text"),
        ("linear = true", "linaer = true", "linaer: found an unknown key; expected linear"),
        ("linear = true", 'linear = "yes"', "linear: found yes; expected true or false"),
        (
            'role = "in"',
            'role = "input"',
            "arguments[0].role: found input; expected 'in', 'out', 'inout', 'workspace'",
        ),
        (
            'dtype = "float32"',
            'dtype = "float"',
            "arguments[0].dtype: found float; expected one of",
        ),
        (
            'shape = ["n"]',
            'shape = ["m"]',
            "arguments[0].shape[0]: found 'm' with unknown m; expected",
        ),
        ('shape = ["n"]', 'shape = ["n - 9"]', "sizes.edge[0]: found x: n - 9 is -8 at"),
        (
            'role = "out"',
            'role = "out"\nprobe = "normal"',
            "arguments[1].probe: found normal; expected no",
        ),
        (
            "linear = true",
            'name = "x"',
            "mine/task.toml: name: found an unknown key; expected one of",
        ),
        ("linear = true", "weights = [1, 0]", "weights[1]: found 0; expected a number above 0"),
        (
            "min = 1, max",
            "minimum = 1, max",
            "sizes.hidden.dims.n.min: found nothing; expected a whole",
        ),
        (
            "min = 1, max",
            "min = 1, most = 2, max",
            "n.most: found an unknown key; expected one of min,",
        ),
        (
            "[roofline]",
            "[roofline]\nn = 1",
            "roofline.n: found an unknown key; expected one of flops",
        ),
        (
            "[tolerance]",
            "[tolerance]\nterms = true",
            "tolerance.terms: found True; expected an expr",
        ),
        ("[sizes]", "[sizes]\nbench = 3\n[more]", "sizes.bench: found 3; expected an array"),
        ('shape = ["n"]', "shape = []", "arguments[0].shape: found []; expected an array"),
        (
            'shape = ["n"]',
            'shape = ["n.real"]',
            "arguments[0].shape[0]: found 'n.real': `n.real` is",
        ),
        (
            '"normal", "uniform_signed"',
            '"gaussian"',
            "argument x: arguments[0].distributions[0]: found gaussian; expected a distribution ("
            "gaussian is no known distribution; known: normal, ",
        ),
        ('"normal", "uniform_signed"', '"bins(n)"', "found bins for float32; expected"),
        ('"normal", "uniform_signed"', '"uniform(0, m)"', "found unknown m; expected only n"),
        ('name = "y"', 'name = "x"', "arguments[1].name: found x twice; expected"),
        ('name = "y"', 'name = "n"', "arguments[1].name: found n, which is a dim; expected"),
        ('name = "x"', 'name = "x y"', "arguments[0].name: found x y; expected letters"),
        ('role = "out"', 'role = "in"', "arguments[1].distributions: found none; expected"),
        ("{ n = 1 }, { n = 3 }", "{ n = -1 }", "sizes.edge[0].n: found -1; expected a whole"),
        ("{ n = 1 }, { n = 3 }", "{ m = 1 }", "sizes.edge[0].n: found nothing; expected"),
        ("{ n = 1 }, { n = 3 }", "7", "sizes.edge[0]: found 7; expected a table"),
        ("min = 1, max", "min = 9, multiple_of = 8, max", ""),
        ("max = 300000", "max = 0", "sizes.hidden.dims.n.max: found 0; expected"),
        (
            "min = 1, max = 300000",
            "min = 9, max = 15, multiple_of = 8",
            "found 15; expected room for a multiple of 8 from 9 on",
        ),
        ('kind = "elementwise"', 'kind = "close"', "tolerance.kind: found close; expected 'ele"),
        ('precision = "fp32"', 'precision = "fp33"', "tolerance.precision: found fp33; expected"),
        (
            'precision = "fp32"',
            "max_units = -1",
            "tolerance.max_units: found -1; expected a number",
        ),
        ('flops = "n"', 'flops = "n n"', "roofline.flops: found 'n n' is no expression"),
        ('scratch_bytes = "0"', "scratch = 0", "capabilities.scratch: found an unknown key"),
        ('scratch_bytes = "0"', 'include_dirs = ["no"]', "capabilities.include_dirs[0]: found no"),
        (
            "linear = true",
            "weights = [1, 2, 3]",
            "weights: found 3 numbers; expected 2, one a bench",
        ),
        (
            "linear = true",
            'comparator = "f"\nrequires = "n > 1"',
            "sizes.edge[0]: found {'n': 1}; ex",
        ),
        ("[dims]", "[dims", "is not TOML: "),
        ("[dims]", "[dim]", "dims: found nothing; expected a table"),
        ("[dims]", "dims = 3\n[dim]", "dims: found 3; expected a table"),
        ("[dims]", '[dims]\n"a b" = "c"', "dims.a b: found a b; expected letters"),
    ],
)
def test_says_where_and_what_is_wrong(folder: Path, old: str, new: str, message: str) -> None:
    change(folder, old, new)
    if not message:
        load_task(folder)
        return
    found = complaint(folder)
    assert found.startswith(str(folder.resolve() / "task.toml"))
    assert message in found


@pytest.mark.parametrize("name", ["task.toml", "description.md", "baseline.cu"])
def test_names_the_missing_file(folder: Path, name: str) -> None:
    (folder / name).unlink()
    assert complaint(folder).startswith(f"{folder.resolve() / name}: not found")


def test_refuses_an_empty_description(folder: Path) -> None:
    (folder / "description.md").write_text(" \n")
    assert "description.md: is empty" in complaint(folder)


def test_refuses_a_description_that_is_no_text(folder: Path) -> None:
    (folder / "description.md").write_bytes(b"\xff\xfe\x00")
    assert "cannot be read as text" in complaint(folder)


def test_a_comparator_needs_a_reference(folder: Path) -> None:
    change(folder, "linear = true", 'comparator = "compare"')
    (folder / "reference.py").unlink()
    assert "comparator: found compare; expected a reference.py" in complaint(folder)


def test_tolerance_says_which_sums_are_allowed(folder: Path) -> None:
    change(folder, 'kind = "elementwise"', 'kind = "reduction"\norder = "tree"\nterms = "2 * n"')
    tolerance = load_task(folder).tolerance
    assert tolerance.order is SummationOrder.TREE
    assert tolerance.terms == "2 * n"
