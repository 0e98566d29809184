// A program with all that `atoll` does and one partitioner more:
//   own_partitioner partition DATA --parts 4 --method ldg
#include <algorithm>
#include <atoll/atoll.hpp>

// Linear deterministic greedy (Stanton & Kliot 2012, section 3): nodes come one by one, and each
// goes to the part that holds most of its neighbours, less the fuller that part is.
std::vector<std::int32_t> ldg(const atl::PartitionProblem& problem) {
  const std::vector<double> room = atl::load_bounds(problem);  // [parts, constraints]
  const std::int64_t constraints = problem.constraints;
  std::vector<double> load(static_cast<std::size_t>(problem.parts), 0);
  std::vector<std::int32_t> part_of(static_cast<std::size_t>(problem.graph.nodes()), -1);
  for (std::int64_t node = 0; node < problem.graph.nodes(); ++node) {
    std::vector<double> score(load.size(), 0);
    for (const std::int32_t neighbour : problem.graph.in_edges.row(node)) {
      if (part_of[neighbour] >= 0) score[part_of[neighbour]] += 1;
    }
    for (std::size_t part = 0; part < load.size(); ++part) {
      const double full = load[part] / room[part * constraints];
      score[part] = score[part] * (1 - full) - 1e-9 * full;  // the emptiest, where none has any
    }
    const auto best = std::max_element(score.begin(), score.end()) - score.begin();
    part_of[node] = static_cast<std::int32_t>(best);
    load[best] += problem.node_weights[node * constraints];
  }
  return part_of;
}

int main(int argc, char** argv) { return atl::main(argc, argv, {.partitioners = {{"ldg", ldg}}}); }
