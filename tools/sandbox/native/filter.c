#include "filter.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define NATIVE_ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define NATIVE_ARCH AUDIT_ARCH_AARCH64
#else
#error "seccomp profiles are written for x86-64 and aarch64"
#endif

#define X32_CALLS 0x40000000u
#define LOW_HALF(index) (offsetof(struct seccomp_data, args) + 8u * (index))

static void emit(struct filter *filter, uint16_t code, uint32_t value, uint8_t yes, uint8_t no)
{
    if (filter->length < FILTER_LENGTH) {
        struct sock_filter *at = &filter->code[filter->length];
        at->code = code;
        at->jt = yes;
        at->jf = no;
        at->k = value;
    }
    filter->length++;
}

static void load(struct filter *filter, size_t offset)
{
    emit(filter, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, 0, 0);
}

static void answer(struct filter *filter, uint32_t action)
{
    emit(filter, BPF_RET | BPF_K, action, 0, 0);
}

void filter_begin(struct filter *filter)
{
    filter->length = 0;
    load(filter, offsetof(struct seccomp_data, arch));
    emit(filter, BPF_JMP | BPF_JEQ | BPF_K, NATIVE_ARCH, 1, 0);
    answer(filter, SECCOMP_RET_KILL_PROCESS);
    load(filter, offsetof(struct seccomp_data, nr));
    emit(filter, BPF_JMP | BPF_JGE | BPF_K, X32_CALLS, 0, 1);
    answer(filter, SECCOMP_RET_KILL_PROCESS);
}

void filter_call(struct filter *filter, long number, uint32_t action)
{
    emit(filter, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 1);
    answer(filter, action);
}

void filter_call_if(struct filter *filter, long number, unsigned index, uint32_t mask,
                    uint32_t value, uint32_t action)
{
    emit(filter, BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 5);
    load(filter, LOW_HALF(index));
    emit(filter, BPF_ALU | BPF_AND | BPF_K, mask, 0, 0);
    emit(filter, BPF_JMP | BPF_JEQ | BPF_K, value, 0, 1);
    answer(filter, action);
    load(filter, offsetof(struct seccomp_data, nr));
}

int filter_install(struct filter *filter, uint32_t otherwise, enum filter_threads threads)
{
    answer(filter, otherwise);
    if (filter->length > FILTER_LENGTH)
        return -E2BIG;
    struct sock_fprog program;
    program.len = (unsigned short)filter->length;
    program.filter = filter->code;
    const unsigned flags = threads == FILTER_ALL_THREADS ? SECCOMP_FILTER_FLAG_TSYNC : 0;
    long done = syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
    /* A positive answer is a thread whose own filters stand in the way. */
    return done == 0 ? 0 : done > 0 ? -EBUSY : -errno;
}
