#include "sandbox.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

static void (*report_violation)(int);

static void on_forbidden_call(int signal, siginfo_t *info, void *context)
{
    (void)signal;
    (void)context;
    if (report_violation != NULL)
        report_violation(info->si_syscall);
    _exit(SANDBOX_VIOLATION_STATUS);
}

int sandbox_on_violation(void (*report)(int syscall_number))
{
    report_violation = report;
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = on_forbidden_call;
    /* On the alternate stack where there is one: the candidate may have none left. A second
     * violation, inside the report, finds SIGSYS blocked and kills the process. */
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    return sigaction(SIGSYS, &action, NULL) == 0 ? 0 : -errno;
}
