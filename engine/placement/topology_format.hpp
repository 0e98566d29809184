// The common part of reader and writer of topology files: names of fields, and units that are
// written by hand against those that programs use.
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>

#include "engine/placement/topology.hpp"

namespace atl {

// A number in a file times factor / divisor is bytes, bytes/s, flop/s, s, s/byte or a share.
struct TopologyUnit {
  double factor = 1;
  double divisor = 1;

  double to_base(double value) const { return value * factor / divisor; }

  // The shortest decimal number that to_base turns into `base`; the nearest where there is none,
  // which is for numbers that no file gave.
  double from_base(double base) const {
    const double nearest = base * divisor / factor;
    constexpr int kMostDigits = 17;
    for (int digits = 1; digits <= kMostDigits; ++digits) {
      const double value = to_digits(nearest, digits);
      if (to_base(value) == base) return value;
    }
    for (const double towards : {0.0, HUGE_VAL}) {
      const double value = std::nextafter(nearest, towards);
      if (to_base(value) == base) return value;
    }
    return nearest;
  }

  // `base` rounded so that the file shows so many significant digits.
  double rounded(double base, int digits) const {
    return to_base(to_digits(base * divisor / factor, digits));
  }

 private:
  static double to_digits(double value, int digits) {
    return std::strtod(fmt::format("{:.{}e}", value, digits - 1).c_str(), nullptr);
  }
};

// By LinkClass.
inline constexpr const char* kLinkClassFields[] = {"within_island", "within_host", "between_hosts"};

inline constexpr TopologyUnit kGib{1 << 30, 1};
inline constexpr TopologyUnit kGbPerS{1e9, 1};
inline constexpr TopologyUnit kGflopPerS{1e9, 1};
inline constexpr TopologyUnit kMbitPerS{1e6 / 8, 1};
inline constexpr TopologyUnit kGbitPerS{1e9 / 8, 1};
inline constexpr TopologyUnit kMicroseconds{1, 1e6};
inline constexpr TopologyUnit kMsPerGb{1, 1e12};
inline constexpr TopologyUnit kPercent{1, 100};

// A figure of a device: a number, or rates by columns.
struct DeviceField {
  const char* name;
  TopologyUnit unit;
  double Device::*number = nullptr;
  std::vector<RateAtColumns> Device::*rates = nullptr;
  bool may_be_zero = false;  // and is, where a file doesn't have it
};
// In the order of a file.
inline constexpr DeviceField kDeviceFields[] = {
    {"memory_gib", kGib, &Device::memory_bytes},
    {"spmm_gb_per_s", kGbPerS, nullptr, &Device::spmm_bytes_per_s},
    {"gemm_gflop_per_s", kGflopPerS, nullptr, &Device::gemm_flop_per_s},
    {"elementwise_gb_per_s", kGbPerS, &Device::elementwise_bytes_per_s},
    {"quantize_gb_per_s", kGbPerS, &Device::quantize_bytes_per_s},
    {"progress_ms_per_gb", kMsPerGb, &Device::progress_s_per_byte, nullptr, true},
    {"polling_percent", kPercent, &Device::polling_share, nullptr, true},
};
// Calls body(value, unit) with a reference to each of these figures, rates one by one.
template <typename AnyDevice, typename Body>
void for_each_figure(AnyDevice& device, const Body& body) {
  for (const DeviceField& field : kDeviceFields) {
    if (field.number != nullptr) {
      body(device.*field.number, field.unit);
    } else {
      for (auto& rate : device.*field.rates) body(rate.per_s, field.unit);
    }
  }
}

}  // namespace atl
