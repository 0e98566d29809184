#include "engine/training/block_options.hpp"

#include <charconv>

#include "base/error.hpp"

namespace atl {

namespace {

constexpr const char* kByAccuracy = "accuracy";
constexpr int kLatestEpoch = 10000000;

}  // namespace

const char* to_string(BlockKind kind) {
  return kind == BlockKind::kCommunities ? "communities" : "random";
}

std::string to_string(const BlocksUntil& until) {
  return until.by_accuracy ? kByAccuracy : std::to_string(until.epoch);
}

BlocksUntil parse_blocks_until(const std::string& text) {
  if (text == kByAccuracy) return {.by_accuracy = true};
  BlocksUntil until;
  const char* const end = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data(), end, until.epoch);
  if (error != std::errc() || parsed != end || until.epoch < 0 || until.epoch > kLatestEpoch) {
    fail_option("--blocks-until {}: allowed are whole numbers from 0 to {}, and {}", text,
                kLatestEpoch, kByAccuracy);
  }
  return until;
}

}  // namespace atl
