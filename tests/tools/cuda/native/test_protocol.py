"""Python and C++ agree on every field of every frame."""

import ctypes
import subprocess
from pathlib import Path

from cuda_llm.tools.cuda import protocol
from cuda_llm.tools.native import find_gxx

TOOLS = Path(protocol.__file__).parent.parent
STRUCTURES: tuple[type[ctypes.Structure], ...] = (
    protocol.Head,
    protocol.Solve,
    protocol.GpuStartFrame,
    protocol.GpuCallFrame,
    protocol.CaptureFrame,
    protocol.SealedInput,
    protocol.TaggedOutput,
    protocol.ArmFrame,
    protocol.GoFrame,
    protocol.LogEntry,
    protocol.RefusedCall,
    protocol.KeyRelease,
    protocol.Report,
    protocol.SealRegion,
    protocol.SealCall,
    protocol.SlotsCall,
)
CONSTANTS = {
    "gpu::kMaxSteps": protocol.MAX_STEPS,
    "gpu::kMaxRegions": protocol.MAX_REGIONS,
    "gpu::kSealRegions": protocol.MAX_REGIONS,
    "gpu::kSealSlots": protocol.MAX_STEPS,
    "gpu::kAlignment": protocol.ALIGNMENT,
    "gpu::kTagWords": protocol.TAG_WORDS,
    "gpu::kReportMagic": protocol.REPORT_MAGIC,
    "gpu::kLogEntries": protocol.LOG_ENTRIES,
    "gpu::kTextBytes": protocol.TEXT_BYTES,
    "gpu::kNoText": protocol.NO_TEXT,
    "gpu::kMaxTags": protocol.MAX_TAGS,
    **{f"gpu::Order::{order.name.lower()}": int(order) for order in protocol.Order},
    **{f"gpu::SharedBy::{shared.name.lower()}": int(shared) for shared in protocol.SharedBy},
    **{f"gpu::Captured::{done.name.lower()}": int(done) for done in protocol.Captured},
    **{f"gpu::Armed::{done.name.lower()}": int(done) for done in protocol.Armed},
    **{f"gpu::Forbidden::{what.name.lower()}": int(what) for what in protocol.Forbidden},
    **{f"gpu::EntryKind::{kind.name.lower()}": int(kind) for kind in protocol.EntryKind},
    **{f"gpu::k{flag.name.title()}": int(flag) for flag in protocol.ArmFlag if flag.name},
}


def test_frames_have_the_same_layout_on_both_sides(tmp_path: Path) -> None:
    headers = "".join(f'#include "{name}.h"\n' for name in ("frames", "report", "seal"))
    lines = ["#include <cstdio>", "#include <cstddef>", headers, "int main() {"]
    expected: list[int] = []
    for structure in STRUCTURES:
        name = f"gpu::{structure.__name__.removeprefix('Gpu')}"
        lines.append(f'std::printf("%zu\\n", sizeof({name}));')
        expected.append(ctypes.sizeof(structure))
        for field in structure._fields_:
            descriptor = getattr(structure, field[0])
            member = field[0].rstrip("_")
            lines.append(f'std::printf("%zu\\n", offsetof({name}, {member}));')
            lines.append(f'std::printf("%zu\\n", sizeof({name}::{member}));')
            expected += [descriptor.offset, descriptor.size]
    for name, value in CONSTANTS.items():
        lines.append(f'std::printf("%llu\\n", static_cast<unsigned long long>({name}));')
        expected.append(value)
    source = tmp_path / "layout.cpp"
    source.write_text("\n".join([*lines, "}"]))
    includes = [f"-I{TOOLS / 'cuda' / 'native'}", f"-I{TOOLS / 'device' / 'native'}"]
    program = tmp_path / "layout"
    subprocess.run([find_gxx(), "-std=c++20", *includes, source, "-o", program], check=True)
    printed = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    assert [int(line) for line in printed.split()] == expected
