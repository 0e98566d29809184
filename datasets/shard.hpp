// The shard of one part on disk: its local graph, inner features, labels and split, as .npy + json,
// memory-mapped. A rank reads only its own.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "base/npy.hpp"
#include "datasets/dataset.hpp"
#include "partition/local_graph.hpp"

namespace atl {

class Shard {
 public:
  // `folder` is .../part-K. Checks every array against shard.json and the plans for consistency.
  static Shard open(const std::filesystem::path& folder);

  const LocalGraphView& graph() const { return graph_; }
  const DatasetInfo& dataset() const { return dataset_; }  // of the whole dataset
  std::span<const float> features() const;                 // [inner, dataset().features]
  std::span<const std::int32_t> labels() const;            // as Dataset, inner nodes only
  std::span<const std::uint8_t> multi_labels() const;
  std::span<const std::uint8_t> split(std::int64_t index) const;  // [inner]

 private:
  void open_node_data(const std::filesystem::path& folder);

  DatasetInfo dataset_;
  LocalGraphView graph_;
  std::vector<NpyFile> files_;
  NpyFile features_, labels_, split_;
};

// Writes the shard of `graph` into `folder` (which exists and is empty).
void write_shard(const std::filesystem::path& folder, const Dataset& dataset,
                 const LocalGraph& graph);

}  // namespace atl
