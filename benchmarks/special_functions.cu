// Results of the special-function unit of a GPU beside correctly rounded ones.
//
//   special_functions FOLDER
//
// Prints a JSON object for each function: by sign and exponent of the input, how often the result is
// how many units in the last place away. Writes into FOLDER, for parts of the inputs, the distance of
// each result (`NAME.FIRST.SHIFT.i8`: inputs FIRST, FIRST + 2^SHIFT, ... by their bits), and results
// themselves (`NAME.FIRST.SHIFT.u32`, `NAME.u16` of all 65,536 halves).

#include <cstdint>
#include <cstdio>
#include <cuda_runtime.h>
#include <string>
#include <vector>

#define CHECK(call)                                                                            \
  do {                                                                                         \
    cudaError_t status = (call);                                                               \
    if (status != cudaSuccess) {                                                               \
      std::printf("{\"error\": \"%s\", \"line\": %d}\n", cudaGetErrorString(status), __LINE__); \
      return 1;                                                                                \
    }                                                                                          \
  } while (0)

#define FUNCTION(name, ptx, reference)                                     \
  struct name {                                                            \
    static __device__ float of(float a) {                                  \
      float r;                                                             \
      asm volatile(ptx " %0, %1;" : "=f"(r) : "f"(a));                     \
      return r;                                                            \
    }                                                                      \
    static __device__ double right(double a) { return reference; }         \
  };
FUNCTION(rcp, "rcp.approx.ftz.f32", 1.0 / a)
FUNCTION(rsqrt_, "rsqrt.approx.ftz.f32", 1.0 / sqrt(a))
FUNCTION(sqrt_, "sqrt.approx.ftz.f32", sqrt(a))
FUNCTION(ex2, "ex2.approx.ftz.f32", exp2(a))
FUNCTION(lg2, "lg2.approx.ftz.f32", log2(a))
FUNCTION(sin_, "sin.approx.ftz.f32", sin(a))
FUNCTION(cos_, "cos.approx.ftz.f32", cos(a))
FUNCTION(tanh_, "tanh.approx.f32", tanh(a))
// Without flushing, to see where subnormals differ.
FUNCTION(rcp_full, "rcp.approx.f32", 1.0 / a)
FUNCTION(rsqrt_full, "rsqrt.approx.f32", 1.0 / sqrt(a))
FUNCTION(sqrt_full, "sqrt.approx.f32", sqrt(a))
FUNCTION(ex2_full, "ex2.approx.f32", exp2(a))
FUNCTION(lg2_full, "lg2.approx.f32", log2(a))
FUNCTION(sin_full, "sin.approx.f32", sin(a))
FUNCTION(cos_full, "cos.approx.f32", cos(a))

// Place of a float on the line of all floats, both zeros at 0.
__device__ long long place(float a) {
  int bits = __float_as_int(a);
  return bits >= 0 ? bits : -(long long)(bits & 0x7fffffff);
}
template <class F>
__device__ long long distance(uint32_t bits) {
  float a = __uint_as_float(bits), found = F::of(a);
  float right = float(F::right(double(a)));
  if (right != right || found != found) return (right != right) == (found != found) ? 0 : 1ll << 40;
  return place(found) - place(right);
}

constexpr int kBins = 35;  // -17 or less, -16 .. 16, 17 or more
template <class F>
__global__ void count(unsigned long long* bins, long long* extremes) {
  __shared__ unsigned here[kBins];
  if (threadIdx.x < kBins) here[threadIdx.x] = 0;
  __syncthreads();
  long long least = 0, most = 0;
  uint32_t first = blockIdx.y << 23;
  for (uint32_t m = blockIdx.x * blockDim.x + threadIdx.x; m < (1u << 23); m += gridDim.x * blockDim.x) {
    long long d = distance<F>(first | m);
    least = d < least ? d : least;
    most = d > most ? d : most;
    atomicAdd(&here[d < -16 ? 0 : d > 16 ? 34 : int(d) + 17], 1u);
  }
  atomicMin(&extremes[2 * blockIdx.y], least);
  atomicMax(&extremes[2 * blockIdx.y + 1], most);
  __syncthreads();
  if (threadIdx.x < kBins && here[threadIdx.x]) atomicAdd(&bins[blockIdx.y * kBins + threadIdx.x], (unsigned long long)here[threadIdx.x]);
}
template <class F>
__global__ void write_distances(int8_t* out, uint32_t first, int shift, uint32_t count) {
  for (uint32_t k = blockIdx.x * blockDim.x + threadIdx.x; k < count; k += gridDim.x * blockDim.x) {
    long long d = distance<F>(first + (k << shift));
    out[k] = int8_t(d < -127 ? -127 : d > 127 ? 127 : d);
  }
}
template <class F>
__global__ void write_results(uint32_t* out, uint32_t first, int shift, uint32_t count) {
  for (uint32_t k = blockIdx.x * blockDim.x + threadIdx.x; k < count; k += gridDim.x * blockDim.x)
    out[k] = __float_as_uint(F::of(__uint_as_float(first + (k << shift))));
}
#define HALF(name, ptx)                                                    \
  __global__ void name(uint16_t* out) {                                    \
    uint16_t a = uint16_t(blockIdx.x * blockDim.x + threadIdx.x), r;       \
    asm volatile(ptx " %0, %1;" : "=h"(r) : "h"(a));                       \
    out[a] = r;                                                            \
  }
