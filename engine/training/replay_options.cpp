#include "engine/training/replay_options.hpp"

#include "base/error.hpp"
#include "base/numbers.hpp"

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
  const auto nodes = parse_number<decltype(ReplayCount::nodes)>(text, 0, kMostReplayed);
  if (!nodes) {
    fail_option("--replay {}: allowed are {}, and whole numbers from 0 to {}", text, kAllNodes,
                kMostReplayed);
  }
  return {*nodes};
}

}  // namespace atl
