// driver [--ro PATH | --rw PATH | --dev PATH]... -- RUNTIME CANDIDATE SEED WARM_UPS ARGUMENT...
//
// Calls `solve` of CANDIDATE where a tool can look: WARM_UPS times before the profiler is told to
// start, and once after. Before it loads the candidate it leaves itself these paths and no other; with
// none it keeps what it has. An argument of `solve` is one of
//   out:BYTES                        device memory that nothing has written
//   in:DTYPE:COUNT:LOW:HIGH          device memory with contents drawn from [LOW, HIGH)
//   file:PATH                        device memory with the bytes of a file
//   int:VALUE, float:VALUE, double:VALUE
// Memory is exactly as large as its argument, so that a step past its end is one.
#include <dlfcn.h>

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "call.h"
#include "confine.h"
#include "contents.h"
#include "cuda.h"

namespace {

constexpr size_t kPeriod = 1048573;  // Elements until contents repeat: a prime, no tile's multiple.

struct Input {
    unsigned char* data;
    size_t bytes;
    std::vector<unsigned char> contents;
};

struct Call {
    uint64_t integers[runner::kMaxIntegers] = {};
    uint64_t floats[runner::kMaxFloats] = {};
    unsigned integer_count = 0;
    unsigned float_count = 0;
    std::vector<Input> inputs;
};

std::vector<std::string> split(const std::string& text)
{
    std::vector<std::string> parts(1);
    for (const char letter : text) {
        if (letter == ':') {
            parts.emplace_back();
        } else {
            parts.back() += letter;
        }
    }
    return parts;
}

void add_integer(Call& call, uint64_t value)
{
    if (call.integer_count == runner::kMaxIntegers) {
        driver::give_up(driver::kRefused, "arguments", "too many integers and pointers");
    }
    call.integers[call.integer_count++] = value;
}

void add_float(Call& call, uint64_t bits)
{
    if (call.float_count == runner::kMaxFloats) {
        driver::give_up(driver::kRefused, "arguments", "too many floats");
    }
    call.floats[call.float_count++] = bits;
}

void add_input(Call& call, const std::vector<std::string>& parts, uint64_t seed)
{
    const size_t count = std::strtoull(parts[2].c_str(), nullptr, 10);
    const size_t drawn = std::min(count, kPeriod);
    Input input{nullptr, 0, driver::draw(parts[1], drawn, std::strtod(parts[3].c_str(), nullptr),
                                         std::strtod(parts[4].c_str(), nullptr), seed)};
    if (input.contents.empty()) {
        driver::give_up(driver::kRefused, "arguments", parts[1].c_str());
    }
    input.bytes = input.contents.size() / drawn * count;
    input.data = static_cast<unsigned char*>(driver::allocate(input.bytes));
    add_integer(call, reinterpret_cast<uint64_t>(input.data));
    call.inputs.push_back(std::move(input));
}

void add_file(Call& call, const char* path)
{
    std::ifstream file(path, std::ios::binary);
    if (!file) {
        driver::give_up(driver::kRefused, "arguments", path);
    }
    Input input{nullptr, 0, {std::istreambuf_iterator<char>(file), {}}};
    input.bytes = input.contents.size();
    input.data = static_cast<unsigned char*>(driver::allocate(input.bytes));
    add_integer(call, reinterpret_cast<uint64_t>(input.data));
    call.inputs.push_back(std::move(input));
}

void add(Call& call, const char* text, uint64_t seed)
{
    const std::vector<std::string> parts = split(text);
    const std::string& kind = parts[0];
    if (kind == "in" && parts.size() == 5) {
        add_input(call, parts, seed);
    } else if (kind == "file" && parts.size() > 1) {
        add_file(call, text + kind.size() + 1);
    } else if (kind == "out" && parts.size() == 2) {
        const size_t bytes = std::strtoull(parts[1].c_str(), nullptr, 10);
        add_integer(call, reinterpret_cast<uint64_t>(driver::allocate(bytes)));
    } else if (kind == "int" && parts.size() == 2) {
        add_integer(call, parts[1][0] == '-' ? static_cast<uint64_t>(std::atoll(parts[1].c_str()))
                                             : std::strtoull(parts[1].c_str(), nullptr, 10));
    } else if (kind == "float" && parts.size() == 2) {
        add_float(call, std::bit_cast<uint32_t>(std::strtof(parts[1].c_str(), nullptr)));
    } else if (kind == "double" && parts.size() == 2) {
        add_float(call, std::bit_cast<uint64_t>(std::strtod(parts[1].c_str(), nullptr)));
    } else {
        driver::give_up(driver::kRefused, "arguments", text);
    }
}

void refill(const Call& call)
{
    for (const Input& input : call.inputs) {
        for (size_t done = 0; done < input.bytes; done += input.contents.size()) {
            const size_t part = std::min(input.contents.size(), input.bytes - done);
            driver::upload(input.data + done, input.contents.data(), part);
        }
    }
}

}  // namespace

int main(int count, char** arguments)
{
    const int first = driver::read_view(count, arguments);
    if (count < first + 4) {
        driver::give_up(driver::kRefused, "arguments", "RUNTIME CANDIDATE SEED WARM_UPS ARGUMENT...");
    }
    char** const words = arguments + first;
    const uint64_t seed = std::strtoull(words[2], nullptr, 10);
    const int warm_ups = std::atoi(words[3]);
    driver::open_cuda(words[0]);
    Call call;
    for (int index = 4; index < count - first; ++index) {
        add(call, words[index], seed + static_cast<uint64_t>(index));
    }
    driver::confine();
    void* library = dlopen(words[1], RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        driver::give_up(driver::kRefused, "candidate", dlerror());
    }
    void* solve = dlsym(library, "solve");
    if (solve == nullptr) {
        driver::give_up(driver::kRefused, "candidate", "has no solve");
    }
    for (int turn = 0; turn <= warm_ups; ++turn) {
        refill(call);
        if (turn == warm_ups) {
            driver::start_profiler();
        }
        runner::call_any(solve, call.integers, call.floats);
        driver::check_launches();
    }
    driver::stop_profiler();
    return 0;
}
