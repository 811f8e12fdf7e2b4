"""Honest host code passes; what it may not import, export or run at load is named."""

from collections.abc import Callable

import pytest
from corpus_sample import sample

from cuda_llm.outcomes import PolicyViolation, Verdict
from cuda_llm.tools.compiler.audit import CUDA_CALLS, allowed, in_known_library
from cuda_llm.tools.device.candidate import Compiled
from cuda_llm.tools.emulator.codegen.libraries import runtime_library
from cuda_llm.verdict_wording import describe

SOLVE = 'extern "C" void solve(const float* a, float* b, int n)'
Compile = Callable[..., Compiled | Verdict]

KERNEL = "__global__ void k(float* b) { b[0] = 1; }\n"
LAUNCH = "k<<<1, 1>>>(b);"

HONEST = {
    "iostream": ("#include <iostream>", f'{LAUNCH} std::cout << "done\\n";'),
    "vector and string": (
        "#include <vector>\n#include <string>\n#include <algorithm>",
        f"std::vector<float> v(n, 1.f); std::sort(v.begin(), v.end()); {LAUNCH}"
        " std::string s = std::to_string(v[0]); if (s.empty()) throw 1;",
    ),
    "math and printf": (
        "#include <cmath>\n#include <cstdio>",
        f'{LAUNCH} printf("%f\\n", std::sqrt(std::pow(n * 1.0, 0.3)) + std::ceil(n * .5f));',
    ),
    "scratch memory": (
        "",
        f"float* t; cudaMalloc(&t, 4 * n); cudaMemsetAsync(t, 0, 4 * n); {LAUNCH} cudaFree(t);"
        " if (cudaGetLastError() != cudaSuccess) return;",
    ),
    "device variables": (
        "__constant__ float c[4]; __device__ float d[4];",
        f"float h[4] = {{1, 2, 3, 4}}; cudaMemcpyToSymbol(c, h, sizeof h); {LAUNCH}",
    ),
    "cooperative launch": (
        "#include <cooperative_groups.h>",
        "void* args[] = {&b}; cudaLaunchCooperativeKernel(k, 1, 1, args); int blocks;"
        " cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, k, 64, 0);"
        " cudaFuncSetAttribute(k, cudaFuncAttributeMaxDynamicSharedMemorySize, 70000);"
        " cudaDeviceProp p; cudaGetDeviceProperties(&p, 0);",
    ),
    "static in a function": (
        "#include <vector>",
        f"static std::vector<float> kept; static int calls; calls++; {LAUNCH}",
    ),
    "constant tables": (
        "static const float weights[3] = {1, 2, 3}; static float* scratch = nullptr;",
        f"if (weights[n % 3] > 1) scratch = b; {LAUNCH}",
    ),
}


@pytest.mark.parametrize("style", sample(HONEST, every=4))
def test_honest_host_code_passes(compile_source: Compile, style: str) -> None:
    head, body = HONEST[style]
    outcome = compile_source(f"{head}\n{KERNEL}{SOLVE} {{ {body} }}\n")

    assert isinstance(outcome, Compiled), outcome


@pytest.mark.evidence
def test_cub_passes(compile_source: Compile) -> None:
    source = (
        "#include <cub/cub.cuh>\n"
        "__global__ void k(float* b) { using R = cub::BlockReduce<float, 128>;\n"
        " __shared__ typename R::TempStorage t; float s = R(t).Sum(b[threadIdx.x]);\n"
        " if (threadIdx.x == 0) b[0] = s; }\n"
        f"{SOLVE} {{ k<<<1, 128>>>(b); size_t bytes = 0; void* t = nullptr;\n"
        " cub::DeviceReduce::Sum(t, bytes, a, b, n); cudaMalloc(&t, bytes);\n"
        " cub::DeviceReduce::Sum(t, bytes, a, b, n); cudaFree(t); }\n"
    )

    assert isinstance(compile_source(source), Compiled)


