// The few CUDA runtime calls that the driver makes itself, from the library it is given.
#pragma once

#include <cstddef>

namespace driver {

// Both are in the process's global scope afterwards: a candidate's own calls find them.
void open_cuda(const char* runtime_library);

[[noreturn]] void give_up(int exit_code, const char* what, const char* why);

void* allocate(size_t bytes);
void upload(void* to, const void* from, size_t bytes);
void check_launches();  // ends the process with what `solve` left behind
void start_profiler();
void stop_profiler();

constexpr int kRefused = 3;  // What is ours failed.
constexpr int kFaulted = 4;  // `solve` left an error behind.

}  // namespace driver
