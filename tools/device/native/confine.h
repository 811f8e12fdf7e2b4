#pragma once

namespace runner {

// Leaves the device part what it has: a bounded amount of further memory, no processes, threads,
// sockets or files.
void confine_device();

// Leaves this process the one file `candidate` to load, a bounded amount of further memory, and no
// processes, threads, sockets or other files.
void confine_for_loading(const char* candidate);

// Takes away the files and executable memory too. What runs from here on computes, and no more.
void confine_for_running();

}  // namespace runner
