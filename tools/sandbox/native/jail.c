/* jail [--ro PATH] [--rw PATH] [--cpu-s N] [--memory-bytes N] [--file-bytes N] [--open-files N]
 *      [--processes N] [--wall-ms N] [--report-fd N] [--parent PID]
 *      [--program-cpu-s NAME=N[:FILE]] -- COMMAND ARGUMENT...
 *
 * Runs COMMAND confined. When it ends, exceeds a limit, or the jail is told to stop (SIGTERM, SIGINT,
 * SIGHUP) or loses its parent, every process below the jail is killed, detached ones too.
 * One line of `key=value` goes to the report descriptor; the exit status is COMMAND's where it has one.
 */
#include "options.h"
#include "sandbox.h"
#include "tree.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { TICK_MS = 20, FAILED_TO_START = 125 };

/* Shared with the children; written by them before they end. */
struct outcome {
    int ended;
    int status;
    int landlock;
    int error;
    char step[32];
    struct rusage usage;
};

static uint64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void require(struct outcome *outcome, const char *step, int result)
{
    if (result >= 0)
        return;
    outcome->error = -result;
    snprintf(outcome->step, sizeof outcome->step, "%s", step);
    _exit(FAILED_TO_START);
}

static void become_command(const struct options *options, struct outcome *outcome)
{
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setsid();
    if (options->report >= 0)
        require(outcome, "report", fcntl(options->report, F_SETFD, FD_CLOEXEC) < 0 ? -errno : 0);
    require(outcome, "limits", sandbox_limit(&options->limits));
    require(outcome, "privileges", sandbox_no_new_privileges());
    outcome->landlock = sandbox_landlock(options->paths, options->path_count);
    require(outcome, "landlock", outcome->landlock);
    require(outcome, "seccomp", sandbox_seccomp(SANDBOX_COMPILE));
    /* The supervisor goes first, whatever the command makes of its processors. */
    setpriority(PRIO_PROCESS, 0, 5);
    execvp(options->command[0], options->command);
    require(outcome, "exec", -errno);
}

static void record(struct outcome *outcome, int status)
{
    outcome->status = status;
    getrusage(RUSAGE_CHILDREN, &outcome->usage);
    outcome->ended = 1;
}

/* First process of the pid namespace: the kernel kills all others when it ends. */
static void be_init(const struct options *options, struct outcome *outcome, int lifeline)
{
    struct pollfd supervisor = {lifeline, POLLIN, 0};
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    /* It may have died before that call. */
    if (poll(&supervisor, 1, 0) != 0)
        _exit(FAILED_TO_START);
    pid_t command = fork();
    require(outcome, "fork", command < 0 ? -errno : 0);
    if (command == 0)
        become_command(options, outcome);
    int status;
    pid_t reaped;
    do {
        reaped = wait(&status);
    } while (reaped != command && (reaped > 0 || errno == EINTR));
    record(outcome, status);
    _exit(0);
}

static pid_t start(const struct options *options, struct outcome *outcome, unsigned *isolation)
{
    int lifeline[2];
    const pid_t supervisor = getpid();
    require(outcome, "pipe", pipe2(lifeline, O_CLOEXEC) != 0 ? -errno : 0);
    pid_t child = sandbox_fork(SANDBOX_OWN_ALL, isolation);
    require(outcome, "fork", child);
    if (child == 0) {
        close(lifeline[1]);
        if (*isolation & SANDBOX_OWN_PIDS)
            be_init(options, outcome, lifeline[0]);
        require(outcome, "parent", sandbox_die_with_parent(SIGKILL, supervisor));
        become_command(options, outcome);
    }
    close(lifeline[0]); /* The other end stays open for as long as this process lives. */
    return child;
}

/* Threads of the whole machine: cheap enough to ask at every tick. */
static unsigned long machine_threads(void)
{
    unsigned long running, all = 0;
    FILE *file = fopen("/proc/loadavg", "re");
    if (file == NULL)
        return 0;
    if (fscanf(file, "%*f %*f %*f %lu/%lu", &running, &all) != 2)
        all = 0;
    fclose(file);
    return all;
}

