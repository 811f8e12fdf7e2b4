"""Every command that the program prints is here, with the test that runs it as it is printed."""

import ast
import asyncio
import html
import json
import os
import re
import shlex
import shutil
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from commands import Command, Ran
from exported_package import winner_of
from printed_commands import BEGINS, ROOT, Place, Shell, commands_in, find_places, own_scripts
from run_starts import asked, parts
from tiny_tasks import tiny_task

from cuda_llm.cli.doctor import MACHINE_LACKS
from cuda_llm.errors import UsageError
from cuda_llm.graph.runs.start import start
from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.compiler.nvcc import find_toolkit
from cuda_llm.tools.cuda.quarantine import put_in_quarantine, quarantine_remedy
from cuda_llm.tools.validator.example_case import draw_example
from cuda_llm.traces.export.export import ExampleData, export
from cuda_llm.traces.report.serve import ReportServer

RUN = "test_a_run_goes_on_is_shown_checked_exported_and_forked_by_what_is_printed"
START = "test_a_folder_without_runs_says_how_to_start_one_there"
TASK = "test_a_task_of_ones_own_is_checked_by_what_is_printed"
TOLD = "test_what_is_printed_without_a_hole_runs"
INSTALL = "test_what_is_missing_is_installed_by_what_is_printed"
ON_GPU = "test_what_is_printed_of_a_gpu_runs_on_one"
MAKE_ON_GPU = "test_an_export_is_built_and_checked_by_its_readme"
BENCH = "tests/cuda_llm/cli/test_bench.py"
REPLAY = "tests/cuda_llm/cli/test_replay.py"
SPANS = "tests/traces/otlp/test_spans.py"
BUILDS = "tests/traces/export/test_builds.py"

