/* Confine the calling process: limits, Landlock, seccomp, namespaces.
 *
 * Linux on x86-64 and aarch64; every source here compiles as C11 and C++17 with _GNU_SOURCE. All return
 * 0 or a positive value when they worked and a negative errno when they did not; none prints or exits.
 *
 * Order that works for a program about to load untrusted code:
 *   sandbox_limit -> sandbox_no_new_privileges -> sandbox_landlock -> sandbox_on_violation
 *   -> sandbox_seccomp(SANDBOX_LOAD) -> dlopen -> sandbox_seccomp(SANDBOX_RUN) -> call it
 */
#ifndef CUDA_LLM_SANDBOX_H
#define CUDA_LLM_SANDBOX_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Resource limits of this process and its future children; 0 leaves a limit as it is. Core dumps are
 * always off. `processes` counts per user and does not bind root. */
struct sandbox_limits {
    uint64_t address_space_bytes;
    uint64_t cpu_s;
    uint64_t file_bytes;
    uint64_t open_files;
    uint64_t processes;
    uint64_t data_bytes; /* private writable memory: what there is to bound where a driver reserves
                          * address space without end */
};
int sandbox_limit(const struct sandbox_limits *limits);

/* Die with `signal` when the parent does; -ESRCH when `parent` has already gone. */
int sandbox_die_with_parent(int signal, pid_t parent);

/* PR_SET_NO_NEW_PRIVS and no capabilities, kept or regained by exec. */
int sandbox_no_new_privileges(void);

/* One path of the file system view: a folder with all below it, or a single file. */
struct sandbox_path {
    const char *path;
    int access; /* SANDBOX_READ ... */
};
enum {
    SANDBOX_READ,   /* and execute */
    SANDBOX_WRITE,  /* and read, make and remove */
    SANDBOX_DEVICE, /* read, write and control a device that is there */
};

/* The Landlock ABI of this kernel, 0 when it has none. */
int sandbox_landlock_abi(void);

/* Leave this process and its children `paths` and nothing else of the file system; no TCP from ABI 4,
 * no signal to a process outside from ABI 6. Needs sandbox_no_new_privileges. Returns the ABI in
 * force: 0 means that the kernel has no Landlock and nothing is confined. */
int sandbox_landlock(const struct sandbox_path *paths, size_t count);

enum sandbox_profile {
    /* For a compiler and its children: anything but the network, tracing, mounting, kernel
     * interfaces and new namespaces, which fail with EPERM. */
    SANDBOX_COMPILE,
    /* For dlopen: what SANDBOX_RUN allows, and files may be read and code mapped from them. Nothing
     * is ever both writable and executable. A violation raises SIGSYS. */
    SANDBOX_LOAD,
    /* For running what was loaded: memory without PROT_EXEC, reads and writes on open descriptors,
     * waiting, time, signals to itself, exit; no handler of a signal is replaced. Anything else raises
     * SIGSYS. */
    SANDBOX_RUN,
    /* The same two for a process that holds a GPU: it keeps the commands of NVIDIA's devices, and
     * opening for both reading and writing what Landlock leaves it. In force in every thread, the
     * driver's too. */
    SANDBOX_GPU_LOAD,
    SANDBOX_GPU_RUN,
};

/* Install a profile for good; profiles add up. Needs sandbox_no_new_privileges. */
int sandbox_seccomp(enum sandbox_profile profile);

/* Exit status of a process that sandbox_on_violation ended. */
#define SANDBOX_VIOLATION_STATUS 83

/* Call `report` with the number of a forbidden system call, then end the process with
 * SANDBOX_VIOLATION_STATUS. `report` runs in a signal handler (write to a descriptor or a shared
 * word, nothing more) and may be NULL. Without this, or where the caller has blocked all signals (as
 * libc does around a new thread), a violation ends the process by SIGSYS. */
int sandbox_on_violation(void (*report)(int syscall_number));

/* Name of a system call this package knows, else NULL. */
const char *sandbox_syscall_name(int syscall_number);

/* What a child started by sandbox_fork lives in. */
enum {
    SANDBOX_OWN_PIDS = 1,
    SANDBOX_OWN_NETWORK = 2,
    SANDBOX_OWN_IPC = 4,
    SANDBOX_OWN_ALL = 7,
    SANDBOX_OWN_PROC = 8, /* /proc tells of its own processes: programs that look themselves up need it */
};

/* fork() into a new user namespace and `wanted` ones where the kernel permits, else a plain fork;
 * `*isolation` tells which. In a pid namespace the child is init: all it leaves behind dies with it. */
pid_t sandbox_fork(unsigned wanted, unsigned *isolation);

/* Have nothing be at `path`: for a child of sandbox_fork with SANDBOX_OWN_PROC, before it gives up its
 * privileges, and in no other process, which would hide it from others too. */
int sandbox_hide(const char *path);

#ifdef __cplusplus
}
#endif
#endif
