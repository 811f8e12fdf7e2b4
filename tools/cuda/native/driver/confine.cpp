#include "confine.h"

#include <cstdlib>
#include <cstring>
#include <vector>

#include "cuda.h"
#include "sandbox.h"

namespace driver {
namespace {

std::vector<sandbox_path> view;

int access_of(const char* option)
{
    if (std::strcmp(option, "--ro") == 0) {
        return SANDBOX_READ;
    }
    if (std::strcmp(option, "--rw") == 0) {
        return SANDBOX_WRITE;
    }
    return std::strcmp(option, "--dev") == 0 ? SANDBOX_DEVICE : -1;
}

void check(int result, const char* what)
{
    if (result < 0) {
        give_up(kRefused, what, std::strerror(-result));
    }
}

}  // namespace

int read_view(int count, char** arguments)
{
    int at = 1;
    for (; at + 1 < count && std::strcmp(arguments[at], "--") != 0; at += 2) {
        const int access = access_of(arguments[at]);
        if (access < 0) {
            give_up(kRefused, "arguments", arguments[at]);
        }
        view.push_back({arguments[at + 1], access});
    }
    return at + 1;
}

void confine()
{
    if (view.empty()) {
        return;
    }
    const char* scratch = std::getenv("TMPDIR");
    if (scratch != nullptr) {
        view.push_back({scratch, SANDBOX_WRITE});
    }
    check(sandbox_no_new_privileges(), "privileges");
    check(sandbox_landlock(view.data(), view.size()), "landlock");
}

}  // namespace driver
