// Elements of the matrices that the emulated libraries read and write.
#pragma once

#include <cuda_bf16.h>
#include <library_types.h>

#include <bit>
#include <cstdint>

namespace atl::cuda_emulation {

inline bool is_element_type(cudaDataType type) { return type == CUDA_R_32F || type == CUDA_R_16BF; }

inline float load_element(const void* base, cudaDataType type, std::int64_t index) {
  return type == CUDA_R_32F ? static_cast<const float*>(base)[index]
                            : __bfloat162float(static_cast<const __nv_bfloat16*>(base)[index]);
}

inline void store_element(void* base, cudaDataType type, std::int64_t index, float value) {
  if (type == CUDA_R_32F) {
    static_cast<float*>(base)[index] = value;
  } else {
    static_cast<__nv_bfloat16*>(base)[index] = __float2bfloat16_rn(value);
  }
}

// To the 10 bits of mantissa that tensor cores read of a float, to the nearest, ties away from
// zero.
inline float round_to_tf32(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7f800000u) == 0x7f800000u) return value;
  return std::bit_cast<float>((bits + 0x1000u) & ~0x1fffu);
}

}  // namespace atl::cuda_emulation
