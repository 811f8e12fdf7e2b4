/* A seccomp-BPF program under construction. Full programs say so at install time. */
#ifndef CUDA_LLM_FILTER_H
#define CUDA_LLM_FILTER_H

#include <linux/filter.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { FILTER_LENGTH = 768 };

struct filter {
    struct sock_filter code[FILTER_LENGTH];
    size_t length;
};

/* Start: another architecture's calls, and x32's, kill the process. */
void filter_begin(struct filter *filter);

/* `action` for this call. */
void filter_call(struct filter *filter, long number, uint32_t action);

/* `action` for this call when (low half of argument `index`) & mask == value; otherwise go on. */
void filter_call_if(struct filter *filter, long number, unsigned index, uint32_t mask,
                    uint32_t value, uint32_t action);

/* `otherwise` for every other call, and into force for good, in this thread or in all of them. 0 or
 * -errno. */
enum filter_threads { FILTER_THIS_THREAD, FILTER_ALL_THREADS };
int filter_install(struct filter *filter, uint32_t otherwise, enum filter_threads threads);

#ifdef __cplusplus
}
#endif
#endif
