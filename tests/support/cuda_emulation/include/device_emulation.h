// The words of device code, for the host compiler: qualifiers, built-in variables, barriers, warp
// exchange, atomics and arithmetic intrinsics. Threads of a block run as fibers of one host thread.
#pragma once

#include <math.h>

#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "vector_types.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)

// Only one block runs at a time in the whole process, so shared memory may be plain static memory.
// The marker's symbol tells the emulator which functions own shared variables: it fills these
// with NaN bytes before every block.
#define ATOLL_EMULATION_JOIN_(a, b) a##b
#define ATOLL_EMULATION_JOIN(a, b) ATOLL_EMULATION_JOIN_(a, b)
#define __shared__                                                                           \
  static __attribute__((used)) char ATOLL_EMULATION_JOIN(atoll_shared_marker_, __COUNTER__); \
  static

// Not const, though device code may not assign them: the emulator changes them between fibers.
extern uint3 threadIdx;
extern uint3 blockIdx;
extern dim3 blockDim;
extern dim3 gridDim;
constexpr int warpSize = 32;

namespace atl::cuda_emulation {

// Where device code calls something: std::source_location is no part of every compiler's C++20.
struct CodePlace {
  const char* file = "";
  int line = 0;

  static constexpr CodePlace here(const char* file = __builtin_FILE(),
                                  int line = __builtin_LINE()) {
    return {file, line};
  }
};

void block_barrier(const CodePlace& where);
void warp_barrier(unsigned mask, const CodePlace& where);
// Value that lane `source` of the warp passed; the lanes of `mask` must all call it. `source` may
// differ per lane. Reading a lane outside the mask gives bytes 0xFF.
std::uint64_t warp_exchange(unsigned mask, std::uint64_t value, int source, const CodePlace& where);
unsigned warp_ballot(unsigned mask, bool predicate, const CodePlace& where);
int lane_index();

template <typename T>
T exchange(unsigned mask, T value, int source, const CodePlace& where) {
  static_assert(std::is_trivially_copyable_v<T> && (sizeof(T) <= 8), "a 2, 4 or 8 byte type");
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = warp_exchange(mask, bits, source, where);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

template <typename T>
T fetch_add(T* address, T value) {
  const T old = *address;
  *address = static_cast<T>(old + value);
  return old;
}

}  // namespace atl::cuda_emulation

inline void __syncthreads(
    const atl::cuda_emulation::CodePlace where = atl::cuda_emulation::CodePlace::here()) {
  atl::cuda_emulation::block_barrier(where);
}
inline void __syncwarp(unsigned mask = 0xffffffffu, const atl::cuda_emulation::CodePlace where =
                                                        atl::cuda_emulation::CodePlace::here()) {
  atl::cuda_emulation::warp_barrier(mask, where);
}

template <typename T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32,
              const atl::cuda_emulation::CodePlace where = atl::cuda_emulation::CodePlace::here()) {
  const int first = atl::cuda_emulation::lane_index() & ~(width - 1);
  return atl::cuda_emulation::exchange(mask, value, first + (source & (width - 1)), where);
}
template <typename T>
T __shfl_xor_sync(
    unsigned mask, T value, int lane_mask, int width = 32,
    const atl::cuda_emulation::CodePlace where = atl::cuda_emulation::CodePlace::here()) {
  const int lane = atl::cuda_emulation::lane_index();
  const int source = lane ^ lane_mask;
  const int end = (lane & ~(width - 1)) + width;
  return atl::cuda_emulation::exchange(mask, value, source < end ? source : lane, where);
}
template <typename T>
T __shfl_down_sync(
    unsigned mask, T value, unsigned delta, int width = 32,
    const atl::cuda_emulation::CodePlace where = atl::cuda_emulation::CodePlace::here()) {
  const int lane = atl::cuda_emulation::lane_index();
  const int source = lane + static_cast<int>(delta);
  const int end = (lane & ~(width - 1)) + width;
  return atl::cuda_emulation::exchange(mask, value, source < end ? source : lane, where);
}
template <typename T>
T __shfl_up_sync(
    unsigned mask, T value, unsigned delta, int width = 32,
    const atl::cuda_emulation::CodePlace where = atl::cuda_emulation::CodePlace::here()) {
  const int lane = atl::cuda_emulation::lane_index();
  const int source = lane - static_cast<int>(delta);
  const int first = lane & ~(width - 1);
  return atl::cuda_emulation::exchange(mask, value, source >= first ? source : lane, where);
}
inline unsigned __ballot_sync(
    unsigned mask, int predicate,
    const atl::cuda_emulation::CodePlace where = atl::cuda_emulation::CodePlace::here()) {
  return atl::cuda_emulation::warp_ballot(mask, predicate != 0, where);
}
inline int __any_sync(
    unsigned mask, int predicate,
    const atl::cuda_emulation::CodePlace where = atl::cuda_emulation::CodePlace::here()) {
  return atl::cuda_emulation::warp_ballot(mask, predicate != 0, where) != 0;
}
inline int __all_sync(
    unsigned mask, int predicate,
    const atl::cuda_emulation::CodePlace where = atl::cuda_emulation::CodePlace::here()) {
  return atl::cuda_emulation::warp_ballot(mask, predicate != 0, where) == mask;
}

