// Wire operations: gathered rows, quantized messages. Compiled without contraction to FMA.
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <limits>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cpu/random_blocks.hpp"
#include "kernels/cpu/wire_codes.hpp"
#include "kernels/quantizer.hpp"

namespace atl {

namespace {

constexpr std::int64_t kRowsAhead = 6;  // fetched before they are needed

// --- packing ------------------------------------------------------------------------------------

// A tile of a scaled row with its noise, filled up to whole units with values equal to zero, whose
// codes are 0: padding, and loops without rests.
struct Tile {
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t units = 0;
  float values[kWireTile];
  float noise[kWireTile];
};

template <typename T>
ATOLL_INLINE inline void prefetch(const T* row, std::int64_t cols) {
  constexpr std::int64_t kLine = 64 / sizeof(T);
  for (std::int64_t j = 0; j < std::min(cols, 4 * kWireTile); j += kLine)
    __builtin_prefetch(row + j);
}

template <typename T>
ATOLL_INLINE inline QuantizerRange range_of_row(const T* x, float scale, std::int64_t cols) {
  std::int32_t least = std::numeric_limits<std::int32_t>::max();
  std::int32_t most = std::numeric_limits<std::int32_t>::min();
#pragma omp simd reduction(min : least) reduction(max : most)
  for (std::int64_t j = 0; j < cols; ++j) {
    const std::int32_t key = order_key(load(x, j) * scale);
    least = key < least ? key : least;
    most = key > most ? key : most;
  }
  return quantizer_range(of_order_key(least), of_order_key(most));
}

template <typename T>
ATOLL_INLINE inline void load_tile(const T* x, float scale, std::int64_t cols, float zero,
                                   Tile& tile) {
  tile.count = std::min(kWireTile, cols - tile.first);
  tile.units = (tile.count + kWireUnit - 1) / kWireUnit;
  const T* from = x + tile.first;
#pragma omp simd
  for (std::int64_t j = 0; j < tile.count; ++j) tile.values[j] = load(from, j) * scale;
  for (std::int64_t j = tile.count; j < tile.units * kWireUnit; ++j) tile.values[j] = zero;
}

ATOLL_INLINE inline void draw_noise(const RandomKey& key, std::uint64_t node, Tile& tile) {
  std::uint32_t words[kWireUnit];
  for (std::int64_t unit = 0; unit < tile.units; ++unit) {
    const std::int64_t col = tile.first + unit * kWireUnit;
    draw_blocks<kWireUnit / 4>(key, node, static_cast<std::uint32_t>(col / 4), words);
    float* noise = tile.noise + unit * kWireUnit;
#pragma omp simd
    for (int k = 0; k < kWireUnit; ++k) {
      noise[k] = static_cast<float>(static_cast<std::int32_t>(words[k] >> 8U)) * 0x1p-24F;
    }
  }
}

// Codes of a tile, and the sum of f (1 - f) over it. step is above 0.
template <typename Real>
ATOLL_INLINE inline float round_tile(const Tile& tile, float zero, float step, std::int32_t top,
                                     std::int32_t* __restrict codes) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t j = 0; j < tile.units * kWireUnit; ++j) {
    const Real t =
        (static_cast<Real>(tile.values[j]) - static_cast<Real>(zero)) / static_cast<Real>(step);
    const auto below = static_cast<std::int32_t>(t);
    const Real fraction = t - static_cast<Real>(below);
    const std::int32_t code = below + (static_cast<Real>(tile.noise[j]) < fraction ? 1 : 0);
    codes[j] = code < top ? code : top;
    const auto f = static_cast<float>(fraction);
    sum += f * (1.0F - f);
  }
  return sum;
}

// Codes of a tile as they stand in messages of kBits bits; returns the sum of f (1 - f).
template <int kBits>
ATOLL_INLINE inline float quantize_tile(const Tile& tile, float zero, float step,
                                        std::byte* packed) {
  using Real = std::conditional_t<kBits == 16, double, float>;
  using Code = std::conditional_t<kBits == 16, std::uint16_t, std::uint8_t>;
  std::int32_t wide[kWireTile];
  Code codes[kWireTile];
  const float sum = round_tile<Real>(tile, zero, step, (1 << kBits) - 1, wide);
#pragma omp simd
  for (std::int64_t j = 0; j < tile.units * kWireUnit; ++j) codes[j] = static_cast<Code>(wide[j]);
  if constexpr (kBits < 8) {
    pack_units<kBits>(codes, tile.units, packed);
  } else {
    std::memcpy(packed, codes, sizeof(codes));
  }
  return sum;
}

// What the messages of one row share.
struct RowMessages {
  std::span<const std::int64_t> offset;
  std::span<const std::uint8_t> bits;
  std::span<float> variance;
  std::byte* packets;
};

