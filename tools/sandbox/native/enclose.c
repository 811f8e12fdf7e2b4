/* enclose PARENT SPACES REPORT HIDDEN COMMAND ARGUMENT...
 *
 * Runs COMMAND without privileges in namespaces of its own: those of SPACES (a sum of SANDBOX_OWN_...) that the kernel
 * grants. One byte, the sum of those it lives in, goes to the descriptor REPORT. COMMAND dies with this
 * process, which dies with PARENT; told to end (SIGTERM), it ends once COMMAND is gone. Its exit status
 * is COMMAND's, and so is the signal it dies by. An ARGUMENT `@` becomes the process id of COMMAND's
 * parent as COMMAND sees it. With SANDBOX_OWN_PROC, COMMAND finds nothing at the paths of HIDDEN, parted
 * by colons.
 */
#include "sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FAILED_TO_START = 125 };

static void become_command(char **command, int lifeline)
{
    struct pollfd supervisor = {lifeline, POLLIN, 0};
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    char parent[16];
    snprintf(parent, sizeof parent, "%d", (int)getppid());
    for (char **word = command + 1; *word != NULL; word++)
        if (strcmp(*word, "@") == 0)
            *word = parent;
    /* Before it makes threads: each has capabilities of its own, and no namespace takes them away
     * from a command that found none granted. It may also have lost its supervisor by now. */
    if (sandbox_no_new_privileges() == 0 && poll(&supervisor, 1, 0) == 0)
        execv(command[0], command);
    _exit(FAILED_TO_START);
}

static void hide_all(char *paths)
{
    for (char *path = strtok(paths, ":"); path != NULL; path = strtok(NULL, ":"))
        sandbox_hide(path); /* It costs time where it fails, nothing else. */
}

/* The status of the command, which is killed when we are told to end. */
static int outlast(pid_t command, const sigset_t *signals)
{
    int status, signal;
    for (;;) {
        if (waitpid(command, &status, WNOHANG) == command)
            return status;
        if (sigwait(signals, &signal) == 0 && signal != SIGCHLD)
            kill(command, SIGKILL);
    }
}

static int end_likewise(int status)
{
    if (!WIFSIGNALED(status))
        return WEXITSTATUS(status);
    const struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    sigset_t all;
    sigemptyset(&all);
    sigprocmask(SIG_SETMASK, &all, NULL);
    signal(WTERMSIG(status), SIG_DFL);
    raise(WTERMSIG(status));
    return FAILED_TO_START;
}

int main(int count, char **arguments)
{
    static const int handled[] = {SIGTERM, SIGINT, SIGHUP, SIGCHLD};
    sigset_t signals;
    int lifeline[2];
    if (count < 6)
        return FAILED_TO_START;
    const int report = atoi(arguments[3]);
    sigemptyset(&signals);
    for (size_t i = 0; i < sizeof handled / sizeof *handled; i++)
        sigaddset(&signals, handled[i]);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    if (sandbox_die_with_parent(SIGTERM, atoi(arguments[1])) != 0 ||
        pipe2(lifeline, O_CLOEXEC) != 0 || fcntl(report, F_SETFD, FD_CLOEXEC) != 0)
        return FAILED_TO_START;
    unsigned isolation = 0;
    const pid_t command = sandbox_fork((unsigned)atoi(arguments[2]), &isolation);
    if (command < 0)
        return FAILED_TO_START;
    if (command == 0) {
        close(lifeline[1]);
        if (isolation & SANDBOX_OWN_PROC)
            hide_all(arguments[4]);
        become_command(arguments + 5, lifeline[0]);
    }
    close(lifeline[0]); /* The other end stays open for as long as this process lives. */
    const unsigned char reached = (unsigned char)isolation;
    if (write(report, &reached, 1) != 1)
        kill(command, SIGKILL);
    close(report);
    /* The command alone keeps what it was handed: its peers must see it hang up. */
    for (int descriptor = 3; descriptor < 64; descriptor++)
        if (descriptor != lifeline[1])
            close(descriptor);
    return end_likewise(outlast(command, &signals));
}
