// Vectors of f32 as wide as an instruction set has them, loaded from and stored to rows of f32 or
// bf16.
//
// For loops that must keep sums in registers, which a compiler that vectorises loops by itself does
// not promise. Everything here is inlined into functions of run_with_vectors (simd.hpp).
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

#include "kernels/bf16.hpp"
#include "kernels/cpu/simd.hpp"

namespace atl {

// kBytes: 16 (SSE2), 32 (AVX2) or 64 (AVX-512).
template <int kBytes>
struct Vectors {
  static constexpr std::int64_t kLanes = kBytes / 4;
  // Written as typedefs: where the size depends on a template, GCC ignores it in alias
  // declarations.
  typedef float Floats __attribute__((vector_size(kBytes)));
  typedef std::uint32_t Words __attribute__((vector_size(kBytes)));
  typedef std::uint16_t HalfWords __attribute__((vector_size(kBytes)));
  typedef std::uint64_t LongWords __attribute__((vector_size(kBytes)));
  typedef double Doubles __attribute__((vector_size(kBytes)));
  // Narrower ones, with as many lanes as Words or, the last three, Doubles.
  typedef std::uint16_t NarrowWords __attribute__((vector_size(kBytes / 2)));
  typedef float NarrowFloats __attribute__((vector_size(kBytes / 2)));
  typedef std::uint32_t FewWords __attribute__((vector_size(kBytes / 2)));
  typedef std::uint16_t FewHalfWords __attribute__((vector_size(kBytes / 4)));
  static_assert(sizeof(Floats) == kBytes && sizeof(Words) == kBytes);
};

// Lane k of `to` = lane choose(k) of a, whose lanes those of b follow. `choose` captures nothing:
// what it returns must be known to the compiler.
template <typename Vector, typename Choose>
ATOLL_INLINE inline void shuffle(const Vector& a, const Vector& b, Choose, Vector& to) {
  constexpr auto kLanes = static_cast<int>(sizeof(Vector) / sizeof(to[0]));
  [&]<int... kLane>(std::integer_sequence<int, kLane...>) ATOLL_INLINE {
    to = __builtin_shufflevector(a, b, Choose{}(kLane)...);
  }
  (std::make_integer_sequence<int, kLanes>());
}

// values[0] = the first 2 kHalf lanes, combined two and two by both(a, b, to).
template <int kHalf, typename Vector, typename Both>
ATOLL_INLINE inline void fold_halves(Vector& values, const Both& both) {
  Vector other;
  shuffle(
      values, values, [](int k) { return k ^ kHalf; }, other);
  both(values, other, values);
  if constexpr (kHalf > 1) fold_halves<kHalf / 2>(values, both);
}
template <typename Vector, typename Both>
ATOLL_INLINE inline void fold(Vector& values, const Both& both) {
  fold_halves<sizeof(Vector) / sizeof(values[0]) / 2>(values, both);
}

// wide = the numbers of `narrow`, which has as many and half the bytes. GCC makes several
// conversions to 16 bytes of __builtin_convertvector, hence the instruction by its name.
template <int kBytes, bool kHasAvx2 = (kBytes > 16), typename Narrow, typename Wide>
ATOLL_INLINE inline void widen(const Narrow& narrow, Wide& wide) {
  static_assert(sizeof(Narrow) == kBytes / 2 && sizeof(Wide) == kBytes);
  if constexpr (kInstructionsByName && kHasAvx2) {
    if constexpr (std::is_same_v<Wide, typename Vectors<kBytes>::Doubles>) {
      asm("vcvtps2pd %1, %0" : "=v"(wide) : "vm"(narrow));
    } else {
      static_assert(std::is_same_v<Wide, typename Vectors<kBytes>::Words>);
      asm("vpmovzxwd %1, %0" : "=v"(wide) : "vm"(narrow));
    }
  } else {
    wide = __builtin_convertvector(narrow, Wide);
  }
}

// As to_bf16, into the upper halves of `bits`.
template <int kBytes>
ATOLL_INLINE inline void round_to_bf16(const typename Vectors<kBytes>::Floats& values,
                                       typename Vectors<kBytes>::Words& bits) {
  std::memcpy(&bits, &values, kBytes);
  const typename Vectors<kBytes>::Words rounded = bits + 0x7FFFU + ((bits >> 16U) & 1U);
  const typename Vectors<kBytes>::Words quiet = bits | 0x400000U;
  const auto is_nan = values != values;
  bits = is_nan ? quiet : rounded;
}

// As many columns of a row of T as one vector register holds in memory, as kRegisters of f32.
template <int kBytes, typename T>
struct Unit;

template <int kBytes>
struct Unit<kBytes, float> {
  using Floats = typename Vectors<kBytes>::Floats;
  static constexpr int kRegisters = 1;
  static constexpr std::int64_t kColumns = Vectors<kBytes>::kLanes;

