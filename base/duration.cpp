#include "base/duration.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

namespace atl {

namespace {

double seconds_of(char unit) {
  switch (unit) {
    case 's':
      return 1;
    case 'm':
      return 60;
    case 'h':
      return 3600;
    case 'd':
      return 86400;
    default:
      return 0;
  }
}

}  // namespace

std::optional<double> parse_duration(std::string_view text) {
  double total = 0;
  double last_unit = 1e9;  // units fall: 1h30m, not 30m1h
  if (text.empty()) return std::nullopt;
  while (!text.empty()) {
    double value = 0;
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), value, std::chars_format::fixed);
    const auto length = static_cast<std::size_t>(end - text.data());
    if (error != std::errc() || length == text.size() || !(value >= 0)) return std::nullopt;
    const double unit = seconds_of(text[length]);
    if (unit == 0 || unit >= last_unit || !std::isfinite(value)) return std::nullopt;
    total += value * unit;
    last_unit = unit;
    text.remove_prefix(length + 1);
  }
  return total;
}

std::string format_duration(double seconds) {
  if (seconds < 60) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<long long>(std::llround(seconds));
  const long long hours = whole / 3600;
  const long long minutes = whole / 60 % 60;
  return hours > 0 ? fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60)
                   : fmt::format("{}:{:02}", minutes, whole % 60);
}

}  // namespace atl