static const char *supervise(const struct options *options, struct outcome *outcome, pid_t child,
                             const sigset_t *signals)
{
    const struct timespec tick = {0, TICK_MS * 1000000};
    const uint64_t start_ms = now_ms();
    const unsigned long quiet = machine_threads();
    for (;;) {
        int signal = sigtimedwait(signals, NULL, &tick);
        if (signal > 0 && signal != SIGCHLD)
            return "stopped";
        int status;
        pid_t reaped;
        while ((reaped = waitpid(-1, &status, WNOHANG)) > 0)
            if (reaped == child) {
                if (!outcome->ended)
                    record(outcome, status);
                return WIFSIGNALED(outcome->status) ? "signalled" : "exited";
            }
        if (options->wall_ms != 0 && now_ms() - start_ms >= options->wall_ms)
            return "wall";
        if (options->processes != 0 && machine_threads() > quiet + options->processes &&
            tree_count(getpid()) > options->processes)
            return "processes";
        if (options->program_count != 0)
            tree_limit(getpid(), options->programs, options->program_count);
    }
}

static void report(const struct options *options, const struct outcome *outcome, const char *end,
                   unsigned isolation, uint64_t wall_ms)
{
    const struct rusage *usage = &outcome->usage;
    const long long cpu_ms = (usage->ru_utime.tv_sec + usage->ru_stime.tv_sec) * 1000LL +
                             (usage->ru_utime.tv_usec + usage->ru_stime.tv_usec) / 1000;
    const int code = WIFSIGNALED(outcome->status) ? WTERMSIG(outcome->status)
                                                  : WEXITSTATUS(outcome->status);
    if (options->report < 0)
        return;
    dprintf(options->report,
            "end=%s code=%d error=%d step=%s landlock=%d isolation=%u wall_ms=%llu cpu_ms=%lld "
            "peak_kib=%ld\n",
            outcome->error != 0 ? "failed" : end, code, outcome->error,
            outcome->error != 0 ? outcome->step : "-", outcome->landlock, isolation,
            (unsigned long long)wall_ms, cpu_ms, usage->ru_maxrss);
}

int main(int count, char **arguments)
{
    struct options options;
    const char *wrong = options_parse(count, arguments, &options);
    if (wrong != NULL) {
        fprintf(stderr, "jail: cannot use %s\n", wrong);
        return FAILED_TO_START;
    }
    static const int handled[] = {SIGTERM, SIGINT, SIGHUP, SIGCHLD};
    sigset_t signals;
    sigemptyset(&signals);
    for (size_t i = 0; i < sizeof handled / sizeof *handled; i++)
        sigaddset(&signals, handled[i]);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    /* Told by the kernel to stop, it can still sweep up what is below. */
    if (sandbox_die_with_parent(SIGTERM, options.parent ? options.parent : getppid()) != 0)
        return FAILED_TO_START;
    prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);

    struct outcome *outcome = (struct outcome *)mmap(NULL, sizeof *outcome, PROT_READ | PROT_WRITE,
                                                     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (outcome == MAP_FAILED)
        return FAILED_TO_START;
    const uint64_t start_ms = now_ms();
    unsigned isolation = 0;
    pid_t child = start(&options, outcome, &isolation);
    const char *end = supervise(&options, outcome, child, &signals);
    kill(child, SIGKILL); /* When it is init, this alone is the end of all. */
    tree_kill();
    if (!outcome->ended)
        getrusage(RUSAGE_CHILDREN, &outcome->usage);
    report(&options, outcome, end, isolation, now_ms() - start_ms);
    if (outcome->error != 0 || !outcome->ended)
        return FAILED_TO_START;
    return WIFSIGNALED(outcome->status) ? 128 + WTERMSIG(outcome->status)
                                        : WEXITSTATUS(outcome->status);
}
