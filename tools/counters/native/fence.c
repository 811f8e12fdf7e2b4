/* fence [--ro PATH | --rw PATH | --dev PATH]... -- COMMAND ARGUMENT...
 *
 * Runs COMMAND with these paths and nothing else of the file system, no TCP, and no privilege. Where
 * the kernel has no Landlock, it runs all the same.
 */
#include "sandbox.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MOST_PATHS = 64, FAILED_TO_START = 125 };

static int access_of(const char *option)
{
    if (strcmp(option, "--ro") == 0)
        return SANDBOX_READ;
    if (strcmp(option, "--rw") == 0)
        return SANDBOX_WRITE;
    return strcmp(option, "--dev") == 0 ? SANDBOX_DEVICE : -1;
}

static int give_up(const char *what, int error)
{
    fprintf(stderr, "fence: %s: %s\n", what, strerror(error));
    return FAILED_TO_START;
}

int main(int count, char **arguments)
{
    static struct sandbox_path paths[MOST_PATHS];
    size_t path_count = 0;
    int at = 1;
    for (; at + 1 < count && strcmp(arguments[at], "--") != 0; at += 2) {
        const int access = access_of(arguments[at]);
        if (access < 0 || path_count == MOST_PATHS)
            return give_up(arguments[at], 0);
        paths[path_count].path = arguments[at + 1];
        paths[path_count++].access = access;
    }
    if (at + 1 >= count)
        return give_up("COMMAND", 0);
    int result = sandbox_no_new_privileges();
    if (result < 0)
        return give_up("privileges", -result);
    result = sandbox_landlock(paths, path_count);
    if (result < 0)
        return give_up("landlock", -result);
    execv(arguments[at + 1], arguments + at + 1);
    perror("fence");
    return FAILED_TO_START;
}
