// A tensor map as the emulated device understands it: what our cuTensorMapEncodeTiled writes into the
// 128 opaque bytes of a CUtensorMap, and the copy engine reads.
#pragma once

#include <cstdint>

namespace emu {

constexpr uint32_t kTensorMapMagic = 0x70614d54;  // "TMap"
constexpr uint32_t kTensorRanks = 5;
constexpr uint64_t kTensorMapBytes = 128;

// Numbers of CUtensorMapDataType.
enum class TensorType : uint8_t {
  u8, u16, u32, s32, u64, s64, f16, f32, f64, bf16, f32_ftz, tf32, tf32_ftz
};

constexpr uint32_t element_bytes(TensorType type) {
  constexpr uint8_t kBytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
  return kBytes[static_cast<uint8_t>(type)];
}

struct TensorMap {
  uint32_t magic;
  TensorType type;
  uint8_t rank;
  uint8_t swizzle;  // CUtensorMapSwizzle: 0 none, 1 32, 2 64, 3 128 bytes
  uint8_t fills_nan;
  uint8_t steps[kTensorRanks];
  uint8_t unused[3];
  uint64_t address;
  uint64_t strides[kTensorRanks - 1];   // bytes, of all but the innermost dimension
  uint32_t extents[kTensorRanks];       // less one
  uint16_t box[kTensorRanks];

  // From one element of a tile to the next; the copy engine knows no step of the innermost dimension.
  uint32_t step(uint32_t axis) const { return axis == 0 ? 1u : steps[axis]; }
};
static_assert(sizeof(TensorMap) <= kTensorMapBytes);

}  // namespace emu
