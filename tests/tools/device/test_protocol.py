"""Python and C++ agree on every field of every frame."""

import ctypes
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cuda_llm.tools.device import Argument, Scalar, protocol
from cuda_llm.tools.device.arguments import put_arguments
from cuda_llm.tools.device.protocol import CallFrame, ReplyFrame, StartFrame, decode_reply
from cuda_llm.tools.native import find_gxx

TOOLS = Path(protocol.__file__).parent.parent
STRUCTURES: dict[str, type[ctypes.Structure]] = {
    "emu::DeviceFacts": protocol.DeviceFacts,
    "emu::CallBuffer": protocol.CallBuffer,
    "runner::StartFrame": StartFrame,
    "runner::CallFrame": CallFrame,
    "runner::ReplyFrame": ReplyFrame,
}
CONSTANTS = {
    "runner::kMaxIntegers": protocol.MAX_INTEGERS,
    "runner::kMaxFloats": protocol.MAX_FLOATS,
    "runner::kMaxBuffers": protocol.MAX_BUFFERS,
    "emu::kFaultExit": protocol.FAULT_STATUS,
    **{f"runner::Reply::{reply.name.lower()}": int(reply) for reply in protocol.RunnerReply},
}


def _fields(structure: type[ctypes.Structure]) -> list[str]:
    return [str(field[0]) for field in structure._fields_]


def test_frames_have_the_same_layout_on_both_sides(tmp_path: Path) -> None:
    lines = ['#include <cstdio>\n#include <cstddef>\n#include "frames.h"\nint main() {']
    expected: list[int] = []
    for name, structure in STRUCTURES.items():
        lines.append(f'std::printf("%zu\\n", sizeof({name}));')
        expected.append(ctypes.sizeof(structure))
        for field in _fields(structure):
            descriptor = getattr(structure, field)
            lines.append(f'std::printf("%zu\\n", offsetof({name}, {field}));')
            lines.append(f'std::printf("%zu\\n", sizeof({name}::{field}));')
            expected += [descriptor.offset, descriptor.size]
    for name, value in CONSTANTS.items():
        lines.append(f'std::printf("%llu\\n", static_cast<unsigned long long>({name}));')
        expected.append(value)
    source = tmp_path / "layout.cpp"
    source.write_text("\n".join([*lines, "}"]))
    includes = [f"-I{TOOLS / 'device' / 'native'}", f"-I{TOOLS / 'emulator' / 'runtime'}"]
    program = tmp_path / "layout"
    subprocess.run([find_gxx(), "-std=c++20", *includes, source, "-o", program], check=True)
    printed = subprocess.run([program], check=True, capture_output=True, text=True).stdout
    assert [int(line) for line in printed.split()] == expected


@pytest.mark.parametrize("packet", [b"", b"\0" * 10, bytes(ReplyFrame()), b"\xff" * 4096])
def test_a_packet_that_is_no_reply_is_none(packet: bytes) -> None:
    assert decode_reply(packet) is None


@given(st.binary(min_size=ctypes.sizeof(ReplyFrame), max_size=ctypes.sizeof(ReplyFrame)))
def test_any_bytes_of_the_right_size_decode_without_an_error(packet: bytes) -> None:
    frame = decode_reply(packet)
    if frame is not None:
        assert frame.reply in set(protocol.RunnerReply)
        assert len(frame.text) <= 256


def test_integers_and_floats_go_into_separate_rows_in_order() -> None:
    frame = CallFrame()
    arguments: list[Argument] = [
        "out",
        Scalar(value=1.0, ctype="float"),
        Scalar(value=-1, ctype="int"),
        Scalar(value=1.0, ctype="double"),
        "in",
    ]
    put_arguments(frame, arguments, {"in": 256, "out": 512})
    assert list(frame.integers[:3]) == [512, (1 << 64) - 1, 256]
    assert list(frame.floats[:2]) == [0x3F800000, 0x3FF0000000000000]
    assert frame.pointers == 0b101


@pytest.mark.parametrize(
    "arguments",
    [
        ["a"] * 25,
        [Scalar(value=0.5, ctype="float")] * 9,
        [Scalar(value=0.5, ctype="int")],
        [Scalar(value=1 << 64, ctype="unsigned long long")],
    ],
)
def test_arguments_that_cannot_be_passed_are_refused(arguments: list[Argument]) -> None:
    with pytest.raises(ValueError, match=r"argument|integer"):
        put_arguments(CallFrame(), arguments, {"a": 0})
