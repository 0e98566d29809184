// The partition of a dataset that has grown, made from the one of the dataset before.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "datasets/partition_folder.hpp"

namespace atl {

// How many times the halo rows that a fresh cut is expected to have a grown one may have.
inline constexpr double kUsualDrift = 1.1;
inline constexpr double kLeastDrift = 1;
inline constexpr double kMostDrift = 100;

// One entry of the field "from" in partition.json: how a partition came from another.
struct GrowthStep {
  std::string partition;  // the other's folder, by name
  std::string checksum;   // its own
  std::int64_t nodes = 0;
  std::int64_t edges = 0;          // of its dataset
  std::string cut;                 // "extended", "quick" or "anew"
  std::int64_t halo_rows = 0;      // of the new one
  std::int64_t extended_rows = 0;  // of the extended cut
  std::int64_t estimate = 0;       // expected of a fresh cut
  double drift = 0;
  std::int64_t moved = 0;  // nodes of before that changed their part
};

// As ensure_partition, but a partition that is not there is made from an older one, whose nodes are
// the first ones of `dataset`: grow_cut (partition/incremental.hpp) with `drift`, and arrays that
// stay as they are become links. from: the folder of the older partition, or of its dataset, which
// has a partition with these options. parts: none for as many as there were. Throws also
// Error{kOption} for options that differ from those of the older partition, or that no cut can grow
// by, and Error{kInput} if that is no intact partition or has more nodes.
Partition grow_partition(const Dataset& dataset, std::optional<int> parts,
                         const PartitionOptions& options, const std::filesystem::path& from,
                         double drift);

// The steps by which a partition came about since a program cut it first, the last one its own;
// empty if it was cut from nothing. Throws Error{kInput} naming `file`.
std::vector<GrowthStep> growth_steps(const Json& description, const std::filesystem::path& file);
// Says for people what a step did, and why.
std::string to_text(const GrowthStep& step);

}  // namespace atl
