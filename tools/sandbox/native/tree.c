#include "tree.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_PROCESSES = 1 << 16 };

static struct tree_process seen[MOST_PROCESSES];

pid_t tree_parent(const char *stat)
{
    const char *name_end = strrchr(stat, ')');
    char state;
    int parent;
    if (name_end == NULL || sscanf(name_end + 1, " %c %d", &state, &parent) != 2)
        return -1;
    return parent;
}

static int by_pid(const void *left, const void *right)
{
    const pid_t a = ((const struct tree_process *)left)->pid;
    const pid_t b = ((const struct tree_process *)right)->pid;
    return (a > b) - (a < b);
}

enum { UNKNOWN, ASKED, BELOW, OUTSIDE };

/* Climbs to the root, or to a process whose answer is known, and leaves the answer on the way. A
 * process met twice is its own ancestor: the list was read while it changed. */
static int climb(struct tree_process *processes, size_t count, pid_t root,
                 struct tree_process *start)
{
    int answer = OUTSIDE;
    for (struct tree_process *at = start; at != NULL; ) {
        if (at->below != UNKNOWN) {
            answer = at->below == ASKED ? OUTSIDE : at->below;
            break;
        }
        at->below = ASKED;
        if (at->parent == root) {
            answer = BELOW;
            break;
        }
        const struct tree_process parent = {at->parent, 0, 0};
        at = (struct tree_process *)bsearch(&parent, processes, count, sizeof parent, by_pid);
    }
    for (struct tree_process *at = start; at != NULL && at->below == ASKED; ) {
        at->below = answer;
        const struct tree_process parent = {at->parent, 0, 0};
        at = (struct tree_process *)bsearch(&parent, processes, count, sizeof parent, by_pid);
    }
    return answer;
}

size_t tree_mark(struct tree_process *processes, size_t count, pid_t root)
{
    size_t marked = 0;
    /* A fork bomb makes thousands before it is noticed: nothing quadratic here. */
    qsort(processes, count, sizeof *processes, by_pid);
    for (size_t i = 0; i < count; i++)
        processes[i].below = UNKNOWN;
    for (size_t i = 0; i < count; i++)
        marked += climb(processes, count, root, &processes[i]) == BELOW;
    for (size_t i = 0; i < count; i++)
        processes[i].below = processes[i].below == BELOW;
    return marked;
}

static int read_stat(const char *pid, char *text, size_t size)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return 0;
    text[fread(text, 1, size - 1, file)] = '\0';
    fclose(file);
    return 1;
}

static pid_t read_parent(const char *pid)
{
    char text[512];
    return read_stat(pid, text, sizeof text) ? tree_parent(text) : -1;
}

static size_t scan(pid_t root)
{
    DIR *folder = opendir("/proc");
    if (folder == NULL)
        return 0;
    size_t count = 0;
    const struct dirent *entry;
    while (count < MOST_PROCESSES && (entry = readdir(folder)) != NULL) {
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        seen[count].pid = (pid_t)atoi(entry->d_name);
        seen[count].parent = read_parent(entry->d_name);
        seen[count].below = 0;
        count++;
    }
    closedir(folder);
    tree_mark(seen, count, root);
    return count;
}

size_t tree_count(pid_t root)
{
    size_t count = scan(root), below = 0;
    for (size_t i = 0; i < count; i++)
        below += (size_t)seen[i].below;
    return below;
}

/* Seconds of processor time in the text of /proc/PID/stat; 0 when the text is none. */
static uint64_t cpu_seconds(const char *name_end)
{
    unsigned long user = 0, system = 0;
    const char *format = ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu";
    if (sscanf(name_end, format, &user, &system) != 2)
        return 0;
    return (user + system) / (unsigned long)sysconf(_SC_CLK_TCK);
}

static void end_if_late(pid_t pid, const struct tree_program *programs, size_t count)
{
    enum { PATIENCE_S = 1 };
    char number[16], text[512];
    snprintf(number, sizeof number, "%d", pid);
    char *name = read_stat(number, text, sizeof text) ? strchr(text, '(') : NULL;
    char *name_end = name != NULL ? strrchr(name, ')') : NULL;
    if (name_end == NULL)
        return;
    const uint64_t used_s = cpu_seconds(name_end);
    *name_end = '\0';
    for (size_t i = 0; i < count; i++)
        if (used_s >= programs[i].cpu_s && strcmp(name + 1, programs[i].name) == 0 &&
            (programs[i].until == NULL || access(programs[i].until, F_OK) != 0))
            /* First so that the end can be named. Some programs do not end at that. */
            kill(pid, used_s < programs[i].cpu_s + PATIENCE_S ? SIGXCPU : SIGKILL);
}

static void limit_below(pid_t root, const struct tree_program *programs, size_t count, int depth)
{
    char path[64];
    int child;
    snprintf(path, sizeof path, "/proc/%d/task/%d/children", root, root);
    FILE *file = depth > 0 ? fopen(path, "re") : NULL;
    if (file == NULL)
        return;
    while (fscanf(file, "%d", &child) == 1) {
        end_if_late((pid_t)child, programs, count);
        limit_below((pid_t)child, programs, count, depth - 1);
    }
    fclose(file);
}

void tree_limit(pid_t root, const struct tree_program *programs, size_t count)
{
    enum { DEEPEST = 8 }; /* init, nvcc, its shell, a driver, the compiler. */
    limit_below(root, programs, count, DEEPEST);
}

void tree_kill(void)
{
    const struct timespec pause = {0, 1000000};
    for (;;) {
        pid_t reaped;
        while ((reaped = waitpid(-1, NULL, WNOHANG)) > 0)
            continue;
        if (reaped < 0 && errno == ECHILD)
            return;
        size_t count = scan(getpid());
        for (size_t i = 0; i < count; i++)
            if (seen[i].below)
                kill(seen[i].pid, SIGKILL);
        nanosleep(&pause, NULL);
    }
}
