// Elements of matrices on the device: loads and stores of vectors of f32 or bf16, sums over the
// lanes of a warp or block in a fixed order, and the element function of an Epilogue.
#pragma once

#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <math.h>

#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "kernels/bf16.hpp"
#include "kernels/views.hpp"

namespace atl::cuda {

inline constexpr unsigned kFullWarp = 0xFFFFFFFFU;

// --- vectors of elements ------------------------------------------------------------------------

// Neighbours in a row, read and written as one access.
template <typename T, int kCount>
struct alignas(sizeof(T) * kCount) Packed {
  T values[kCount];
};

// Pairs of bf16 stay words until widen(): the compiler would take single elements apart right after
// their load, and so wait for each load before the next. They alias the elements in memory.
template <int kCount>
requires(kCount % 2 ==
         0) struct [[gnu::may_alias]] alignas(sizeof(Bf16) * kCount) Packed<Bf16, kCount> {
  std::uint32_t words[kCount / 2];  // the first of a pair in the low half
};

// Elements of one 16-byte access, the widest there is.
template <typename T>
inline constexpr int kVector = 16 / static_cast<int>(sizeof(T));

// A matrix for device code: element (i, j) at at(i, j).
template <typename T>
struct Rows {
  T* data;
  std::int64_t stride;
  __device__ T* at(std::int64_t i, std::int64_t j) const { return data + i * stride + j; }
};

template <typename T>
Rows<const T> rows_of(ConstMatrixView view) {
  return {static_cast<const T*>(view.data), view.stride};
}
template <typename T>
Rows<T> rows_of(MatrixView view) {
  return {static_cast<T*>(view.data), view.stride};
}

// True if rows can be walked in accesses of `count` elements: every one is aligned and none
// crosses the end of a row.
inline bool fits_vectors(int count, ConstMatrixView view) {
  const std::int64_t bytes = count * bytes_of(view.dtype);
  return reinterpret_cast<std::uintptr_t>(view.data) % static_cast<std::uintptr_t>(bytes) == 0 &&
         view.cols % count == 0 &&
         (view.rows == 1 || view.stride * bytes_of(view.dtype) % bytes == 0);
}
inline bool fits_vectors(int count, std::initializer_list<ConstMatrixView> views) {
  for (const ConstMatrixView view : views) {
    if (!fits_vectors(count, view)) return false;
  }
  return true;
}

// The same where the last access of a row may reach into its padding: it is read, and store_some()
// does not write it.
inline bool fits_padded(int count, ConstMatrixView view) {
  if (view.stride == padded_columns(view.cols)) view.cols = view.stride;
  return fits_vectors(count, view);
}
inline bool fits_padded(int count, std::initializer_list<ConstMatrixView> views) {
  for (const ConstMatrixView view : views) {
    if (!fits_padded(count, view)) return false;
  }
  return true;
}

// Calls body with std::integral_constant<int, elements per access>.
template <typename T, typename Body>
void with_access(bool whole_vectors, const Body& body) {
  if (whole_vectors) {
    body(std::integral_constant<int, kVector<T>>{});
  } else {
    body(std::integral_constant<int, 1>{});
  }
}
// Whole vectors where all views allow them, else single elements. T is the widest element type of
// the views.
template <typename T, typename Body>
void with_unit(std::initializer_list<ConstMatrixView> views, const Body& body) {
  with_access<T>(fits_vectors(kVector<T>, views), body);
}
// The same; the last access of a row may reach into its padding.
template <typename T, typename Body>
void with_padded_unit(std::initializer_list<ConstMatrixView> views, const Body& body) {
  with_access<T>(fits_padded(kVector<T>, views), body);
}

__device__ inline float to_f32(float value) { return value; }
__device__ inline float to_f32(Bf16 value) {
  return __uint_as_float(static_cast<unsigned>(value.bits) << 16U);
}

template <int kCount, typename T>
__device__ inline Packed<T, kCount> load(const T* at) {
  return *reinterpret_cast<const Packed<T, kCount>*>(at);
}

template <typename T, int kCount>
__device__ inline void store(T* at, const Packed<T, kCount>& values) {
  *reinterpret_cast<Packed<T, kCount>*>(at) = values;
}

template <typename T, int kCount>
__device__ inline Packed<float, kCount> widen(const Packed<T, kCount>& packed) {
  Packed<float, kCount> wide;
  if constexpr (std::is_same_v<T, Bf16> && kCount % 2 == 0) {
#pragma unroll
    for (int i = 0; i < kCount; i += 2) {
      const std::uint32_t pair = packed.words[i / 2];
      wide.values[i] = __uint_as_float(pair << 16U);
      wide.values[i + 1] = __uint_as_float(pair & 0xFFFF0000U);
    }
  } else {
#pragma unroll
    for (int i = 0; i < kCount; ++i) wide.values[i] = to_f32(packed.values[i]);
  }
  return wide;
}

// Rounds to nearest even.
template <typename T, int kCount>
__device__ inline Packed<T, kCount> narrow(const Packed<float, kCount>& wide) {
  if constexpr (std::is_same_v<T, float>) {
    return wide;
  } else {
    Packed<Bf16, kCount> packed;
    if constexpr (kCount % 2 == 0) {
#pragma unroll
      for (int i = 0; i < kCount; i += 2) {
        const __nv_bfloat162 pair = __floats2bfloat162_rn(wide.values[i], wide.values[i + 1]);
        packed.words[i / 2] = static_cast<std::uint32_t>(__bfloat16_as_ushort(pair.x)) |
                              static_cast<std::uint32_t>(__bfloat16_as_ushort(pair.y)) << 16U;
      }
    } else {
#pragma unroll
      for (int i = 0; i < kCount; ++i) {
        packed.values[i].bits = __bfloat16_as_ushort(__float2bfloat16_rn(wide.values[i]));
      }
    }
    return packed;
  }
}

// The first `count` of the values, or all of them.
template <typename T, int kCount>
__device__ inline void store_some(T* at, const Packed<float, kCount>& wide, std::int64_t count) {
  if (count >= kCount) {
    store(at, narrow<T>(wide));
  } else {
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      if (k < count) store(at + k, narrow<T>(Packed<float, 1>{{wide.values[k]}}));
    }
  }
}

