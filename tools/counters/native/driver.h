// What every driver does: device buffers with contents of ours, and one call of `solve` to look at.
#pragma once

#include <cuda_profiler_api.h>
#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <type_traits>
#include <vector>

namespace driver {

constexpr int kRefused = 3;  // A CUDA call of ours failed.
constexpr int kFaulted = 4;  // `solve` left an error behind.
constexpr size_t kPeriod = 1048573;  // Elements until contents repeat: a prime, no tile's multiple.

inline void check(cudaError_t status, const char* what, int exit_code = kRefused)
{
    if (status == cudaSuccess) {
        return;
    }
    std::fprintf(stderr, "driver: %s: %s: %s\n", what, cudaGetErrorName(status),
                 cudaGetErrorString(status));
    std::fflush(stderr);
    std::_Exit(exit_code);
}

// Steele, Lea and Flood's splitmix64, as a number in [0, 1).
inline double draw(std::uint64_t& state)
{
    std::uint64_t mixed = (state += 0x9e3779b97f4a7c15ull);
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9ull;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebull;
    return static_cast<double>((mixed ^ (mixed >> 31)) >> 11) * 0x1p-53;
}

// Device memory of exactly the argument's size, so that a step past its end is one.
class Buffer {
public:
    explicit Buffer(size_t bytes) : bytes_(bytes)
    {
        check(cudaMalloc(&data_, bytes), "cudaMalloc");
    }

    // Contents that `refill` restores before every call; without any, nobody has written it.
    template <class T>
    void hold(double low, double high, std::uint64_t seed)
    {
        const size_t count = std::min(bytes_ / sizeof(T), kPeriod);
        contents_.resize(count * sizeof(T));
        T* drawn = reinterpret_cast<T*>(contents_.data());
        for (size_t index = 0; index < count; ++index) {
            const double number = low + (high - low) * draw(seed);
            if constexpr (std::is_integral_v<T>) {
                drawn[index] = static_cast<T>(static_cast<std::int64_t>(std::floor(number)));
            } else {
                drawn[index] = static_cast<T>(static_cast<float>(number));
            }
        }
    }

    void refill() const
    {
        for (size_t done = 0; !contents_.empty() && done < bytes_; done += contents_.size()) {
            const size_t part = std::min(contents_.size(), bytes_ - done);
            auto* to = static_cast<unsigned char*>(data_) + done;
            check(cudaMemcpy(to, contents_.data(), part, cudaMemcpyHostToDevice), "cudaMemcpy");
        }
    }

    template <class T>
    T* as() const
    {
        return static_cast<T*>(data_);
    }

private:
    void* data_ = nullptr;
    size_t bytes_;
    std::vector<unsigned char> contents_;
};

// Calls `solve` `warm_ups` times, then once where a profiler looks.
inline int drive(const std::vector<const Buffer*>& buffers, int warm_ups,
                 const std::function<void()>& solve)
{
    for (int call = 0; call <= warm_ups; ++call) {
        for (const Buffer* buffer : buffers) {
            buffer->refill();
        }
        check(cudaDeviceSynchronize(), "refill");
        if (call == warm_ups) {
            check(cudaProfilerStart(), "cudaProfilerStart");
        }
        solve();
        check(cudaGetLastError(), "solve", kFaulted);
        check(cudaDeviceSynchronize(), "solve", kFaulted);
    }
    check(cudaProfilerStop(), "cudaProfilerStop");
    return 0;
}

}  // namespace driver
