// Quantized messages: one launch packs the messages of all peers, one unpacks them. A warp takes a
// row; a lane takes four neighbouring columns at a time, whose noise is one random block.
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/cuda/code_words.hpp"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/launch.hpp"
#include "kernels/cuda/walk.hpp"
#include "kernels/operations/wire.hpp"
#include "kernels/quantizer.hpp"

namespace atl::cuda {

namespace {

constexpr int kWarp = 32;
constexpr int kWarps = kBlockThreads / kWarp;  // of a block
constexpr int kQuantized = 5;                  // widths below 32 bits: 1 << 0 to 1 << 4

// --- packing ------------------------------------------------------------------------------------

struct PackArgs {
  std::int64_t rows;
  std::int64_t cols;
  const LocalId* ids;
  const std::int64_t* first;
  const std::int64_t* offset;
  const std::uint8_t* bits;
  const float* scale;
  RandomKey key;
  const EpochState* state;
  const GlobalId* row_ids;
  std::byte* packets;
  float* range;
  float* variance;
  std::int64_t* bad;
};

// Four scaled columns of a row from `col` on; those beyond its end are 0.
template <typename T, bool kWhole>
__device__ inline Packed<float, kGroup> load_group(const T* row, std::int64_t col,
                                                   std::int64_t cols, float scale) {
  Packed<float, kGroup> values{};
  if constexpr (kWhole) {
    if (col < cols) values = widen(load<kGroup>(row + col));
  } else {
#pragma unroll
    for (int k = 0; k < kGroup; ++k) {
      if (col + k < cols) values.values[k] = to_f32(row[col + k]);
    }
  }
#pragma unroll
  for (int k = 0; k < kGroup; ++k) values.values[k] = __fmul_rn(values.values[k], scale);
  return values;
}

template <typename T, bool kWhole>
__device__ inline QuantizerRange range_of_row(const T* row, std::int64_t cols, float scale,
                                              int lane) {
  std::int32_t least = std::numeric_limits<std::int32_t>::max();
  std::int32_t most = std::numeric_limits<std::int32_t>::min();
  for (std::int64_t col = lane * kGroup; col < cols; col += kWarp * kGroup) {
    const Packed<float, kGroup> values = load_group<T, kWhole>(row, col, cols, scale);
#pragma unroll
    for (int k = 0; k < kGroup; ++k) {
      if (col + k >= cols) break;
      const std::int32_t key = order_key(values.values[k]);
      least = min(least, key);
      most = max(most, key);
    }
  }
  for (int offset = kWarp / 2; offset > 0; offset /= 2) {
    least = min(least, __shfl_xor_sync(kFullWarp, least, offset));
    most = max(most, __shfl_xor_sync(kFullWarp, most, offset));
  }
  return quantizer_range(of_order_key(least), of_order_key(most));
}

// The levels of a message of `bits` to the nearest. All 32 lanes must call.
template <typename T, bool kWhole>
__device__ inline QuantizerLevels nearest_levels_of_row(const T* row, std::int64_t cols,
                                                        float scale, const QuantizerRange& range,
                                                        int bits, int lane) {
  PlaceSums sums{cols};
  const float zero = to_float(range.zero);
  const float step = to_float(step_of(range, 16));
  // First the sum of all, then, when their mean is known, of those above it.
  for (int pass = 0; pass < 2 && bits <= 4; ++pass) {
    const std::int64_t mean = pass == 0 ? -1 : sums.mean();
    long long sum = 0;
    long long count = 0;
    for (std::int64_t col = lane * kGroup; col < cols; col += kWarp * kGroup) {
      const Packed<float, kGroup> values = load_group<T, kWhole>(row, col, cols, scale);
#pragma unroll
      for (int k = 0; k < kGroup; ++k) {
        if (col + k >= cols) break;
        const std::int32_t place = nearest_place(values.values[k], zero, step);
        if (place <= mean) continue;
        sum += place;
        ++count;
      }
    }
    for (int offset = kWarp / 2; offset > 0; offset /= 2) {
      sum += __shfl_xor_sync(kFullWarp, sum, offset);
      count += __shfl_xor_sync(kFullWarp, count, offset);
    }
    (pass == 0 ? sums.sum : sums.sum_above) = sum;
    if (pass == 1) sums.above = count;
  }
  return nearest_levels(range, bits, sums);
}

// A number rounded to a code, and what its rounding adds to the variance.
struct RoundedCode {
  std::uint32_t code;
  float variance;
};

template <int kBits, bool kNearest>
__device__ inline RoundedCode round_code(float value, float zero, float step, float noise) {
  constexpr int kTop = (1 << kBits) - 1;
  int below;
  bool up;
  float fraction;
  if constexpr (kBits == 16) {
    const double t = __ddiv_rn(__dsub_rn(static_cast<double>(value), static_cast<double>(zero)),
                               static_cast<double>(step));
    below = static_cast<int>(t);
    const double rest = __dsub_rn(t, static_cast<double>(below));
    up = static_cast<double>(noise) < rest;
    fraction = static_cast<float>(rest);
  } else {
    float t = __fdiv_rn(__fsub_rn(value, zero), step);
    if constexpr (kNearest) t = fmaxf(t, 0.0F);  // values may lie below zero
    below = static_cast<int>(t);
    fraction = __fsub_rn(t, static_cast<float>(below));
    up = noise < fraction;
  }
  return {static_cast<std::uint32_t>(min(below + (up ? 1 : 0), kTop)),
          fraction * (1.0F - fraction)};
}

__device__ inline void store_word(std::byte* at, std::uint32_t word) {
  *reinterpret_cast<std::uint32_t*>(at) = word;
}

// A row on its way: its messages first .. last, and what codes are made with.
struct PackedRow {
  std::int64_t first;
  std::int64_t last;
  QuantizerRange range;
  QuantizerLevels levels;  // its step: to the nearest, of the row's one message
  float zero;
};

// Four neighbouring columns of a row that one lane holds, from `col` on.
struct Group {
  std::int64_t col;
  Packed<float, kGroup> values;
  float noise[kGroup];
};

// Writes the codes of the groups that a warp holds into all messages of kBits bits. Returns the
// lane's share of the sum of f (1 - f). All 32 lanes must call.
template <int kBits, bool kNearest>
__device__ inline float send_codes(const PackArgs& args, const PackedRow& row, const Group& group,
                                   float step) {
  constexpr int kWords = words_of_group(kBits);
  constexpr int kSharers = sharers_of_word(kBits);
  const GroupPlace place = place_of_group(kBits, group.col);
  std::uint32_t words[kWords] = {};
  float sum = 0;
#pragma unroll
  for (int k = 0; k < kGroup; ++k) {
    if (group.col + k >= args.cols || !(step > 0)) break;
    const RoundedCode rounded =
        round_code<kBits, kNearest>(group.values.values[k], row.zero, step, group.noise[k]);
    words[k * kBits / 32] |= rounded.code << static_cast<unsigned>(k * kBits % 32);
    sum += rounded.variance;
  }
  words[0] <<= place.shift;
#pragma unroll
  for (int offset = kSharers / 2; offset > 0; offset /= 2) {
    words[0] |= __shfl_xor_sync(kFullWarp, words[0], offset);
  }
  if (place.shift != 0) return sum;
  for (std::int64_t m = row.first; m < row.last; ++m) {
    if (args.bits[m] != kBits) continue;
    std::byte* to = args.packets + args.offset[m] + kWireMetadataBytes + 4 * place.word;
#pragma unroll
    for (int w = 0; w < kWords; ++w) {
      if (has_word(kBits, group.col, w, args.cols)) store_word(to + 4 * w, words[w]);
    }
  }
  return sum;
}

// Quantizes a row into its messages, for the widths whose bit is set in `wanted`, and stores the
// variances of these messages. All 32 lanes must call.
template <typename T, bool kWhole, bool kNearest>
__device__ inline void send_quantized(const PackArgs& args, const PackedRow& row, unsigned wanted,
                                      const RandomKey& key, std::uint64_t node, const T* x,
                                      float scale, int lane) {
  float steps[kQuantized];
  float sums[kQuantized] = {};
#pragma unroll
  for (int w = 0; w < kQuantized; ++w) {
    steps[w] = to_float(kNearest ? row.levels.step : step_of(row.range, 1 << w));
  }
  for (std::int64_t base = 0; base < args.cols; base += kWarp * kGroup) {
    Group group;
    group.col = base + lane * kGroup;
    group.values = load_group<T, kWhole>(x, group.col, args.cols, scale);
    if constexpr (kNearest) {
#pragma unroll
      for (int k = 0; k < kGroup; ++k) group.noise[k] = 0.5F;
    } else {
      const PhiloxBlock block =
          random_block(key, node, static_cast<std::uint32_t>(group.col / kGroup));
#pragma unroll
      for (int k = 0; k < kGroup; ++k) {
        group.noise[k] = static_cast<float>(block[k] >> 8U) * 0x1p-24F;
      }
    }
    if ((wanted & 1U) != 0) sums[0] += send_codes<1, kNearest>(args, row, group, steps[0]);
    if ((wanted & 2U) != 0) sums[1] += send_codes<2, kNearest>(args, row, group, steps[1]);
    if ((wanted & 4U) != 0) sums[2] += send_codes<4, kNearest>(args, row, group, steps[2]);
    if ((wanted & 8U) != 0) sums[3] += send_codes<8, kNearest>(args, row, group, steps[3]);
    if ((wanted & 16U) != 0) sums[4] += send_codes<16, kNearest>(args, row, group, steps[4]);
  }
#pragma unroll
  for (int w = 0; w < kQuantized; ++w) {
    if ((wanted >> static_cast<unsigned>(w) & 1U) == 0) continue;
    const float variance = kNearest ? 0.0F : team_sum(sums[w], kWarp) * steps[w] * steps[w];
    for (std::int64_t m = row.first + lane; m < row.last; m += kWarp) {
      if (args.bits[m] == 1 << w) args.variance[m] = variance;
    }
  }
}

// Writes the row as it is stored into all messages of 32 bits. Neighbouring lanes write neighbours,
// because messages are aligned to elements only.
template <typename T>
__device__ inline void send_stored(const PackArgs& args, const PackedRow& row, const T* x,
                                   float scale, int lane) {
  for (std::int64_t m = row.first; m < row.last; ++m) {
    if (args.bits[m] != 32) continue;
    T* to = reinterpret_cast<T*>(args.packets + args.offset[m]);
    for (std::int64_t col = lane; col < args.cols; col += kWarp) {
      const Packed<float, 1> value{{__fmul_rn(to_f32(x[col]), scale)}};
      store(to + col, narrow<T>(value));
    }
    if (lane == 0) args.variance[m] = 0;
  }
}

template <typename T, bool kWhole, bool kNearest>
__global__ void __launch_bounds__(kBlockThreads) pack_kernel(PackArgs args, Rows<const T> x) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t warp = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp;
  const RandomKey key = key_of_epoch(args.key, args.state);
  for (std::int64_t k = warp; k < args.rows; k += std::int64_t{gridDim.x} * kWarps) {
    const auto id = static_cast<std::int64_t>(args.ids[k]);
    const auto node = static_cast<std::uint64_t>(args.row_ids[id]);
    const float scale = args.scale != nullptr ? args.scale[id] : 1.0F;
    const T* from = x.at(id, 0);
    PackedRow row{args.first[k], args.first[k + 1], {}, {}, 0};
    row.range = range_of_row<T, kWhole>(from, args.cols, scale, lane);
    row.levels.zero = row.range.zero;
    if (kNearest && row.first < row.last && args.bits[row.first] < 32) {
      row.levels = nearest_levels_of_row<T, kWhole>(from, args.cols, scale, row.range,
                                                    args.bits[row.first], lane);
    }
    row.zero = to_float(row.levels.zero);
    if (lane == 0) {
      args.range[k] = row.range.range;
      if (row.range.bad) {
        atomicMin(reinterpret_cast<long long*>(args.bad), static_cast<long long>(k));
      }
    }
    unsigned wanted = 0;  // widths are bits of their own
    for (std::int64_t m = row.first + lane; m < row.last; m += kWarp) {
      const int bits = args.bits[m];
      wanted |= static_cast<unsigned>(bits);
      if (bits == 32) continue;
      store_word(
          args.packets + args.offset[m],
          metadata_word(row.levels.zero, kNearest ? row.levels.step : step_of(row.range, bits)));
    }
    for (int offset = kWarp / 2; offset > 0; offset /= 2) {
      wanted |= __shfl_xor_sync(kFullWarp, wanted, offset);
    }
    // Bit w of the widths below 32 is the width 1 << w.
    if ((wanted & 31U) != 0) {
      send_quantized<T, kWhole, kNearest>(args, row, wanted, key, node, from, scale, lane);
    }
    if ((wanted & 32U) != 0) send_stored(args, row, from, scale, lane);
  }
}

// --- unpacking ----------------------------------------------------------------------------------

template <typename T, bool kWhole>
__device__ inline void store_group(T* row, std::int64_t col, std::int64_t cols,
                                   const Packed<float, kGroup>& values) {
  if constexpr (kWhole) {
    store(row + col, narrow<T>(values));
  } else {
#pragma unroll
    for (int k = 0; k < kGroup; ++k) {
      const Packed<float, 1> one{{values.values[k]}};
      if (col + k < cols) store(row + col + k, narrow<T>(one));
    }
  }
}

template <typename T, bool kWhole>
__global__ void __launch_bounds__(kBlockThreads)
    unpack_kernel(std::int64_t messages, std::int64_t cols, const std::byte* packets,
                  const LocalId* ids, const std::int64_t* offset, const std::uint8_t* bits,
                  Rows<T> y, float adds) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const std::int64_t warp = std::int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp;
  for (std::int64_t m = warp; m < messages; m += std::int64_t{gridDim.x} * kWarps) {
    const std::byte* message = packets + offset[m];
    const int width = bits[m];
    T* row = y.at(static_cast<std::int64_t>(ids[m]), 0);
    if (width == 32) {
      const T* from = reinterpret_cast<const T*>(message);
      for (std::int64_t col = lane; col < cols; col += kWarp) {
        if (adds == 0) {
          row[col] = from[col];
          continue;
        }
        const float sum = __fadd_rn(to_f32(row[col]), __fmul_rn(adds, to_f32(from[col])));
        store(row + col, narrow<T>(Packed<float, 1>{{sum}}));
      }
      continue;
    }
    const auto* words = reinterpret_cast<const std::uint32_t*>(message);
    const std::uint32_t metadata = words[0];
    const float zero = __uint_as_float(metadata << 16U);
    const float step = __uint_as_float(metadata & 0xFFFF0000U);
    const auto mask = (1U << static_cast<unsigned>(width)) - 1U;
    for (std::int64_t col = lane * kGroup; col < cols; col += kWarp * kGroup) {
      const GroupPlace place = place_of_group(width, col);
      const std::uint32_t* at = words + kWireMetadataBytes / 4 + place.word;
      std::uint64_t codes = at[0] >> place.shift;
      if (width == 16 && has_word(16, col, 1, cols)) codes |= std::uint64_t{at[1]} << 32U;
      Packed<float, kGroup> values;
#pragma unroll
      for (int k = 0; k < kGroup; ++k) {
        const auto code = static_cast<std::uint32_t>(codes >> static_cast<unsigned>(k * width));
        values.values[k] = __fadd_rn(__fmul_rn(static_cast<float>(code & mask), step), zero);
      }
      if (adds != 0) {
        const Packed<float, kGroup> held = load_group<T, kWhole>(row, col, cols, 1);
        const Packed<float, kGroup> rounded = widen(narrow<T>(values));
#pragma unroll
        for (int k = 0; k < kGroup; ++k) {
          values.values[k] = __fadd_rn(held.values[k], __fmul_rn(adds, rounded.values[k]));
        }
      }
      store_group<T, kWhole>(row, col, cols, values);
    }
  }
}

