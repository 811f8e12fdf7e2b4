/* Groups of system calls that the profiles are made of. Private to calls.c and seccomp.c. */
#ifndef CUDA_LLM_CALLS_H
#define CUDA_LLM_CALLS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Tracing, mounting, privileges, kernel and key management, other processes' memory. */
extern const long kernel_calls[];
extern const size_t kernel_calls_count;
/* Making and connecting sockets. Asking what a descriptor is stays free: programs do. */
extern const long network_calls[];
extern const size_t network_calls_count;
/* What computing, talking on open descriptors and ending need. */
extern const long harmless_calls[];
extern const size_t harmless_calls_count;

#ifdef __cplusplus
}
#endif
#endif