RUN_BY: dict[Place, str] = {
    Place("graph/benchmark/folder.py", "cuda-llm bench --resume {}"): (
        f"{BENCH}::test_a_killed_benchmark_goes_on_by_the_command_that_it_prints"
    ),
    Place("graph/runs/replay.py", "cuda-llm tasks list"): TOLD,
    Place("graph/runs/result_table.py", "pip install {}"): INSTALL,
    Place("graph/runs/start.py", "cuda-llm resume {}"): RUN,
    Place("graph/runs/start.py", "cuda-llm resume {} --from-round K --edit-hints"): RUN,
    Place("graph/runs/start.py", "cuda-llm resume {} --from-round {}"): RUN,
    Place("src/cuda_llm/cli/doctor.py", "pip install nvidia-ml-py"): INSTALL,
    Place("src/cuda_llm/cli/hardware.py", "cuda-llm hardware detect --write DIR"): ON_GPU,
    Place("src/cuda_llm/cli/run.py", "cuda-llm resume {}"): RUN,
    Place("src/cuda_llm/cli/run_output.py", "cuda-llm resume {}"): RUN,
    Place("src/cuda_llm/cli/run_output.py", "cuda-llm trace show {}"): RUN,
    Place("src/cuda_llm/cli/run_output.py", "diff -r {} {}"): (
        f"{REPLAY}::test_the_command_that_is_printed_shows_what_was_asked_otherwise"
    ),
    Place("src/cuda_llm/cli/run_output.py", "sh {}"): RUN,
    Place("src/cuda_llm/cli/tasks.py", "cuda-llm tasks check {}"): TASK,
    Place("src/cuda_llm/cli/trace.py", "cd {} && {}"): RUN,
    Place("src/cuda_llm/cli/trace.py", "cuda-llm run vector_add{}"): START,
    Place("tasks/objective.py", "cuda-llm tasks show {}"): TASK,
    Place("tasks/own_sizes.py", "cuda-llm tasks show {}"): TASK,
    Place("tasks/torch_module.py", "pip install 'cuda-llm[torch]'"): INSTALL,
    Place("tools/cluster/connection.py", "pip install 'cuda-llm[ray]'"): INSTALL,
    Place("tools/cluster/open_cluster.py", "pip install 'cuda-llm[ray]'"): INSTALL,
    Place("tools/compiler/nvcc.py", "pip install 'cuda-llm[toolkit]'"): INSTALL,
    Place("tools/cuda/arrays.py", "pip install 'cuda-llm[gpu]'"): INSTALL,
    Place("tools/cuda/arrays.py", "pip install 'cuda-llm[worker]'"): INSTALL,
    Place("tools/cuda/device.py", "pip install 'cuda-llm[{}]'"): INSTALL,
    Place("tools/cuda/open_cuda.py", "cuda-llm doctor"): TOLD,
    Place("tools/cuda/open_cuda.py", "cuda-llm hardware detect"): ON_GPU,
    Place("tools/cuda/open_cuda.py", "cuda-llm hardware detect --write DIR"): ON_GPU,
    Place("tools/cuda/probe.py", "pip install 'cuda-llm[gpu]'"): INSTALL,
    Place("tools/cuda/quarantine.py", "cuda-llm doctor --lift {}"): (
        "test_a_gpu_is_let_out_of_quarantine_by_what_is_printed"
    ),
    Place("tools/cuda/solve_driver.py", "pip install 'cuda-llm[toolkit]'"): INSTALL,
    Place("tools/timing/failures.py", "cuda-llm tasks check {}"): TASK,
    Place("tools/native/build.py", "apt-get install g++"): INSTALL,
    Place("traces/best.py", "cuda-llm evaluate {} {} --device {} {} {}"): RUN,
    Place("traces/best.py", "{} -P -m cuda_llm {}"): RUN,
    Place("traces/ending_text.py", "cuda-llm export {} --to {}"): RUN,
    Place("traces/ending_text.py", "cuda-llm resume {}"): RUN,
    Place("traces/event_table.py", "pip install 'cuda-llm[parquet]'"): INSTALL,
    Place("traces/export/carried/on_cupy.py", "pip install cupy-cuda13x"): INSTALL,
    Place("traces/export/carried/on_torch.py", "pip install torch"): INSTALL,
    Place("traces/export/export.py", "nvcc -O3 -arch=native -include=solve.h -I."): MAKE_ON_GPU,
    Place("traces/export/export.py", "nvcc -O3 -arch=native -include=solve.h -I. {}"): MAKE_ON_GPU,
    Place("traces/export/templates/Makefile.j2", "make"): MAKE_ON_GPU,
    Place("traces/export/templates/Makefile.j2", "make ARCH=sm_90"): (
        f"{BUILDS}::test_the_plain_export_of_every_kind_of_task_compiles_with_its_own_makefile"
    ),
    Place("traces/export/templates/Makefile.j2", "make check"): MAKE_ON_GPU,
    Place("traces/export/templates/README.md.j2", "cuda-llm evaluate {}"): RUN,
    Place("traces/export/templates/README.md.j2", "make"): MAKE_ON_GPU,
    Place("traces/export/templates/README.md.j2", "make check"): MAKE_ON_GPU,
    Place("traces/export/templates/README.md.j2", "nvcc {}"): MAKE_ON_GPU,
    Place("traces/export/templates/example.cu.j2", "cuda-llm evaluate {}"): (
        f"{BUILDS}::test_an_example_without_a_reference_says_that_nothing_is_checked"
    ),
    Place("traces/find.py", "cuda-llm trace list{}"): RUN,
    Place("traces/otlp/send.py", "cuda-llm trace otlp {}"): (
        f"{SPANS}::test_an_unreachable_collector_leaves_the_run_as_it_is"
    ),
    Place("traces/otlp/send.py", "pip install 'cuda-llm[otlp]'"): INSTALL,
    Place("traces/report/assets/compare.js", "cuda-llm trace report {} --compare OTHER"): RUN,
    Place("traces/report/serve.py", "cuda-llm run TASK{}"): START,
    Place("traces/terminal/short.py", "cuda-llm trace candidate {} {}"): RUN,
    Place("traces/terminal/short.py", "cuda-llm trace show {} --long"): RUN,
}
"""Place to test. Whoever prints a new command adds it, and lets a test run it as printed."""

BARE_PATH = "/usr/bin:/bin"


