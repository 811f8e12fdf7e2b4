/* Command line of the jail program. */
#ifndef CUDA_LLM_OPTIONS_H
#define CUDA_LLM_OPTIONS_H

#include "sandbox.h"
#include "tree.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { MOST_PATHS = 64, MOST_PROGRAMS = 16 };

struct options {
    struct sandbox_path paths[MOST_PATHS];
    size_t path_count;
    struct sandbox_limits limits;
    struct tree_program programs[MOST_PROGRAMS]; /* with less processor time than the others */
    size_t program_count;
    uint64_t wall_ms;   /* 0: no limit */
    uint64_t processes; /* most at once below the jail; 0: no limit */
    int report;         /* descriptor, -1: none */
    pid_t parent;       /* who must be alive; 0: whoever started us */
    char **command;
};

/* NULL, or the argument that is wrong. */
const char *options_parse(int count, char **arguments, struct options *options);

#ifdef __cplusplus
}
#endif
#endif
