#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/error.hpp"
#include "base/names.hpp"
#include "partition/partitioner.hpp"
#include "partition/scaled_weights.hpp"

namespace atl {

namespace {

constexpr NameTable<PartitionObjective, 2> kObjectives = {{
    {"volume", PartitionObjective::kVolume},
    {"cut", PartitionObjective::kCut},
}};
constexpr NameTable<PartitionBalance, 4> kBalances = {{
    {"cost", PartitionBalance::kCost},
    {"nodes", PartitionBalance::kNodes},
    {"edges", PartitionBalance::kEdges},
    {"edges,train", PartitionBalance::kEdgesTrain},
}};
constexpr NameTable<Refinement, 3> kRefinements = {{
    {"off", Refinement::kOff},
    {"on", Refinement::kOn},
    {"strong", Refinement::kStrong},
}};

// Seeds of METIS differ by up to 15 % in halo rows on arxiv, by 0.02 % on a graph of 124 million
// edges, where a cut takes minutes. `auto` has another cut to compare with where cuts take seconds.
int default_cuts(const GraphView& graph, const std::string& method) {
  constexpr std::int64_t kManyEdges = 20'000'000;
  constexpr std::int64_t kEdgesOfSeconds = 500'000;
  const std::int64_t most = method == "auto" ? kEdgesOfSeconds : kManyEdges;
  return graph.in_edges.nnz() > most ? 1 : 4;
}

// Mean of in- and out-degree, rounded up: forward reads the in-edges, backward the out-edges.
std::vector<std::int64_t> mean_degrees(const GraphView& graph) {
  const CsrView in = graph.in_edges;
  std::vector<std::int64_t> degree(graph.nodes());
  for (std::int64_t v = 0; v < graph.nodes(); ++v) {
    degree[v] = static_cast<std::int64_t>(in.row(v).size());
  }
  if (graph.symmetric) return degree;
  for (const std::int32_t source : in.col_idx) ++degree[source];
  for (std::int64_t& d : degree) d = (d + 1) / 2;
  return degree;
}

std::vector<std::vector<std::int64_t>> constraint_weights(const GraphView& graph,
                                                          const PartitionOptions& options,
                                                          std::span<const std::uint8_t> split) {
  const std::int64_t nodes = graph.nodes();
  if (options.balance == PartitionBalance::kNodes) return {std::vector<std::int64_t>(nodes, 1)};
  std::vector<std::int64_t> degree = mean_degrees(graph);
  if (options.balance == PartitionBalance::kCost) {
    for (std::int64_t& weight : degree) weight += kNodeCost;
    return {std::move(degree)};
  }
  // A graph without edges is balanced by nodes.
  if (std::ranges::all_of(degree, [](std::int64_t d) { return d == 0; })) {
    std::ranges::fill(degree, 1);
  }
  if (options.balance == PartitionBalance::kEdges) return {std::move(degree)};
  std::vector<std::int64_t> training(nodes, 0);
  if (!split.empty()) {
    ATOLL_ASSERT(static_cast<std::int64_t>(split.size()) == nodes);
    for (std::int64_t v = 0; v < nodes; ++v) training[v] = split[v] == 0 ? 1 : 0;
  }
  if (std::ranges::all_of(training, [](std::int64_t t) { return t == 0; })) {
    fail_option(
        "--balance edges,train: the dataset has no training nodes; allowed are cost, "
        "nodes, edges");
  }
  return {std::move(degree), std::move(training)};
}

// One island with all parts, or islands of one part each, are a flat cut.
bool matters(const std::vector<int>& islands) {
  return islands.size() > 1 && std::ranges::any_of(islands, [](int size) { return size > 1; });
}

// METIS computes with floats; smaller shares are those of no machine beside another.
void check_weights(const std::vector<double>& weights, int parts) {
  normalised_shares(weights, parts);
  constexpr double kMostRatio = 1e6;
  if (weights.empty()) return;
  const auto [least, most] = std::ranges::minmax(weights);
  if (most <= kMostRatio * least) return;
  fail_option("--weights: {} and {} found; the largest may be {} times the smallest", least, most,
              kMostRatio);
}

void check_islands(const std::vector<int>& islands, int parts) {
  if (islands.empty()) return;
  const auto sum = std::accumulate(islands.begin(), islands.end(), std::int64_t{0});
  const bool positive = std::ranges::all_of(islands, [](int size) { return size >= 1; });
  if (positive && sum == parts) return;
  fail_option("--islands: {} found for {} parts; allowed are sizes from 1 on that sum to {}",
              fmt::join(islands, ","), parts, parts);
}

// A cut from a file is not made here.
void check_parts_file(const PartitionOptions& options, int parts) {
  if (options.method != "file") {
    if (options.parts_file.empty()) return;
    fail_option("--parts-file: {} found with --method {}; allowed with --method file only",
                options.parts_file.string(), options.method);
  }
  if (options.parts_checksum.empty()) {
    fail_option("--method file: no file; --parts-file P.npy names one part per node");
  }
  if (parts == 1) {
    fail_option(
        "--method file: 1 part wanted, for which no file is read; allowed from 2 parts on, and "
        "every other --method for 1");
  }
  if (matters(options.islands) || options.marginal_cost != 0) {
    fail_option("--method file: {} found, which makes cuts of its own; allowed with --method {}",
                options.marginal_cost != 0 ? "--marginal-cost" : "--islands",
                "auto, metis, communities, random and contiguous");
  }
}

void check_part_order(const std::vector<int>& order, int parts) {
  if (order.empty()) return;
  if (order.size() != static_cast<std::size_t>(parts)) {
    fail_option("--part-order: {} number{} for {} part{}; allowed is each of 0 to {} once",
                order.size(), order.size() == 1 ? "" : "s", parts, parts == 1 ? "" : "s",
                parts - 1);
  }
  std::vector<bool> taken(parts, false);
  for (const int part : order) {
    if (part < 0 || part >= parts) {
      fail_option("--part-order: {} found; allowed are 0 to {}", part, parts - 1);
    }
    if (taken[part]) {
      fail_option("--part-order: {} found twice; allowed is each of 0 to {} once", part, parts - 1);
    }
    taken[part] = true;
  }
}

// As to_json writes it. Files from before there was this field are of cuts without.
Refinement parse_refinement_field(const Json& json, const std::filesystem::path& file) {
  if (!json.contains("refine")) return Refinement::kOff;
  if (json.at("refine").is_string()) {
    return parse_refinement(json_field<std::string>(json, "refine", file));
  }
  return json_field<bool>(json, "refine", file) ? Refinement::kOn : Refinement::kOff;
}

}  // namespace

std::string to_string(PartitionObjective objective) { return name_of(kObjectives, objective); }
std::string to_string(PartitionBalance balance) { return name_of(kBalances, balance); }
std::string to_string(Refinement refinement) { return name_of(kRefinements, refinement); }
PartitionObjective parse_partition_objective(const std::string& text) {
  return parse_name(kObjectives, text, "--objective");
}
PartitionBalance parse_partition_balance(const std::string& text) {
  return parse_name(kBalances, text, "--balance");
}
Refinement parse_refinement(const std::string& text) {
  return parse_name(kRefinements, text, "--refine");
}
std::vector<std::string> refinement_names() { return names_of(kRefinements); }

std::vector<double> normalised_shares(const std::vector<double>& weights, int parts) {
  if (weights.empty()) return std::vector<double>(parts, 1.0 / parts);
  if (weights.size() != static_cast<std::size_t>(parts)) {
    fail_option("--weights: {} numbers for {} parts; allowed is one per part", weights.size(),
                parts);
  }
  for (const double weight : weights) {
    if (!std::isfinite(weight) || weight <= 0) {
      fail_option("--weights: {} found; allowed are positive numbers", weight);
    }
  }
  const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
  if (!std::isfinite(sum)) {
    fail_option("--weights: {} found, whose sum is no number; divide all of them by the largest",
                fmt::join(weights, ","));
  }
  std::vector<double> shares;
  for (const double weight : weights) shares.push_back(weight / sum);
  return shares;
}

Json to_json(const PartitionOptions& options) {
  Json json;
  json["method"] = options.method;
  const Refinement refinement = effective_refinement(options);
  if (refinement == Refinement::kOn) json["refine"] = true;
  if (refinement == Refinement::kStrong) json["refine"] = to_string(refinement);
  if (!options.parts_checksum.empty()) json["parts_checksum"] = options.parts_checksum;
  json["objective"] = to_string(options.objective);
  json["balance"] = to_string(options.balance);
  json["shares"] =
      options.weights.empty()
          ? Json("equal")
          : Json(normalised_shares(options.weights, static_cast<int>(options.weights.size())));
  json["seed"] = options.seed;
  json["cuts"] = options.cuts;
  json["imbalance"] = options.imbalance;
  if (options.balance == PartitionBalance::kEdgesTrain) json["split_index"] = options.split_index;
  if (matters(options.islands)) json["islands"] = options.islands;
  if (!std::ranges::is_sorted(options.part_order)) json["part_order"] = options.part_order;
  if (options.marginal_cost != 0) json["marginal_cost"] = options.marginal_cost;
  json["node_order"] = to_string(options.node_order);
  return json;
}

PartitionOptions parse_partition_options(const Json& json, int parts,
                                         const std::filesystem::path& file) {
  PartitionOptions options;
  const auto optional = [&](const char* field, auto& value) {
    using Value = std::remove_reference_t<decltype(value)>;
    if (json.contains(field)) value = json_field<Value>(json, field, file);
  };
  try {
    options.method = json_field<std::string>(json, "method", file);
    check_partition_method(options.method);
    options.refine = parse_refinement_field(json, file);
    optional("parts_checksum", options.parts_checksum);
    options.objective = parse_partition_objective(json_field<std::string>(json, "objective", file));
    options.balance = parse_partition_balance(json_field<std::string>(json, "balance", file));
    if (json_field<Json>(json, "shares", file) != "equal") optional("shares", options.weights);
    normalised_shares(options.weights, parts);
    options.seed = json_field<std::uint64_t>(json, "seed", file);
    options.cuts = json_field<int>(json, "cuts", file);
    options.imbalance = json_field<double>(json, "imbalance", file);
    optional("split_index", options.split_index);
    optional("islands", options.islands);
    check_islands(options.islands, parts);
    optional("part_order", options.part_order);
    check_part_order(options.part_order, parts);
    optional("marginal_cost", options.marginal_cost);
    if (json.contains("node_order")) {
      options.node_order = parse_node_order(json_field<std::string>(json, "node_order", file));
    }
  } catch (const Error& error) {
    // Options on the command line are fields here.
    if (error.kind() != ErrorKind::kOption) throw;
    fail_input("{}: {}", file.string(), error.what());
  }
  return options;
}

void check_partition_options(std::int64_t nodes, int parts, const PartitionOptions& options) {
  if (parts < 1 || parts > kMaxParts) {
    fail_option("--parts: {} found; allowed are 1 to {}", parts, kMaxParts);
  }
  if (parts > nodes) {
    fail_option("--parts: {} found, but the graph has {} nodes; a part needs at least one node",
                parts, nodes);
  }
  if (!(options.imbalance >= 0.001 && options.imbalance <= 10)) {
    fail_option("--imbalance: {} found; allowed are 0.001 to 10", options.imbalance);
  }
  if (options.cuts < 0 || options.cuts > 1000) {
    fail_option("--cuts: {} found; allowed are 0 to 1000", options.cuts);
  }
  check_partition_method(options.method);
  check_parts_file(options, parts);
  check_weights(options.weights, parts);
  check_islands(options.islands, parts);
  check_part_order(options.part_order, parts);
  if (!(options.marginal_cost >= 0 && options.marginal_cost <= kMostMarginalCost)) {
    fail_option("--marginal-cost: {} found; allowed are 0 to {}", options.marginal_cost,
                kMostMarginalCost);
  }
}

PartitionProblem make_partition_problem(const GraphView& graph, int parts,
                                        const PartitionOptions& options,
                                        std::span<const std::uint8_t> split) {
  const std::int64_t nodes = graph.nodes();
  check_partition_options(nodes, parts, options);
  PartitionProblem problem;
  problem.graph = graph;
  problem.method = options.method;
  problem.parts = parts;
  problem.objective = options.objective;
  problem.shares = normalised_shares(options.weights, parts);
  problem.imbalance = options.imbalance;
  problem.seed = options.seed;
  problem.cuts = options.cuts > 0 ? options.cuts : default_cuts(graph, options.method);
  problem.refine = effective_refinement(options);
  if (matters(options.islands)) problem.islands = options.islands;
  auto weights = constraint_weights(graph, options, split);
  problem.constraints = static_cast<std::int64_t>(weights.size());
  problem.node_weights.resize(nodes * problem.constraints);
  for (std::int64_t c = 0; c < problem.constraints; ++c) {
    scale_to_int32(weights[c]);
    for (std::int64_t v = 0; v < nodes; ++v) {
      problem.node_weights[v * problem.constraints + c] = static_cast<std::int32_t>(weights[c][v]);
    }
  }
  return problem;
}

}  // namespace atl
