#include "engine/training/sequence.hpp"

#include <fmt/format.h>

#include <optional>

#include "base/numbers.hpp"
#include "engine/training/rank_job.hpp"

namespace atl {

namespace {

std::optional<std::int64_t> node_count(const std::string& text) {
  return parse_number<std::int64_t>(text, 1);
}

}  // namespace

std::string sequence_problem(const std::string& text) {
  if (text.empty()) return "";
  std::int64_t before = 0;
  for (const std::string& piece : between_commas(text)) {
    const std::optional<std::int64_t> nodes = node_count(piece);
    if (!nodes || *nodes <= before) {
      return fmt::format(
          "'{}' in '{}' is no number of nodes above {}; allowed are whole numbers that ascend, as "
          "41125,53160",
          piece, text, before);
    }
    before = *nodes;
  }
  return "";
}

std::vector<NodeRange> parse_sequence(const std::string& text, std::int64_t nodes) {
  std::vector<NodeRange> ranges;
  std::int64_t first = 0;
  for (const std::string& piece : between_commas(text)) {
    const std::int64_t end = node_count(piece).value_or(nodes);
    if (end > nodes) break;
    ranges.push_back({first, end});
    first = end;
  }
  if (first < nodes) ranges.push_back({first, nodes});
  return ranges;
}

Json sequence_json(RankJob& job, const std::string& sequence, int epoch) {
  Json result = Json::array();
  const ConstMatrixView logits = job.trainer().queue_evaluation(epoch);
  for (const NodeRange& range : parse_sequence(sequence, job.data().dataset().nodes)) {
    const auto [metrics, test_nodes] = job.measure_range(logits, epoch, range);
    result.push_back({{"nodes", {range.first, range.end}},
                      {"test_nodes", test_nodes},
                      {"valid", metrics.valid},
                      {"test", metrics.test}});
  }
  return result;
}

}  // namespace atl