  // By way of a variable: what is copied to or from a pointer, GCC moves in pieces of 16 bytes
  // through memory, and then waits for them.
  static ATOLL_INLINE void load(const float* from, Floats* registers) {
    Floats values;
    std::memcpy(&values, from, kBytes);
    registers[0] = values;
  }
  static ATOLL_INLINE void store(const Floats* registers, float* to) {
    const Floats values = registers[0];
    std::memcpy(to, &values, kBytes);
  }
};

// The first register holds the even columns, the second the odd ones: so both are one operation
// away from what is in memory.
template <int kBytes>
struct Unit<kBytes, Bf16> {
  using Floats = typename Vectors<kBytes>::Floats;
  using Words = typename Vectors<kBytes>::Words;
  static constexpr int kRegisters = 2;
  static constexpr std::int64_t kLanes = Vectors<kBytes>::kLanes;
  static constexpr std::int64_t kColumns = 2 * kLanes;

  static ATOLL_INLINE void load(const Bf16* from, Floats* registers) {
    Words pairs;
    std::memcpy(&pairs, from, kBytes);
    const Words even = pairs << 16U;
    const Words odd = pairs & 0xFFFF0000U;
    std::memcpy(&registers[0], &even, kBytes);
    std::memcpy(&registers[1], &odd, kBytes);
  }
  static ATOLL_INLINE void store(const Floats* registers, Bf16* to) {
    Words even;
    Words odd;
    round_to_bf16<kBytes>(registers[0], even);
    round_to_bf16<kBytes>(registers[1], odd);
    const Words pairs = (even >> 16U) | (odd & 0xFFFF0000U);
    std::memcpy(static_cast<void*>(to), &pairs, kBytes);
  }
  static ATOLL_INLINE void store(const Floats* registers, float* to) {
    constexpr auto kCount = static_cast<int>(kLanes);
    Floats first;
    Floats second;
    shuffle(
        registers[0], registers[1], [](int k) { return k / 2 + k % 2 * kCount; }, first);
    shuffle(
        registers[0], registers[1], [](int k) { return (k + kCount) / 2 + k % 2 * kCount; },
        second);
    std::memcpy(to, &first, kBytes);
    std::memcpy(to + kLanes, &second, kBytes);
  }
};

// Marks a unit of columns as whole, or as the last one of a row, of which only `count` are there.
struct Whole {};
struct PartOfUnit {
  std::int64_t count;
};

// Two registers of f32 with neighbouring columns in their order, from and to rows of either type,
// so that f32 factors per column are loaded beside them as they lie in memory.
template <int kBytes>
struct Pair {
  using Floats = typename Vectors<kBytes>::Floats;
  using Words = typename Vectors<kBytes>::Words;
  using HalfWords = typename Vectors<kBytes>::HalfWords;
  using NarrowWords = typename Vectors<kBytes>::NarrowWords;
  static constexpr std::int64_t kLanes = Vectors<kBytes>::kLanes;
  static constexpr std::int64_t kColumns = 2 * kLanes;

  static ATOLL_INLINE void load(const float* from, Whole, Floats* registers) {
    // Each by itself: a copy of several vectors is made in pieces, by way of memory.
    std::memcpy(&registers[0], from, kBytes);
    std::memcpy(&registers[1], from + kLanes, kBytes);
  }
  static ATOLL_INLINE void load(const Bf16* from, Whole, Floats* registers) {
#pragma GCC unroll 2
    for (int r = 0; r < 2; ++r) {
      Words words;
      load_words(reinterpret_cast<const std::uint16_t*>(from) + r * kLanes, words);
      words <<= 16U;
      std::memcpy(&registers[r], &words, kBytes);
    }
  }
  // Columns that are not there are 0.
  template <typename T>
  static ATOLL_INLINE void load(const T* from, PartOfUnit part, Floats* registers) {
    T columns[kColumns] = {};
    for (std::int64_t k = 0; k < part.count; ++k) columns[k] = from[k];
    load(columns, Whole{}, registers);
  }

