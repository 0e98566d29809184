// Wire operations: gathered rows, quantized messages. Compiled without contraction to FMA.
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstring>
#include <limits>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cpu/elements.hpp"
#include "kernels/cpu/row_prefetch.hpp"
#include "kernels/cpu/wire_codes.hpp"
#include "kernels/cpu/wire_vectors.hpp"
#include "kernels/quantizer.hpp"

namespace atl {

namespace {

constexpr std::int64_t kWideMessage = 768;  // bytes
// Larger results have left the caches before they are read, and are copied past them.
constexpr std::size_t kStreamedBytes = std::size_t{16} << 20;
// Elements of one chunk of rows: far more than what is fetched ahead, which may be another
// thread's.
constexpr std::int64_t kChunkElements = 32768;
// Columns whose places, of 16 bits each, are held and added up in words.
constexpr std::int64_t kKeptPlaces = 1024;
static_assert(kKeptPlaces * 0xFFFF <= std::numeric_limits<std::int32_t>::max());

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
ATOLL_INLINE inline QuantizerLevels nearest_levels(const T* x, float scale, std::int64_t cols,
                                                   const QuantizerRange& range, int bits) {
  PlaceSums sums{.count = cols};
  if (bits > 4) return nearest_levels(range, bits, sums);
  const float zero = to_float(range.zero);
  const float step = to_float(step_of(range, 16));
  if (step > 0) {
    // Those of most rows are all kept, so that each is divided once.
    std::int32_t places[kKeptPlaces];
    const auto divide = [&](std::int64_t first, std::int64_t count) ATOLL_INLINE {
      std::int32_t sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t j = 0; j < count; ++j) {
        places[j] = nearest_place(load(x, first + j) * scale, zero, step);
        sum += places[j];
      }
      return sum;
    };
    for (std::int64_t first = 0; first < cols; first += kKeptPlaces) {
      sums.sum += divide(first, std::min(kKeptPlaces, cols - first));
    }
    const auto mean = static_cast<std::int32_t>(sums.mean());
    for (std::int64_t first = 0; first < cols; first += kKeptPlaces) {
      const std::int64_t count = std::min(kKeptPlaces, cols - first);
      if (cols > kKeptPlaces) divide(first, count);
      std::int32_t above = 0;
      std::int32_t sum_above = 0;
#pragma omp simd reduction(+ : above, sum_above)
      for (std::int64_t j = 0; j < count; ++j) {
        const std::int32_t p = places[j];
        above += p > mean ? 1 : 0;
        sum_above += p > mean ? p : 0;
      }
      sums.above += above;
      sums.sum_above += sum_above;
    }
  }
  return nearest_levels(range, bits, sums);
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

// Codes of a tile at 16 bits; returns the sum of f (1 - f) over it. step is above 0.
ATOLL_INLINE inline float round_tile(const Tile& tile, float zero, float step,
                                     std::uint16_t* __restrict codes) {
  constexpr std::int32_t kTop = 0xFFFF;
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (std::int64_t j = 0; j < tile.units * kWireUnit; ++j) {
    const double t = (static_cast<double>(tile.values[j]) - static_cast<double>(zero)) /
                     static_cast<double>(step);
    const auto below = static_cast<std::int32_t>(t);
    const double fraction = t - static_cast<double>(below);
    const std::int32_t code = below + (static_cast<double>(tile.noise[j]) < fraction ? 1 : 0);
    codes[j] = static_cast<std::uint16_t>(code < kTop ? code : kTop);
    const auto f = static_cast<float>(fraction);
    sum += f * (1.0F - f);
  }
  return sum;
}

// The common part of the messages of one row.
struct RowMessages {
  std::span<const std::int64_t> offset;
  std::span<const std::uint8_t> bits;
  std::span<float> variance;
  std::byte* packets;
  Isa isa;
  bool nearest;
  const std::byte* as_stored;  // the row, if it is sent as it is
  bool streamed;               // past the caches at 32 bits
  bool compares = false;       // at 1 bit, to the nearest, by compare_to_codes()
};

// Codes of a tile as they stand in messages of kBits bits; returns the sum of f (1 - f).
template <int kBits>
ATOLL_INLINE inline float quantize_tile(const RowMessages& row, const Tile& tile, float zero,
                                        float step, std::byte* packed) {
  if (kBits == 1 && row.compares) {
    compare_to_codes(row.isa, tile.values, tile.units * kWireUnit, zero, step / 2, packed);
    return 0;
  }
  if constexpr (kBits == 16) {
    std::uint16_t codes[kWireTile];
    const float sum = round_tile(tile, zero, step, codes);
    std::memcpy(packed, codes, sizeof(codes));
    return sum;
  } else {
    std::uint8_t codes[kWireTile];
    const float sum = round_to_codes(row.isa, tile.values, tile.noise, tile.units * kWireUnit, zero,
                                     step, (1 << kBits) - 1, codes);
    if constexpr (kBits < 8) {
      pack_units<kBits>(codes, tile.units, packed);
    } else {
      std::memcpy(packed, codes, sizeof(codes));
    }
    return sum;
  }
}

// The tile as it is stored in matrices of T: where it is, or in `packed`.
template <typename T>
ATOLL_INLINE inline const std::byte* stored_tile(const RowMessages& row, const Tile& tile,
                                                 std::byte* packed) {
  if (row.as_stored != nullptr) {
    return row.as_stored + tile.first * static_cast<std::int64_t>(sizeof(T));
  }
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
    from = stored_tile<T>(row, tile, packed);
    start = tile.first * static_cast<std::int64_t>(sizeof(T));
    bytes = static_cast<std::size_t>(tile.count) * sizeof(T);
  } else if (step > 0) {
    sum = quantize_tile<kBits>(row, tile, zero, step, packed);
  } else {
    std::memset(packed, 0, bytes);
  }
  for (std::size_t m = 0; m < row.bits.size(); ++m) {
    if (row.bits[m] != kBits) continue;
    std::byte* const to = row.packets + row.offset[m] + start;
    if (kBits == 32 && row.streamed) {
      copy_past_caches(to, from, bytes);
    } else {
      std::memcpy(to, from, bytes);
    }
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

// The place of a width in kWireBits; a place in it whatever `bits` is.
constexpr std::size_t index_of(unsigned bits) {
  return static_cast<std::size_t>(std::countr_zero(bits | 32U));
}

// Packs one row into its messages and returns its range.
template <typename T>
ATOLL_INLINE inline QuantizerRange pack_row(const T* x, float scale, std::int64_t cols,
                                            const RandomKey& key, std::uint64_t node,
                                            RowMessages row) {
  const QuantizerRange range = range_of_row(x, scale, cols);
  QuantizerLevels levels{range.zero, {}};
  float highest = std::numeric_limits<float>::max();
  if (row.nearest && !row.bits.empty() && row.bits[0] != 32) {
    levels = nearest_levels(x, scale, cols, range, row.bits[0]);
    highest =
        to_float(levels.zero) + static_cast<float>((1 << row.bits[0]) - 1) * to_float(levels.step);
    // Rows whose numbers are too coarse for the step have no code 1 for their highest ones.
    row.compares = row.bits[0] == 1 && highest - to_float(levels.zero) > to_float(levels.step) / 2;
  }
  const float zero = to_float(levels.zero);
  std::array<Width, kWireBits.size()> widths{};
  bool noisy = false;
  for (std::size_t m = 0; m < row.bits.size(); ++m) {
    Width& width = widths[index_of(row.bits[m])];
    width.wanted = true;
    if (row.bits[m] == 32) continue;
    const Bf16 step = row.nearest ? levels.step : step_of(range, row.bits[m]);
    width.step = to_float(step);
    noisy = noisy || width.step > 0;
    const std::uint32_t metadata = metadata_word(levels.zero, step);
    std::memcpy(row.packets + row.offset[m], &metadata, sizeof(metadata));
  }
  Tile tile;
  for (tile.first = 0; tile.first < cols; tile.first += kWireTile) {
    if (noisy || row.as_stored == nullptr) {
      load_tile(x, scale, cols, zero, tile);
    } else {
      tile.count = std::min(kWireTile, cols - tile.first);
    }
    if (noisy && row.nearest && !row.compares) {
      // std::min and std::max would be calls by reference, which are not vectorised here.
#pragma omp simd
      for (std::int64_t j = 0; j < tile.units * kWireUnit; ++j) {
        const float value = tile.values[j] < zero ? zero : tile.values[j];
        tile.values[j] = highest < value ? highest : value;
        tile.noise[j] = 0.5F;
      }
    } else if (noisy && !row.nearest) {
      draw_noise(row.isa, key, node, tile.first, tile.count, tile.noise);
    }
    send_tile<T>(row, tile, zero, widths, std::make_index_sequence<kWireBits.size()>{});
  }
  for (std::size_t m = 0; m < row.bits.size(); ++m) {
    const Width& width = widths[index_of(row.bits[m])];
    row.variance[m] = row.nearest ? 0.0F : width.sum * width.step * width.step;
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
ATOLL_INLINE inline void dequantize_codes(Isa, const Code* __restrict codes, std::int64_t count,
                                          float zero, float step, float* __restrict y) {
#pragma omp simd
  for (std::int64_t j = 0; j < count; ++j) {
    y[j] = static_cast<float>(static_cast<std::int32_t>(codes[j])) * step + zero;
  }
}
template <typename Code>
inline void dequantize_codes(Isa isa, const Code* codes, std::int64_t count, float zero, float step,
                             Bf16* y) {
  dequantize_to_bf16(isa, codes, count, zero, step, y);
}

// Where a message goes: past the caches, or added to what the row holds.
struct Unpacking {
  Isa isa;
  bool streamed;
  int adds;  // DequantizeRows::adds
};

// y += sign * tile.
template <typename T>
ATOLL_INLINE inline void add_tile(int sign, const T* __restrict tile, std::int64_t count,
                                  T* __restrict y) {
  const auto factor = static_cast<float>(sign);
#pragma omp simd
  for (std::int64_t j = 0; j < count; ++j) store(y, j, load(y, j) + factor * load(tile, j));
}

template <int kBits, typename T>
ATOLL_INLINE inline void dequantize_row(const Unpacking& how, const std::byte* message,
                                        std::int64_t cols, T* y) {
  if (kBits == 32 && how.adds == 0) {
    const std::size_t bytes = static_cast<std::size_t>(cols) * sizeof(T);
    if (how.streamed) {
      copy_past_caches(y, message, bytes);
    } else {
      std::memcpy(y, message, bytes);
    }
    return;
  }
  float zero = 0;
  float step = 0;
  if constexpr (kBits != 32) {
    std::uint32_t metadata;
    std::memcpy(&metadata, message, sizeof(metadata));
    zero = to_float(Bf16{static_cast<std::uint16_t>(metadata)});
    step = to_float(Bf16{static_cast<std::uint16_t>(metadata >> 16U)});
  }
  T values[kWireTile];
  for (std::int64_t first = 0; first < cols; first += kWireTile) {
    const std::int64_t count = std::min(kWireTile, cols - first);
    const std::byte* packed = message + kWireMetadataBytes + first * kBits / 8;
    T* const to = how.adds == 0 ? y + first : values;
    if constexpr (kBits == 32) {
      std::memcpy(to, message + first * static_cast<std::int64_t>(sizeof(T)),
                  static_cast<std::size_t>(count) * sizeof(T));
    } else if constexpr (kBits == 16) {
      std::uint16_t codes[kWireTile];
      std::memcpy(codes, packed, tile_bytes(kBits, count));
      dequantize_codes(how.isa, codes, count, zero, step, to);
    } else if constexpr (kBits == 8) {
      const auto* codes = reinterpret_cast<const std::uint8_t*>(packed);
      dequantize_codes(how.isa, codes, count, zero, step, to);
    } else if constexpr (kBits == 1 && std::is_same_v<T, float>) {
      std::byte bits[kWireTile / 8] = {};
      std::memcpy(bits, packed, tile_bytes(1, count));
      choose_by_codes(how.isa, bits, (count + 15) / 16 * 16, zero, step + zero, values);
      if (how.adds == 0) std::memcpy(to, values, static_cast<std::size_t>(count) * sizeof(T));
    } else {
      std::uint8_t codes[kWireTile];
      unpack_tile<kBits>(packed, count, codes);
      dequantize_codes(how.isa, codes, count, zero, step, to);
    }
    if (how.adds != 0) add_tile(how.adds, values, count, y + first);
  }
}

template <typename T, std::size_t... kIndex>
ATOLL_INLINE inline void dequantize_row(const Unpacking& how, int bits, const std::byte* message,
                                        std::int64_t cols, T* y, std::index_sequence<kIndex...>) {
  (
      [&]() ATOLL_INLINE {
        if (bits == kWireBits[kIndex]) dequantize_row<kWireBits[kIndex]>(how, message, cols, y);
      }(),
      ...);
}

}  // namespace

void kernel(CpuBackend& backend, Queue&, const kernels::GatherRows& call) {
  const auto& [x, rows, scale, y] = call;
  backend.for_rows(y.rows, x.cols, kChunkElements, [&](RowRange range) {
    run_vectorised(backend.isa(), x.dtype, [&]<typename T>(T) ATOLL_INLINE {
      const Prefetcher<T> prefetcher(x, rows);
      for (std::int64_t k = range.begin; k < range.end; ++k) {
        const std::int64_t row = to_index(rows[k]);
        prefetcher.before(k);
        const T* from = x.row<T>(row);
        T* __restrict to = y.row<T>(k);
        const float factor = scale.empty() ? 1.0F : scale[row];
#pragma omp simd
        for (std::int64_t j = 0; j < x.cols; ++j) store(to, j, factor * load(from, j));
      }
    });
  });
}

void kernel(CpuBackend& backend, Queue&, const kernels::QuantizeRows& call) {
  const auto& [x, list, scale, rounding, packets, trace] = call;
  const RandomKey key = rounding.key_now();
  const auto rows = static_cast<std::int64_t>(list.rows.size());
  const bool streamed = packets.size() >= kStreamedBytes;
  backend.for_rows(rows, x.cols, kChunkElements, [&](RowRange range) {
    std::int64_t bad = std::numeric_limits<std::int64_t>::max();
    run_vectorised(backend.isa(), x.dtype, [&]<typename T>(T) ATOLL_INLINE {
      const Prefetcher<T> prefetcher(x, list.rows);
      for (std::int64_t k = range.begin; k < range.end; ++k) {
        const std::int64_t row = to_index(list.rows[k]);
        prefetcher.before(k);
        const auto first = static_cast<std::size_t>(list.first[k]);
        const auto count = static_cast<std::size_t>(list.first[k + 1]) - first;
        const T* const x_row = x.row<T>(row);
        const RowMessages messages{
            list.offset.subspan(first, count),
            list.bits.subspan(first, count),
            trace.variance.subspan(first, count),
            packets.data(),
            backend.isa(),
            rounding.nearest,
            scale.empty() ? reinterpret_cast<const std::byte*>(x_row) : nullptr,
            streamed};
        const QuantizerRange found =
            pack_row(x_row, scale.empty() ? 1.0F : scale[row], x.cols, key,
                     static_cast<std::uint64_t>(to_index(rounding.row_ids[row])), messages);
        trace.range[k] = found.range;
        if (found.bad) bad = std::min(bad, k);
      }
    });
    if (streamed) finish_copies();
    lower(trace.bad[0], bad);
  });
}

// Row by row, each in the first cache from when it is read until what is kept of it is written.
void kernel(CpuBackend& backend, Queue&, const kernels::QuantizeResiduals& call) {
  const auto& [x, rows, scale, sign, kept, residuals, wanted, list, rounding, packets, trace] =
      call;
  const std::int64_t cols = x.cols;
  const Unpacking unpacking{backend.isa(), false, -sign};
  backend.for_rows(kept.rows, cols, kChunkElements, [&](RowRange range) {
    std::int64_t bad = std::numeric_limits<std::int64_t>::max();
    run_vectorised(backend.isa(), x.dtype, [&]<typename T>(T) ATOLL_INLINE {
      const Prefetcher<T> prefetcher(x, rows);
      auto k =
          std::ranges::lower_bound(list.rows, LocalId{static_cast<std::int32_t>(range.begin)}) -
          list.rows.begin();
      for (std::int64_t m = range.begin; m < range.end; ++m) {
        prefetcher.before(m);
        const bool sent = k < std::ssize(list.rows) && to_index(list.rows[k]) == m;
        if (!sent && !wanted && sign < 0) continue;
        const std::int64_t row = to_index(rows[m]);
        const T* const from = x.row<T>(row);
        const float factor = scale.empty() ? 1.0F : scale[row];
        T* __restrict const held = kept.row<T>(m);
        // Where nobody wants them, all of a thread's are made in one place.
        T* __restrict const residual = residuals.row<T>(wanted ? m : range.begin);
#pragma omp simd
        for (std::int64_t j = 0; j < cols; ++j) store(residual, j, factor * load(from, j));
        const auto weight = static_cast<float>(sign);
#pragma omp simd
        for (std::int64_t j = 0; j < cols; ++j) {
          store(residual, j, load(residual, j) + weight * load(held, j));
        }
        if (sign > 0) std::memcpy(held, residual, static_cast<std::size_t>(cols) * sizeof(T));
        if (!sent) continue;
        const auto place = static_cast<std::size_t>(k);
        const RowMessages messages{list.offset.subspan(place, 1),
                                   list.bits.subspan(place, 1),
                                   trace.variance.subspan(place, 1),
                                   packets.data(),
                                   backend.isa(),
                                   true,
                                   reinterpret_cast<const std::byte*>(residual),
                                   false};
        const QuantizerRange found = pack_row(residual, 1.0F, cols, {}, 0, messages);
        trace.range[k] = found.range;
        if (found.bad) bad = std::min<std::int64_t>(bad, k);
        dequantize_row(unpacking, list.bits[k], packets.data() + list.offset[k], cols, held,
                       std::make_index_sequence<kWireBits.size()>{});
        ++k;
      }
    });
    lower(trace.bad[0], bad);
  });
}

void kernel(CpuBackend& backend, Queue&, const kernels::DequantizeRows& call) {
  const auto& [packets, list, y, adds] = call;
  const auto messages = static_cast<std::int64_t>(list.rows.size());
  const auto bytes =
      static_cast<std::int64_t>(packets.size()) / std::max<std::int64_t>(1, messages);
  const std::int64_t far = rows_ahead(bytes, kBytesAheadL2);
  const std::int64_t near = rows_ahead(bytes, kBytesAheadL1);
  // Packets are read in order: only where little is computed does the machine not keep up by
  // itself.
  const bool ahead = bytes >= kWideMessage;
  const Unpacking how{backend.isa(), packets.size() >= kStreamedBytes && adds == 0, adds};
  backend.for_rows(messages, y.cols, [&](RowRange range) {
    run_vectorised(backend.isa(), y.dtype, [&]<typename T>(T) ATOLL_INLINE {
      for (std::int64_t m = range.begin; m < range.end; ++m) {
        if (ahead && m + far < messages) {
          prefetch<2>(packets.data() + list.offset[m + far], bytes);
          prefetch<3>(packets.data() + list.offset[m + near], bytes);
        }
        dequantize_row(how, list.bits[m], packets.data() + list.offset[m], y.cols,
                       y.row<T>(to_index(list.rows[m])),
                       std::make_index_sequence<kWireBits.size()>{});
      }
    });
    if (how.streamed) finish_copies();
  });
}

}  // namespace atl
