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

size_t tree_mark(struct tree_process *processes, size_t count, pid_t root)
{
    size_t marked = 0, before;
    do {
        before = marked;
        for (size_t i = 0; i < count; i++) {
            struct tree_process *candidate = &processes[i];
            int child_of_marked = candidate->parent == root;
            for (size_t j = 0; !child_of_marked && !candidate->below && j < count; j++)
                child_of_marked = processes[j].below && processes[j].pid == candidate->parent;
            if (child_of_marked && !candidate->below) {
                candidate->below = 1;
                marked++;
            }
        }
    } while (marked != before);
    return marked;
}

static pid_t read_parent(const char *pid)
{
    char path[64], text[512];
    snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
    FILE *file = fopen(path, "re");
    if (file == NULL)
        return -1;
    size_t length = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[length] = '\0';
    return tree_parent(text);
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
