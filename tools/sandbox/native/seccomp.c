#include "sandbox.h"

#include "calls.h"
#include "filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/syscall.h>
#include <sys/mman.h>
#include <unistd.h>

#define FAIL(error) (SECCOMP_RET_ERRNO | (error))

static const uint32_t new_namespace = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWNS |
                                      CLONE_NEWIPC | CLONE_NEWUTS | CLONE_NEWCGROUP;

static void each(struct filter *filter, const long *calls, size_t count, uint32_t action)
{
    for (size_t i = 0; i < count; i++)
        filter_call(filter, calls[i], action);
}

static int compile_profile(struct filter *filter)
{
    filter_begin(filter);
    each(filter, kernel_calls, kernel_calls_count, FAIL(EPERM));
    each(filter, network_calls, network_calls_count, FAIL(EPERM));
    for (uint32_t bit = 1; bit != 0; bit <<= 1)
        if (new_namespace & bit)
            filter_call_if(filter, SYS_clone, 0, bit, bit, FAIL(EPERM));
    /* Its flags are behind a pointer; libc falls back to clone. */
    filter_call(filter, SYS_clone3, FAIL(ENOSYS));
    return filter_install(filter, SECCOMP_RET_ALLOW, FILTER_THIS_THREAD);
}

static void allow_computing(struct filter *filter)
{
    filter_begin(filter);
    each(filter, harmless_calls, harmless_calls_count, SECCOMP_RET_ALLOW);
    filter_call_if(filter, SYS_mmap, 2, PROT_EXEC, 0, SECCOMP_RET_ALLOW);
    filter_call_if(filter, SYS_mprotect, 2, PROT_EXEC, 0, SECCOMP_RET_ALLOW);
    filter_call_if(filter, SYS_kill, 0, ~0u, (uint32_t)getpid(), SECCOMP_RET_ALLOW);
    filter_call_if(filter, SYS_tgkill, 0, ~0u, (uint32_t)getpid(), SECCOMP_RET_ALLOW);
    /* How libc spells fstat. */
    filter_call_if(filter, SYS_newfstatat, 3, AT_EMPTY_PATH, AT_EMPTY_PATH, SECCOMP_RET_ALLOW);
    /* abort() tries; a handler for SIGSYS must not be replaced. */
    filter_call(filter, SYS_rt_sigaction, FAIL(EPERM));
}

/* What dlopen needs besides: it opens the file for reading and maps its code, which nothing may write
 * to. Whatever of that file runs while it works is held to the same list. */
static void allow_loading(struct filter *filter)
{
    const uint32_t writing = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC;
#ifdef SYS_open
    filter_call_if(filter, SYS_open, 1, writing, 0, SECCOMP_RET_ALLOW);
#endif
    filter_call_if(filter, SYS_openat, 2, writing, 0, SECCOMP_RET_ALLOW);
    filter_call_if(filter, SYS_mmap, 2, PROT_WRITE, PROT_WRITE, SECCOMP_RET_TRAP);
    filter_call_if(filter, SYS_mmap, 3, MAP_ANONYMOUS, 0, SECCOMP_RET_ALLOW);
    filter_call(filter, SYS_newfstatat, SECCOMP_RET_ALLOW);
    /* The profile that follows. */
    filter_call(filter, SYS_seccomp, SECCOMP_RET_ALLOW);
}

/* What the driver of NVIDIA's devices needs besides. */
static void allow_driving(struct filter *filter)
{
    /* They number their commands under the letter F, the memory manager from 0. Which of them a
     * driver needs differs from version to version. */
    filter_call_if(filter, SYS_ioctl, 1, 0xff00, 'F' << 8, SECCOMP_RET_ALLOW);
    filter_call_if(filter, SYS_ioctl, 1, 0xff00, 0, SECCOMP_RET_ALLOW);
    /* As drivers open their devices. */
    const uint32_t modes = O_ACCMODE | O_CREAT | O_TRUNC;
#ifdef SYS_open
    filter_call_if(filter, SYS_open, 1, modes, O_RDWR, SECCOMP_RET_ALLOW);
#endif
    filter_call_if(filter, SYS_openat, 2, modes, O_RDWR, SECCOMP_RET_ALLOW);
    /* And what they do with the descriptor then, as where a queue of work has to grow. */
    filter_call(filter, SYS_dup, SECCOMP_RET_ALLOW);
    const uint32_t flags_of_one[] = {F_GETFD, F_SETFD, F_GETFL, F_SETFL};
    for (size_t i = 0; i < sizeof flags_of_one / sizeof *flags_of_one; i++)
        filter_call_if(filter, SYS_fcntl, 1, ~0u, flags_of_one[i], SECCOMP_RET_ALLOW);
}

static int runner_profile(enum sandbox_profile profile)
{
    const int gpu = profile == SANDBOX_GPU_LOAD || profile == SANDBOX_GPU_RUN;
    struct filter filter;
    allow_computing(&filter);
    if (gpu)
        allow_driving(&filter);
    if (profile == SANDBOX_LOAD || profile == SANDBOX_GPU_LOAD)
        allow_loading(&filter);
    /* stdio asks whether it writes to a terminal. */
    filter_call(&filter, SYS_ioctl, FAIL(ENOTTY));
    return filter_install(&filter, SECCOMP_RET_TRAP,
                          gpu ? FILTER_ALL_THREADS : FILTER_THIS_THREAD);
}

int sandbox_seccomp(enum sandbox_profile profile)
{
    struct filter filter;
    return profile == SANDBOX_COMPILE ? compile_profile(&filter) : runner_profile(profile);
}
