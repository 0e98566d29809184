#include "datasets/relational_graph.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace atl {

namespace {

// Uniform in [0, limit).
std::int64_t scaled_word(std::uint32_t word, std::int64_t limit) {
  return static_cast<std::int64_t>(std::uint64_t{word} * static_cast<std::uint64_t>(limit) >> 32U);
}

}  // namespace

RelationalGraph::RelationalGraph(const RelationalSpec& spec)
    : spec_(spec),
      edge_key_(generator_key(spec.seed, GeneratorPurpose::kEdges)),
      class_key_(generator_key(spec.seed, GeneratorPurpose::kLabels)) {
  ATOLL_ASSERT(spec.classes >= 1 && spec.nodes >= spec.classes &&
               spec.relations % spec.classes == 0);
}

std::uint64_t RelationalGraph::edges() const {
  return static_cast<std::uint64_t>(spec_.nodes) * static_cast<std::uint64_t>(spec_.degree);
}

std::int32_t RelationalGraph::group(std::int64_t node) const {
  return static_cast<std::int32_t>(node % spec_.classes);
}

Edge RelationalGraph::edge(std::uint64_t index) const {
  const std::uint64_t target = index / static_cast<std::uint64_t>(spec_.degree);
  const std::int64_t drawn = scaled_word(random_block(class_key_, target, 0)[0], spec_.classes);
  const PhiloxBlock choice = random_block(edge_key_, index, 0);
  const PhiloxBlock member = random_block(edge_key_, index, 1);
  const std::int64_t relation = scaled_word(choice[0], spec_.relations);
  const bool agrees = uniform53(choice[1], choice[2]) < spec_.agreement;
  const std::int64_t vote = agrees ? drawn : scaled_word(choice[3], spec_.classes);
  const std::int64_t group = (vote + spec_.relations - relation) % spec_.classes;
  // Nodes of the group are group, group + classes, ...
  const std::int64_t members = (spec_.nodes - group + spec_.classes - 1) / spec_.classes;
  const std::int64_t source = group + spec_.classes * scaled_word(member[0], members);
  return {static_cast<std::int32_t>(source), static_cast<std::int32_t>(target), 1,
          static_cast<std::uint16_t>(relation)};
}

std::vector<std::int32_t> RelationalGraph::labels(const CsrView& in_edges,
                                                  std::span<const std::uint16_t> types) const {
  std::vector<std::int32_t> labels(static_cast<std::size_t>(in_edges.rows()), -1);
  std::vector<std::int64_t> votes(static_cast<std::size_t>(spec_.classes), 0);
  for (std::int64_t v = 0; v < in_edges.rows(); ++v) {
    const auto vote = [&](std::int64_t e) {
      return static_cast<std::int32_t>((group(in_edges.col_idx[e]) + types[e]) % spec_.classes);
    };
    const std::int64_t begin = in_edges.row_ptr[v];
    const std::int64_t end = in_edges.row_ptr[v + 1];
    for (std::int64_t e = begin; e < end; ++e) ++votes[vote(e)];
    std::int64_t most = 0;
    for (std::int64_t e = begin; e < end; ++e) {
      if (votes[vote(e)] <= most) continue;
      most = votes[vote(e)];
      labels[v] = vote(e);
    }
    for (std::int64_t e = begin; e < end; ++e) votes[vote(e)] = 0;
  }
  return labels;
}

}  // namespace atl
