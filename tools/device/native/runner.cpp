// Runs one candidate on the emulated device, in two confined processes.
//
//   runner device SOCKET LINK PARENT ARENA REPORT LIBEMULATOR KERNELS
//   runner host LINK PARENT LIBCUDART CANDIDATE
//
// SOCKET, LINK, ARENA and REPORT are inherited descriptors (arena and report: memfds), PARENT is the
// orchestrator's process id, the rest are paths of libraries.
#include <cstring>

#include "parts.h"

int main(int count, char** arguments) {
  if (count == 9 && std::strcmp(arguments[1], "device") == 0) return runner::be_device(arguments + 2);
  if (count == 6 && std::strcmp(arguments[1], "host") == 0) return runner::be_host(arguments + 2);
  return 2;
}
