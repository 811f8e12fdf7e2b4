// What stands around a timed call: opening its inputs, flushing L2, tagging its outputs.
//
// Keystream and tags come from Philox4x32 with 7 rounds (Salmon et al., "Parallel random numbers: as
// easy as 1, 2, 3", 2011). philox(counter[4], key[2]) gives four 32-bit words.
//
//   sealing   The 16-byte block b of buffer `index` of slot `slot` is XORed with
//             philox({b low, b high, slot, index}, key), words in order, each little-endian. Sealing
//             and opening are the same.
//   tagging   An output of w = ceil(bytes / 4) little-endian words, the last filled up with zeros, has
//             the tag sum over k < min(w, 65536) of c_k * x[p_k] modulo 2^64, where
//             {r0, r1, r2, r3} = philox({k, 0, slot, index}, key), c_k = r2 + 2^32 r3, and p_k = k
//             where w <= 65536, else the high half of the 128-bit product (r0 + 2^32 r1) * w.
//
// Buffers begin at multiples of 16 bytes. Nothing beyond their last byte is touched.
#include "seal.h"

// What was handed out last, for the kernels whose call says `handed`.
__device__ uint32_t handed_key[2];
__device__ unsigned long long ignored_tags;

namespace {

constexpr unsigned kRounds = 7;

__device__ uint4 philox(uint4 counter, uint32_t k0, uint32_t k1) {
#pragma unroll
  for (unsigned round = 0; round < kRounds; ++round) {
    const uint32_t high0 = __umulhi(0xD2511F53u, counter.x), low0 = 0xD2511F53u * counter.x;
    const uint32_t high1 = __umulhi(0xCD9E8D57u, counter.z), low1 = 0xCD9E8D57u * counter.z;
    counter = make_uint4(high1 ^ counter.y ^ k0, low1, high0 ^ counter.w ^ k1, low0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return counter;
}

__device__ uint32_t word_at(const gpu::SealRegion& region, uint64_t word) {
  const uint64_t left = region.bytes - word * 4;
  if (left >= 4) return reinterpret_cast<const uint32_t*>(region.from)[word];
  uint32_t last = 0;
  for (uint64_t i = 0; i < left; ++i)
    last |= uint32_t{reinterpret_cast<const uint8_t*>(region.from)[word * 4 + i]} << (8 * i);
  return last;
}

// Adds a block's part of the tag to the 64-bit word at region.to.
__device__ void add_tag(const gpu::SealRegion& region, const uint32_t& slot,
                        const uint32_t (&key)[2]) {
  const uint64_t words = (region.bytes + 3) / 4;
  const uint32_t count = words < gpu::kTagWords ? static_cast<uint32_t>(words) : gpu::kTagWords;
  unsigned long long sum = 0;
  const uint32_t step = gridDim.x * blockDim.x;
  for (uint32_t k = blockIdx.x * blockDim.x + threadIdx.x; k < count; k += step) {
    const uint4 r = philox(make_uint4(k, 0, slot, region.index), key[0], key[1]);
    const uint64_t drawn = r.x | uint64_t{r.y} << 32;
    const uint64_t word = words <= gpu::kTagWords ? k : __umul64hi(drawn, words);
    sum += (r.z | uint64_t{r.w} << 32) * word_at(region, word);
  }
  for (int distance = 16; distance > 0; distance /= 2)
    sum += __shfl_down_sync(0xffffffffu, sum, distance);
  auto* to = region.to != 0 ? reinterpret_cast<unsigned long long*>(region.to) : &ignored_tags;
  if (threadIdx.x % 32 == 0) atomicAdd(to, sum);
}

__device__ uint32_t key_of(const gpu::SealCall& call, int word) {
  return call.handed != 0 ? handed_key[word] : call.key[word];
}

__device__ uint64_t now_ns() {
  uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

// 16 bytes from anywhere: rows follow one another whatever their length.
__device__ uint4 block_at(const uint8_t* from) {
  const auto place = reinterpret_cast<uint64_t>(from);
  if (place % 16 == 0) return *reinterpret_cast<const uint4*>(from);
  uint32_t words[4] = {};
  if (place % 4 == 0) {
    for (int i = 0; i < 4; ++i) words[i] = reinterpret_cast<const uint32_t*>(from)[i];
  } else {
    for (int i = 0; i < 16; ++i) words[i / 4] |= uint32_t{from[i]} << (8 * (i % 4));
  }
  return make_uint4(words[0], words[1], words[2], words[3]);
}

}  // namespace

// blockIdx.y: region.
extern "C" __global__ void open_inputs(const __grid_constant__ gpu::SealCall call) {
  const gpu::SealRegion& region = call.regions[blockIdx.y];
  const uint32_t key0 = key_of(call, 0), key1 = key_of(call, 1);
  const uint64_t whole = region.bytes / 16;
  const auto* from = reinterpret_cast<const uint4*>(region.from);
  auto* to = reinterpret_cast<uint4*>(region.to);
  const auto stream = [&](uint64_t block) {
    const uint4 counter = make_uint4(static_cast<uint32_t>(block),
                                     static_cast<uint32_t>(block >> 32), call.slot, region.index);
    return philox(counter, key0, key1);
  };
  const uint64_t step = uint64_t{gridDim.x} * blockDim.x;
  const uint64_t first = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  for (uint64_t block = first; block < whole; block += step) {
    const uint4 mask = stream(block), sealed = from[block];
    to[block] = make_uint4(sealed.x ^ mask.x, sealed.y ^ mask.y, sealed.z ^ mask.z,
                           sealed.w ^ mask.w);
  }
  if (first != 0) return;
  const uint4 mask = stream(whole);
  const uint32_t words[4] = {mask.x, mask.y, mask.z, mask.w};
  for (uint64_t i = 0; i < region.bytes % 16; ++i)
    reinterpret_cast<uint8_t*>(region.to)[whole * 16 + i] =
        reinterpret_cast<const uint8_t*>(region.from)[whole * 16 + i] ^
        static_cast<uint8_t>(words[i / 4] >> (8 * (i % 4)));
}

// Writes `blocks` times 16 bytes, so that L2 holds these and nothing else.
extern "C" __global__ void flush(uint4* to, uint64_t blocks, uint32_t value) {
  const uint64_t step = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < blocks; i += step)
    to[i] = make_uint4(value, value, value, value);
}

// blockIdx.y: region. Adds to the 64-bit word at region.to, which starts at zero.
extern "C" __global__ void tag_outputs(const __grid_constant__ gpu::SealCall call) {
  const uint32_t key[2] = {key_of(call, 0), key_of(call, 1)};
  add_tag(call.regions[blockIdx.y], call.slot, key);
}

// Tells the tags of the call before, if any, and waits for the next key.
extern "C" __global__ void ask_for_key(const __grid_constant__ gpu::KeyQuestion call) {
  if (threadIdx.x != 0) return;
  const uint64_t begun = now_ns();
  auto* key_release = reinterpret_cast<volatile gpu::KeyRelease*>(call.key_release);
  auto* to = reinterpret_cast<volatile uint64_t*>(call.tags_to);
  const auto* from = reinterpret_cast<const uint64_t*>(call.tags_from);
  for (uint64_t i = 0; i < call.tag_count; ++i) to[i] = from[i];
  __threadfence_system();
  key_release->asked = call.number;
  while (key_release->handed < call.number) {
  }
  __threadfence_system();
  handed_key[0] = key_release->key[0];
  handed_key[1] = key_release->key[1];
  while (now_ns() - begun < gpu::kLeastQuestionNs) {
  }
}

// Copies the tags of a batch into memory of the host, as its last step: a copy by the driver takes a
// time that varies by more than a short call lasts.
extern "C" __global__ void hand_over(uint64_t* to, const uint64_t* from, uint64_t count) {
  for (uint64_t i = threadIdx.x; i < count; i += blockDim.x) to[i] = from[i];
}

// For the host process, many slots at once. blockIdx.y: row, which goes into its slot's column.
extern "C" __global__ void seal_slots(const __grid_constant__ gpu::SlotsCall call) {
  const uint32_t slot = call.slots[blockIdx.y];
  const auto* from = reinterpret_cast<const uint8_t*>(call.rows + blockIdx.y * call.row_stride);
  auto* to = reinterpret_cast<uint8_t*>(call.column + slot * call.column_stride);
  const uint64_t step = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t block = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; block * 16 < call.bytes;
       block += step) {
    const uint4 counter = make_uint4(static_cast<uint32_t>(block),
                                     static_cast<uint32_t>(block >> 32), slot, call.index);
    const uint4 mask = philox(counter, call.keys[blockIdx.y][0], call.keys[blockIdx.y][1]);
    const uint64_t left = call.bytes - block * 16;
    if (left >= 16) {
      const uint4 plain = block_at(from + block * 16);
      reinterpret_cast<uint4*>(to)[block] = make_uint4(plain.x ^ mask.x, plain.y ^ mask.y,
                                                       plain.z ^ mask.z, plain.w ^ mask.w);
      continue;
    }
    const uint32_t words[4] = {mask.x, mask.y, mask.z, mask.w};
    for (uint64_t i = 0; i < left; ++i)
      to[block * 16 + i] =
          from[block * 16 + i] ^ static_cast<uint8_t>(words[i / 4] >> (8 * (i % 4)));
  }
}

// blockIdx.y: row, which is the 64-bit tag of its slot's output, and starts at zero.
extern "C" __global__ void tag_slots(const __grid_constant__ gpu::SlotsCall call) {
  const uint32_t slot = call.slots[blockIdx.y];
  const gpu::SealRegion region = {call.rows + blockIdx.y * call.row_stride,
                                  call.column + slot * call.column_stride, call.bytes, call.index,
                                  0};
  add_tag(region, slot, call.keys[blockIdx.y]);
}
