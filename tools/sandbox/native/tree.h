/* The processes below one process, as /proc tells them. */
#ifndef CUDA_LLM_TREE_H
#define CUDA_LLM_TREE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

struct tree_process {
    pid_t pid;
    pid_t parent;
    int below;
};

/* A program by the name that the kernel has of it: 15 characters at most. */
struct tree_program {
    const char *name;
    uint64_t cpu_s;
    const char *until; /* the limit holds until this file is there; NULL: always */
};

/* Parent in the text of /proc/PID/stat, whose second field may hold spaces and parentheses; -1 when
 * the text is none. */
pid_t tree_parent(const char *stat);

/* Sorts the processes by pid and sets `below` of those that descend from `root`; how many. */
size_t tree_mark(struct tree_process *processes, size_t count, pid_t root);

/* How many processes descend from `root` now. */
size_t tree_count(pid_t root);

/* Ends processes below `root` that run one of `programs` and took its processor time: SIGXCPU, a second
 * later SIGKILL. Cheap enough for every tick; does nothing where this kernel lists no children. */
void tree_limit(pid_t root, const struct tree_program *programs, size_t count);

/* SIGKILL everything below this process, which must be a child subreaper, until nothing is left. */
void tree_kill(void);

#ifdef __cplusplus
}
#endif
#endif