class Printed:
    """The commands of a test, run as printed."""

    def __init__(self, places: set[Place], shell: Shell, ask: Command) -> None:
        self.left = places
        self.shell = shell
        self.ask = ask
        """Runs a command in this process, in the folder of the shell."""

    def pick(self, text: str, begins: str) -> str:
        """The one command of a text that begins so. Every command in it must be in the table."""
        lines = list(dict.fromkeys(commands_in(text)))
        strange = [one for one in lines if not any(place.fits(one) for place in RUN_BY)]
        assert not strange, f"printed, but in no row of the table: {strange}"
        (found,) = [one for one in lines if one.startswith(begins)]
        return found

    def run(self, line: str, **env: str) -> Ran:
        """Run a printed line to its end."""
        self.saw(line)
        return self.shell.run(line, **env)

    def begin(self, line: str, is_under_way: Callable[[], bool], **env: str) -> Ran:
        """Run a printed line until it is under way."""
        self.saw(line)
        return self.shell.begin(line, is_under_way, **env)

    def saw(self, line: str) -> None:
        """Cross out the places that print this line."""
        self.left -= {one for one in self.left if one.fits(line)}


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    """A shell in a folder with a space, where the command is installed."""
    folder = tmp_path / "a folder"
    folder.mkdir()
    path = f"{own_scripts()}:{os.environ['PATH']}"
    return Shell(folder, {**os.environ, "PATH": path, "CUDA_LLM_NVCC": str(find_toolkit().nvcc)})


@pytest.fixture
def printed(
    shell: Shell, command: Command, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Printed]:
    """The commands of this test; it fails where one of them is not run."""
    mine = {place for place, test in RUN_BY.items() if test == request.node.originalname}
    assert mine, "no row of the table names this test"
    monkeypatch.chdir(shell.folder)
    one = Printed(mine, shell, command)
    yield one
    assert not one.left, f"never run: {one.left}"


def test_every_place_that_prints_a_command_names_the_test_that_runs_it() -> None:
    found = find_places()
    missing = [f"{one.where} prints `{one.command}`" for one in sorted(found - {*RUN_BY})]
    assert not missing, f"no test runs it; add to RUN_BY: {'; '.join(missing)}"
    gone = [f"{one.where}: `{one.command}`" for one in sorted({*RUN_BY} - found)]
    assert not gone, f"no longer printed; take out of RUN_BY: {'; '.join(gone)}"


def test_every_test_that_the_table_names_is_there() -> None:
    here = str(Path(__file__).relative_to(ROOT))
    for named in {*RUN_BY.values()}:
        file, _, name = named.rpartition("::")
        tree = ast.parse((ROOT / (file or here)).read_text())
        assert name in {one.name for one in tree.body if isinstance(one, ast.FunctionDef)}, named


def test_a_new_command_anywhere_in_a_text_is_found() -> None:
    assert [*commands_in("see `cuda-llm trace show` or\nmend it: pip install 'x[y]'")] == [
        "cuda-llm trace show",
        "pip install 'x[y]'",
    ]
    assert not BEGINS.search("written by cuda-llm 1.2; a shell; refresh it")


def test_a_run_goes_on_is_shown_checked_exported_and_forked_by_what_is_printed(
    printed: Printed, shell: Shell
) -> None:
    options = "--candidates 1 --rounds 1 --tune 0 --objective largest --review"
    tiny_task(shell.folder, "vector_add")
    begun = shell.run(f'cuda-llm run ./vector_add --device emulated {options} --out "runs o\'mine"')
    assert begun.code == 0, begun.stderr
    (run,) = (shell.folder / "runs o'mine").iterdir()
    ended = go_on(printed, run, begun)
    check(printed, run, ended)
    short = printed.run(printed.pick(ended.stdout, "cuda-llm trace show"))
    show(printed, short.stdout)
    export_winner(printed, short.stdout)
    other = fork(printed, run)
    compare(printed, run, other)


