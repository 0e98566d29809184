#include "engine/training/replay_options.hpp"

#include <charconv>

#include "base/error.hpp"

namespace atl {

namespace {

constexpr const char* kAllNodes = "all";
constexpr std::int64_t kMostReplayed = std::int64_t{1} << 40;

}  // namespace

const char* to_string(ReplaySelect select) {
  switch (select) {
    case ReplaySelect::kRandom:
      return "random";
    case ReplaySelect::kDegree:
      return "degree";
    case ReplaySelect::kCover:
      return "cover";
  }
  return "";
}

const char* to_string(ReplayWeights weights) {
  return weights == ReplayWeights::kMatch ? "match" : "none";
}

std::string to_string(const ReplayCount& count) {
  return count == ReplayCount() ? kAllNodes : std::to_string(count.nodes);
}

ReplayCount parse_replay_count(const std::string& text) {
  if (text == kAllNodes) return {};
  ReplayCount count;
  const char* const end = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data(), end, count.nodes);
  if (error != std::errc() || parsed != end || count.nodes < 0 || count.nodes > kMostReplayed) {
    fail_option("--replay {}: allowed are {}, and whole numbers from 0 to {}", text, kAllNodes,
                kMostReplayed);
  }
  return count;
}

}  // namespace atl
