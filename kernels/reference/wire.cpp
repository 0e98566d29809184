// Wire operations of the oracle. The one place of it that is not in double: messages are bytes that
// every backend must make alike, so the arithmetic is the one of kernels/wire.hpp, step by step.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/reference/elements.hpp"
#include "kernels/reference/reference_backend.hpp"

namespace atl {

namespace {

// A row that may be sent, or one that is bad: then zero and range are not used.
struct Extremes {
  float zero = 0;
  float range = std::numeric_limits<float>::quiet_NaN();
  bool bad = false;
};

Extremes extremes(const std::vector<float>& row) {
  Extremes found;
  for (const float value : row) found.bad = found.bad || !std::isfinite(value);
  if (found.bad) return found;
  const auto [least, most] = std::ranges::minmax(row);
  // A zero is sent as 0 even if it is -0, so that the bytes don't depend on which is found.
  found.zero = least == 0 ? 0 : to_float(to_bf16_down(least));
  const float range = (most == 0 ? 0 : most) - found.zero;
  // Rounding step up adds at most 2^-7 to what the greatest code stands for. Twice that must still
  // be a number on the receiver's side.
  const float reach = range + range / 64;
  found.bad = !std::isfinite(found.zero) || !std::isfinite(to_float(to_bf16_up(reach))) ||
              !std::isfinite(to_float(to_bf16_up(found.zero + reach)));
  if (!found.bad) found.range = range;
  return found;
}

// A number to be rounded to a code.
struct Position {
  std::int64_t below;  // floor(t)
  double fraction;     // t - floor(t)
};

template <typename Real>
Position position(float value, float zero, float step) {
  const Real t = (static_cast<Real>(value) - static_cast<Real>(zero)) / static_cast<Real>(step);
  const Real below = std::floor(t);
  return {static_cast<std::int64_t>(below), static_cast<double>(t - below)};
}

// Sets bits [first, first + bits) of zeroed bytes, the lowest first.
void put_bits(std::span<std::byte> bytes, std::int64_t first, int bits, std::int64_t code) {
  for (int bit = 0; bit < bits; ++bit) {
    const std::int64_t at = first + bit;
    if ((code >> bit & 1) != 0) bytes[at / 8] |= std::byte{1} << (at % 8);
  }
}

std::int64_t get_bits(std::span<const std::byte> bytes, std::int64_t first, int bits) {
  std::int64_t code = 0;
  for (int bit = 0; bit < bits; ++bit) {
    const std::int64_t at = first + bit;
    if ((bytes[at / 8] >> (at % 8) & std::byte{1}) != std::byte{0}) code |= std::int64_t{1} << bit;
  }
  return code;
}

// Packs one row below 32 bits into zeroed bytes and returns the variance of its rounding.
float pack_codes(const std::vector<float>& row, const Extremes& extremes, int bits,
                 const RandomKey& key, GlobalId node, std::span<std::byte> message) {
  if (extremes.bad) return 0;
  const std::int64_t top = (std::int64_t{1} << bits) - 1;
  const Bf16 rounded_step = to_bf16_up(extremes.range / static_cast<float>(top));
  const Bf16 rounded_zero = to_bf16(extremes.zero);
  std::memcpy(message.data(), &rounded_zero, 2);
  std::memcpy(message.data() + 2, &rounded_step, 2);
  const float step = to_float(rounded_step);
  if (step == 0) return 0;
  double variance = 0;
  for (std::size_t j = 0; j < row.size(); ++j) {
    const Position t = bits == 16 ? position<double>(row[j], extremes.zero, step)
                                  : position<float>(row[j], extremes.zero, step);
    const float u =
        random_uniform(key, static_cast<std::uint64_t>(node), static_cast<std::uint32_t>(j));
    const std::int64_t up = static_cast<double>(u) < t.fraction ? 1 : 0;
    put_bits(message.subspan(kWireMetadataBytes), static_cast<std::int64_t>(j) * bits, bits,
             std::min(t.below + up, top));
    variance += t.fraction * (1 - t.fraction);
  }
  return static_cast<float>(variance * static_cast<double>(step) * static_cast<double>(step));
}

// Packs one row below 32 bits to the nearest codes.
void pack_nearest(const std::vector<float>& row, const Extremes& extremes, int bits,
                  std::span<std::byte> message) {
  if (extremes.bad) return;
  const std::int64_t top = (std::int64_t{1} << bits) - 1;
  const auto bf16 = [](double value) { return to_float(to_bf16(static_cast<float>(value))); };
  float zero = extremes.zero;
  float step = to_float(to_bf16_up(extremes.range / static_cast<float>(top)));
  if (bits <= 4) {
    const float unit = to_float(to_bf16_up(extremes.range / 65535.0F));
    std::vector<std::int64_t> places;
    for (const float value : row) {
      const float place = unit > 0 ? std::floor((value - zero) / unit + 0.5F) : 0.0F;
      places.push_back(std::min<std::int64_t>(static_cast<std::int64_t>(place), 65535));
    }
    const auto mean_of = [&](auto counts) {
      std::int64_t sum = 0;
      std::int64_t count = 0;
      for (const std::int64_t place : places) {
        if (counts(place)) sum += place, ++count;
      }
      return count > 0 ? sum / count : -1;
    };
    const std::int64_t mean = mean_of([](std::int64_t) { return true; });
    const std::int64_t low = mean_of([&](std::int64_t place) { return place <= mean; });
    std::int64_t high = mean_of([&](std::int64_t place) { return place > mean; });
    if (high < 0) high = low;
    const double between = bits == 4 ? 5 : 1;
    const double below = bits == 4 ? 5 : bits == 2 ? 1 : 0;
    const float nearer = bf16(static_cast<double>(high - low) * unit / between);
    const float lowest = bf16(zero + static_cast<double>(low) * unit - below * nearer);
    const double highest = lowest + static_cast<double>(top) * nearer;
    // Neither products of code and step nor differences to the lowest code may overflow.
    const double reach = extremes.range + below * nearer;
    if (std::isfinite(lowest) && std::isfinite(static_cast<float>(highest)) &&
        std::isfinite(static_cast<float>(reach)) &&
        std::isfinite(static_cast<float>(highest - lowest))) {
      step = nearer;
      zero = lowest;
    }
  }
  const Bf16 stored[] = {to_bf16(zero), to_bf16(step)};
  std::memcpy(message.data(), stored, sizeof(stored));
  if (step == 0) return;
  for (std::size_t j = 0; j < row.size(); ++j) {
    const Position t =
        bits == 16 ? position<double>(row[j], zero, step) : position<float>(row[j], zero, step);
    const std::int64_t code = t.below + (t.fraction > 0.5 ? 1 : 0);
    put_bits(message.subspan(kWireMetadataBytes), static_cast<std::int64_t>(j) * bits, bits,
             std::clamp<std::int64_t>(code, 0, top));
  }
}

// The bytes of a message, which must start and end where it may.
template <typename Byte>
std::span<Byte> message_of(std::span<Byte> packets, std::int64_t offset, int bits,
                           std::int64_t cols, DType storage) {
  const std::int64_t bytes = wire_row_bytes(bits, cols, storage);
  const std::int64_t unit = bits == 32 ? bytes_of(storage) : 4;
  ATOLL_ASSERT(offset >= 0 && offset % unit == 0 &&
                   offset + bytes <= static_cast<std::int64_t>(packets.size()),
               "message of {} bytes at {} of {}", bytes, offset, packets.size());
  return packets.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(bytes));
}

// The row as what is sent is made from it.
template <typename T>
std::vector<float> scaled_row(ConstMatrixView x, std::int64_t row, std::span<const float> scale) {
  std::vector<float> values;
  for (std::int64_t j = 0; j < x.cols; ++j) {
    const auto value = static_cast<float>(at<T>(x, row, j));
    values.push_back(scale.empty() ? value : value * scale[row]);
  }
  return values;
}

template <typename T>
void pack_values(const std::vector<float>& row, std::span<std::byte> message) {
  for (std::size_t j = 0; j < row.size(); ++j) {
    T stored;
    if constexpr (std::is_same_v<T, Bf16>) {
      stored = to_bf16(row[j]);
    } else {
      stored = row[j];
    }
    std::memcpy(message.data() + j * sizeof(T), &stored, sizeof(T));
  }
}

}  // namespace