// The tile as it is stored in matrices of T, in `packed` or where it is.
template <typename T>
ATOLL_INLINE inline const std::byte* stored_tile(const Tile& tile, std::byte* packed) {
  if constexpr (std::is_same_v<T, float>) {
    return reinterpret_cast<const std::byte*>(tile.values);
  } else {
    T stored[kWireTile];
    convert_row(tile.values, tile.count, stored);
    std::memcpy(packed, stored, sizeof(stored));
    return packed;
  }
}

// Writes the tile into all messages of kBits bits of a row of T; returns the sum of f (1 - f).
template <typename T, int kBits>
ATOLL_INLINE inline float send_tile(const RowMessages& row, const Tile& tile, float zero,
                                    float step) {
  std::byte packed[kWireTile * 4];
  const std::byte* from = packed;
  float sum = 0;
  std::int64_t start = kWireMetadataBytes + tile.first * kBits / 8;
  std::size_t bytes = tile_bytes(kBits, tile.count);
  if constexpr (kBits == 32) {
    from = stored_tile<T>(tile, packed);
    start = tile.first * static_cast<std::int64_t>(sizeof(T));
    bytes = static_cast<std::size_t>(tile.count) * sizeof(T);
  } else if (step > 0) {
    sum = quantize_tile<kBits>(tile, zero, step, packed);
  } else {
    std::memset(packed, 0, bytes);
  }
  for (std::size_t m = 0; m < row.bits.size(); ++m) {
    if (row.bits[m] != kBits) continue;
    std::memcpy(row.packets + row.offset[m] + start, from, bytes);
  }
  return sum;
}

// A row is quantized once per width.
struct Width {
  bool wanted = false;
  float step = 0;
  float sum = 0;  // of f (1 - f)
};

template <typename T, std::size_t... kIndex>
ATOLL_INLINE inline void send_tile(const RowMessages& row, const Tile& tile, float zero,
                                   std::array<Width, kWireBits.size()>& widths,
                                   std::index_sequence<kIndex...>) {
  (
      [&]() ATOLL_INLINE {
        Width& width = widths[kIndex];
        if (!width.wanted) return;
        width.sum += send_tile<T, kWireBits[kIndex]>(row, tile, zero, width.step);
      }(),
      ...);
}

// Of a width in kWireBits; an index of it whatever `bits` is.
constexpr std::size_t index_of(unsigned bits) {
  return static_cast<std::size_t>(std::countr_zero(bits | 32U));
}

// Packs one row into its messages and returns its range.
template <typename T>
ATOLL_INLINE inline QuantizerRange pack_row(const T* x, float scale, std::int64_t cols,
                                            const RandomKey& key, std::uint64_t node,
                                            const RowMessages& row) {
  const QuantizerRange range = range_of_row(x, scale, cols);
  const float zero = to_float(range.zero);
  std::array<Width, kWireBits.size()> widths{};
  bool noisy = false;
  for (std::size_t m = 0; m < row.bits.size(); ++m) {
    Width& width = widths[index_of(row.bits[m])];
    width.wanted = true;
    if (row.bits[m] == 32) continue;
    const Bf16 step = step_of(range, row.bits[m]);
    width.step = to_float(step);
    noisy = noisy || width.step > 0;
    const std::uint32_t metadata = metadata_word(range.zero, step);
    std::memcpy(row.packets + row.offset[m], &metadata, sizeof(metadata));
  }
  Tile tile;
  for (tile.first = 0; tile.first < cols; tile.first += kWireTile) {
    load_tile(x, scale, cols, zero, tile);
    if (noisy) draw_noise(key, node, tile);
    send_tile<T>(row, tile, zero, widths, std::make_index_sequence<kWireBits.size()>{});
  }
  for (std::size_t m = 0; m < row.bits.size(); ++m) {
    const Width& width = widths[index_of(row.bits[m])];
    row.variance[m] = width.sum * width.step * width.step;
  }
  return range;
}

void lower(std::int64_t& least, std::int64_t candidate) {
  const std::atomic_ref<std::int64_t> shared(least);
  std::int64_t seen = shared.load();
  while (candidate < seen && !shared.compare_exchange_weak(seen, candidate)) {
  }
}

// --- unpacking ----------------------------------------------------------------------------------

template <typename Code, typename T>
ATOLL_INLINE inline void dequantize_codes(const Code* __restrict codes, std::int64_t count,
                                          float zero, float step, T* __restrict y) {
#pragma omp simd
  for (std::int64_t j = 0; j < count; ++j) {
    store(y, j, static_cast<float>(static_cast<std::int32_t>(codes[j])) * step + zero);
  }
}

