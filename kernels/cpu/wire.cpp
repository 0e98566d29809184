// Wire operations: gathered rows, quantized messages. Compiled without contraction to FMA.
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <limits>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cpu/random_blocks.hpp"
#include "kernels/quantizer.hpp"

namespace atl {

namespace {

static_assert(std::endian::native == std::endian::little, "codes are little-endian");

// Columns worked on at once: what belongs to them stays in the first cache, and their codes fill
// whole words at every width.
constexpr std::int64_t kTile = 256;
constexpr std::int64_t kRowsAhead = 2;  // fetched before they are needed
constexpr std::int64_t kUnit = 64;      // of them, in vectors

// --- codes in memory ----------------------------------------------------------------------------

// Eight codes of kBits bits, one per byte, moved together; and back.
template <int kBits>
ATOLL_INLINE inline std::uint64_t join_codes(std::uint64_t codes) {
  if constexpr (kBits == 1) {
    codes = (codes | codes >> 7U) & 0x0003000300030003U;
    codes = (codes | codes >> 14U) & 0x0000000F0000000FU;
    return (codes | codes >> 28U) & 0xFFU;
  } else if constexpr (kBits == 2) {
    codes = (codes | codes >> 6U) & 0x000F000F000F000FU;
    codes = (codes | codes >> 12U) & 0x000000FF000000FFU;
    return (codes | codes >> 24U) & 0xFFFFU;
  } else {
    codes = (codes | codes >> 4U) & 0x00FF00FF00FF00FFU;
    codes = (codes | codes >> 8U) & 0x0000FFFF0000FFFFU;
    return (codes | codes >> 16U) & 0xFFFFFFFFU;
  }
}
template <int kBits>
ATOLL_INLINE inline std::uint64_t part_codes(std::uint64_t codes) {
  if constexpr (kBits == 1) {
    codes = (codes | codes << 28U) & 0x0000000F0000000FU;
    codes = (codes | codes << 14U) & 0x0003000300030003U;
    return (codes | codes << 7U) & 0x0101010101010101U;
  } else if constexpr (kBits == 2) {
    codes = (codes | codes << 24U) & 0x000000FF000000FFU;
    codes = (codes | codes << 12U) & 0x000F000F000F000FU;
    return (codes | codes << 6U) & 0x0303030303030303U;
  } else {
    codes = (codes | codes << 16U) & 0x0000FFFF0000FFFFU;
    codes = (codes | codes << 8U) & 0x00FF00FF00FF00FFU;
    return (codes | codes << 4U) & 0x0F0F0F0F0F0F0F0FU;
  }
}

// Eight codes of kBits bits.
template <int kBits>
using Eight = std::conditional_t<kBits == 1, std::uint8_t,
                                 std::conditional_t<kBits == 2, std::uint16_t, std::uint32_t>>;

// Bytes that hold the codes of `count` columns of one tile, filled up to words.
constexpr std::size_t tile_bytes(int bits, std::int64_t count) {
  return static_cast<std::size_t>(wire_code_bytes(bits, count));
}

template <int kBits>
ATOLL_INLINE inline void pack_units(const std::uint8_t* codes, std::int64_t units,
                                    std::byte* packed) {
  std::uint64_t apart[kTile / 8];
  Eight<kBits> joined[kTile / 8];
  std::memcpy(apart, codes, sizeof(apart));
  for (std::int64_t k = 0; k < units * (kUnit / 8); ++k) {
    joined[k] = static_cast<Eight<kBits>>(join_codes<kBits>(apart[k]));
  }
  std::memcpy(packed, joined, sizeof(joined));
}

template <int kBits>
ATOLL_INLINE inline void unpack_tile(const std::byte* packed, std::int64_t count,
                                     std::uint8_t* codes) {
  Eight<kBits> joined[kTile / 8] = {};
  std::uint64_t apart[kTile / 8];
  std::memcpy(joined, packed, tile_bytes(kBits, count));
  for (std::int64_t k = 0; k < kTile / 8; ++k) apart[k] = part_codes<kBits>(joined[k]);
  std::memcpy(codes, apart, sizeof(apart));
}

// --- packing ------------------------------------------------------------------------------------

// A tile of a scaled row with its noise, filled up to whole units with values equal to zero, whose
// codes are 0: padding, and loops without rests.
struct Tile {
  std::int64_t first = 0;
  std::int64_t count = 0;
  std::int64_t units = 0;
  float values[kTile];
  float noise[kTile];
};

ATOLL_INLINE inline void prefetch(const float* row, std::int64_t cols) {
  constexpr std::int64_t kLine = 64 / sizeof(float);
  for (std::int64_t j = 0; j < std::min(cols, 4 * kTile); j += kLine) __builtin_prefetch(row + j);
}

ATOLL_INLINE inline QuantizerRange range_of_row(const float* x, float scale, std::int64_t cols) {
  std::int32_t least = std::numeric_limits<std::int32_t>::max();
  std::int32_t most = std::numeric_limits<std::int32_t>::min();
#pragma omp simd reduction(min : least) reduction(max : most)
  for (std::int64_t j = 0; j < cols; ++j) {
    const std::int32_t key = order_key(x[j] * scale);
    least = key < least ? key : least;
    most = key > most ? key : most;
  }
  return quantizer_range(of_order_key(least), of_order_key(most));
}

ATOLL_INLINE inline void load_tile(const float* x, float scale, std::int64_t cols, float zero,
                                   Tile& tile) {
  tile.count = std::min(kTile, cols - tile.first);
  tile.units = (tile.count + kUnit - 1) / kUnit;
  const float* from = x + tile.first;
#pragma omp simd
  for (std::int64_t j = 0; j < tile.count; ++j) tile.values[j] = from[j] * scale;
  for (std::int64_t j = tile.count; j < tile.units * kUnit; ++j) tile.values[j] = zero;
}

ATOLL_INLINE inline void draw_noise(const RandomKey& key, std::uint64_t node, Tile& tile) {
  std::uint32_t words[kUnit];
  for (std::int64_t unit = 0; unit < tile.units; ++unit) {
    const std::int64_t col = tile.first + unit * kUnit;
    draw_blocks<kUnit / 4>(key, node, static_cast<std::uint32_t>(col / 4), words);
    float* noise = tile.noise + unit * kUnit;
#pragma omp simd
    for (int k = 0; k < kUnit; ++k) {
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
  for (std::int64_t j = 0; j < tile.units * kUnit; ++j) {
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
  std::int32_t wide[kTile];
  Code codes[kTile];
  const float sum = round_tile<Real>(tile, zero, step, (1 << kBits) - 1, wide);
#pragma omp simd
  for (std::int64_t j = 0; j < tile.units * kUnit; ++j) codes[j] = static_cast<Code>(wide[j]);
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

// Writes the tile into all messages of kBits bits; returns the sum of f (1 - f).
template <int kBits>
ATOLL_INLINE inline float send_tile(const RowMessages& row, const Tile& tile, float zero,
                                    float step) {
  std::byte packed[kTile * 4];
  const std::byte* from = packed;
  float sum = 0;
  if constexpr (kBits == 32) {
    from = reinterpret_cast<const std::byte*>(tile.values);
  } else if (step > 0) {
    sum = quantize_tile<kBits>(tile, zero, step, packed);
  } else {
    std::memset(packed, 0, tile_bytes(kBits, tile.count));
  }
  const std::int64_t start = (kBits == 32 ? 0 : kWireMetadataBytes) + tile.first * kBits / 8;
  for (std::size_t m = 0; m < row.bits.size(); ++m) {
    if (row.bits[m] != kBits) continue;
    std::memcpy(row.packets + row.offset[m] + start, from, tile_bytes(kBits, tile.count));
  }
  return sum;
}

// A row is quantized once per width.
struct Width {
  bool wanted = false;
  float step = 0;
  float sum = 0;  // of f (1 - f)
};

template <std::size_t... kIndex>
ATOLL_INLINE inline void send_tile(const RowMessages& row, const Tile& tile, float zero,
                                   std::array<Width, kWireBits.size()>& widths,
                                   std::index_sequence<kIndex...>) {
  (
      [&]() ATOLL_INLINE {
        Width& width = widths[kIndex];
        if (width.wanted) width.sum += send_tile<kWireBits[kIndex]>(row, tile, zero, width.step);
      }(),
      ...);
}

// Of a width in kWireBits; an index of it whatever `bits` is.
constexpr std::size_t index_of(unsigned bits) {
  return static_cast<std::size_t>(std::countr_zero(bits | 32U));
}

// Packs one row into its messages and returns its range.
ATOLL_INLINE inline QuantizerRange pack_row(const float* x, float scale, std::int64_t cols,
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
  for (tile.first = 0; tile.first < cols; tile.first += kTile) {
    load_tile(x, scale, cols, zero, tile);
    if (noisy) draw_noise(key, node, tile);
    send_tile(row, tile, zero, widths, std::make_index_sequence<kWireBits.size()>{});
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

template <typename Code>
ATOLL_INLINE inline void dequantize_codes(const Code* __restrict codes, std::int64_t count,
                                          float zero, float step, float* __restrict y) {
#pragma omp simd
  for (std::int64_t j = 0; j < count; ++j) {
    y[j] = static_cast<float>(static_cast<std::int32_t>(codes[j])) * step + zero;
  }
}

template <int kBits>
ATOLL_INLINE inline void dequantize_row(const std::byte* message, std::int64_t cols, float* y) {
  if constexpr (kBits == 32) {
    std::memcpy(y, message, static_cast<std::size_t>(cols) * sizeof(float));
  } else {
    std::uint32_t metadata;
    std::memcpy(&metadata, message, sizeof(metadata));
    const float zero = to_float(Bf16{static_cast<std::uint16_t>(metadata)});
    const float step = to_float(Bf16{static_cast<std::uint16_t>(metadata >> 16U)});
    for (std::int64_t first = 0; first < cols; first += kTile) {
      const std::int64_t count = std::min(kTile, cols - first);
      const std::byte* packed = message + kWireMetadataBytes + first * kBits / 8;
      if constexpr (kBits == 16) {
        std::uint16_t codes[kTile];
        std::memcpy(codes, packed, tile_bytes(kBits, count));
        dequantize_codes(codes, count, zero, step, y + first);
      } else if constexpr (kBits == 8) {
        const auto* codes = reinterpret_cast<const std::uint8_t*>(packed);
        dequantize_codes(codes, count, zero, step, y + first);
      } else {
        std::uint8_t codes[kTile];
        unpack_tile<kBits>(packed, count, codes);
        dequantize_codes(codes, count, zero, step, y + first);
      }
    }
  }
}

template <std::size_t... kIndex>
ATOLL_INLINE inline void dequantize_row(int bits, const std::byte* message, std::int64_t cols,
                                        float* y, std::index_sequence<kIndex...>) {
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
    run_vectorised(isa_, [&]() ATOLL_INLINE {
      for (std::int64_t k = range.begin; k < range.end; ++k) {
        const std::int64_t row = to_index(rows[k]);
        const float* from = x.row<float>(row);
        float* __restrict to = y.row<float>(k);
        const float factor = scale.empty() ? 1.0F : scale[row];
#pragma omp simd
        for (std::int64_t j = 0; j < x.cols; ++j) to[j] = factor * from[j];
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
    run_vectorised(isa_, [&]() ATOLL_INLINE {
      for (std::int64_t k = range.begin; k < range.end; ++k) {
        const std::int64_t row = to_index(plan.rows[k]);
        if (k + kRowsAhead < rows)
          prefetch(x.row<float>(to_index(plan.rows[k + kRowsAhead])), x.cols);
        const auto first = static_cast<std::size_t>(plan.first[k]);
        const auto count = static_cast<std::size_t>(plan.first[k + 1]) - first;
        const RowMessages messages{plan.offset.subspan(first, count),
                                   plan.bits.subspan(first, count),
                                   trace.variance.subspan(first, count), packets.data()};
        const QuantizerRange found =
            pack_row(x.row<float>(row), scale.empty() ? 1.0F : scale[row], x.cols, key,
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
    run_vectorised(isa_, [&]() ATOLL_INLINE {
      for (std::int64_t m = range.begin; m < range.end; ++m) {
        dequantize_row(plan.bits[m], packets.data() + plan.offset[m], y.cols,
                       y.row<float>(to_index(plan.rows[m])),
                       std::make_index_sequence<kWireBits.size()>{});
      }
    });
  });
}

}  // namespace atl
