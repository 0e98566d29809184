// Rounding and unpacking are not written with run_with_vectors (simd.hpp): between numbers of
// different widths GCC takes a vector apart that the function around it has no registers for,
// before it inlines that function into one which has them.
#include "kernels/cpu/wire_vectors.hpp"

#include <cstring>

#include "kernels/cpu/random_blocks.hpp"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace atl {

namespace {

// Marks the functions of one instruction set. A pragma for many functions at once would be each
// compiler's own.
#define ATOLL_WIRE_TARGET
namespace baseline {

typedef std::int32_t Integers __attribute__((vector_size(16)));
typedef float Floats __attribute__((vector_size(16)));

inline void narrow(const Integers (&codes)[4], std::uint8_t* bytes) {
#if defined(__x86_64__)
  const auto in = [&](int k) { return reinterpret_cast<__m128i>(codes[k]); };
  const __m128i joined =
      _mm_packus_epi16(_mm_packs_epi32(in(0), in(1)), _mm_packs_epi32(in(2), in(3)));
  std::memcpy(bytes, &joined, sizeof(joined));
#else
  for (int k = 0; k < 16; ++k) bytes[k] = static_cast<std::uint8_t>(codes[k / 4][k % 4]);
#endif
}

// A bit for each lane of a that is above that of b.
inline unsigned lanes_above(const Floats& a, const Floats& b) {
#if defined(__x86_64__)
  return static_cast<unsigned>(
      _mm_movemask_ps(_mm_cmpgt_ps(reinterpret_cast<__m128>(a), reinterpret_cast<__m128>(b))));
#else
  unsigned bits = 0;
  for (int k = 0; k < 4; ++k)
    bits |= static_cast<unsigned>(a[k] > b[k]) << static_cast<unsigned>(k);
  return bits;
#endif
}

#if defined(__x86_64__)
inline Integers widen(const std::uint8_t* codes) {
  std::int32_t four;
  std::memcpy(&four, codes, sizeof(four));
  const __m128i zero = _mm_setzero_si128();
  const __m128i halves = _mm_unpacklo_epi8(_mm_cvtsi32_si128(four), zero);
  return reinterpret_cast<Integers>(_mm_unpacklo_epi16(halves, zero));
}
inline Integers widen(const std::uint16_t* codes) {
  const __m128i halves = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes));
  return reinterpret_cast<Integers>(_mm_unpacklo_epi16(halves, _mm_setzero_si128()));
}
#else
template <typename Code>
inline Integers widen(const Code* codes) {
  return Integers{codes[0], codes[1], codes[2], codes[3]};
}
#endif

inline void store_upper_halves(const Integers& first, const Integers& second, Bf16* y) {
#if defined(__x86_64__)
  const __m128i joined = _mm_packs_epi32(reinterpret_cast<__m128i>(first >> 16),
                                         reinterpret_cast<__m128i>(second >> 16));
  std::memcpy(static_cast<void*>(y), &joined, sizeof(joined));
#else
  for (int k = 0; k < 4; ++k) {
    y[k].bits = static_cast<std::uint16_t>(first[k] >> 16);
    y[k + 4].bits = static_cast<std::uint16_t>(second[k] >> 16);
  }
#endif
}

#include "kernels/cpu/wire_vectors.inc"

}  // namespace baseline
#undef ATOLL_WIRE_TARGET

#if defined(__x86_64__)

#define ATOLL_WIRE_TARGET __attribute__((target("avx2,fma")))
namespace avx2 {

typedef std::int32_t Integers __attribute__((vector_size(32)));
typedef float Floats __attribute__((vector_size(32)));

// Packing works in parts of 16 bytes, which then have to be put in order.
ATOLL_WIRE_TARGET inline void narrow(const Integers (&codes)[4], std::uint8_t* bytes) {
  const __m256i first =
      _mm256_packus_epi32(reinterpret_cast<__m256i>(codes[0]), reinterpret_cast<__m256i>(codes[1]));
  const __m256i second =
      _mm256_packus_epi32(reinterpret_cast<__m256i>(codes[2]), reinterpret_cast<__m256i>(codes[3]));
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  const __m256i joined = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(first, second), order);
  std::memcpy(bytes, &joined, sizeof(joined));
}

