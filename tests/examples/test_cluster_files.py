"""The files that set a cluster up start what they should, and keep keys and ports to themselves."""

import re
import shlex
import shutil
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from ray_cluster import wait_until

from cuda_llm import redaction

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples/cluster"
BY_HAND, SLURM, KUBERAY, JUDGE = (
    EXAMPLES / name for name in ("by-hand.sh", "slurm.sbatch", "kuberay.yaml", "judge-files.sbatch")
)
SRUN = {
    *("--export", "--kill-on-bad-exit", "--wait", "--no-kill", "--het-group"),
    *("--nodes", "--ntasks", "--ntasks-per-node", "--cpus-per-task"),
}
RAY_OF = {"by-hand.sh": 4, "slurm.sbatch": 4}
"""How many commands of Ray each script has, so that none is overlooked."""


def joined(path: Path) -> str:
    """A script without comments, its continued lines in one."""
    text = re.sub(r"\\\n\s*", "", path.read_text())
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))


# Scripts.


@pytest.mark.parametrize(
    ("path", "shell"),
    [(BY_HAND, "sh"), (BY_HAND, "bash"), (SLURM, "bash"), (JUDGE, "bash")],
    ids=lambda one: getattr(one, "name", one),
)
def test_a_script_is_one(path: Path, shell: str) -> None:
    done = subprocess.run([shell, "-n", str(path)], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    text = joined(path)
    assert path.read_text().startswith("#!/bin/")
    assert re.search(r"^set -e", text, re.MULTILINE), "it stops at the first failure"
    # A name with a space in it stays one word.
    bare = re.sub(r"\"\$(?:\w+|\{[^}]*\})\"", "", text)
    bare = re.sub(r"\"[^\"]*\"|'[^']*'|\$\(\([^)]*\)\)", "", re.sub(r"\\.", "", bare))
    unquoted = set(re.findall(r"(?<![\w{])\$(?:\w+|\{[^}]+\})", bare)) - {"$#", "$!"}
    assert unquoted == set()


def shown_flags(*command: str) -> set[str]:
    """The options that `ray COMMAND --help` shows."""
    ray = shutil.which("ray", path=str(Path(sys.executable).parent))
    assert ray is not None
    done = subprocess.run([ray, *command, "--help"], capture_output=True, text=True, check=True)
    return set(re.findall(r"--[\w-]+", done.stdout))


@pytest.mark.evidence
@pytest.mark.parametrize("path", [BY_HAND, SLURM], ids=lambda one: getattr(one, "name", one))
def test_every_option_of_ray_is_there(path: Path) -> None:
    lines = re.findall(r"(?:^|[\s'(])ray ([a-z-]+)((?: .*)?)$", joined(path), re.MULTILINE)
    lines += [
        ("start", one) for one in re.findall(r"^    start (--.*)$", joined(path), re.MULTILINE)
    ]
    assert len([one for one, _ in lines]) >= RAY_OF[path.name]
    for command, options in lines:
        known = shown_flags(command)
        assert set(re.findall(r"(?<![\w-])--[\w-]+", options)) - SRUN <= known, command


def test_a_key_is_no_part_of_what_ray_is_started_with() -> None:
    (words,) = re.findall(r"grep -iE '([A-Z|]+)'", BY_HAND.read_text())
    assert set(words.split("|")) == set(redaction._NAMES)
    (passed,) = re.findall(r"--export=(\S+)", joined(SLURM))
    assert {one for one in passed.split(",") if redaction.names_a_secret(one)} == {
        "RAY_AUTH_TOKEN_PATH"
    }
    assert "ALL" not in passed.split(",")


def test_keys_are_forgotten_before_ray_starts(tmp_path: Path) -> None:
    """The script with a `ray` that writes down what it is given."""
    told = tmp_path / "told"
    for name, text in {
        "ray": f'echo "$@" >>{told}\nenv >>{told}\n',
        "cuda-llm": "exit 3\n",
    }.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{text}")
        (tmp_path / name).chmod(0o755)
    environment = {
        **{"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path), "OPENAI_API_KEY": "sk-1"},
        **{"my_password": "x y\nz=KEY", "RAY_AUTH_TOKEN_PATH": "kept", "PLAIN": "stays"},
    }
    done = subprocess.run(
        ["sh", str(BY_HAND), "worker", "head"], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    text = told.read_text()
    assert "start --address=head:6379 --node-manager-port=6380" in text
    assert "OPENAI_API_KEY" not in text
    assert "my_password" not in text
    assert "RAY_AUTH_MODE=token" in text
    assert "RAY_AUTH_TOKEN_PATH=kept" in text
    assert "PLAIN=stays" in text


FAKES = {
    "ray": "for n in 1 2 3 4 5; do echo ' 1 node_ab'; done",
    "srun": 'echo "srun $*" >>told; exec sleep 60',
    "cuda-llm": """
        token=$(cat "$RAY_AUTH_TOKEN_PATH")
        echo "cuda-llm $* on $RAY_ADDRESS with $OPENAI_API_KEY, $token" >>told
        trap 'kill $!; echo ended >>told; exit 143' TERM
        if [ "$1" = run ]; then sleep 60 & wait; fi""",
}
"""Programs that write down how they are called; a run goes on until it is ended."""


@pytest.mark.parametrize("words", [["reduction", "--rounds", "2"], ["--resume", "r1"]])
def test_a_job_starts_its_parts_and_leaves_nothing(words: list[str], tmp_path: Path) -> None:
    folder = tmp_path / ".venv/bin"
    folder.mkdir(parents=True)
    (folder / "python").symlink_to(sys.executable)
    (folder / "activate").write_text(f"PATH={shlex.quote(str(folder))}:$PATH\n")
    for name, text in FAKES.items():
        (folder / name).write_text(f"#!/bin/bash\n{text}\n")
        (folder / name).chmod(0o755)
    nodes = {f"SLURM_JOB_NUM_NODES_HET_GROUP_{one}": "2" for one in (1, 2)}
    environment = {
        **{"PATH": "/usr/bin:/bin", "OPENAI_API_KEY": "sk-1", "SLURM_JOB_ID": "123", **nodes},
        "SLURM_SUBMIT_DIR": str(tmp_path),
    }
    job = subprocess.Popen(["bash", str(SLURM), *words], env=environment, stderr=subprocess.DEVNULL)
    told = tmp_path / "told"
    wait_until(lambda: told.exists() and told.read_text().count("\n") == 4, 240)
    if words[0] != "--resume":
        job.terminate()
    assert job.wait(timeout=240) == (0 if words[0] == "--resume" else 143)
    run, *steps = sorted(one for one in told.read_text().splitlines() if one != "ended")
    assert [re.findall(r"--het-group=(\d)", one) for one in steps] == [["0"], ["1"], ["2"]]
    assert "ray start --head --block --port=20123" in steps[0]
    assert steps[1].endswith(":20123")
    called = "run --device ray:auto reduction --rounds 2" if job.returncode else "resume r1"
    assert re.fullmatch(rf"cuda-llm {called} on \S+:20123 with sk-1, [0-9a-f]{{64}}", run)
    assert ("ended" in told.read_text()) == (job.returncode == 143), "the run ends by itself"
    assert {one.name for one in tmp_path.iterdir()} == {".venv", "told"}, "the token is gone"


def test_a_job_of_one_batch_ends_before_its_time(tmp_path: Path) -> None:
    folder = tmp_path / ".venv/bin"
    folder.mkdir(parents=True)
    (folder / "activate").write_text(f"PATH={shlex.quote(str(folder))}:$PATH\n")
    (folder / "cuda-llm").write_text('#!/bin/bash\nprintf "%s\\n" "$@"\n')
    (folder / "cuda-llm").chmod(0o755)
    environment = {"PATH": "/usr/bin:/bin", "SLURM_SUBMIT_DIR": str(tmp_path)}
    done = subprocess.run(
        ["bash", str(JUDGE), "my orders"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    command, *options, place = done.stdout.splitlines()
    assert (command, place) == ("judge-files", "my orders")
    limit_s = int(options[options.index("--limit-s") + 1])
    (minutes,) = re.findall(r"^#SBATCH --time=00:(\d+):00$", JUDGE.read_text(), re.MULTILINE)
    assert 0 < limit_s <= 60 * int(minutes) - 120


# Kubernetes.


def documents() -> list[dict[str, Any]]:
    """The documents of the manifest. PyYAML comes with Ray."""
    return [*import_module("yaml").safe_load_all(KUBERAY.read_text())]


def document(kind: str) -> dict[str, Any]:
    """The one document of a kind."""
    (found,) = [one for one in documents() if one["kind"] == kind]
    return found


def cluster() -> dict[str, Any]:
    found = document("RayCluster")
    assert found["apiVersion"] == "ray.io/v1"
    spec: dict[str, Any] = found["spec"]
    return spec


def job() -> dict[str, Any]:
    """What holds the template of the orchestrator's pod, as a group does of its pods."""
    spec: dict[str, Any] = document("Job")["spec"]
    return spec


def groups() -> list[dict[str, Any]]:
    spec = cluster()
    return [spec["headGroupSpec"], *spec["workerGroupSpecs"]]


def container(group: dict[str, Any]) -> dict[str, Any]:
    (found,) = group["template"]["spec"]["containers"]
    one: dict[str, Any] = found
    return one


def test_what_ray_counts_is_what_kubernetes_gives() -> None:
    head, *workers = groups()
    assert [one["groupName"] for one in workers] == ["gpu", "cpu"]
    assert head["rayStartParams"]["num-cpus"] == "0"
    for group in workers:
        limits = container(group)["resources"]["limits"]
        params = group["rayStartParams"]
        assert limits.get("nvidia.com/gpu", "0") == params["num-gpus"]
        assert limits["cpu"] == params["num-cpus"]
        assert group["minReplicas"] == group["replicas"] == group["maxReplicas"]
    assert [one["rayStartParams"]["num-gpus"] for one in workers] == ["1", "0"]


@pytest.mark.evidence
def test_every_parameter_of_ray_start_is_there() -> None:
    known = shown_flags("start")
    for group in groups():
        assert {f"--{name}" for name in group["rayStartParams"]} <= known
        assert {type(one) for one in group["rayStartParams"].values()} == {str}


def test_no_group_is_open_to_whoever_reaches_it() -> None:
    for group in groups():
        named = {one["name"]: one for one in container(group)["env"]}
        assert named["RAY_AUTH_MODE"]["value"] == "token"
        assert named["RAY_AUTH_TOKEN"]["valueFrom"]["secretKeyRef"]["key"] == "auth_token"
        assert "envFrom" not in container(group), "keys of models are the orchestrator's"
    assert cluster()["headGroupSpec"]["rayStartParams"]["dashboard-host"] == "127.0.0.1"


def test_ports_are_closed_to_other_pods_and_namespaces() -> None:
    policy = document("NetworkPolicy")
    spec = policy["spec"]
    assert policy["apiVersion"] == "networking.k8s.io/v1"
    assert spec["podSelector"]["matchLabels"] == {"ray.io/cluster": "cuda-llm"}
    assert {*spec["policyTypes"]} == {"Ingress", "Egress"}
    peers = [peer for rule in spec["ingress"] for peer in rule["from"]]
    assert peers
    # A peer without `namespaceSelector` is one of this namespace.
    assert all([*peer] == ["podSelector"] and peer["podSelector"] for peer in peers)
    (client,) = [rule["ports"] for rule in spec["ingress"] if "ports" in rule]
    assert [one["port"] for one in client] == [10001]
    (names,) = [rule["ports"] for rule in spec["egress"] if "to" not in rule]
    assert {one["port"] for one in names} == {53}


def test_no_pod_has_more_rights_than_the_jail_needs() -> None:
    for group in [*groups(), job()]:
        pod, inner = group["template"]["spec"], container(group)["securityContext"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"]["type"] in {"RuntimeDefault", "Localhost"}
        assert pod["automountServiceAccountToken"] is False
        assert inner == {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}}
        mounted = {one["name"] for one in container(group)["volumeMounts"]}
        assert mounted == {one["name"] for one in pod["volumes"]}


def test_the_job_reaches_the_head_that_kuberay_names() -> None:
    name = document("RayCluster")["metadata"]["name"]
    assert f"--device=ray://{name}-head-svc:10001" in container(job())["args"]
    claim = document("PersistentVolumeClaim")["metadata"]["name"]
    volumes = [one.get("persistentVolumeClaim") for one in job()["template"]["spec"]["volumes"]]
    assert {"claimName": claim} in volumes
    rules = document("NetworkPolicy")["spec"]["ingress"]
    peers = [peer["podSelector"]["matchLabels"] for rule in rules for peer in rule["from"]]
    assert job()["template"]["metadata"]["labels"] in peers
