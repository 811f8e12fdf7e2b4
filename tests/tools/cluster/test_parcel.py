"""Values travel with their files, which are named by their contents and sent when they lack."""

import asyncio
import os
import pickle
import shutil
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuda_llm.errors import InfrastructureError, NoMemory, TaskError, UsageError
from cuda_llm.tasks.loader import load_task
from cuda_llm.tasks.reference import load_reference
from cuda_llm.tasks.task import ArgumentRole, Task
from cuda_llm.tools.cluster import bundle
from cuda_llm.tools.cluster.bundle import bundle_of, find, keep, keep_all
from cuda_llm.tools.cluster.parcel import BundlesMissing, Parcel, pack, unpack
from cuda_llm.tools.cluster.worker import answer, forget_secrets, send
from cuda_llm.tools.cuda.memory import MemoryFull
from cuda_llm.tools.cuda.messages import WorkDone, WorkFailed
from cuda_llm.tools.device import Work
from cuda_llm.tools.device.device import do_no_work


def arrive(parcel: Parcel) -> object:
    """What a machine makes of a parcel that it gets with all its files."""
    keep_all(parcel.contents(parcel.bundles.keys()))
    return unpack(parcel.payload, functions=True)


def folder_with(path: Path, files: dict[str, bytes]) -> Path:
    for name, contents in files.items():
        file = path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(contents)
    return path


def test_a_task_arrives_whole_and_its_files_lie_in_the_cache(tmp_path: Path) -> None:
    own = tmp_path / "my_task"
    shutil.copytree(load_task("vector_add").folder, own)
    marked = f"// {os.urandom(8).hex()}"
    (own / "baseline.cu").write_text((own / "baseline.cu").read_text() + marked)
    task = load_task(str(own))
    parcel = pack(task)
    shutil.rmtree(own)  # It is another machine.
    with pytest.raises(FileNotFoundError):
        arrive(parcel)
    shutil.copytree(load_task("vector_add").folder, own)
    (own / "baseline.cu").write_text((own / "baseline.cu").read_text() + marked)
    arrived = arrive(pack(load_task(str(own))))
    shutil.rmtree(own)

    assert type(arrived) is type(task)
    assert arrived.folder != task.folder and arrived.baseline.parent == arrived.folder
    assert marked in arrived.baseline.read_text()
    assert load_reference(arrived) is not None
    assert arrived.sizes == task.sizes and arrived.arguments == task.arguments


def test_that_memory_lacked_on_a_worker_is_known_where_its_reply_arrives() -> None:
    async def lacking(_: object) -> None:
        raise MemoryError("Out of memory allocating 8,589,934,592 bytes")

    work = Work.of(do_no_work)
    answered = asyncio.run(answer(Work, lacking, pack(work).payload, {}, functions=True))
    reply = unpack(send(answered)[0])
    assert isinstance(reply, WorkFailed)
    assert isinstance(reply.error, NoMemory)
    assert "8,589,934,592 bytes" in str(reply.error)
    full = MemoryFull("device memory", "none is to be had")
    arrived = unpack(pack(WorkFailed(error=full)).payload)
    assert isinstance(arrived, WorkFailed)
    assert isinstance(arrived.error, NoMemory)


def test_files_that_are_there_are_not_asked_for_again(tmp_path: Path) -> None:
    file = folder_with(tmp_path, {"kernel.ptx": os.urandom(64)}) / "kernel.ptx"
    parcel = pack(WorkDone(result=file))
    missing = unpack(parcel.payload)
    assert missing == BundlesMissing(frozenset(parcel.bundles))

    first = arrive(parcel)
    assert isinstance(first, WorkDone) and first.result.read_bytes() == file.read_bytes()
    assert unpack(pack(WorkDone(result=file)).payload) == first


def test_a_changed_file_is_another_bundle(tmp_path: Path) -> None:
    file = folder_with(tmp_path, {"a.cu": b"one"}) / "a.cu"
    before = pack(file)
    file.write_bytes(b"other")
    after = pack(file)
    assert before.bundles.keys() != after.bundles.keys()
    with pytest.raises(InfrastructureError, match="changed as it was sent"):
        before.contents(before.bundles.keys())


NAMES = st.sampled_from(["a.cu", "b.h", "include/b.h", "include/deep/er.h", "x.py"])