// --- sums and maxima over lanes -----------------------------------------------------------------

// Over groups of `lanes` neighbours of a warp (a power of 2); every lane gets the same bits. All 32
// lanes of the warp must call.
template <typename Value>
__device__ inline Value team_sum(Value value, int lanes) {
  for (int offset = lanes / 2; offset > 0; offset /= 2) {
    value += __shfl_xor_sync(kFullWarp, value, offset);
  }
  return value;
}
// NaN is passed over unless there is nothing else.
__device__ inline float team_max(float value, int lanes) {
  for (int offset = lanes / 2; offset > 0; offset /= 2) {
    value = fmaxf(value, __shfl_xor_sync(kFullWarp, value, offset));
  }
  return value;
}

// Over all threads of a block of whole warps; every thread gets the sum. `scratch` is shared memory
// of 32 values. All threads must call.
template <typename Value>
__device__ inline Value block_sum(Value value, Value* scratch) {
  value = team_sum(value, 32);
  __syncthreads();  // the scratch of an earlier call may still be read
  if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
  __syncthreads();
  Value sum = scratch[0];
  for (unsigned warp = 1; warp < blockDim.x / 32; ++warp) sum += scratch[warp];
  return sum;
}

// --- the epilogue -------------------------------------------------------------------------------

inline constexpr int kDropoutGroup = 8;  // neighbouring columns whose numbers are one random block

// An Epilogue as an argument of kernels; null pointers are absent parts.
struct EpilogueArgs {
  const double* mean = nullptr;
  const double* inv_std = nullptr;
  const float* gamma = nullptr;
  const float* beta = nullptr;
  ActivationFunction function = ActivationFunction::kNone;
  std::uint32_t threshold = 65536;
  float dropout_scale = 1;
  RandomKey key;
  const EpochState* state = nullptr;
  const GlobalId* row_ids = nullptr;

