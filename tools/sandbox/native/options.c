#include "options.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int number(const char *text, uint64_t *value)
{
    char *end;
    errno = 0;
    *value = strtoull(text, &end, 10);
    return errno == 0 && end != text && *end == '\0' && *text != '-';
}

static int add_path(struct options *options, const char *path, int access)
{
    if (options->path_count == MOST_PATHS)
        return 0;
    options->paths[options->path_count].path = path;
    options->paths[options->path_count].access = access;
    options->path_count++;
    return 1;
}

/* NAME=SECONDS or NAME=SECONDS:FILE, cut where it lies in the argument vector. */
static int add_program(struct options *options, char *text)
{
    char *equals = strchr(text, '=');
    char *colon = equals == NULL ? NULL : strchr(equals, ':');
    uint64_t seconds = 0;
    if (colon != NULL)
        *colon = '\0';
    if (options->program_count == MOST_PROGRAMS || equals == NULL || !number(equals + 1, &seconds))
        return 0;
    *equals = '\0';
    options->programs[options->program_count].name = text;
    options->programs[options->program_count].cpu_s = seconds;
    options->programs[options->program_count].until = colon == NULL ? NULL : colon + 1;
    options->program_count++;
    return 1;
}

static int set(struct options *options, const char *name, char *value)
{
    uint64_t amount = 0;
    if (strcmp(name, "--ro") == 0)
        return add_path(options, value, SANDBOX_READ);
    if (strcmp(name, "--rw") == 0)
        return add_path(options, value, SANDBOX_WRITE);
    if (strcmp(name, "--program-cpu-s") == 0)
        return add_program(options, value);
    if (!number(value, &amount))
        return 0;
    if (strcmp(name, "--cpu-s") == 0)
        options->limits.cpu_s = amount;
    else if (strcmp(name, "--memory-bytes") == 0)
        options->limits.address_space_bytes = amount;
    else if (strcmp(name, "--file-bytes") == 0)
        options->limits.file_bytes = amount;
    else if (strcmp(name, "--open-files") == 0)
        options->limits.open_files = amount;
    else if (strcmp(name, "--processes") == 0)
        options->processes = amount;
    else if (strcmp(name, "--wall-ms") == 0)
        options->wall_ms = amount;
    else if (strcmp(name, "--report-fd") == 0)
        options->report = (int)amount;
    else if (strcmp(name, "--parent") == 0)
        options->parent = (pid_t)amount;
    else
        return 0;
    return 1;
}

const char *options_parse(int count, char **arguments, struct options *options)
{
    memset(options, 0, sizeof *options);
    options->report = -1;
    int at = 1;
    for (; at < count && strcmp(arguments[at], "--") != 0; at += 2)
        if (at + 1 >= count || !set(options, arguments[at], arguments[at + 1]))
            return arguments[at];
    if (at + 1 >= count)
        return "COMMAND";
    options->command = &arguments[at + 1];
    return NULL;
}
