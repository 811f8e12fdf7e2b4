// What is taken away from a process that holds a GPU before a candidate's code runs in it.
#pragma once

namespace runner {

// Leaves this process the one file `candidate` to load, the GPU, a bounded amount of further memory,
// and no processes, threads, sockets or other files.
void confine_gpu_for_loading(const char* candidate);

// Takes away the files and executable memory too.
void confine_gpu_for_running();

}  // namespace runner