def go_on(printed: Printed, run: Path, begun: Ran) -> Ran:
    """Go on with a stopped run in every way that is printed; return how it ended."""
    wrong = printed.ask("trace", "show", "nothing", "--out", run.parent.name)
    listed = printed.run(printed.pick(wrong.stderr, "cuda-llm trace list"))
    assert (listed.code, run.name in listed.stdout) == (0, True), listed.stderr
    shown = printed.ask("trace", "show", "latest", "--out", run.parent.name)
    with pytest.raises(UsageError) as taken:
        asyncio.run(start(asked(run.parent, run_id=run.name), overrides=parts()))
    texts = (begun.stderr, begun.stdout, str(taken.value), shown.stdout)
    *others, last = dict.fromkeys(printed.pick(text, "cuda-llm resume") for text in texts)
    assert others, "an absolute name and one from this folder"
    for times, line in enumerate(others, start=1):
        stopped = printed.begin(line, lambda times=times: count(run, "run_resumed") == times)  # type: ignore[misc]
        assert stopped.code == 130, stopped.stderr
    ended = printed.run(last)
    assert ended.code == 0, ended.stderr
    return ended


def check(printed: Printed, run: Path, ended: Ran) -> None:
    """Judge the winner again, with the environment activated and without."""
    line = printed.pick(ended.stdout, "sh ")
    judged = printed.run(line, PATH=BARE_PATH)
    assert (judged.code, "solve.cu · vector_add" in judged.stdout) == (0, True), judged.stderr
    other = printed.shell.folder / "bin/cuda-llm"
    other.parent.mkdir()
    other.write_text('#!/bin/sh\npwd\nprintf "%s|" "$@"\n')
    other.chmod(0o755)
    active = printed.run(line, PATH=f"{other.parent}:{BARE_PATH}").stdout
    task = printed.shell.folder / "vector_add"
    assert active.startswith(f"{run / 'best'}\nevaluate|{task}|solve.cu|--device|emulated")
    _, _, own, again = (run / "best/verify.sh").read_text().splitlines()
    assert again == f"exec {printed.pick((run / 'best/report.md').read_text(), 'cuda-llm')}"
    assert again.endswith(" --objective largest")
    printed.saw(own.partition("exec ")[2])
    printed.saw(again.removeprefix("exec "))


def show(printed: Printed, short: str) -> None:
    """Show all of the run, and its winner."""
    long = printed.run(printed.pick(short, "cuda-llm trace show"))
    assert (long.code, "round 1" in long.stdout) == (0, True), long.stderr
    one = printed.run(printed.pick(short, "cuda-llm trace candidate"))
    assert (one.code, "__global__" in one.stdout) == (0, True), one.stderr


def export_winner(printed: Printed, short: str) -> None:
    """Export the winner in each form; judge it and build it there."""
    lines = [one for one in commands_in(short) if one.startswith("cuda-llm export")]
    assert [one.rpartition(" ")[2] for one in lines] == ["cu", "cupy", "torch"]
    told = [printed.run(one) for one in lines]
    assert [one.code for one in told] == [0, 0, 0]
    judge = printed.pick(told[0].stdout, "cd ")
    judged = printed.run(judge)
    assert (judged.code, "solve.cu · vector_add" in judged.stdout) == (0, True), judged.stderr
    folder = printed.shell.folder / "vector_add_cu"
    again = printed.pick((folder / "README.md").read_text(), "cuda-llm")
    assert judge == f"cd vector_add_cu && {again}"
    printed.saw(again)


def fork(printed: Printed, run: Path) -> Path:
    """Fork the finished run, and once more where the fork has lost its beginning."""
    refused = printed.ask("resume", run.name, "--out", run.parent.name)
    line = printed.pick(refused.stderr, "cuda-llm resume")
    printed.saw(line)
    first = fork_by(printed, line.replace(" K ", " 0 "), run.parent, EDITOR="true")
    for file in first.glob("checkpoint.sqlite*"):
        file.unlink()
    refused = printed.ask("resume", first.name, "--out", run.parent.name)
    return fork_by(printed, printed.pick(refused.stderr, "cuda-llm resume"), run.parent)