std::int64_t blocks_of_warps(const Launch& where, std::int64_t rows) {
  return std::min(where.most_blocks(), ceil_divide(rows, kWarps));
}

}  // namespace

// --- operations ---------------------------------------------------------------------------------

void kernel(CudaBackend& backend, Queue& queue, const kernels::QuantizeRows& call) {
  const auto& [x, list, scale, rounding, packets, trace] = call;
  const Launch& where = launch_of(backend, queue);
  const PackArgs args{static_cast<std::int64_t>(list.rows.size()),
                      x.cols,
                      list.rows.data(),
                      list.first.data(),
                      list.offset.data(),
                      list.bits.data(),
                      scale.empty() ? nullptr : scale.data(),
                      rounding.key,
                      rounding.state,
                      rounding.row_ids.data(),
                      packets.data(),
                      trace.range.data(),
                      trace.variance.data(),
                      trace.bad.data()};
  with_element(x.dtype, [&]<typename T>(T) {
    const auto pack = [&]<bool kNearest>(std::bool_constant<kNearest>) {
      launch(where, blocks_of_warps(where, args.rows), kBlockThreads,
             fits_vectors(kGroup, x) ? pack_kernel<T, true, kNearest>
                                     : pack_kernel<T, false, kNearest>,
             args, rows_of<T>(x));
    };
    if (rounding.nearest) {
      pack(std::true_type{});
    } else {
      pack(std::false_type{});
    }
  });
}

void kernel(CudaBackend& backend, Queue& queue, const kernels::DequantizeRows& call) {
  const auto& [packets, list, y, adds] = call;
  const Launch& where = launch_of(backend, queue);
  const auto messages = static_cast<std::int64_t>(list.rows.size());
  with_element(y.dtype, [&]<typename T>(T) {
    launch(where, blocks_of_warps(where, messages), kBlockThreads,
           fits_vectors(kGroup, y) ? unpack_kernel<T, true> : unpack_kernel<T, false>, messages,
           y.cols, packets.data(), list.rows.data(), list.offset.data(), list.bits.data(),
           rows_of<T>(y), static_cast<float>(adds));
  });
}

void kernel(CudaBackend& backend, Queue& queue, const kernels::QuantizeResiduals& call) {
  call.in_steps([&](const auto& step) { kernel(backend, queue, step); });
}

}  // namespace atl::cuda