HALF(ex2_f16, "ex2.approx.f16")
HALF(tanh_f16, "tanh.approx.f16")
HALF(ex2_bf16, "ex2.approx.ftz.bf16")
HALF(tanh_bf16, "tanh.approx.bf16")
#define PAIR(name, ptx)                                                    \
  __global__ void name(uint16_t* out) {                                    \
    uint32_t a = blockIdx.x * blockDim.x + threadIdx.x, both = a | (a << 16), r; \
    asm volatile(ptx " %0, %1;" : "=r"(r) : "r"(both));                    \
    out[a] = uint16_t((r >> 16) == (r & 0xffff) ? r : 0xdead);             \
  }
PAIR(ex2_f16x2, "ex2.approx.f16x2")
PAIR(tanh_f16x2, "tanh.approx.f16x2")
PAIR(ex2_bf16x2, "ex2.approx.ftz.bf16x2")
PAIR(tanh_bf16x2, "tanh.approx.bf16x2")

// Quotients of numbers drawn by a hash: `k` and `k + 2^31` give dividend and divisor.
__device__ uint32_t hash(uint32_t x) {
  x ^= x >> 16; x *= 0x7feb352du; x ^= x >> 15; x *= 0x846ca68bu; x ^= x >> 16;
  return x;
}
template <bool kFull>
__global__ void quotients(int8_t* out, uint32_t count) {
  for (uint32_t k = blockIdx.x * blockDim.x + threadIdx.x; k < count; k += gridDim.x * blockDim.x) {
    // Exponents 96 to 159, so that no quotient is out of range.
    uint32_t ha = hash(k), hb = hash(k + 0x80000000u);
    float a = __uint_as_float((ha & 0x807fffffu) | ((96 + ((ha >> 23) & 63)) << 23));
    float b = __uint_as_float((hb & 0x807fffffu) | ((96 + ((hb >> 23) & 63)) << 23));
    float r;
    if (kFull) asm volatile("div.full.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    else asm volatile("div.approx.f32 %0, %1, %2;" : "=f"(r) : "f"(a), "f"(b));
    long long d = place(r) - place(a / b);
    out[k] = int8_t(d < -127 ? -127 : d > 127 ? 127 : d);
  }
}

std::string g_folder;
void* g_device;
std::vector<char> g_host;

int save(const std::string& name, size_t bytes) {
  g_host.resize(bytes);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(g_host.data(), g_device, bytes, cudaMemcpyDeviceToHost));
  FILE* file = std::fopen((g_folder + "/" + name).c_str(), "wb");
  if (!file) return 1;
  bool whole = std::fwrite(g_host.data(), 1, bytes, file) == bytes;
  return std::fclose(file) || !whole;
}
std::string part_name(const char* name, uint32_t first, int shift, const char* kind) {
  char text[96];
  std::snprintf(text, sizeof text, "%s.%08x.%d.%s", name, first, shift, kind);
  return text;
}
template <class F>
int distances(const char* name, uint32_t first, uint32_t end, int shift) {
  uint32_t count = (end - first) >> shift;
  write_distances<F><<<2112, 256>>>(static_cast<int8_t*>(g_device), first, shift, count);
  return save(part_name(name, first, shift, "i8"), count);
}
template <class F>
int results(const char* name, uint32_t first, uint32_t end, int shift) {
  uint32_t count = (end - first) >> shift;
  write_results<F><<<2112, 256>>>(static_cast<uint32_t*>(g_device), first, shift, count);
  return save(part_name(name, first, shift, "u32"), size_t(count) * 4);
}
template <class F>
int counts(const char* name) {
  size_t bins = 512 * kBins;
  auto* at = static_cast<unsigned long long*>(g_device);
  auto* extremes = reinterpret_cast<long long*>(at + bins);
  CHECK(cudaMemset(g_device, 0, (bins + 1024) * 8));
  count<F><<<dim3(16, 512), 256>>>(at, extremes);
  CHECK(cudaGetLastError());
  std::vector<long long> host(bins + 1024);
  CHECK(cudaMemcpy(host.data(), g_device, host.size() * 8, cudaMemcpyDeviceToHost));
  std::printf("{\"function\": \"%s\", \"exponents\": [", name);
  bool comma = false;
  for (int e = 0; e < 512; ++e) {
    std::printf("%s{\"bits\": %d, \"least\": %lld, \"most\": %lld, \"counts\": {", comma ? ", " : "", e,
                host[bins + 2 * e], host[bins + 2 * e + 1]);
    comma = true;
    bool inner = false;
    for (int k = 0; k < kBins; ++k) {
      if (!host[e * kBins + k]) continue;
      std::printf("%s\"%d\": %lld", inner ? ", " : "", k - 17, host[e * kBins + k]);
      inner = true;
    }
    std::printf("}}");
  }
  std::printf("]}\n");
  std::fflush(stdout);
  return 0;
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  g_folder = argv[1];
  CHECK(cudaMalloc(&g_device, size_t(256) << 20));
  int failed = 0;
  auto* halves = static_cast<uint16_t*>(g_device);
#define ALL_HALVES(name) name<<<256, 256>>>(halves); failed |= save(#name ".u16", 131072)
  ALL_HALVES(ex2_f16); ALL_HALVES(tanh_f16); ALL_HALVES(ex2_bf16); ALL_HALVES(tanh_bf16);
  ALL_HALVES(ex2_f16x2); ALL_HALVES(tanh_f16x2); ALL_HALVES(ex2_bf16x2); ALL_HALVES(tanh_bf16x2);

  // One binade, or two, of what repeats with the exponent.
  failed |= distances<rcp>("rcp", 0x3f800000u, 0x40000000u, 0);
  failed |= distances<rsqrt_>("rsqrt", 0x3f800000u, 0x40800000u, 0);
  failed |= distances<sqrt_>("sqrt", 0x3f800000u, 0x40800000u, 0);
  failed |= distances<ex2>("ex2", 0x3f000000u, 0x40000000u, 0);
  failed |= distances<ex2>("ex2", 0x33000000u, 0x3f000000u, 5);
  failed |= distances<ex2>("ex2", 0x40000000u, 0x43000000u, 4);
  failed |= distances<ex2>("ex2", 0xb3000000u, 0xc3000000u, 5);
  failed |= distances<lg2>("lg2", 0x3f000000u, 0x40000000u, 0);
  failed |= distances<lg2>("lg2", 0x40000000u, 0x40800000u, 2);
  failed |= distances<lg2>("lg2", 0x44800000u, 0x45000000u, 2);
  failed |= distances<lg2>("lg2", 0x30000000u, 0x3f000000u, 6);
  failed |= distances<sin_>("sin", 0x3f800000u, 0x41000000u, 0);
  failed |= distances<sin_>("sin", 0x38000000u, 0x3f800000u, 4);
  failed |= distances<sin_>("sin", 0x41000000u, 0x43000000u, 4);
  failed |= distances<cos_>("cos", 0x3f800000u, 0x41000000u, 0);
  failed |= distances<cos_>("cos", 0x38000000u, 0x3f800000u, 4);
  failed |= distances<cos_>("cos", 0x41000000u, 0x43000000u, 4);
  // Where results cross zero, a distance in last places says little.
  failed |= results<sin_>("sin", 0x40000000u, 0x41000000u, 5);
  failed |= results<cos_>("cos", 0x40000000u, 0x41000000u, 5);
  failed |= results<lg2>("lg2", 0x3f000000u, 0x40000000u, 5);
  failed |= results<tanh_>("tanh", 0x39000000u, 0x41800000u, 6);
  failed |= results<tanh_>("tanh", 0xb9000000u, 0xc1800000u, 12);
  quotients<false><<<2112, 256>>>(static_cast<int8_t*>(g_device), 1u << 21);
  failed |= save("div_approx.i8", 1u << 21);
  quotients<true><<<2112, 256>>>(static_cast<int8_t*>(g_device), 1u << 21);
  failed |= save("div_full.i8", 1u << 21);

#define COUNT(F, name) failed |= counts<F>(name)
  COUNT(rcp, "rcp.ftz"); COUNT(rsqrt_, "rsqrt.ftz"); COUNT(sqrt_, "sqrt.ftz"); COUNT(ex2, "ex2.ftz");
  COUNT(lg2, "lg2.ftz"); COUNT(sin_, "sin.ftz"); COUNT(cos_, "cos.ftz"); COUNT(tanh_, "tanh");
  COUNT(rcp_full, "rcp"); COUNT(rsqrt_full, "rsqrt"); COUNT(sqrt_full, "sqrt"); COUNT(ex2_full, "ex2");
  COUNT(lg2_full, "lg2"); COUNT(sin_full, "sin"); COUNT(cos_full, "cos");
  return failed;
}