ATOLL_WIRE_TARGET inline unsigned lanes_above(const Floats& a, const Floats& b) {
  return static_cast<unsigned>(_mm256_movemask_ps(
      _mm256_cmp_ps(reinterpret_cast<__m256>(a), reinterpret_cast<__m256>(b), _CMP_GT_OQ)));
}

ATOLL_WIRE_TARGET inline Integers widen(const std::uint8_t* codes) {
  return reinterpret_cast<Integers>(
      _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(codes))));
}
ATOLL_WIRE_TARGET inline Integers widen(const std::uint16_t* codes) {
  return reinterpret_cast<Integers>(
      _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(codes))));
}

ATOLL_WIRE_TARGET inline void store_upper_halves(const Integers& first, const Integers& second,
                                                 Bf16* y) {
  const __m256i joined = _mm256_packs_epi32(reinterpret_cast<__m256i>(first >> 16),
                                            reinterpret_cast<__m256i>(second >> 16));
  const __m256i in_order = _mm256_permute4x64_epi64(joined, 0xD8);
  std::memcpy(static_cast<void*>(y), &in_order, sizeof(in_order));
}

#include "kernels/cpu/wire_vectors.inc"

}  // namespace avx2
#undef ATOLL_WIRE_TARGET

#define ATOLL_WIRE_TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")))
namespace avx512 {

typedef std::int32_t Integers __attribute__((vector_size(64)));
typedef float Floats __attribute__((vector_size(64)));

// As with AVX2.
ATOLL_WIRE_TARGET inline void narrow(const Integers (&codes)[4], std::uint8_t* bytes) {
  const __m512i first =
      _mm512_packus_epi32(reinterpret_cast<__m512i>(codes[0]), reinterpret_cast<__m512i>(codes[1]));
  const __m512i second =
      _mm512_packus_epi32(reinterpret_cast<__m512i>(codes[2]), reinterpret_cast<__m512i>(codes[3]));
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  const __m512i joined =
      _mm512_maskz_permutexvar_epi32(0xFFFF, order, _mm512_packus_epi16(first, second));
  std::memcpy(bytes, &joined, sizeof(joined));
}

ATOLL_WIRE_TARGET inline unsigned lanes_above(const Floats& a, const Floats& b) {
  return _mm512_cmp_ps_mask(reinterpret_cast<__m512>(a), reinterpret_cast<__m512>(b), _CMP_GT_OQ);
}

ATOLL_WIRE_TARGET inline Integers widen(const std::uint8_t* codes) {
  return reinterpret_cast<Integers>(
      _mm512_maskz_cvtepu8_epi32(0xFFFF, _mm_loadu_si128(reinterpret_cast<const __m128i*>(codes))));
}
ATOLL_WIRE_TARGET inline Integers widen(const std::uint16_t* codes) {
  return reinterpret_cast<Integers>(_mm512_maskz_cvtepu16_epi32(
      0xFFFF, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(codes))));
}

ATOLL_WIRE_TARGET inline void store_upper_halves(const Integers& first, const Integers& second,
                                                 Bf16* y) {
  const __m512i joined = _mm512_packs_epi32(reinterpret_cast<__m512i>(first >> 16),
                                            reinterpret_cast<__m512i>(second >> 16));
  const __m512i order = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
  const __m512i in_order = _mm512_maskz_permutexvar_epi64(0xFF, order, joined);
  std::memcpy(static_cast<void*>(y), &in_order, sizeof(in_order));
}

#include "kernels/cpu/wire_vectors.inc"

}  // namespace avx512
#undef ATOLL_WIRE_TARGET

#endif

}  // namespace

