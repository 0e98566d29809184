#include "engine/training/target_score.hpp"

#include <fmt/format.h>

#include <cmath>

#include "base/error.hpp"
#include "base/numbers.hpp"

namespace atl {

namespace {

constexpr const char* kNoTarget = "none";

}  // namespace

std::string to_string(const TargetScore& target) {
  return target.score ? fmt::format("{}", *target.score) : kNoTarget;
}

TargetScore parse_target(const std::string& text) {
  if (text == kNoTarget) return {};
  const auto score = parse_number<double>(text);
  if (!score || !std::isfinite(*score)) {
    fail_option("--target {}: allowed are a score of --metric, such as 0.75, and {}", text,
                kNoTarget);
  }
  return {*score};
}

}  // namespace atl