void kernel(ReferenceBackend&, Queue&, const kernels::GatherRows& call) {
  const auto& [x, rows, scale, y] = call;
  with_value_type(x.dtype, [&]<typename T>(T) {
    for (std::int64_t k = 0; k < y.rows; ++k) {
      const std::int64_t row = to_index(rows[k]);
      ATOLL_ASSERT(0 <= row && row < x.rows, "row {} of {}", row, x.rows);
      // The product is rounded to f32 before it is stored, as in messages.
      using Value = Parameter<T>;
      const auto factor_of_row = static_cast<Value>(factor(scale, row, 1));
      for (std::int64_t j = 0; j < x.cols; ++j) {
        const Value product = static_cast<Value>(at<T>(x, row, j)) * factor_of_row;
        set<T>(y, k, j, static_cast<double>(product));
      }
    }
  });
}

void kernel(ReferenceBackend&, Queue&, const kernels::QuantizeRows& call) {
  const auto& [x, list, scale, rounding, packets, trace] = call;
  const RandomKey key = rounding.key_now();
  ATOLL_ASSERT(
      list.first.front() == 0 && list.first.back() == static_cast<std::int64_t>(list.bits.size()),
      "messages {}..{} of {}", list.first.front(), list.first.back(), list.bits.size());
  with_element(x.dtype, [&]<typename T>(T) {
    for (std::int64_t k = 0; k < static_cast<std::int64_t>(list.rows.size()); ++k) {
      const std::int64_t row = to_index(list.rows[k]);
      ATOLL_ASSERT(0 <= row && row < x.rows, "row {} of {}", row, x.rows);
      const std::vector<float> values = scaled_row<T>(x, row, scale);
      const Extremes found = extremes(values);
      trace.range[k] = found.range;
      if (found.bad) trace.bad[0] = std::min(trace.bad[0], k);
      for (std::int64_t m = list.first[k]; m < list.first[k + 1]; ++m) {
        const int bits = list.bits[m];
        const auto message = message_of(packets, list.offset[m], bits, x.cols, x.dtype);
        std::ranges::fill(message, std::byte{0});
        trace.variance[m] = 0;
        if (bits == 32) {
          pack_values<T>(values, message);
        } else if (rounding.nearest) {
          pack_nearest(values, found, bits, message);
        } else {
          trace.variance[m] = pack_codes(values, found, bits, key, rounding.row_ids[row], message);
        }
      }
    }
  });
}

