#include "engine/training/stage_options.hpp"

#include "base/error.hpp"
#include "base/numbers.hpp"

namespace atl {

namespace {

constexpr const char* kEveryRank = "all";
constexpr int kMostStages = 4096;

}  // namespace

std::string to_string(const StageCount& count) {
  return count.all ? kEveryRank : std::to_string(count.number);
}

StageCount parse_stage_count(const std::string& text) {
  if (text == kEveryRank) return {.all = true};
  const auto number = parse_number<int>(text, 0, kMostStages);
  if (!number) {
    fail_option("--stages {}: allowed are whole numbers from 1 to {}, {}, and 0", text, kMostStages,
                kEveryRank);
  }
  return {.number = *number};
}

}  // namespace atl
