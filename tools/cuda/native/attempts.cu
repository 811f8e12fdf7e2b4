// What the self-test of a GPU's sandbox loads in the place of a candidate: it tries what none may do,
// and has the GPU write down how that went. tools/cuda/site.py has the names of the attempts.
#include <csignal>
#include <cuda_runtime.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace {

__global__ void report(int* out, int value) { *out = value; }

long attempt(int number, int outsider) {
  switch (number) {
    case 0: return 0;
    case 1: return syscall(SYS_openat, AT_FDCWD, "/etc/passwd", O_RDONLY);
    case 2: return syscall(SYS_openat, AT_FDCWD, "/dev/zero", O_RDWR);
    case 3: return syscall(SYS_openat, AT_FDCWD, "made", O_WRONLY | O_CREAT, 0600);
    case 4: return syscall(SYS_socket, AF_INET, SOCK_STREAM, 0);
    case 5: return syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    case 6: return syscall(SYS_kill, outsider, 0);
    case 7: return syscall(SYS_execve, "/bin/true", nullptr, nullptr);
    case 8: return syscall(SYS_ptrace, 16, outsider, 0, 0);
    default: return -1;
  }
}

}  // namespace

extern "C" void solve(int* out, int number, int outsider) {
  const long result = attempt(number, outsider);
  report<<<1, 1>>>(out, result >= 0 ? 1 : 2);
  cudaDeviceSynchronize();
}
