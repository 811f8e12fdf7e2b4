#include "sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Numbers of the stable kernel interface; system headers are often older than the kernel. */
#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#define SYS_landlock_add_rule 445
#define SYS_landlock_restrict_self 446
#endif

struct ruleset {
    uint64_t handled_fs;
    uint64_t handled_net;
    uint64_t scoped;
};

struct __attribute__((packed)) path_rule {
    uint64_t allowed;
    int32_t folder;
};

enum { VERSION_QUERY = 1, RULE_PATH_BENEATH = 1 };

#define FS_EXECUTE (1ULL << 0)
#define FS_WRITE_FILE (1ULL << 1)
#define FS_READ_FILE (1ULL << 2)
#define FS_READ_DIR (1ULL << 3)
#define FS_ALL_1 ((1ULL << 13) - 1)
#define FS_REFER (1ULL << 13)
#define FS_TRUNCATE (1ULL << 14)
#define FS_IOCTL_DEV (1ULL << 15)
#define FS_MAKE_CHAR (1ULL << 6)
#define FS_MAKE_SOCK (1ULL << 9)
#define FS_MAKE_BLOCK (1ULL << 11)
#define NET_TCP 3ULL
#define SCOPE_ABSTRACT_SOCKET_AND_SIGNAL 3ULL

static const uint64_t readable = FS_EXECUTE | FS_READ_FILE | FS_READ_DIR;
static const uint64_t device = FS_READ_FILE | FS_WRITE_FILE | FS_IOCTL_DEV;
static const uint64_t meant_for_files =
    FS_EXECUTE | FS_READ_FILE | FS_WRITE_FILE | FS_TRUNCATE | FS_IOCTL_DEV;
static const uint64_t never = FS_MAKE_CHAR | FS_MAKE_SOCK | FS_MAKE_BLOCK | FS_IOCTL_DEV;

int sandbox_landlock_abi(void)
{
    long abi = syscall(SYS_landlock_create_ruleset, NULL, (size_t)0, VERSION_QUERY);
    return abi < 0 ? 0 : (int)abi;
}

static struct ruleset ruleset_of(int abi)
{
    struct ruleset rules;
    rules.handled_fs = FS_ALL_1;
    rules.handled_fs |= abi >= 2 ? FS_REFER : 0;
    rules.handled_fs |= abi >= 3 ? FS_TRUNCATE : 0;
    rules.handled_fs |= abi >= 5 ? FS_IOCTL_DEV : 0;
    rules.handled_net = abi >= 4 ? NET_TCP : 0;
    rules.scoped = abi >= 6 ? SCOPE_ABSTRACT_SOCKET_AND_SIGNAL : 0;
    return rules;
}

static uint64_t rights_of(int access)
{
    if (access == SANDBOX_DEVICE)
        return device;
    return access == SANDBOX_WRITE ? ~never : readable;
}

static int admit(int rules, const struct sandbox_path *path, uint64_t handled)
{
    int folder = open(path->path, O_PATH | O_CLOEXEC);
    if (folder < 0)
        return -errno;
    struct stat status;
    int error = fstat(folder, &status) == 0 ? 0 : -errno;
    if (error == 0) {
        struct path_rule rule;
        rule.allowed = rights_of(path->access) & handled;
        /* The kernel refuses folder rights on anything else. */
        if (!S_ISDIR(status.st_mode))
            rule.allowed &= meant_for_files;
        rule.folder = folder;
        if (syscall(SYS_landlock_add_rule, rules, RULE_PATH_BENEATH, &rule, 0) != 0)
            error = -errno;
    }
    close(folder);
    return error;
}

int sandbox_landlock(const struct sandbox_path *paths, size_t count)
{
    int abi = sandbox_landlock_abi();
    if (abi == 0)
        return 0;
    struct ruleset wanted = ruleset_of(abi);
    /* Older kernels accept a longer structure as long as the rest is zero. */
    int rules = (int)syscall(SYS_landlock_create_ruleset, &wanted, sizeof wanted, 0);
    if (rules < 0)
        return -errno;
    int error = 0;
    for (size_t i = 0; error == 0 && i < count; i++)
        error = admit(rules, &paths[i], wanted.handled_fs);
    if (error == 0 && syscall(SYS_landlock_restrict_self, rules, 0) != 0)
        error = -errno;
    close(rules);
    return error != 0 ? error : abi;
}