inline int __popc(unsigned x) { return std::popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline unsigned __brev(unsigned x) {
  unsigned reversed = 0;
  for (int bit = 0; bit < 32; ++bit) reversed |= ((x >> bit) & 1u) << (31 - bit);
  return reversed;
}
inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>((static_cast<std::uint64_t>(a) * b) >> 32);
}
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }

template <typename T>
T __ldg(const T* address) {
  return *address;
}
template <typename T>
T __ldcs(const T* address) {
  return *address;
}
template <typename T>
T __ldcg(const T* address) {
  return *address;
}
template <typename T>
void __stcs(T* address, T value) {
  *address = value;
}

inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fsqrt_rn(float x) { return sqrtf(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
// Macros, because the C library declares functions of these names.
#define __expf(x) expf(x)
#define __logf(x) logf(x)

inline int atomicAdd(int* address, int value) {
  return atl::cuda_emulation::fetch_add(address, value);
}
inline unsigned atomicAdd(unsigned* address, unsigned value) {
  return atl::cuda_emulation::fetch_add(address, value);
}
inline unsigned long long atomicAdd(unsigned long long* address, unsigned long long value) {
  return atl::cuda_emulation::fetch_add(address, value);
}
inline float atomicAdd(float* address, float value) {
  return atl::cuda_emulation::fetch_add(address, value);
}
inline double atomicAdd(double* address, double value) {
  return atl::cuda_emulation::fetch_add(address, value);
}

inline long long atomicMin(long long* address, long long value) {
  const long long old = *address;
  if (value < old) *address = value;
  return old;
}

inline int min(int a, int b) { return b < a ? b : a; }
inline unsigned min(unsigned a, unsigned b) { return b < a ? b : a; }
inline long min(long a, long b) { return b < a ? b : a; }
inline unsigned long min(unsigned long a, unsigned long b) { return b < a ? b : a; }
inline long long min(long long a, long long b) { return b < a ? b : a; }
inline unsigned long long min(unsigned long long a, unsigned long long b) { return b < a ? b : a; }
inline float min(float a, float b) { return fminf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline int max(int a, int b) { return a < b ? b : a; }
inline unsigned max(unsigned a, unsigned b) { return a < b ? b : a; }
inline long max(long a, long b) { return a < b ? b : a; }
inline unsigned long max(unsigned long a, unsigned long b) { return a < b ? b : a; }
inline long long max(long long a, long long b) { return a < b ? b : a; }
inline unsigned long long max(unsigned long long a, unsigned long long b) { return a < b ? b : a; }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double max(double a, double b) { return fmax(a, b); }