void kernel(ReferenceBackend&, Queue&, const kernels::DequantizeRows& call) {
  const auto& [packets, list, y, adds] = call;
  with_element(y.dtype, [&]<typename T>(T) {
    for (std::size_t m = 0; m < list.rows.size(); ++m) {
      const std::int64_t row = to_index(list.rows[m]);
      ATOLL_ASSERT(0 <= row && row < y.rows, "row {} of {}", row, y.rows);
      const int bits = list.bits[m];
      const auto message = message_of(packets, list.offset[m], bits, y.cols, y.dtype);
      const MatrixView one = y.rows_in({row, row + 1});
      const std::vector<float> held = adds == 0 ? std::vector<float>() : scaled_row<T>(one, 0, {});
      if (bits == 32) {
        std::memcpy(y.row<T>(row), message.data(), message.size());
      } else {
        Bf16 zero;
        Bf16 step;
        std::memcpy(&zero, message.data(), 2);
        std::memcpy(&step, message.data() + 2, 2);
        for (std::int64_t j = 0; j < y.cols; ++j) {
          const std::int64_t code = get_bits(message.subspan(kWireMetadataBytes), j * bits, bits);
          const float above = static_cast<float>(code) * to_float(step);
          set<T>(y, row, j, static_cast<double>(above + to_float(zero)));
        }
      }
      if (adds == 0) continue;
      const std::vector<float> arrived = scaled_row<T>(one, 0, {});
      for (std::int64_t j = 0; j < y.cols; ++j) {
        const auto column = static_cast<std::size_t>(j);
        const float sum = held[column] + static_cast<float>(adds) * arrived[column];
        set<T>(y, row, j, static_cast<double>(sum));
      }
    }
  });
}

void kernel(ReferenceBackend& backend, Queue& queue, const kernels::QuantizeResiduals& call) {
  call.in_steps([&](const auto& step) { kernel(backend, queue, step); });
}

}  // namespace atl
