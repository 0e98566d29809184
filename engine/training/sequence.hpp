// The steps in which a dataset has grown, as the numbers of nodes that it has had: so that nodes
// can be measured by the step that they came with (docs/growing.md).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.hpp"

namespace atl {

class RankJob;

// The ids of nodes that came with one step: from the first up to the end.
struct NodeRange {
  std::int64_t first = 0;
  std::int64_t end = 0;

  bool operator==(const NodeRange&) const = default;
};

// Says what is wrong with `text`, a list of ascending numbers of nodes as "41125,53160"; "":
// nothing. An empty text is a list without numbers.
std::string sequence_problem(const std::string& text);

// The ranges of a dataset of so many nodes. Numbers beyond are of later steps; nodes behind the
// last number that counts are a step of their own.
std::vector<NodeRange> parse_sequence(const std::string& text, std::int64_t nodes);

// Measures the model of a job, as it is now, on the nodes of each range: "nodes", "test_nodes",
// "valid" and "test". Nothing is trained afterwards. Collective.
Json sequence_json(RankJob& job, const std::string& sequence, int epoch);

}  // namespace atl