REFUSED = {
    "file": ("#include <cstdio>", 'fopen("x", "w");', "import", "fopen"),
    "thread": ("#include <thread>", "std::thread([] {}).join();", "import", "thread"),
    "event": (
        "",
        "cudaEvent_t e; float ms; cudaEventElapsedTime(&ms, e, e);",
        "import",
        "cudaEventElapsedTime",
    ),
    "blas": ('extern "C" int cublasCreate_v2(void*);', "cublasCreate_v2(b);", "import", "cublas"),
    "constructor": (
        "int seen; __attribute__((constructor)) static void early() { seen = 1; }",
        "", "constructor", "early"),
    "initialiser": ("float draw(); float first = draw(); float draw() { return first + 1; }",
                    "", "constructor", "global object"),
    "initialiser beside iostream": (
        "#include <iostream>\nint f(); static int x = f(); int f() { return x + 1; }",
        "std::cout << x;", "constructor", "global object"),
    "destructor": ("int seen; __attribute__((destructor)) static void late() { seen++; }",
                   "seen = n;", "constructor", "fini_array"),
    "listed by hand": (
        "static void early() {} __attribute__((section(\".init_array\"), used))"
        " static void (*entry)() = early;", "", "constructor", "early"),
    "init section": ("asm(\".section .init\\nnop\\n.text\");", "", "constructor", ".init"),
    "replaced runtime": (
        'extern "C" cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }',
        "cudaDeviceSynchronize();", "export", "cudaDeviceSynchronize"),
    "second init array": (
        'extern "C" { volatile int early; void first_of_all() { early = 1; } }\n'
        '#ifndef __CUDA_ARCH__\nasm(".section .init_array,\\"awG\\",@init_array,g,comdat\\n"'
        '".quad first_of_all\\n.text\\n");\n#endif', "", "constructor", "first_of_all"),
    "indirect function": (
        'extern "C" { static int one() { return 1; } static void* pick() { return (void*)one; }\n'
        '__attribute__((ifunc("pick"))) int chosen(); }', "if (chosen() > n) return;",
        "constructor", "chosen"),
}  # fmt: skip


def rule_of(way: str) -> str:
    return REFUSED[way][2]


JUDGED = sample(REFUSED, kind=rule_of, every=20)


@pytest.mark.parametrize("way", JUDGED)
def test_what_a_candidate_may_not_do_is_named(compile_source: Compile, way: str) -> None:
    head, body, rule, words = REFUSED[way]
    outcome = compile_source(f"{head}\n{KERNEL}{SOLVE} {{ {body} {LAUNCH} }}\n")

    assert isinstance(outcome, PolicyViolation), outcome
    assert outcome.rule == rule
    assert words in describe(outcome)[0]


def test_other_functions_stay_inside(compile_source: Compile) -> None:
    source = f'extern "C" void other() {{}}\nvoid another() {{}}\n{KERNEL}{SOLVE} {{ {LAUNCH} }}'

    assert isinstance(compile_source(source), Compiled)


def test_our_runtime_implements_every_allowed_cuda_call() -> None:
    answered = runtime_library().read_bytes()
    missing = [call for call in CUDA_CALLS.split() if b"\0" + call.encode() not in answered]

    assert missing == []


OUTSIDE = """
open openat creat fopen freopen fdopen remove rename unlink mkdir opendir socket connect bind fork
vfork clone execve system popen posix_spawn pthread_create dlopen dlsym mmap mprotect munmap
shm_open getenv setenv signal sigaction raise kill ptrace syscall prctl clock_gettime gettimeofday
time nanosleep usleep sem_open write read ioctl
_ZNSt6thread4joinEv _ZNSt6thread20hardware_concurrencyEv _ZNSt13random_device9_M_getvalEv
_ZNSt13basic_filebufIcSt11char_traitsIcEE4openEPKcSt13_Ios_Openmode
_ZNSt6chrono3_V212system_clock3nowEv
_ZNSt10filesystem7__cxx114path14_M_split_cmptsEv _ZNSt14basic_ofstreamIcSt11char_traitsIcEEC1Ev
_ZNSt18condition_variable10notify_oneEv
"""


@pytest.mark.parametrize("symbol", OUTSIDE.split())
def test_calls_of_the_c_and_cpp_libraries_outside_the_list_are_refused(symbol: str) -> None:
    assert not allowed(symbol, versioned=True)
    assert in_known_library(symbol, versioned=True)


REFUSED_CUDA = """
cudaEventElapsedTime cudaStreamBeginCapture cudaStreamAddCallback cudaGraphLaunch
cudaIpcOpenMemHandle
cudaHostAlloc cudaMallocHost cudaHostRegister cudaMallocManaged cudaMemPrefetchAsync cudaMemAdvise
cudaDeviceSetLimit cudaStreamSetAttribute cudaCtxResetPersistingL2Cache cudaProfilerStart
cuGetProcAddress cudaLaunchHostFunc cuInit cuMemAlloc_v2 nvrtcCompileProgram nvmlInit_v2
"""


@pytest.mark.parametrize("symbol", REFUSED_CUDA.split())
def test_cuda_calls_outside_the_list_are_refused(symbol: str) -> None:
    assert not allowed(symbol, versioned=False)
    assert in_known_library(symbol, versioned=False)


def test_an_unversioned_cpp_symbol_belongs_to_no_library() -> None:
    assert not allowed("_Z6helperi", versioned=False)
    assert not in_known_library("_Z6helperi", versioned=False)
