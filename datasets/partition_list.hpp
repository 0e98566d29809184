// The content of a folder of partitions: which of them training can use, and which are left over.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "datasets/dataset.hpp"
#include "partition/partitioner.hpp"

namespace atl {

struct PartitionEntry {
  std::filesystem::path folder;
  int parts = 0;
  std::string method;
  std::string options;  // what differs from the defaults, e.g. "balance=nodes seed=2"
  std::int64_t bytes = 0;
  std::int64_t written = 0;  // seconds since 1970
  std::string stale;         // why it is of no use; empty: training can use it
  // A partition of another dataset in a folder that several share, or a folder that holds files
  // which this program doesn't write, or one that is being written: says which.
  std::string kept;

  bool removable() const { return !stale.empty() && kept.empty(); }
};

// The partitions, and what is left of cuts that were interrupted, in the folder where partitions of
// `dataset` are kept (see parts_folder), by name. Names, sizes and descriptions are checked; with
// `every_byte` also the checksum of every file. Folders with names of another kind are left out.
std::vector<PartitionEntry> list_partitions(const Dataset& dataset, const PartitionOptions& options,
                                            bool every_byte);

// The same of communities (community_folder.hpp): `parts` is their number, `method` "communities".
std::vector<PartitionEntry> list_communities(const Dataset& dataset,
                                             const PartitionOptions& options, bool every_byte);

// Removes the folder of an entry that is `removable`. Throws Error{kInput} if it can't be.
void remove_partition(const PartitionEntry& entry);

Json to_json(const std::vector<PartitionEntry>& entries);
std::string to_text(const std::vector<PartitionEntry>& entries);

}  // namespace atl