@given(files=st.dictionaries(NAMES, st.binary(max_size=64), min_size=1))
def test_any_folder_arrives_as_it_was(
    files: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = folder_with(tmp_path_factory.mktemp("folder"), files)
    arrived = arrive(pack(folder))
    assert isinstance(arrived, Path) and arrived != folder
    assert {name: (arrived / name).read_bytes() for name in files} == files


def test_hidden_files_and_what_is_too_large_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder_with(tmp_path, {"a.cu": b"1", ".env": b"KEY=1", "__pycache__/a.pyc": b"2"})
    assert bundle_of(tmp_path).files.keys() == {"a.cu"}
    monkeypatch.setattr(bundle, "MOST_BYTES", 0)
    with pytest.raises(UsageError, match="too much to send to the workers"):
        bundle_of(tmp_path)


def test_files_that_are_not_what_their_key_says_are_refused() -> None:
    key = bundle.Bundle(Path(), {"a": bundle.digest_of(b"1")}).key
    with pytest.raises(InfrastructureError, match="did not arrive as they were sent"):
        keep(key, {"a": b"2"})
    assert find(key) is None


@pytest.mark.parametrize("name", ["../a", "/etc/a", "x/../../a"])
def test_no_file_leaves_its_bundle(name: str) -> None:
    key = bundle.Bundle(Path(), {name: bundle.digest_of(b"1")}).key
    with pytest.raises(InfrastructureError, match="a file is called"):
        keep(key, {name: b"1"})


class _Evil:
    def __init__(self, function: object, *arguments: object) -> None:
        self.reduced = function, arguments

    def __reduce__(self) -> tuple[object, ...]:
        return self.reduced


@pytest.mark.parametrize(
    "value",
    [_Evil(os.system, "true"), _Evil(eval, "1"), _Evil(pickle.loads, b""), _Evil(getattr, 1, "a")],
    ids=["system", "eval", "loads", "getattr"],
)
def test_what_is_no_value_of_ours_is_not_read(value: object) -> None:
    with pytest.raises(InfrastructureError, match="no value of ours"):
        unpack(pickle.dumps(value), functions=True)


def test_members_of_enumerations_arrive_from_python_3_11_0_to_3_11_3() -> None:
    payload = pickle.dumps([_Evil(getattr, ArgumentRole, one.name) for one in ArgumentRole])
    assert unpack(payload) == [*ArgumentRole]


@pytest.mark.parametrize(
    ("owner", "name"), [(ArgumentRole, "mro"), (ArgumentRole, "__class__"), (Task, "__init__")]
)
def test_nothing_else_is_looked_up_by_name(owner: type, name: str) -> None:
    with pytest.raises(InfrastructureError, match="no value of ours"):
        unpack(pickle.dumps(_Evil(getattr, owner, name)), functions=True)


@pytest.mark.parametrize(
    "name", ["tools.cluster.parcel isfunction", "tools.cluster.bundle Path", "tools.cuda.nvml Any"]
)
@pytest.mark.parametrize("functions", [False, True])
def test_what_a_module_of_ours_merely_imports_is_not_read(name: str, functions: bool) -> None:
    module, attribute = name.split()
    payload = f"ccuda_llm.{module}\n{attribute}\n.".encode()
    with pytest.raises(InfrastructureError, match="no value of ours"):
        unpack(payload, functions=functions)


def test_an_answer_names_no_path_of_the_machine_that_reads_it() -> None:
    payload = pack(WorkDone(result=Path("/nowhere/at/all"))).payload
    assert unpack(payload, functions=True) == WorkDone(result=Path("/nowhere/at/all"))
    with pytest.raises(InfrastructureError, match="a path of another machine arrived"):
        unpack(payload)


def test_a_result_names_no_function_and_an_order_may() -> None:
    work = Work.of(do_no_work)
    assert unpack(pack(work).payload, functions=True) == work
    with pytest.raises(InfrastructureError, match="no value of ours"):
        unpack(pack(work).payload)


def test_errors_of_ours_travel_as_they_are() -> None:
    error = unpack(pack(TaskError("reference.py: no function reference")).payload)
    assert isinstance(error, TaskError) and str(error) == "reference.py: no function reference"


def test_garbage_is_told_in_one_line() -> None:
    with pytest.raises(InfrastructureError, match="cannot be read") as caught:
        unpack(b"\x80\x05garbage")
    assert "\n" not in str(caught.value)


def test_a_worker_forgets_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1234567890")
    monkeypatch.setenv("CUDA_LLM_TEST_PLAIN", "kept")
    forget_secrets()
    assert "OPENAI_API_KEY" not in os.environ and os.environ["CUDA_LLM_TEST_PLAIN"] == "kept"
