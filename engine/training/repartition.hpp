// Cuts that come after the first one in a run with --repartition-every (docs/exchange.md). Each
// rank makes its part of them in memory, from the dataset's folder.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "datasets/shard.hpp"
#include "engine/comm/transport.hpp"
#include "partition/dealing.hpp"

namespace atl {

// Throws Error{kInput} naming the folder unless a dataset is the one that the run began with.
void require_same_dataset(const DatasetInfo& found, const std::string& first_checksum,
                          const std::filesystem::path& folder);

class Repartition {
 public:
  // Rank 0 cuts the graph of `first`, this rank's part of the first cut, into clusters. Collective;
  // throws Error{kInput} on all ranks if the dataset is damaged or has changed since that was made.
  Repartition(Transport& transport, int parts, const std::filesystem::path& dataset,
              const PartitionOptions& options, const DatasetInfo& first);

  // A part of cut `number`, from 1.
  LocalGraph part(int part, std::uint64_t seed, int number) const;
  // The rest of a shard is read from the dataset.
  const Dataset& dataset() const { return dataset_; }
  // See relative_coverage().
  std::vector<float> coverage(const LocalGraphView& part) const {
    return relative_coverage(part, dataset_.graph(), clusters_);
  }

 private:
  Dataset dataset_;
  Clusters clusters_;
};

}  // namespace atl