template <int kBits, typename T>
ATOLL_INLINE inline void dequantize_row(const std::byte* message, std::int64_t cols, T* y) {
  if constexpr (kBits == 32) {
    std::memcpy(y, message, static_cast<std::size_t>(cols) * sizeof(T));
  } else {
    std::uint32_t metadata;
    std::memcpy(&metadata, message, sizeof(metadata));
    const float zero = to_float(Bf16{static_cast<std::uint16_t>(metadata)});
    const float step = to_float(Bf16{static_cast<std::uint16_t>(metadata >> 16U)});
    for (std::int64_t first = 0; first < cols; first += kWireTile) {
      const std::int64_t count = std::min(kWireTile, cols - first);
      const std::byte* packed = message + kWireMetadataBytes + first * kBits / 8;
      if constexpr (kBits == 16) {
        std::uint16_t codes[kWireTile];
        std::memcpy(codes, packed, tile_bytes(kBits, count));
        dequantize_codes(codes, count, zero, step, y + first);
      } else if constexpr (kBits == 8) {
        const auto* codes = reinterpret_cast<const std::uint8_t*>(packed);
        dequantize_codes(codes, count, zero, step, y + first);
      } else {
        std::uint8_t codes[kWireTile];
        unpack_tile<kBits>(packed, count, codes);
        dequantize_codes(codes, count, zero, step, y + first);
      }
    }
  }
}

template <typename T, std::size_t... kIndex>
ATOLL_INLINE inline void dequantize_row(int bits, const std::byte* message, std::int64_t cols, T* y,
                                        std::index_sequence<kIndex...>) {
  (
      [&]() ATOLL_INLINE {
        if (bits == kWireBits[kIndex]) dequantize_row<kWireBits[kIndex]>(message, cols, y);
      }(),
      ...);
}

}  // namespace

void CpuBackend::do_gather_rows(Queue&, ConstMatrixView x, std::span<const LocalId> rows,
                                std::span<const float> scale, MatrixView y) {
  for_chunks(y.rows, rows_per_chunk(x.cols), [&](RowRange range) {
    run_vectorised(isa_, x.dtype, [&]<typename T>(T) ATOLL_INLINE {
      for (std::int64_t k = range.begin; k < range.end; ++k) {
        const std::int64_t row = to_index(rows[k]);
        if (k + kRowsAhead < y.rows) prefetch(x.row<T>(to_index(rows[k + kRowsAhead])), x.cols);
        const T* from = x.row<T>(row);
        T* __restrict to = y.row<T>(k);
        const float factor = scale.empty() ? 1.0F : scale[row];
#pragma omp simd
        for (std::int64_t j = 0; j < x.cols; ++j) store(to, j, factor * load(from, j));
      }
    });
  });
}

void CpuBackend::do_quantize_rows(Queue&, ConstMatrixView x, const PackPlan& plan,
                                  std::span<const float> scale, const RoundingSpec& rounding,
                                  std::span<std::byte> packets, const PackTrace& trace) {
  const RandomKey key = rounding.key_now();
  const auto rows = static_cast<std::int64_t>(plan.rows.size());
  for_chunks(rows, rows_per_chunk(x.cols), [&](RowRange range) {
    std::int64_t bad = std::numeric_limits<std::int64_t>::max();
    run_vectorised(isa_, x.dtype, [&]<typename T>(T) ATOLL_INLINE {
      for (std::int64_t k = range.begin; k < range.end; ++k) {
        const std::int64_t row = to_index(plan.rows[k]);
        if (k + kRowsAhead < rows) prefetch(x.row<T>(to_index(plan.rows[k + kRowsAhead])), x.cols);
        const auto first = static_cast<std::size_t>(plan.first[k]);
        const auto count = static_cast<std::size_t>(plan.first[k + 1]) - first;
        const RowMessages messages{plan.offset.subspan(first, count),
                                   plan.bits.subspan(first, count),
                                   trace.variance.subspan(first, count), packets.data()};
        const QuantizerRange found =
            pack_row(x.row<T>(row), scale.empty() ? 1.0F : scale[row], x.cols, key,
                     static_cast<std::uint64_t>(to_index(rounding.row_ids[row])), messages);
        trace.range[k] = found.range;
        if (found.bad) bad = std::min(bad, k);
      }
    });
    lower(trace.bad[0], bad);
  });
}

void CpuBackend::do_dequantize_rows(Queue&, std::span<const std::byte> packets,
                                    const UnpackPlan& plan, MatrixView y) {
  const auto messages = static_cast<std::int64_t>(plan.rows.size());
  for_chunks(messages, rows_per_chunk(y.cols), [&](RowRange range) {
    run_vectorised(isa_, y.dtype, [&]<typename T>(T) ATOLL_INLINE {
      for (std::int64_t m = range.begin; m < range.end; ++m) {
        dequantize_row(plan.bits[m], packets.data() + plan.offset[m], y.cols,
                       y.row<T>(to_index(plan.rows[m])),
                       std::make_index_sequence<kWireBits.size()>{});
      }
    });
  });
}

}  // namespace atl
