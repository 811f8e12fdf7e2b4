#include "calls.h"

#include "sandbox.h"

#include <sys/syscall.h>

/* Younger than some C libraries' headers; from 424 on, numbers are the same on every architecture. */
#ifndef SYS_pidfd_send_signal
#define SYS_pidfd_send_signal 424
#endif
#ifndef SYS_io_uring_setup
#define SYS_io_uring_setup 425
#endif
#ifndef SYS_io_uring_enter
#define SYS_io_uring_enter 426
#endif
#ifndef SYS_io_uring_register
#define SYS_io_uring_register 427
#endif
#ifndef SYS_open_tree
#define SYS_open_tree 428
#endif
#ifndef SYS_move_mount
#define SYS_move_mount 429
#endif
#ifndef SYS_fsopen
#define SYS_fsopen 430
#endif
#ifndef SYS_fsconfig
#define SYS_fsconfig 431
#endif
#ifndef SYS_fsmount
#define SYS_fsmount 432
#endif
#ifndef SYS_fspick
#define SYS_fspick 433
#endif
#ifndef SYS_pidfd_open
#define SYS_pidfd_open 434
#endif
#ifndef SYS_clone3
#define SYS_clone3 435
#endif
#ifndef SYS_openat2
#define SYS_openat2 437
#endif
#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif
#ifndef SYS_process_madvise
#define SYS_process_madvise 440
#endif
#ifndef SYS_mount_setattr
#define SYS_mount_setattr 442
#endif
#ifndef SYS_memfd_secret
#define SYS_memfd_secret 447
#endif

#define KERNEL(call)                                                                             \
    call(acct) call(add_key) call(adjtimex) call(bpf) call(chroot) call(clock_adjtime)           \
    call(clock_settime) call(delete_module) call(fanotify_init) call(finit_module)               \
    call(fsconfig) call(fsmount) call(fsopen) call(fspick) call(init_module)                     \
    call(io_uring_enter) call(io_uring_register) call(io_uring_setup) call(kcmp)                 \
    call(kexec_load) call(keyctl) call(migrate_pages) call(mknodat) call(mount)                  \
    call(mount_setattr) call(move_mount) call(move_pages) call(name_to_handle_at)                \
    call(open_by_handle_at) call(open_tree) call(perf_event_open) call(personality)              \
    call(pidfd_getfd) call(pidfd_open) call(pidfd_send_signal) call(pivot_root)                  \
    call(process_madvise) call(process_vm_readv) call(process_vm_writev) call(ptrace)            \
    call(quotactl) call(reboot) call(request_key) call(sethostname) call(setdomainname)          \
    call(setns) call(settimeofday) call(swapoff) call(swapon) call(syslog) call(umount2)         \
    call(unshare) call(userfaultfd) call(vhangup)

#define NETWORK(call)                                                                            \
    call(accept) call(accept4) call(bind) call(connect) call(listen) call(socket)                \
    call(socketpair)

#define PROCESS(call)                                                                            \
    call(clone) call(clone3) call(execve) call(execveat) call(memfd_create)                      \
    call(memfd_secret) call(rt_sigqueueinfo) call(rt_tgsigqueueinfo) call(setpgid)               \
    call(setsid) call(tkill)

#define WRITING(call)                                                                            \
    call(fallocate) call(fchmod) call(fchmodat) call(fchown) call(fchownat)                      \
    call(fremovexattr) call(fsetxattr) call(linkat) call(lremovexattr) call(lsetxattr)           \
    call(mkdirat) call(openat2) call(removexattr) call(renameat) call(renameat2)                 \
    call(setxattr) call(symlinkat) call(truncate) call(unlinkat) call(utimensat)

#define HARMLESS(call)                                                                           \
    call(brk) call(clock_getres) call(clock_gettime) call(clock_nanosleep) call(close)           \
    call(exit) call(exit_group) call(fstat) call(futex) call(getcpu) call(getpid)                \
    call(getrandom) call(getrusage) call(gettid) call(gettimeofday) call(getuid) call(lseek)     \
    call(madvise) call(membarrier) call(mremap) call(msync) call(munmap) call(nanosleep)         \
    call(ppoll) call(pread64) call(pwrite64) call(read) call(readv) call(recvfrom)               \
    call(recvmsg) call(restart_syscall) call(rt_sigprocmask) call(rt_sigreturn)                  \
    call(sched_getaffinity) call(sched_yield) call(sendmsg) call(sendto) call(sigaltstack)       \
    call(sysinfo) call(times) call(write) call(writev)

#define OTHER(call)                                                                              \
    call(chdir) call(dup) call(dup3) call(epoll_create1) call(eventfd2) call(faccessat)          \
    call(fchdir) call(fcntl) call(ftruncate) call(getcwd) call(getdents64) call(getpeername)     \
    call(getppid) call(getsockname) call(getsockopt) call(inotify_init1) call(ioctl)             \
    call(kill) call(mmap) call(mprotect) call(newfstatat) call(openat) call(pipe2)               \
    call(pkey_mprotect) call(prctl) call(prlimit64) call(readlinkat) call(rt_sigaction)          \
    call(sched_setaffinity) call(seccomp) call(setitimer) call(setsockopt) call(setuid)          \
    call(shmat) call(shmget) call(shutdown) call(statx) call(tgkill) call(timer_create)          \
    call(timerfd_create) call(uname)

/* Older spellings that only x86-64 still has. */
#ifdef __x86_64__
#define OLD_KERNEL(call)                                                                         \
    call(ioperm) call(iopl) call(mknod) call(modify_ldt) call(uselib)
#define OLD_PROCESS(call)                                                                        \
    call(fork) call(vfork)
#define OLD_WRITING(call)                                                                        \
    call(chmod) call(chown) call(creat) call(futimesat) call(lchown) call(link) call(mkdir)      \
    call(rename) call(rmdir) call(symlink) call(unlink) call(utime) call(utimes)
#define OLD_HARMLESS(call)                                                                       \
    call(poll) call(time)
#define OLD_OTHER(call)                                                                          \
    call(access) call(arch_prctl) call(dup2) call(open) call(pipe) call(readlink)                \
    call(select) call(stat)
#else
#define OLD_KERNEL(call)
#define OLD_PROCESS(call)
#define OLD_WRITING(call)
#define OLD_HARMLESS(call)
#define OLD_OTHER(call)
#endif

#define NUMBER(name) SYS_##name,
#define COUNT(group) (sizeof(group) / sizeof *(group))

const long kernel_calls[] = {KERNEL(NUMBER) OLD_KERNEL(NUMBER)};
const size_t kernel_calls_count = COUNT(kernel_calls);
const long network_calls[] = {NETWORK(NUMBER)};
const size_t network_calls_count = COUNT(network_calls);
const long harmless_calls[] = {HARMLESS(NUMBER) OLD_HARMLESS(NUMBER)};
const size_t harmless_calls_count = COUNT(harmless_calls);

#define NAME(name) {SYS_##name, #name},

static const struct {
    int number;
    const char *name;
} names[] = {
    KERNEL(NAME) OLD_KERNEL(NAME)
    NETWORK(NAME)
    PROCESS(NAME) OLD_PROCESS(NAME)
    WRITING(NAME) OLD_WRITING(NAME)
    HARMLESS(NAME) OLD_HARMLESS(NAME)
    OTHER(NAME) OLD_OTHER(NAME)
};

const char *sandbox_syscall_name(int syscall_number)
{
    for (size_t i = 0; i < COUNT(names); i++)
        if (names[i].number == syscall_number)
            return names[i].name;
    return NULL;
}
