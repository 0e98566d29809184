#include "engine/training/target_score.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "base/error.hpp"

namespace atl {

namespace {

constexpr const char* kNoTarget = "none";

}  // namespace

std::string to_string(const TargetScore& target) {
  return target.score ? fmt::format("{}", *target.score) : kNoTarget;
}

TargetScore parse_target(const std::string& text) {
  if (text == kNoTarget) return {};
  double score = 0;
  const char* const end = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data(), end, score);
  if (error != std::errc() || parsed != end || !std::isfinite(score)) {
    fail_option("--target {}: allowed are a score of --metric, such as 0.75, and {}", text,
                kNoTarget);
  }
  return {score};
}

}  // namespace atl
