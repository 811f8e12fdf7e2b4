/* probe FILE PID: try what a jail forbids; print `attempt=errno`, 0 where it was allowed. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <unistd.h>

static void tell(const char *attempt, int failed)
{
    printf("%s=%d\n", attempt, failed ? errno : 0);
}

int main(int count, char **arguments)
{
    if (count != 3)
        return 2;
    tell("read", open(arguments[1], O_RDONLY) < 0);
    tell("write", open(arguments[1], O_WRONLY) < 0);
    tell("signal", kill((pid_t)atoi(arguments[2]), 0) != 0);
    tell("socket", socket(AF_INET, SOCK_STREAM, 0) < 0);
    tell("trace", ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0);
    tell("namespace", unshare(CLONE_NEWUSER) != 0);
    printf("pid=%d\n", (int)getpid());
    return 0;
}
