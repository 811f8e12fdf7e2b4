#include "sandbox.h"

#include <errno.h>
#include <linux/capability.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

static int lower(int resource, uint64_t value)
{
    struct rlimit limit;
    if (getrlimit((__typeof__(RLIMIT_AS))resource, &limit) != 0)
        return -errno;
    /* A limit may be lowered by anyone and raised by nobody. */
    if (limit.rlim_max == RLIM_INFINITY || value < limit.rlim_max)
        limit.rlim_max = value;
    limit.rlim_cur = limit.rlim_max;
    return setrlimit((__typeof__(RLIMIT_AS))resource, &limit) == 0 ? 0 : -errno;
}

static int cpu_limit(uint64_t seconds)
{
    /* Soft first, so that the end comes as SIGXCPU and can be named; hard a second later. */
    struct rlimit limit;
    int error = lower(RLIMIT_CPU, seconds + 1);
    if (error != 0 || getrlimit(RLIMIT_CPU, &limit) != 0)
        return error != 0 ? error : -errno;
    if (seconds < limit.rlim_max)
        limit.rlim_cur = seconds;
    return setrlimit(RLIMIT_CPU, &limit) == 0 ? 0 : -errno;
}

int sandbox_limit(const struct sandbox_limits *limits)
{
    const struct {
        int resource;
        uint64_t value;
    } wanted[] = {
        {RLIMIT_AS, limits->address_space_bytes},
        {RLIMIT_FSIZE, limits->file_bytes},
        {RLIMIT_NOFILE, limits->open_files},
        {RLIMIT_NPROC, limits->processes},
        {RLIMIT_DATA, limits->data_bytes},
    };
    int error = lower(RLIMIT_CORE, 0);
    for (size_t i = 0; error == 0 && i < sizeof wanted / sizeof *wanted; i++)
        if (wanted[i].value != 0)
            error = lower(wanted[i].resource, wanted[i].value);
    if (error == 0 && limits->cpu_s != 0)
        error = cpu_limit(limits->cpu_s);
    return error;
}

int sandbox_die_with_parent(int signal, pid_t parent)
{
    if (prctl(PR_SET_PDEATHSIG, signal, 0, 0, 0) != 0)
        return -errno;
    return getppid() == parent ? 0 : -ESRCH;
}

int sandbox_no_new_privileges(void)
{
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0)
        return -errno;
    /* Without this, exec as uid 0 would take the bounding set back. */
    for (int capability = 0; capability <= 63; capability++)
        if (prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) != 0)
            break;
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    struct __user_cap_header_struct header;
    struct __user_cap_data_struct data[2];
    header.version = _LINUX_CAPABILITY_VERSION_3;
    header.pid = 0;
    memset(data, 0, sizeof data);
    return syscall(SYS_capset, &header, data) == 0 ? 0 : -errno;
}
