// The options that say how a graph is cut, for every subcommand that partitions.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <vector>

#include "launch/validators.hpp"
#include "partition/partitioner.hpp"

namespace atl {

// The group of these options in --help.
inline constexpr const char* kPartitionGroup = "Partition";

struct PartitionFlags {
  static constexpr const char* kAuto = "auto";  // of --refine: by the method

  PartitionOptions defaults;
  std::string method = defaults.method;
  std::string refine = kAuto;
  std::string parts_file;
  std::string objective = to_string(defaults.objective);
  std::string balance = to_string(defaults.balance);
  std::vector<double> weights;
  int cuts = defaults.cuts;
  double imbalance = defaults.imbalance;
  std::vector<int> islands;
  std::vector<int> part_order;
  double marginal_cost = defaults.marginal_cost;
  std::string node_order = to_string(defaults.node_order);
  std::string parts_dir;

  // Throws Error{kOption} for unknown names.
  PartitionOptions resolve(std::uint64_t seed, std::int64_t split_index) const {
    PartitionOptions options;
    options.method = method;
    options.refine = refine == kAuto ? default_refinement(method) : parse_refinement(refine);
    options.parts_file = parts_file;
    if (!parts_file.empty()) options.parts_checksum = parts_file_checksum(parts_file);
    options.objective = parse_partition_objective(objective);
    options.balance = parse_partition_balance(balance);
    options.weights = weights;
    options.cuts = cuts;
    options.imbalance = imbalance;
    options.islands = islands;
    options.part_order = part_order;
    options.marginal_cost = marginal_cost;
    options.node_order = parse_node_order(node_order);
    options.parts_dir = parts_dir;
    options.seed = seed;
    options.split_index = split_index;
    return options;
  }
};

// The flags that say what a cut is, "--partition-seed" included.
inline constexpr std::array kCutFlags = {"--method",        "--refine",     "--objective",
                                         "--balance",       "--weights",    "--cuts",
                                         "--imbalance",     "--islands",    "--part-order",
                                         "--marginal-cost", "--node-order", "--partition-seed"};

// `flags` must live until the command's callback has run.
inline void add_partition_flags(CLI::App& command, PartitionFlags& flags) {
  const auto add = [&](const char* name, auto& value, const char* text) {
    return command.add_option(name, value, text)->group(kPartitionGroup);
  };
  std::vector<std::string> refinements{PartitionFlags::kAuto};
  std::ranges::copy(refinement_names(), std::back_inserter(refinements));
  add("--method", flags.method,
      "How to cut: auto (by size: the better one of metis and communities, or "
      "communities), metis, communities, random, contiguous or file (--parts-file)")
      ->check(one_of(partition_methods()));
  add("--refine", flags.refine,
      "Move nodes behind the cut while that saves halo rows: off, on, strong (more "
      "cuts, combined; 5 to 6 times the time) or auto (on for auto, metis and "
      "communities)")
      ->check(one_of(refinements));
  add("--parts-file", flags.parts_file,
      "With --method file: .npy with the part of every node, made elsewhere")
      ->type_name("FILE");
  add("--objective", flags.objective,
      "What is minimised: volume (halo rows) or cut (edges between parts)")
      ->check(one_of({"volume", "cut"}));
  add("--balance", flags.balance,
      "What every part gets its share of: cost, nodes, edges or edges,train")
      ->check(one_of({"cost", "nodes", "edges", "edges,train"})
                  .description("{cost nodes edges edges,train}"));
  add("--weights", flags.weights,
      "Share of each part, any scale, e.g. 2,1,1; equal shares without it")
      ->delimiter(',');
  add("--cuts", flags.cuts,
      "How many cuts metis makes; the best is kept; 0: four, or one of more than 20 million "
      "edges (auto: half a million)");
  add("--imbalance", flags.imbalance, "How far a part may exceed its share, e.g. 0.03 for 3 %");
  add("--islands", flags.islands,
      "Parts with fast links among themselves, e.g. 2,2: parts 0 and 1, 2 and 3; few "
      "rows travel between islands")
      ->delimiter(',');
  add("--part-order", flags.part_order,
      "Which part of the cut is part 0, 1 ... of the result, e.g. 2,0,1,3")
      ->delimiter(',');
  add("--marginal-cost", flags.marginal_cost,
      "Cut again with nodes at the border this much dearer, e.g. 0.5 for half as "
      "much again; the more even cut is kept");
  add("--node-order", flags.node_order,
      "How nodes of a part lie in memory: communities, metis, rcm, breadth-first, "
      "degree or natural")
      ->check(one_of(node_order_names()));
  add("--parts-dir", flags.parts_dir,
      "Folder that partitions are read from and written to instead of DIR/parts, e.g. "
      "for a read-only dataset")
      ->type_name("DIR");
}

}  // namespace atl
