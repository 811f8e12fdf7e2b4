"""Which files of a task, and which of their words, decide a run."""

from pathlib import Path

from cuda_llm.graph.runs.record import task_digests
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.new_task import skeleton, write_task


def test_what_others_publish_of_a_task_decides_no_run(tmp_path: Path) -> None:
    folder = write_task("mine", tmp_path, skeleton("mine"))
    file = folder / "task.toml"
    before, text = task_digests(load_task(folder)), file.read_text()
    table = (
        "\n[published]\nabsolute_tolerance = 1e-2\n"
        'speedups = [\n    { gpu = "RTX 3090 Ti", factor = 2, source = "a table" },\n]\n'
    )
    file.write_text(text + table)
    assert load_task(folder).published is not None
    assert task_digests(load_task(folder)) == before
    head, sizes, rest = text.partition("\n[sizes]\n")
    file.write_text(head + table.rstrip("\n") + sizes + rest)
    assert task_digests(load_task(folder)) == before
    file.write_text(text.replace("[sizes]", "# more\n[sizes]") + table)
    assert task_digests(load_task(folder)) != before
