// Memory that cutting takes, from what the structures hold and METIS was seen to take.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "partition/multilevel.hpp"
#include "partition/partitioner.hpp"

namespace atl {

namespace {

// Memory of every cut: a weight of a node, in 64 bits until it is scaled; parts, and lists of their
// nodes while they grow. 35 bytes were seen per node, of 3 million nodes, with one weight.
constexpr std::int64_t kPerWeight = 8 + 4;
constexpr std::int64_t kPerNode = 6 * 4;

// Memory of METIS. The products shape, 124 million entries in 8 parts, took 7.3 GB.
constexpr std::int64_t kMetisPerEntry = 60;
constexpr std::int64_t kMetisPerNode = 100;
// Memory of METIS on contracted graphs, where it counts edges between parts: 29 were seen on R-MAT.
constexpr std::int64_t kMetisPerContracted = 32;

// Memory of communities: weights once more, communities, wishes, sizes, the order with its keys;
// and the contracted graph, at worst as large as the graph itself. METIS cuts what is left.
constexpr std::int64_t kCommunitiesPerNode = 64;
constexpr std::int64_t kCommunitiesPerEntry = 8;

// Memory of halo rows (partition/halo_rows.hpp): a count of pins, the part it is of and the pins
// combined; a count of nets near a part; and of a node its moves, as they are proposed, gathered
// and sorted.
constexpr std::int64_t kPerPinCount = 4 + 2 + 4;
constexpr std::int64_t kPerNodeAndPart = 4;
constexpr std::int64_t kMovesPerNode = 64;

// An edge inside an island, in a list that grows.
constexpr std::int64_t kPerEdgeInside = 3 * 4;

class CuttingMemory {
 public:
  CuttingMemory(const GraphSize& graph, int parts, const PartitionOptions& options)
      : nodes_(graph.nodes),
        edges_(graph.edges),
        directions_(graph.symmetric ? 1 : 2),
        parts_(parts),
        options_(options),
        detailed_(Multilevel::detailed(directions_ * graph.edges)),
        compared_(Multilevel::compared(directions_ * graph.edges)) {}

  std::int64_t bytes() const {
    const bool rows_wanted = options_.objective == PartitionObjective::kVolume;
    const bool both = options_.method == "auto" && compared_ && rows_wanted;
    const bool metis =
        both || options_.method == "metis" || (options_.method == "auto" && detailed_);
    const bool communities =
        both || options_.method == "communities" || (options_.method == "auto" && !detailed_);
    std::int64_t cutting = metis ? of_metis() : 0;
    if (communities) cutting = std::max(cutting, of_communities());
    // Small graphs count rows on every level, with all levels there.
    const Refinement refinement = effective_refinement(options_);
    const bool refines = refinement != Refinement::kOff;
    const bool counts_on_levels = detailed_ && rows_wanted && (communities || refines);
    if (counts_on_levels) {
      cutting = std::max(cutting, of_communities() + of_rows());
    } else if (refines) {
      cutting = std::max(cutting, of_rows());
    }
    // Two cuts are made at the same time.
    if (both) cutting += std::max(of_metis(), of_rows());
    // So are further ones, each by both ways one after the other, beside the first.
    if (detailed_ && refinement == Refinement::kStrong) {
      const std::int64_t start = std::max(of_metis(), of_communities() + of_rows());
      return 3 * of_every_cut() + std::max(cutting, 2 * start);
    }
    return of_every_cut() + cutting;
  }

 private:
  std::int64_t entries() const { return directions_ * edges_; }
  std::int64_t transposed() const { return directions_ == 1 ? 0 : 4 * edges_ + 8 * nodes_; }
  std::int64_t of_every_cut() const {
    const std::int64_t constraints = options_.balance == PartitionBalance::kEdgesTrain ? 2 : 1;
    const std::int64_t weights = constraints * kPerWeight * nodes_;
    std::int64_t bytes = weights + kPerNode * nodes_;
    if (!options_.islands.empty()) bytes += weights + kPerNode * nodes_ + kPerEdgeInside * edges_;
    if (options_.marginal_cost > 0) bytes += weights + kPerNode * nodes_;
    return bytes;
  }
  std::int64_t of_metis() const {
    return transposed() + kMetisPerEntry * entries() + kMetisPerNode * nodes_;
  }
  std::int64_t of_last_level() const {
    const std::int64_t nodes = std::min(nodes_, Multilevel::nodes_of_last_level(parts_));
    return kMetisPerContracted * std::min(entries(), nodes * nodes) + kMetisPerNode * nodes;
  }
  std::int64_t of_communities() const {
    // Each level is smaller than the one before; where rows are counted, they have their nets, too.
    const std::int64_t levels = detailed_ ? 3 : 1;
    return transposed() + kCommunitiesPerNode * nodes_ + levels * kCommunitiesPerEntry * entries() +
           of_last_level();
  }
  std::int64_t of_rows() const {
    // A row counts no more parts than it has readers and itself.
    const std::int64_t counted = std::min(nodes_ * parts_, edges_ + nodes_);
    return transposed() + directions_ * kPerPinCount * counted + kPerNodeAndPart * nodes_ * parts_ +
           kMovesPerNode * nodes_;
  }

  std::int64_t nodes_;
  std::int64_t edges_;
  std::int64_t directions_;
  int parts_;
  const PartitionOptions& options_;
  bool detailed_;
  bool compared_;
};

}  // namespace

std::int64_t most_cutting_bytes(const GraphSize& graph, int parts,
                                const PartitionOptions& options) {
  return CuttingMemory(graph, parts, options).bytes();
}

std::string options_for_memory(const GraphSize& graph, int parts, const PartitionOptions& options,
                               std::int64_t available) {
  struct Way {
    const char* method;
    Refinement refine;  // at most
  };
  constexpr std::array<Way, 5> kWays = {{{"", Refinement::kOn},
                                         {"communities", Refinement::kOn},
                                         {"", Refinement::kOff},
                                         {"communities", Refinement::kOff},
                                         {"contiguous", Refinement::kOff}}};
  const bool made_here = options.method != "file";
  for (const Way& way : kWays) {
    PartitionOptions other = options;
    const bool changes_method = *way.method != '\0';
    if (changes_method) {
      const bool balances_two = options.balance == PartitionBalance::kEdgesTrain;
      if (!made_here || (balances_two && std::string(way.method) == "contiguous")) continue;
      other.method = way.method;
    }
    other.refine = std::min(way.refine, options.refine);
    if (other.method == options.method && other.refine == options.refine) continue;
    if (most_cutting_bytes(graph, parts, other) > available) continue;
    const std::string refinement = "--refine " + to_string(other.refine);
    if (!changes_method) return refinement;
    const bool says_refine = other.refine != default_refinement(other.method);
    return fmt::format("--method {}{}", way.method, says_refine ? " " + refinement : "");
  }
  return "";
}

}  // namespace atl