  static ATOLL_INLINE void store(const Floats* registers, Whole, float* to) {
    std::memcpy(to, &registers[0], kBytes);
    std::memcpy(to + kLanes, &registers[1], kBytes);
  }
  static ATOLL_INLINE void store(const Floats* registers, Whole, Bf16* to) {
    HalfWords rounded;
    round(registers, rounded);
    store_bits(rounded, Whole{}, to);
  }
  // The bits of both registers as bf16.
  static ATOLL_INLINE void round(const Floats* registers, HalfWords& rounded) {
    Words words[2];
    HalfWords halves[2];
    round_to_bf16<kBytes>(registers[0], words[0]);
    round_to_bf16<kBytes>(registers[1], words[1]);
    std::memcpy(&halves[0], &words[0], kBytes);
    std::memcpy(&halves[1], &words[1], kBytes);
    shuffle(
        halves[0], halves[1], [](int k) { return 2 * k + 1; }, rounded);
  }
  static ATOLL_INLINE void store_bits(const HalfWords& bits, Whole, Bf16* to) {
    std::memcpy(static_cast<void*>(to), &bits, kBytes);
  }
  static ATOLL_INLINE void store_bits(const HalfWords& bits, PartOfUnit part, Bf16* to) {
    for (std::int64_t k = 0; k < part.count; ++k) to[k].bits = bits[k];
  }
  template <typename T>
  static ATOLL_INLINE void store(const Floats* registers, PartOfUnit part, T* to) {
    T columns[kColumns];
    store(registers, Whole{}, columns);
    for (std::int64_t k = 0; k < part.count; ++k) to[k] = columns[k];
  }

  // kLanes numbers of 16 bits, each in the lower half of its word.
  static ATOLL_INLINE void load_words(const std::uint16_t* from, Words& words) {
    NarrowWords narrow;
    std::memcpy(&narrow, from, sizeof(narrow));
    widen<kBytes>(narrow, words);
  }
};

// Calls body.template operator()<kUnit>(j, Whole{}) for units of Pair<kUnit>::kColumns columns that
// cover [begin, end) in order, as wide as they fit, and once with PartOfUnit for what is left of
// the smallest.
template <int kBytes, typename Body>
ATOLL_INLINE inline void for_columns(std::int64_t begin, std::int64_t end, const Body& body) {
  constexpr std::int64_t kColumns = Pair<kBytes>::kColumns;
  for (; begin + kColumns <= end; begin += kColumns) {
    body.template operator()<kBytes>(begin, Whole{});
  }
  if (begin == end) return;
  if constexpr (kBytes > 16) {
    for_columns<kBytes / 2>(begin, end, body);
  } else {
    body.template operator()<kBytes>(begin, PartOfUnit{end - begin});
  }
}

// to = from in the type of `to`.
template <int kBytes, typename From, typename To>
ATOLL_INLINE inline void convert_columns(const From* from, std::int64_t count, To* to) {
  for_columns<kBytes>(0, count, [&]<int kUnit>(std::int64_t j, auto part) ATOLL_INLINE {
    typename Vectors<kUnit>::Floats values[2];
    Pair<kUnit>::load(from + j, part, values);
    Pair<kUnit>::store(values, part, to + j);
  });
}

// kBytes / 8 neighbouring columns as double.
template <int kBytes>
ATOLL_INLINE inline void load_doubles(const float* from, typename Vectors<kBytes>::Doubles& to) {
  if constexpr (kInstructionsByName && kBytes > 16) {
    // From memory: half the work of the same from a register.
    typedef float InMemory __attribute__((vector_size(kBytes / 2), aligned(4), may_alias));
    asm("vcvtps2pd %1, %0" : "=v"(to) : "m"(*reinterpret_cast<const InMemory*>(from)));
  } else {
    typename Vectors<kBytes>::NarrowFloats values;
    std::memcpy(&values, from, sizeof(values));
    widen<kBytes>(values, to);
  }
}
template <int kBytes>
ATOLL_INLINE inline void load_doubles(const Bf16* from, typename Vectors<kBytes>::Doubles& to) {
  typename Vectors<kBytes>::FewHalfWords bits;
  typename Vectors<kBytes>::FewWords wide;
  std::memcpy(&bits, from, sizeof(bits));
  widen<kBytes / 2, (kBytes > 16)>(bits, wide);
  wide <<= 16U;
  typename Vectors<kBytes>::NarrowFloats values;
  std::memcpy(&values, &wide, sizeof(values));
  widen<kBytes>(values, to);
}

}  // namespace atl