def fork_by(printed: Printed, line: str, runs: Path, **env: str) -> Path:
    """Fork by a printed line; return the new run, stopped where it began."""
    before = {*runs.iterdir()}

    def forked() -> list[Path]:
        new = [one for one in runs.iterdir() if one not in before and count(one, "run_forked")]
        return [one for one in new if "run_resumed" in after_fork(one)]

    stopped = printed.begin(line, lambda: bool(forked()), **env)
    # By Ctrl-C, or before it for the review that the fork has inherited.
    assert stopped.code in (0, 130), stopped.stderr
    assert len(forked()) == 1
    return forked()[0]


def after_fork(run: Path) -> str:
    """The events that the fork did not take over."""
    return (run / "events.jsonl").read_text().rpartition('"kind":"run_forked"')[2]


def compare(printed: Printed, run: Path, other: Path) -> None:
    """Put another run beside it, as its report says."""
    report = printed.ask("trace", "report", run.name, "--runs", run.parent.name)
    assert report.code == 0, report.stderr
    _, _, data = (run / "report.html").read_text().partition('"spelled":')
    spelled, _ = json.JSONDecoder().raw_decode(data)
    script = (
        (ROOT / "traces/report/assets/compare.js").read_text().replace("${RUN.spelled}", spelled)
    )
    line = printed.pick(script, "cuda-llm trace report")
    printed.saw(line)
    beside = printed.shell.run(line.replace("OTHER", shlex.quote(str(other))))
    assert (beside.code, other.name in (run / "report.html").read_text()) == (0, True), (
        beside.stderr
    )


def count(run: Path, kind: str) -> int:
    """How many events of a kind the run has recorded."""
    events = run / "events.jsonl"
    return events.read_text().count(f'"kind":"{kind}"') if events.exists() else 0


def with_nvcc(env: Mapping[str, str]) -> dict[str, str]:
    """An environment in which nvcc is on the PATH."""
    return {**env, "PATH": f"{find_toolkit().nvcc.parent}:{env['PATH']}"}


def test_a_folder_without_runs_says_how_to_start_one_there(printed: Printed) -> None:
    runs = Path("no runs yet")
    runs.mkdir()
    with ReportServer(runs) as server:
        page = server.page("/")
    (shown,) = re.findall("<code>(.*?)</code>", page or "")
    line = printed.pick(html.unescape(shown), "cuda-llm run")
    printed.saw(line)
    listed = printed.ask("trace", "list", "--out", runs)
    assert line.replace("TASK", "vector_add") == printed.pick(listed.stdout, "cuda-llm run")
    stopped = printed.begin(
        line.replace("TASK", "vector_add"),
        lambda: any(count(one, "run_started") for one in runs.iterdir()),
    )
    assert stopped.code == 130, stopped.stderr


def test_a_task_of_ones_own_is_checked_by_what_is_printed(printed: Printed, shell: Shell) -> None:
    (shell.folder / "my tasks").mkdir()
    made = printed.ask("tasks", "new", "mine", "--out", "my tasks")
    line = printed.pick(made.stdout, "cuda-llm tasks check")
    proved = printed.run(line)
    assert proved.code == 0, proved.stdout + proved.stderr

    task = shell.folder / "my tasks/mine"
    kernel = (task / "baseline.cu").read_text()
    (shell.folder / "mine.cu").write_text(kernel)
    unfit = printed.ask("evaluate", "my tasks/mine", "mine.cu", *["--weight", 1] * 99)
    unsized = printed.ask("evaluate", "my tasks/mine", "mine.cu", "--size", "n")
    for refused in (unfit, unsized):
        told = printed.run(printed.pick(refused.stderr, "cuda-llm tasks show"))
        assert (told.code, "mine" in told.stdout) == (0, True), told.stderr

    (task / "baseline.cu").write_text(kernel.replace('extern "C"', "oops"))
    refused = printed.ask("evaluate", "my tasks/mine", "mine.cu", "--device", "emulated")
    line = printed.pick(refused.stderr, "cuda-llm tasks check")
    assert "COMPILE_FAILED" in printed.run(line).stdout


