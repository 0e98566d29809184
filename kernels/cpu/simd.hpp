// Runs one piece of code compiled for the widest vectors the machine has, chosen at run time.
//
// How: a loop body marked ATOLL_INLINE is inlined into one function per instruction set, and inside
// each the compiler vectorises it anew. Unlike target_clones this needs no ifunc (whose resolvers
// crash under the sanitizers), and unlike separate sources with -mavx512f no inline function of a
// header can leak out compiled for an instruction set that the machine lacks.
#pragma once

#define ATOLL_INLINE __attribute__((always_inline))

namespace atl {

// True if inlined bodies may name instructions of the function they end up in. Clang checks them
// where they are written, but picks the same ones for what stands there otherwise.
#if defined(__x86_64__) && !defined(__clang__)
inline constexpr bool kInstructionsByName = true;
#else
inline constexpr bool kInstructionsByName = false;
#endif

// Whether the baseline is for old processors alone: what is compiled for it only has to be right.
#if defined(__x86_64__)
inline constexpr bool kBaselineIsOld = true;
#else
inline constexpr bool kBaselineIsOld = false;
#endif

enum class Isa { kBaseline, kAvx2, kAvx512 };

Isa detect_isa();
const char* isa_name(Isa isa);

#if defined(__x86_64__)
template <typename Body>
__attribute__((target("avx2,fma"))) void run_avx2(const Body& body) {
  body();
}
template <typename Body>
__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma"))) void run_avx512(
    const Body& body) {
  body();
}
#endif

// `body` takes nothing, is marked ATOLL_INLINE and so is what it calls in its loops.
template <typename Body>
void run_vectorised(Isa isa, const Body& body) {
#if defined(__x86_64__)
  if (isa == Isa::kAvx512) return run_avx512(body);
  if (isa == Isa::kAvx2) return run_avx2(body);
#endif
  body();
}

// The same for a body that is told the width: body.template operator()<kBytes>() with the bytes of
// one vector.
template <typename Body>
void run_with_vectors(Isa isa, const Body& body) {
#if defined(__x86_64__)
  if (isa == Isa::kAvx512) {
    return run_avx512([&]() ATOLL_INLINE { body.template operator()<64>(); });
  }
  if (isa == Isa::kAvx2) return run_avx2([&]() ATOLL_INLINE { body.template operator()<32>(); });
#endif
  body.template operator()<16>();
}

}  // namespace atl