void draw_noise(Isa isa, const RandomKey& key, std::uint64_t row, std::int64_t first,
                std::int64_t count, float* noise) {
  run_with_vectors(isa, [&]<int kBytes>() ATOLL_INLINE {
    constexpr int kVectors = 4;  // at a time, so that none waits for another
    constexpr std::int64_t kColumns = kVectors * kBytes / 2;
    static_assert(kNoiseUnit % kColumns == 0);
    std::uint32_t words[kColumns];
    for (std::int64_t j = 0; j < count; j += kColumns) {
      draw_vectors<kBytes, kVectors>(key, row, static_cast<std::uint32_t>((first + j) / 4), words);
#pragma omp simd
      for (std::int64_t k = 0; k < kColumns; ++k) {
        noise[j + k] = static_cast<float>(static_cast<std::int32_t>(words[k] >> 8U)) * 0x1p-24F;
      }
    }
  });
}

float round_to_codes(Isa isa, const float* values, const float* noise, std::int64_t count,
                     float zero, float step, std::int32_t top, std::uint8_t* codes) {
#if defined(__x86_64__)
  if (isa == Isa::kAvx512) {
    return avx512::round_columns(values, noise, count, zero, step, top, codes);
  }
  if (isa == Isa::kAvx2) return avx2::round_columns(values, noise, count, zero, step, top, codes);
#endif
  return baseline::round_columns(values, noise, count, zero, step, top, codes);
}

void compare_to_codes(Isa isa, const float* values, std::int64_t count, float zero, float half,
                      std::byte* packed) {
#if defined(__x86_64__)
  if (isa == Isa::kAvx512) return avx512::compare_columns(values, count, zero, half, packed);
  if (isa == Isa::kAvx2) return avx2::compare_columns(values, count, zero, half, packed);
#endif
  baseline::compare_columns(values, count, zero, half, packed);
}

void choose_by_codes(Isa isa, const std::byte* packed, std::int64_t count, float low, float high,
                     float* y) {
#if defined(__x86_64__)
  if (isa == Isa::kAvx512) return avx512::choose_columns(packed, count, low, high, y);
  if (isa == Isa::kAvx2) return avx2::choose_columns(packed, count, low, high, y);
#endif
  baseline::choose_columns(packed, count, low, high, y);
}

void copy_past_caches(void* to, const void* from, std::size_t bytes) {
#if defined(__x86_64__)
  constexpr std::size_t kLine = 64;
  const std::size_t head = (kLine - reinterpret_cast<std::uintptr_t>(to) % kLine) % kLine;
  if (bytes >= head + kLine) {
    auto* target = static_cast<std::byte*>(to);
    const auto* source = static_cast<const std::byte*>(from);
    std::memcpy(target, source, head);
    std::size_t at = head;
    for (; at + kLine <= bytes; at += kLine) {
      for (std::size_t k = at; k < at + kLine; k += sizeof(__m128i)) {
        _mm_stream_si128(reinterpret_cast<__m128i*>(target + k),
                         _mm_loadu_si128(reinterpret_cast<const __m128i*>(source + k)));
      }
    }
    std::memcpy(target + at, source + at, bytes - at);
    return;
  }
#endif
  std::memcpy(to, from, bytes);
}

void finish_copies() {
#if defined(__x86_64__)
  _mm_sfence();
#endif
}

template <typename Code>
void dequantize_to_bf16(Isa isa, const Code* codes, std::int64_t count, float zero, float step,
                        Bf16* y) {
#if defined(__x86_64__)
  if (isa == Isa::kAvx512) return avx512::dequantize_columns(codes, count, zero, step, y);
  if (isa == Isa::kAvx2) return avx2::dequantize_columns(codes, count, zero, step, y);
#endif
  baseline::dequantize_columns(codes, count, zero, step, y);
}
template void dequantize_to_bf16(Isa, const std::uint8_t*, std::int64_t, float, float, Bf16*);
template void dequantize_to_bf16(Isa, const std::uint16_t*, std::int64_t, float, float, Bf16*);

}  // namespace atl