def test_what_is_printed_without_a_hole_runs(printed: Printed, shell: Shell) -> None:
    unnamed = printed.ask("run")
    tasks = printed.run(printed.pick(unnamed.stderr, "cuda-llm tasks list"))
    assert (tasks.code, "vector_add" in tasks.stdout) == (0, True), tasks.stderr
    doctor = printed.run("cuda-llm doctor")
    assert doctor.code in (0, MACHINE_LACKS)
    assert "nvcc" in doctor.stdout


def test_a_gpu_is_let_out_of_quarantine_by_what_is_printed(
    printed: Printed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_LLM_CACHE", str(tmp_path / "cache"))
    put_in_quarantine("GPU-1", "cuda:0", "7 known words were wrong")
    line = printed.pick(quarantine_remedy("cuda:0"), "cuda-llm doctor")
    lifted = printed.run(line, CUDA_LLM_CACHE=str(tmp_path / "cache"))
    assert (lifted.code, "cuda:0 (GPU-1) is used again" in lifted.stdout) == (0, True)


FILLED = {
    "pip install {}": ("pip install pandas", "pip install polars"),
    "pip install 'cuda-llm[{}]'": (
        "pip install 'cuda-llm[gpu]'",
        "pip install 'cuda-llm[gpu-cuda12]'",
    ),
}


def test_what_is_missing_is_installed_by_what_is_printed(printed: Printed, tmp_path: Path) -> None:
    """Nothing is fetched: pip and apt only say what they would do, pip from empty packages."""
    lines = {one for place in printed.left for one in FILLED.get(place.command, (place.command,))}
    for name in {line.split()[-1] for line in lines if "'" not in line}:
        write_empty_package(tmp_path, name)
    (tmp_path / "apt.conf").write_text('APT::Get::Simulate "true";\n')
    pip = {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(tmp_path), "PIP_NO_DEPS": "1"}
    env = {**pip, "PIP_DRY_RUN": "1", "APT_CONFIG": str(tmp_path / "apt.conf")}
    for line in sorted(lines):
        if line.startswith("apt-get") and shutil.which("apt-get") is None:
            printed.saw(line)
            continue
        done = printed.run(line, **env)
        assert done.code == 0, f"{line}: {done.stderr}"
        assert "does not provide the extra" not in done.stderr


def write_empty_package(folder: Path, name: str) -> None:
    """Write a wheel that holds nothing."""
    plain = name.replace("-", "_")
    info = f"{plain}-1.dist-info"
    with zipfile.ZipFile(folder / f"{plain}-1-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1\n")
        tag = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        wheel.writestr(f"{info}/WHEEL", tag)
        wheel.writestr(f"{info}/RECORD", "")


def has_gpu() -> bool:
    return Path("/proc/driver/nvidia/version").exists()


@pytest.mark.gpu
def test_what_is_printed_of_a_gpu_runs_on_one(printed: Printed, shell: Shell) -> None:
    if not has_gpu():
        printed.left.clear()
        pytest.skip("no GPU is here")
    for line in sorted({one.command for one in printed.left}):
        printed.saw(line)
        done = shell.run(line.replace("DIR", "drafts"))
        assert done.code == 0, done.stderr
    assert [*(shell.folder / "drafts").glob("*.toml")]


@pytest.mark.gpu
def test_an_export_is_built_and_checked_by_its_readme(printed: Printed, tmp_path: Path) -> None:
    if not has_gpu():
        printed.left.clear()
        pytest.skip("no GPU is here")
    example = ExampleData(**vars(draw_example(load_task("vector_add"))))
    folder = export(winner_of("vector_add"), "cu", tmp_path / "out", example=example)
    shell = Shell(folder, with_nvcc(printed.shell.env))
    text = (folder / "README.md").read_text()
    lines = [*re.findall("^    (make.*?)(?:  |$)", text, re.MULTILINE)]
    lines.append(printed.pick(text, "nvcc"))
    for line in lines:
        printed.saw(line)
        done = shell.run(line)
        assert done.code == 0, done.stderr
    assert printed.left <= {one for one in RUN_BY if one.command.startswith("nvcc")}
    printed.left.clear()
