// The options that say how a graph is cut, for every subcommand that partitions.
#pragma once

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <iterator>
#include <string>
#include <vector>

#include "launch/help_group.hpp"
#include "launch/validators.hpp"
#include "partition/partitioner.hpp"

namespace atl {

// The group of these options in --help.
inline constexpr const char* kPartitionGroup = "Partition";

struct PartitionFlags {
  static constexpr const char* kAuto = "auto";  // of --refine: by the method

  PartitionOptions options;  // but for those that are words here, or follow from others
  std::string refine = kAuto;
  std::string objective = to_string(options.objective);
  std::string balance = to_string(options.balance);
  std::string node_order = to_string(options.node_order);

  // Throws Error{kOption} for unknown names.
  PartitionOptions resolve(std::uint64_t seed, std::int64_t split_index) const {
    PartitionOptions resolved = options;
    resolved.refine =
        refine == kAuto ? default_refinement(options.method) : parse_refinement(refine);
    resolved.objective = parse_partition_objective(objective);
    require_use(resolved);
    resolved.balance = parse_partition_balance(balance);
    resolved.node_order = parse_node_order(node_order);
    if (!options.parts_file.empty()) {
      resolved.parts_checksum = parts_file_checksum(options.parts_file);
    }
    resolved.seed = seed;
    resolved.split_index = split_index;
    return resolved;
  }

 private:
  // Refuses what would change nothing.
  void require_use(const PartitionOptions& resolved) const {
    if (refine != kAuto && resolved.refine > effective_refinement(resolved)) {
      fail_option(
          "--refine: {} found with --objective {} and --method {}; refinement saves halo rows, "
          "which this objective does not minimise; allowed are --refine off{}, and --objective "
          "volume",
          refine, objective, options.method, resolved.method == "file" ? " and on" : "");
    }
    const bool is_file = options.method == "file";
    if (!is_file && options.method != "random" && options.method != "contiguous") return;
    const bool refines = resolved.refine != Refinement::kOff;
    const auto refuse = [&](bool is_given, const std::string& found, const char* more = "") {
      if (!is_given) return;
      fail_option("{} found with --method {}, which {}; allowed with auto, metis and communities{}",
                  found, options.method, is_file ? "makes no cut" : "minimises nothing", more);
    };
    refuse(resolved.objective == PartitionObjective::kCut && !refines, "--objective: cut",
           is_file ? ", and with --refine on, which then only repairs" : "");
    refuse(options.cuts > 0, fmt::format("--cuts: {}", options.cuts));
    // A file may be refused by its bound, and islands are cut twice, which adds up.
    const bool is_even = !is_file && !refines && options.islands.empty();
    refuse(is_even && options.imbalance != PartitionOptions().imbalance,
           fmt::format("--imbalance: {}", options.imbalance), ", and with --refine on");
  }
};

// The flags that say what a cut is, "--partition-seed" included.
inline constexpr std::array kCutFlags = {"--method",        "--refine",     "--objective",
                                         "--balance",       "--weights",    "--cuts",
                                         "--imbalance",     "--islands",    "--part-order",
                                         "--marginal-cost", "--node-order", "--partition-seed"};

// `flags` must live until the command's callback has run.
inline void add_partition_flags(CLI::App& command, PartitionFlags& flags) {
  const HelpGroup cut(command, kPartitionGroup);
  std::vector<std::string> refinements{PartitionFlags::kAuto};
  std::ranges::copy(refinement_names(), std::back_inserter(refinements));
  cut.add_option("--method", flags.options.method,
                 "How to cut: auto (by size: the better one of metis and communities, or "
                 "communities), metis, communities, random, contiguous or file (--parts-file)")
      ->check(one_of(partition_methods()));
  cut.add_option("--refine", flags.refine,
                 "Move nodes behind the cut while that saves halo rows: off, on, strong (more "
                 "cuts, combined; 5 to 6 times the time) or auto (on for auto, metis and "
                 "communities)")
      ->check(one_of(refinements));
  cut.add_option("--parts-file", flags.options.parts_file,
                 "With --method file: .npy with the part of every node, made elsewhere")
      ->type_name("FILE");
  cut.add_option("--objective", flags.objective,
                 "What is minimised: volume (halo rows) or cut (edges between parts)")
      ->check(one_of({"volume", "cut"}));
  cut.add_option("--balance", flags.balance,
                 "What every part gets its share of: cost, nodes, edges or edges,train")
      ->check(one_of({"cost", "nodes", "edges", "edges,train"})
                  .description("{cost nodes edges edges,train}"));
  // Each list is one word, so that a dataset behind it is not of it.
  cut.add_option("--weights", flags.options.weights,
                 "Share of each part, any scale, e.g. 2,1,1; equal shares without it")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(positive_number());
  cut.add_option(
      "--cuts", flags.options.cuts,
      "How many cuts metis makes; the best is kept; 0: four, or one of more than 20 million "
      "edges (auto: half a million)");
  cut.add_option("--imbalance", flags.options.imbalance,
                 "How far a part may exceed its share, e.g. 0.03 for 3 %");
  cut.add_option("--islands", flags.options.islands,
                 "Parts with fast links among themselves, e.g. 2,2: parts 0 and 1, 2 and 3; few "
                 "rows travel between islands")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(number_within(Limits<int>{.least = 1, .most = kMaxParts}));
  cut.add_option("--part-order", flags.options.part_order,
                 "Which part of the cut is part 0, 1 ... of the result, e.g. 2,0,1,3")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(number_within(Limits<int>{.least = 0, .most = kMaxParts - 1}));
  cut.add_option("--marginal-cost", flags.options.marginal_cost,
                 "Cut again with nodes at the border this much dearer, e.g. 0.5 for half as "
                 "much again; the more even cut is kept");
  cut.add_option("--node-order", flags.node_order,
                 "How nodes of a part lie in memory: communities, metis, rcm, breadth-first, "
                 "degree or natural")
      ->check(one_of(node_order_names()));
  cut.add_option("--parts-dir", flags.options.parts_dir,
                 "Folder that partitions are read from and written to instead of DIR/parts, e.g. "
                 "for a read-only dataset")
      ->type_name("DIR");
}

}  // namespace atl