  __host__ __device__ bool affine() const {
    return mean != nullptr || gamma != nullptr || beta != nullptr;
  }
  __host__ __device__ bool curved() const {
    return function != ActivationFunction::kNone && function != ActivationFunction::kRelu;
  }
  __host__ __device__ bool drops() const { return threshold != 65536; }
  // Once per thread: it reads the state.
  __device__ RandomKey key_now() const { return key_of_epoch(key, state); }
};

inline EpilogueArgs epilogue_args(const Epilogue& epilogue) {
  EpilogueArgs args;
  if (!epilogue.mean.empty()) {
    args.mean = epilogue.mean.data();
    args.inv_std = epilogue.inv_std.data();
  }
  if (!epilogue.gamma.absent()) args.gamma = static_cast<const float*>(epilogue.gamma.data);
  if (!epilogue.beta.absent()) args.beta = static_cast<const float*>(epilogue.beta.data);
  args.function = epilogue.function;
  if (epilogue.dropout.active()) {
    args.threshold = epilogue.dropout.rate.threshold;
    args.dropout_scale = epilogue.dropout.rate.scale;
    args.key = epilogue.dropout.key;
    args.state = epilogue.dropout.state;
    args.row_ids = epilogue.dropout.row_ids.data();
  }
  return args;
}

// A double as the sum of two floats: x - high is exact for x near high, so subtracting both loses
// no digits to f32.
struct SplitDouble {
  float high;
  float low;
};
__device__ inline SplitDouble split_double(double value) {
  const auto high = static_cast<float>(value);
  return {high, static_cast<float>(value - static_cast<double>(high))};
}

// The affine part of an epilogue in one column:
//   y = ((x - mean.high) - mean.low) * scale + shift.
struct ColumnFactors {
  SplitDouble mean{0, 0};
  float scale = 1;
  float shift = 0;
};

__device__ inline ColumnFactors column_factors(const EpilogueArgs& args, std::int64_t col,
                                               float gamma, float beta) {
  ColumnFactors factors;
  double scale = gamma;
  if (args.mean != nullptr) {
    factors.mean = split_double(args.mean[col]);
    scale *= args.inv_std[col];
  }
  factors.scale = static_cast<float>(scale);
  factors.shift = beta;
  return factors;
}

// Neighbouring parameters from `from` on, in accesses of 16 bytes where they are aligned;
// `otherwise` where there are none.
template <int kCount>
__device__ inline void load_parameters(const float* from, std::int64_t col, float otherwise,
                                       Packed<float, kCount>& to) {
  constexpr int kWide = kVector<float>;
  const bool aligned = reinterpret_cast<std::uintptr_t>(from + col) % 16 == 0;
  if (from != nullptr && kCount % kWide == 0 && aligned) {
#pragma unroll
    for (int k = 0; k + kWide <= kCount; k += kWide) {
      const auto four = load<kWide>(from + col + k);
#pragma unroll
      for (int j = 0; j < kWide; ++j) to.values[k + j] = four.values[j];
    }
  } else {
#pragma unroll
    for (int k = 0; k < kCount; ++k) to.values[k] = from != nullptr ? from[col + k] : otherwise;
  }
}

// Loads the factors of kCount neighbouring columns from `col` on, or of as many as there are.
template <int kCount>
__device__ inline void load_factors(const EpilogueArgs& args, std::int64_t col, std::int64_t cols,
                                    ColumnFactors (&factors)[kCount]) {
  if (col + kCount > cols) {
#pragma unroll
    for (int k = 0; k < kCount; ++k) {
      if (col + k < cols) {
        const float gamma = args.gamma != nullptr ? args.gamma[col + k] : 1.0F;
        const float beta = args.beta != nullptr ? args.beta[col + k] : 0.0F;
        factors[k] = column_factors(args, col + k, gamma, beta);
      }
    }
    return;
  }
  Packed<float, kCount> gamma;
  Packed<float, kCount> beta;
  load_parameters(args.gamma, col, 1.0F, gamma);
  load_parameters(args.beta, col, 0.0F, beta);
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    factors[k] = column_factors(args, col + k, gamma.values[k], beta.values[k]);
  }
}

__device__ inline float affine_value(const ColumnFactors& factors, float x) {
  return fmaf(x - factors.mean.high - factors.mean.low, factors.scale, factors.shift);
}

