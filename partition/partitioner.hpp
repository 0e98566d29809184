// Partitioners: they decide which part owns each node. One source file per method; make_partitioner
// lists them all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "partition/graph_level.hpp"
#include "partition/local_graph.hpp"

namespace atl {

enum class PartitionObjective {
  kVolume,  // fewest halo rows (what training sends)
  kCut,     // fewest edges between parts
};
enum class PartitionBalance {
  kCost,        // what a node costs to train: kNodeCost + its degree
  kNodes,       // 1 per node
  kEdges,       // degree
  kEdgesTrain,  // degree and training nodes, both at once
};
// Whether nodes are moved behind the partitioner while that lowers the number of halo rows.
enum class Refinement {
  kOff,
  kOn,
  kStrong,  // also from other cuts, in several times the time (partition/starts.cpp)
};
std::string to_string(PartitionObjective objective);
std::string to_string(PartitionBalance balance);
std::string to_string(Refinement refinement);
// Throw Error{kOption} listing the valid names.
PartitionObjective parse_partition_objective(const std::string& text);
PartitionBalance parse_partition_balance(const std::string& text);
Refinement parse_refinement(const std::string& text);
std::vector<std::string> refinement_names();

// A node costs as much as this many edges: its dense work against one SpMM row read per edge.
inline constexpr std::int64_t kNodeCost = 48;
// Plans hold a few numbers per pair of parts.
inline constexpr int kMaxParts = 4096;
// METIS adds weights in 32 bits, so the weights of all nodes sum to at most this (and one per
// node).
inline constexpr std::int64_t kMostWeight = 1'500'000'000;
// A marginal node costs more by its share of the exchange; beyond this only the exchange counts.
inline constexpr double kMostMarginalCost = 100;

struct PartitionOptions {
  std::string method = "auto";
  Refinement refine = Refinement::kOn;  // see effective_refinement()
  PartitionObjective objective = PartitionObjective::kVolume;
  PartitionBalance balance = PartitionBalance::kCost;
  std::vector<double> weights;  // share of each part, any scale; empty: equal shares
  std::uint64_t seed = 1;
  // metis: how many cuts are made; the best is kept; 0: by the size of the graph and the method
  int cuts = 0;
  // The heaviest part may exceed its share by this fraction (and by one node).
  double imbalance = 0.03;
  std::int64_t split_index = 0;  // which split says what a training node is (kEdgesTrain only)
  // Numbers of parts that have fast links among themselves, e.g. {2, 2}: parts 0 and 1, 2 and 3.
  // The graph is cut with few halo rows between islands. Empty: all links are alike.
  std::vector<int> islands;
  // Renumbers the parts of the cut (islands count there): part p of the result, the one
  // `weights[p]` is for, is the cut's part part_order[p]. Empty: as they are.
  std::vector<int> part_order;
  // Above 0: a second cut in which the nodes that the first one left marginal weigh
  // 1 + marginal_cost times as much; the better balanced one is kept (see marginal_balance).
  double marginal_cost = 0;
  NodeOrder node_order = NodeOrder::kCommunities;  // inside each part
  // Method file: where one part per node is read from, and what that file's checksum is. Only the
  // latter says which cut it is.
  std::filesystem::path parts_file;
  std::string parts_checksum;
  // Where partitions are kept; empty: in the dataset's folder. Changes nothing about the result.
  std::filesystem::path parts_dir;
};
// Everything that influences the result, normalised: the text is hashed into the folder's name. A
// field that came later is there only when it is used, so that names of existing folders stay.
Json to_json(const PartitionOptions& options);
// The reverse, for a cut into `parts`. Throws Error{kInput} naming `file` and the field that is
// wrong.
PartitionOptions parse_partition_options(const Json& json, int parts,
                                         const std::filesystem::path& file);

// Shares of each part, positive, sum 1; empty weights: equal shares. Throws Error{kOption} unless
// there is one positive weight per part.
std::vector<double> normalised_shares(const std::vector<double>& weights, int parts);

// The input of a partitioner: options resolved to numbers.
struct PartitionProblem {
  GraphView graph;
  std::string method;  // for messages, which advise another one
  int parts = 1;
  PartitionObjective objective = PartitionObjective::kVolume;
  // Quantities to balance at once (1 or 2) and their value per node, [nodes, constraints].
  std::int64_t constraints = 1;
  std::vector<std::int32_t> node_weights;
  std::vector<double> shares;  // per part, positive, sum 1
  double imbalance = 0.03;
  std::uint64_t seed = 1;
  int cuts = 1;
  Refinement refine = Refinement::kOn;          // as effective_refinement() says
  std::vector<int> islands;                     // as in the options; empty if they change nothing
  mutable std::shared_ptr<const Csr> reversed;  // see out_edges; copies share it
};
// The structure of the graph's out-edges, empty for a symmetric graph. Made when it is asked for
// first, which may not be by two threads at once.
CsrView out_edges(const PartitionProblem& problem);
// Throws Error{kOption} for options that no graph of so many nodes can be cut by: more parts than
// nodes, a wrong number of weights, an unknown method, ...
void check_partition_options(std::int64_t nodes, int parts, const PartitionOptions& options);
// `split` (one entry per node, 0 = training) is needed for kEdgesTrain only. Throws Error{kOption}
// as check_partition_options, and for a split without training nodes that is needed.
PartitionProblem make_partition_problem(const GraphView& graph, int parts,
                                        const PartitionOptions& options,
                                        std::span<const std::uint8_t> split);

// Returns one part per node; there are at least two parts, and at least one node per part. Knows
// nothing of islands. May leave parts empty or too heavy: partition_graph repairs that.
using Partitioner = std::function<std::vector<std::int32_t>(const PartitionProblem& problem)>;
std::vector<std::string> partition_methods();
// A partitioner of a program's own. `cut` gets the graph, the number of parts, the nodes' weights
// and the shares of the parts, and returns one part per node, 0 to problem.parts - 1, always the
// same for the same problem. What follows is not its affair: empty and too heavy parts are
// repaired, and with --refine on nodes are moved while that saves halo rows.
struct PartitionMethod {
  std::string name;
  std::vector<std::int32_t> (*cut)(const PartitionProblem& problem) = nullptr;
};
// From now on --method knows them. For the program's start: flags and checks are made from the
// names once. Throws Error{kOption} for a name that is taken or no word, or if there is no
// function. A partition says by name how it was cut, so a function that cuts otherwise wants
// another name.
void add_partition_methods(const std::vector<PartitionMethod>& methods);
// How cuts of a method are refined unless options say otherwise: random and contiguous are wanted
// for what they are, and a cut from a file was made as its maker wanted it.
Refinement default_refinement(const std::string& method);
// options.refine where it has an effect: with objective cut only on a cut from a file, where it
// says that empty and heavy parts may be mended.
Refinement effective_refinement(const PartitionOptions& options);
// Throws Error{kOption} listing the valid names.
void check_partition_method(const std::string& method);
// Throws as check_partition_method.
Partitioner make_partitioner(const PartitionOptions& options);
// Checksum that names a file of parts. Throws Error{kInput} if it can't be read.
std::string parts_file_checksum(const std::filesystem::path& file);

// The partitioners, by the names of their methods.
std::vector<std::int32_t> cut_auto(const PartitionProblem& problem);
std::vector<std::int32_t> cut_metis(const PartitionProblem& problem);
std::vector<std::int32_t> cut_communities(const PartitionProblem& problem);
std::vector<std::int32_t> cut_random(const PartitionProblem& problem);
std::vector<std::int32_t> cut_contiguous(const PartitionProblem& problem);
Partitioner cut_file(const PartitionOptions& options);  // made for options.parts_file
// METIS on a graph with each edge in both directions and no loops, the problem's own or a
// contracted one.
std::vector<std::int32_t> cut_level_by_metis(const GraphLevel& graph,
                                             const PartitionProblem& problem);
// Throws Error{kInput} if METIS, built with 32-bit indices, can't hold such a graph; `entries`
// counts the undirected structure, each edge twice. `method`: the one that is in use.
void check_metis_limits(std::int64_t nodes, std::int64_t entries, const std::string& method);

// Partitions, repairs, validates. The result is a function of graph and options only.
std::vector<std::int32_t> partition_graph(const GraphView& graph, int parts,
                                          const PartitionOptions& options,
                                          std::span<const std::uint8_t> split);

// Threads that cut a graph of so many nodes: waking others costs small graphs more than they save.
int cutting_threads(std::int64_t nodes);

// Facts known of a graph before it is read.
struct GraphSize {
  std::int64_t nodes;
  std::int64_t edges;  // as stored
  bool symmetric;
};
// Memory that cutting takes at most beside the graph, in bytes.
std::int64_t most_cutting_bytes(const GraphSize& graph, int parts, const PartitionOptions& options);
// Options of the cut most like this one that `available` bytes suffice for, as they stand on a
// command line; empty if there is none.
std::string options_for_memory(const GraphSize& graph, int parts, const PartitionOptions& options,
                               std::int64_t available);

// The steps of partition_graph. All are deterministic.
//
// Cuts, island by island if there are any, and repairs; `problem.parts` >= 1.
std::vector<std::int32_t> cut_graph(const Partitioner& partitioner,
                                    const PartitionProblem& problem);
// With Refinement::kStrong: fewer rows, never more, by combining the cut with others that `auto`
// makes from other seeds. Where Multilevel::detailed().
void combine_with_other_starts(const PartitionProblem& problem, std::vector<std::int32_t>& part_of);
// The cut with fewer rows between islands of two: into islands and then each into its parts, or
// flat and then gathered into islands.
std::vector<std::int32_t> cut_islands(const Partitioner& partitioner,
                                      const PartitionProblem& problem);
// Part order[p] becomes part p; an empty order changes nothing.
void renumber_parts(std::span<const int> order, std::span<std::int32_t> part_of);
// 1 for every node with a neighbour in another part, in either direction.
std::vector<std::uint8_t> find_marginal(const GraphView& graph,
                                        std::span<const std::int32_t> part_of);
// Weights in which marginal nodes have 1 + cost times as much of the first quantity, on a finer
// scale, [nodes, constraints].
std::vector<std::int32_t> weigh_marginal(const PartitionProblem& problem,
                                         std::span<const std::uint8_t> marginal, double cost);
// The largest part's weight against its share, where the nodes that are marginal in this very
// partition weigh 1 + cost times as much of the first quantity; 1 is perfect.
double marginal_balance(const PartitionProblem& problem, std::span<const std::int32_t> part_of,
                        double cost);
// The second cut; if it is the better balanced one, `part_of` becomes it, and `problem` gets the
// weights that it was made with.
void recut_with_marginal_cost(const Partitioner& partitioner, double cost,
                              PartitionProblem& problem, std::vector<std::int32_t>& part_of);
inline constexpr const char* kOtherCut = "try another --seed or --method";
// One part in range for every node; else throws Error{kOption}.
void validate_assignment(const PartitionProblem& problem, std::span<const std::int32_t> part_of);
// Gives every empty part one node, taken from the part with most nodes.
void repair_empty_parts(const PartitionProblem& problem, std::span<std::int32_t> part_of);
// Moves nodes with few neighbours at home out of every part above its bound, into parts with room:
// METIS overshoots, above all with two quantities to balance.
void rebalance(const PartitionProblem& problem, std::span<std::int32_t> part_of);
// Complete, no empty part, every load within its bound; else throws Error{kOption} that names the
// part, the figures and what to change, `advice` among it.
void validate_partition(const PartitionProblem& problem, std::span<const std::int32_t> part_of,
                        const std::string& advice = kOtherCut);

// Weight of each part and its bound, (1 + imbalance) * share + the heaviest node; both
// [parts, constraints].
std::vector<std::int64_t> part_loads(const PartitionProblem& problem,
                                     std::span<const std::int32_t> part_of);
std::vector<double> load_bounds(const PartitionProblem& problem);
// Sums of the nodes' weights, [constraints], and what each part should hold of them,
// [parts, constraints].
std::vector<std::int64_t> total_weights(const PartitionProblem& problem);
std::vector<double> load_shares(const PartitionProblem& problem);
bool within_bounds(const PartitionProblem& problem, std::span<const std::int32_t> part_of);

}  // namespace atl
