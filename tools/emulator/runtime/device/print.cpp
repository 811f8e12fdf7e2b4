// What device code says: printf, assert, trap.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>

#include "device/account.h"
#include "device/fault.h"
#include "device/run.h"

namespace emu {
namespace {

constexpr size_t kLongest = 1024;  // of one text, read or written
constexpr int kWidest = 999;       // field width and precision

[[noreturn]] void raise_bad_address(Warp* w, uint32_t site, int lane, uint64_t address) {
  raise({.fault = Fault::out_of_bounds,
         .warp = w,
         .lane = lane,
         .site = site,
         .space = SpaceNumber::global,
         .access = AccessNumber::read,
         .bytes = 1,
         .address = address});
}

// Host address of `bytes` at a lane's generic address; faults outside its memory.
const uint8_t* at_generic(Warp* w, uint32_t site, int lane, uint64_t address, uint64_t bytes) {
  uint64_t low = static_cast<uint32_t>(address);
  uint64_t stride = local_stride(*w->launch->kernel);
  if ((address & kWindowMask) == kLocalWindow) {
    if (low + bytes > stride) raise_bad_address(w, site, lane, address);
    return w->local + static_cast<uint64_t>(lane) * stride + low;
  }
  if ((address & kWindowMask) == kSharedWindow) {
    if (low + bytes > w->block->shared_bytes) raise_bad_address(w, site, lane, address);
    return w->block->shared + low;
  }
  const Allocation* one = find_allocation(address);
  if (one == nullptr || one->end - address < bytes) raise_bad_address(w, site, lane, address);
  return device().host(address);
}

std::string text_at(Warp* w, uint32_t site, int lane, uint64_t address) {
  std::string text;
  while (text.size() < kLongest) {
    auto c = static_cast<char>(*at_generic(w, site, lane, address + text.size(), 1));
    if (c == 0) break;
    text.push_back(c);
  }
  return text;
}

// Reads the packed arguments of one lane, each aligned to its own size.
class Arguments {
 public:
  Arguments(Warp* w, uint32_t site, int lane, uint64_t address)
      : w_(w), site_(site), lane_(lane), at_(address) {}

  template <class T>
  T next() {
    at_ = (at_ + sizeof(T) - 1) / sizeof(T) * sizeof(T);
    T value;
    std::memcpy(&value, at_generic(w_, site_, lane_, at_, sizeof(T)), sizeof(T));
    at_ += sizeof(T);
    return value;
  }
  std::string text() { return text_at(w_, site_, lane_, next<uint64_t>()); }

 private:
  Warp* w_;
  uint32_t site_;
  int lane_;
  uint64_t at_;
};

template <class T>
void append(std::string& out, const std::string& conversion, T value) {
  char buffer[kLongest];
// The conversion comes from the kernel; format() has checked that it takes one value of type T.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-security"
  int length = snprintf(buffer, sizeof buffer, conversion.c_str(), value);
#pragma GCC diagnostic pop
  if (length > 0) out.append(buffer, std::min<size_t>(static_cast<size_t>(length), kLongest - 1));
}

// Appends one conversion. `spec` is what stands between the percent sign and the letter.
void convert(std::string& out, const std::string& spec, bool wide, char letter,
             Arguments& arguments) {
  std::string conversion = "%" + spec;
  switch (letter) {
    case 'd':
    case 'i':
      append(out, conversion + "lld",
             wide ? arguments.next<long long>() : static_cast<long long>(arguments.next<int>()));
      break;
    case 'u':
    case 'x':
    case 'X':
    case 'o':
      append(out, conversion + "ll" + letter,
             wide ? arguments.next<unsigned long long>()
                  : static_cast<unsigned long long>(arguments.next<unsigned>()));
      break;
    case 'c': append(out, conversion + "c", arguments.next<int>()); break;
    case 'p': append(out, "0x%lx", arguments.next<uint64_t>()); break;
    case 's': append(out, conversion + "s", arguments.text().c_str()); break;
    default: append(out, conversion + letter, arguments.next<double>()); break;
  }
}

// Does a number in the specification have more than three digits?
bool is_wide(const std::string& spec) {
  int digits = 0;
  for (char c : spec) {
    digits = c >= '0' && c <= '9' ? digits + 1 : 0;
    if (digits > 3) return true;
  }
  return false;
}

std::string format(const std::string& text, Arguments arguments) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out.push_back(text[i]);
      continue;
    }
    std::string spec;
    size_t at = i + 1;
    for (; at < text.size() && std::strchr("-+ #0123456789.*", text[at]) != nullptr; ++at) {
      if (text[at] == '*') {
        spec += std::to_string(std::clamp(arguments.next<int>(), -kWidest, kWidest));
      } else {
        spec.push_back(text[at]);
      }
    }
    bool wide = false;
    for (; at < text.size() && std::strchr("hlzjt", text[at]) != nullptr; ++at) {
      wide = wide || text[at] != 'h';
    }
    if (at == text.size() || std::strchr("diuxXocpsfFeEgGaA", text[at]) == nullptr ||
        spec.size() > 16 || is_wide(spec)) {
      out.push_back('%');
      if (at < text.size() && at == i + 1 && text[at] == '%') i = at;
      continue;
    }
    convert(out, spec, wide, text[at], arguments);
    i = at;
  }
  return out;
}

void append_to_report(const std::string& text) {
  Report& report = *device().report;
  size_t room = kTextBytes - report.text_bytes;
  size_t taken = std::min(text.size(), room);
  std::memcpy(reinterpret_cast<char*>(&report) + kTextOffset + report.text_bytes, text.data(),
              taken);
  report.text_bytes += static_cast<uint32_t>(taken);
  if (taken < text.size()) report.text_truncated = 1;
}

}  // namespace

void print(Warp* w, uint32_t site, Mask lanes, const uint64_t* format_address,
           const uint64_t* arguments) {
  for (Mask rest = lanes; rest != 0; rest &= rest - 1) {
    int lane = __builtin_ctz(rest);
    if (device().report->text_truncated != 0) return;
    append_to_report(format(text_at(w, site, lane, format_address[lane]),
                            Arguments(w, site, lane, arguments[lane])));
  }
}

void trap(Warp* w, uint32_t site, Mask lanes, const char* what) {
  raise({.fault = Fault::trap, .warp = w, .lane = __builtin_ctz(lanes), .site = site,
         .detail = what});
}

void assert_failed(Warp* w, uint32_t site, Mask lanes, const uint64_t* message,
                   const uint64_t* file, const uint32_t* line) {
  int lane = __builtin_ctz(lanes);
  std::string path = text_at(w, site, lane, file[lane]);
  std::string name = path.substr(path.find_last_of('/') + 1);
  std::string text = name + ":" + std::to_string(line[lane]) + ": assertion `" +
                     text_at(w, site, lane, message[lane]) + "` failed";
  raise({.fault = Fault::trap, .warp = w, .lane = lane, .site = site,
         .reason = ReasonNumber::assertion, .detail = text.c_str()});
}

}  // namespace emu