// NaN stays NaN, so that a diverged run is seen.
__device__ inline float relu_value(float x) { return x < 0.0F ? 0.0F : x; }
__device__ inline float normal_distribution(float x) { return 0.5F * erfcf(-0.70710678F * x); }

// The value of another function than relu. Not inlined: kernels with an epilogue would need more
// registers.
[[maybe_unused, gnu::noinline]] static __device__ float curved_value(ActivationFunction function,
                                                                     float x) {
  switch (function) {
    case ActivationFunction::kLeakyRelu:
      return x < 0.0F ? static_cast<float>(kLeakySlope) * x : x;
    case ActivationFunction::kElu:
      return x < 0.0F ? expm1f(x) : x;
    case ActivationFunction::kGelu:
      return x * normal_distribution(x);
    default:
      return x;
  }
}

// f' where f gives `from`, times the factor that `unscaled` undoes; of gelu, at `from`. Not of
// relu.
__device__ inline float curved_slope(ActivationFunction function, float from, float unscaled) {
  if (function == ActivationFunction::kGelu) {
    return normal_distribution(from) + from * 0.39894228F * expf(-0.5F * from * from);
  }
  if (from > 0.0F) return 1.0F;
  return function == ActivationFunction::kElu ? fmaf(from, unscaled, 1.0F)
                                              : static_cast<float>(kLeakySlope);
}

// The gradient through dropout(relu(.)), from the forward output.
__device__ inline float relu_gradient(float output, float gradient, float scale) {
  return output != 0.0F ? scale * gradient : 0.0F;
}

// Bit j % 8 says whether element (i, j) is kept, for the columns j of group j / 8. `key` from
// key_now().
__device__ inline unsigned dropout_bits(const EpilogueArgs& args, const RandomKey& key,
                                        std::int64_t i, std::int64_t group) {
  const PhiloxBlock block = random_block(key, static_cast<std::uint64_t>(args.row_ids[i]),
                                         static_cast<std::uint32_t>(group));
  unsigned bits = 0;
#pragma unroll
  for (std::uint32_t lane = 0; lane < kDropoutGroup; ++lane) {
    bits |= dropout_half_word(block, lane) < args.threshold ? 1U << lane : 0U;
  }
  return bits;
}

// The whole epilogue of neighbours in a row: value k is kept by bit k of `kept` (all ones without
// dropout). Without kCurved the function is none or relu.
template <bool kAffine, bool kCurved, int kCount>
__device__ inline void apply_epilogue(const EpilogueArgs& args,
                                      const ColumnFactors (&factors)[kCount], unsigned kept,
                                      Packed<float, kCount>& row) {
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    float value = row.values[k];
    if constexpr (kAffine) value = affine_value(factors[k], value);
    if (args.function == ActivationFunction::kRelu) {
      value = relu_value(value);
    } else if (kCurved && args.function != ActivationFunction::kNone) {
      value = curved_value(args.function, value);
    }
    if (args.drops())
      value = (kept >> static_cast<unsigned>(k) & 1U) != 0 ? value * args.dropout_scale : 0.0F;
    row.values[k] = value;
  }
}

// Elements (i, col ...) of a row of `cols` after the epilogue, rounded once.
template <typename T, int kUnit>
__device__ inline void store_finished(const EpilogueArgs& epilogue, T* to, std::int64_t i,
                                      std::int64_t col, std::int64_t cols,
                                      const Packed<float, kUnit>& of) {
  Packed<float, kUnit> values = of;
  unsigned kept = ~0U;
  if (epilogue.drops()) {
    kept = dropout_bits(epilogue, epilogue.key_now(), i, col / kDropoutGroup) >>
           static_cast<unsigned>(col % kDropoutGroup);
  }
  ColumnFactors factors[kUnit];
  if (epilogue.affine()) {
    load_factors(epilogue, col, cols, factors);
    apply_epilogue<true, true>(epilogue, factors, kept, values);
  } else {
    apply_epilogue<false, true>(epilogue, factors, kept, values);
  }
  store_some(to, values, cols - col);
}

}  // namespace atl::cuda
