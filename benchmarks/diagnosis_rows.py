"""What `diagnosis_on_gpu.py` recorded: today's diagnoses of it, beside what the counters show."""

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

from nsight_rule import Shown, show_bottleneck

from cuda_llm.hardware_profiles.lookup import find_hardware
from cuda_llm.profile import LaunchProfile, Profile, SizeTime
from cuda_llm.tasks.loader import load_task
from cuda_llm.tools.cuda.ncu import NcuRow, read_counters
from cuda_llm.tools.profiler.explain_measured import explain_with_counters, profile_call

Row = dict[str, Any]
DIAGNOSES = ("timed", "inspected", "modelled")
"""Of a run, from the time alone; with Nsight Compute; of the emulated GPU."""
GPU = "NVIDIA H200"


def kept_row(row: Mapping[str, Any], metrics: Container[str]) -> Row:
    """Return a row with those metrics alone, in four digits."""
    counted = [
        {
            "kernel": one["kernel"],
            "metrics": {
                name: float(f"{value:.4g}")
                for name, value in one["metrics"].items()
                if name in metrics
            },
        }
        for one in row.get("counted", ())
    ]
    return {**row, "counted": counted}


def compare_rows(rows: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Return what each kernel's diagnoses name, and what its counters show, in order of names."""
    found = [compare_row(row) for row in rows if row.get("code") == "PASSED" and row.get("counted")]
    return sorted(found, key=lambda row: str(row["name"]))


def compare_row(row: Mapping[str, Any]) -> Row:
    """Return one kernel's."""
    counted = [one["metrics"] for one in row["counted"]]
    shown, before = show_bottleneck(counted), show_bottleneck(counted, as_written=True)
    named = {
        "timed": explain_timed(row).bottlenecks,
        "inspected": explain_inspected(row).bottlenecks,
    }
    codes = {which: [one.code for one in found] for which, found in named.items()}
    codes["modelled"] = [one["code"] for one in row.get("modelled", ())]
    named_first = {which: found[0] for which, found in codes.items() if found}
    return {
        "name": row["name"],
        "held_back": row["held_back"],
        "time_us": round(row["time_us"], 2),
        "shown": shown.bottleneck,
        "shown_as_written": before.bottleneck,
        "balanced": list(shown.balanced),
        "causes": list(shown.causes),
        "stall": shown.stall,
        "busy": {unit: round(share, 3) for unit, share in shown.shares.items() if share >= 0.1},
        "named": codes,
        "agree": {which: is_shown(found, shown) for which, found in named_first.items()},
        "agree_strictly": {
            which: is_shown(found, shown, strict=True) for which, found in named_first.items()
        },
        "agree_as_written": {
            which: is_shown(found, before) for which, found in named_first.items()
        },
    }


def is_shown(code: str, shown: Shown, *, strict: bool = False) -> bool:
    """Tell whether a headline names what the counters show."""
    return code in (shown.strict if strict else shown.terms)


def explain_timed(row: Mapping[str, Any]) -> Profile:
    """Explain a recorded kernel as a run does, by today's rules."""
    hardware, task = find_hardware(GPU), load_task(row["task"])
    launches = tuple(map(launch_of, row["launches"]))
    call = profile_call(task, row["dims"], row["time_us"], launches, hardware)
    timed = SizeTime(dims=row["dims"], time_us=row["time_us"], baseline_us=None, source="measured")
    return Profile(
        device=GPU,
        hardware=hardware.name,
        source="measured",
        sizes=(timed,),
        launches=call.launches,
        bottlenecks=call.bottlenecks,
    )


def explain_inspected(row: Mapping[str, Any]) -> Profile:
    """Explain it as `evaluate --inspect` does, by today's rules."""
    counters = [
        read_counters(NcuRow(kernel=one["kernel"], metrics=one["metrics"]), flushed=True)
        for one in row["counted"]
    ]
    profile = explain_timed(row)
    return explain_with_counters(load_task(row["task"]), find_hardware(GPU), profile, counters)


def launch_of(recorded: Mapping[str, Any]) -> LaunchProfile:
    """Return a launch that was written as JSON."""
    grid, block = (tuple(recorded[name]) for name in ("grid", "block"))
    return LaunchProfile(**{**recorded, "grid": grid, "block": block})


def summarise(rows: Sequence[Row]) -> dict[str, Row]:
    """Return how many agree: of all kernels, of those held back and of the others."""
    parts = {
        "all": list(rows),
        "held back": [row for row in rows if row["held_back"]],
        "others": [row for row in rows if not row["held_back"]],
    }
    return {name: _figures(part) for name, part in parts.items()}


def _figures(rows: Sequence[Row]) -> Row:
    figures: Row = {"kernels": len(rows)}
    for which in DIAGNOSES:
        compared = [row for row in rows if which in row["agree"]]
        figures[which] = {"compared": len(compared)} | {
            how: _share([row[how][which] for row in compared])
            for how in ("agree", "agree_strictly", "agree_as_written")
        }
    return figures


def _share(found: Sequence[bool]) -> float:
    return round(sum(found) / len(found), 3) if found else 0.0


def print_rows(rows: Iterable[Row]) -> None:
    """Print a line a kernel, wrong ones marked."""
    for row in rows:
        marks = "".join("." if row["agree"].get(which, True) else "X" for which in DIAGNOSES)
        print(marks, row["name"], f"{row['time_us']} us:", row["shown"], *row["balanced"], end=" ")
        print(row["causes"], row["stall"], row["busy"])
        for which in DIAGNOSES:
            if not row["agree"].get(which, True):
                print("     ", which, row["named"][which])
