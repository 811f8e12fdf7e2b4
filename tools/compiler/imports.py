"""What a candidate's .so may ask of the process that loads it."""

import re

CUDA_CALLS = """
__cudaRegisterFatBinary __cudaRegisterFatBinaryEnd __cudaUnregisterFatBinary
__cudaRegisterFunction __cudaRegisterVar __cudaInitModule __cudaGetKernel __cudaLaunchKernel
__cudaPushCallConfiguration __cudaPopCallConfiguration
cudaLaunchKernel cudaLaunchKernelExC cudaLaunchCooperativeKernel
cudaFuncSetAttribute cudaFuncGetAttributes cudaFuncSetCacheConfig
cudaOccupancyMaxActiveBlocksPerMultiprocessor
cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags cudaOccupancyAvailableDynamicSMemPerBlock
cudaOccupancyMaxActiveClusters cudaOccupancyMaxPotentialClusterSize
cudaMalloc cudaMallocAsync cudaMallocPitch cudaFree cudaFreeAsync cudaMemGetInfo
cudaMemset cudaMemsetAsync cudaMemset2D cudaMemset2DAsync
cudaMemcpy cudaMemcpyAsync cudaMemcpy2D cudaMemcpy2DAsync
cudaMemcpyToSymbol cudaMemcpyToSymbolAsync cudaMemcpyFromSymbol cudaMemcpyFromSymbolAsync
cudaGetSymbolAddress cudaGetSymbolSize
cudaGetLastError cudaPeekAtLastError cudaGetErrorString cudaGetErrorName
cudaDeviceSynchronize cudaStreamSynchronize
cudaRuntimeGetVersion cudaDriverGetVersion
cudaGetDevice cudaSetDevice cudaGetDeviceCount cudaDeviceGetAttribute cudaGetDeviceProperties
cudaGetDeviceProperties_v2 cudaGetDriverEntryPoint cudaGetDriverEntryPointByVersion
cuTensorMapEncodeTiled cuTensorMapEncodeIm2col cuTensorMapEncodeIm2colWide cuTensorMapReplaceAddress
"""
"""What our own CUDA runtimes answer, on a GPU and on the emulated device; tests see to it."""

C_CALLS = """
memcpy memmove memset memcmp memchr strlen strcmp strncmp strcpy strncpy strcat strchr strstr
malloc calloc realloc free aligned_alloc posix_memalign abort exit atexit abs labs llabs
qsort bsearch rand srand strtol strtoll strtoul strtoull strtof strtod atoi atof
printf fprintf vfprintf vprintf sprintf snprintf vsnprintf puts putchar fputs fputc fwrite
putc fflush stdout stderr sched_yield __assert_fail __stack_chk_fail __errno_location
__memcpy_chk __memset_chk __memmove_chk __printf_chk __fprintf_chk __snprintf_chk
__sprintf_chk __vsnprintf_chk __strcpy_chk
__cxa_atexit __cxa_finalize __gmon_start__ _ITM_registerTMCloneTable
_ITM_deregisterTMCloneTable __tls_get_addr __cpu_model
"""

NAMED = frozenset((CUDA_CALLS + C_CALLS).split())

MATH = re.compile(
    r"(?:acos|asin|atan|atan2|cos|sin|tan|sincos|cosh|sinh|tanh|acosh|asinh|atanh|exp|exp2|exp10|"
    r"expm1|log|log2|log10|log1p|logb|ilogb|pow|sqrt|cbrt|hypot|erf|erfc|tgamma|lgamma|ceil|floor|"
    r"trunc|round|lround|llround|rint|lrint|llrint|nearbyint|fmod|remainder|remquo|fma|fmax|fmin|"
    r"fdim|fabs|ldexp|frexp|modf|scalbn|scalbln|copysign|nextafter|j0|j1|jn|y0|y1|yn|nan)"
    r"(?:f|l)?|__(?:isnan|isinf|finite|signbit|fpclassify)(?:f|l)?"
)

CPP = re.compile(r"__cxa_\w+|__gxx_personality_v0|__dynamic_cast|_Unwind_\w+|_Z\w+")

CPP_REFUSED = re.compile(
    r"filebuf|fstream|filesystem|_ZNSt6thread|hardware_concurrency|random_device|6chrono"
    r"|this_thread|condition_variable|__future_base|_Execute_once|locale.*global|basic_file"
)

KNOWN_LIBRARY = re.compile(
    r"cuda|cu[A-Z]|cublas|cudnn|cufft|curand|cusparse|cusolver|cutensor|nvrtc|nvml|nvJitLink|nccl"
)


def allowed(symbol: str, *, versioned: bool) -> bool:
    """Whether a candidate may import `symbol`; `versioned` when the C or C++ library defines it."""
    if symbol in NAMED or MATH.fullmatch(symbol):
        return True
    return bool(versioned and CPP.fullmatch(symbol) and not CPP_REFUSED.search(symbol))


def known_elsewhere(symbol: str, *, versioned: bool) -> bool:
    """Whether a library the candidate may not use defines `symbol`; else nobody does."""
    return versioned or KNOWN_LIBRARY.match(symbol) is not None
