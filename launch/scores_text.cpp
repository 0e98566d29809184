#include "launch/scores_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "engine/training/metric_names.hpp"

namespace atl {

namespace {

std::string shown(const Json& values, const char* split) {
  const Json& value = values.at(split);
  const bool known = value.is_number() && !std::isnan(value.get<double>());
  return known ? fmt::format("{:.4f}", value.get<double>()) : "-";
}

}  // namespace

std::string scores_text(const Json& result) {
  const auto chosen = result.at("metric").get<std::string>();
  std::vector<std::pair<std::string, const Json*>> lines = {{chosen, &result}};
  for (const auto& [field, values] : result.items()) {
    const std::optional<Metric> metric = metric_named(field);
    if (metric && shown_name(*metric) != chosen) lines.emplace_back(shown_name(*metric), &values);
  }
  std::size_t width = 0;
  for (const auto& [name, values] : lines) width = std::max(width, name.size());
  std::string text;
  for (const auto& [name, values] : lines) {
    text += fmt::format("  {:<{}}  train {}  valid {}  test {}\n", name, width,
                        shown(*values, "train"), shown(*values, "valid"), shown(*values, "test"));
  }
  if (!result.contains("undefined")) return text;
  for (const char* split : {"valid", "test"}) {
    const Json reason = result.at("undefined").value(split, Json());
    if (!reason.is_string()) continue;
    text += fmt::format("  {} of {} is undefined: {}\n", chosen, split, reason.get<std::string>());
  }
  return text;
}

}  // namespace atl
