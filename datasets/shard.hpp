// The shard of one part: its local graph, inner features, labels and split. On disk it is a folder
// of .npy files and shard.json, memory-mapped, of which a rank reads only its own.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/npy.hpp"
#include "datasets/dataset.hpp"
#include "partition/local_graph.hpp"

namespace atl {

// Version of shard.json and partition.json, and part of the name of a partition's folder.
inline constexpr int kShardFormat = 2;

class Shard {
 public:
  // `folder` is .../part-K, `listed` the entry of its shard.json in partition.json. Reads every
  // file once to compare its checksum, and checks that all arrays fit together and all values are
  // in range. Throws Error{kInput}.
  static Shard open(const std::filesystem::path& folder, const Json& listed);
  // The same without files: takes the local graph, copies the rows of its inner nodes.
  static Shard copy(const Dataset& dataset, LocalGraph graph);

  const LocalGraphView& graph() const { return graph_; }
  const DatasetInfo& dataset() const { return dataset_; }           // of the whole dataset
  std::span<const float> features() const { return features_; }     // [inner, dataset().features]
  std::span<const std::int32_t> labels() const { return labels_; }  // as Dataset, inner nodes only
  std::span<const std::uint8_t> multi_labels() const { return multi_labels_; }
  std::span<const float> real_labels() const { return real_labels_; }
  std::span<const std::uint8_t> split(std::int64_t index) const;  // [inner]

  // features() where they lie in a mapped file, which has them whatever memory holds of them; else
  // nothing.
  std::span<const std::byte> mapped_features() const {
    return feature_rows_ ? std::span<const std::byte>() : std::as_bytes(features_);
  }
  // Gives back the memory of features(), which must not be used afterwards.
  void release_features();
  // Takes features and edges that lie in mapped files out of memory, until they are read again, and
  // returns how many bytes they have.
  std::int64_t rest() const;

 private:
  friend class ShardReader;
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };

  DatasetInfo dataset_;
  LocalGraphView graph_;
  std::span<const float> features_;
  std::span<const std::int32_t> labels_;
  std::span<const std::uint8_t> multi_labels_;
  std::span<const float> real_labels_;
  std::span<const std::uint8_t> splits_;  // [splits, inner]

  // Storage behind the spans: mapped files, or memory.
  std::vector<NpyFile> files_;
  LocalGraph local_graph_;
  std::unique_ptr<float, Free> feature_rows_;
  std::vector<std::int32_t> label_rows_;
  std::vector<std::uint8_t> multi_label_rows_;
  std::vector<float> real_label_rows_;
  std::vector<std::uint8_t> split_rows_;
};

// An intact shard of an older partition. Files of a new one that would hold the same bytes are hard
// links to its files.
struct OlderShard {
  std::filesystem::path folder;
  Json files;  // as its shard.json lists them
};
struct WrittenShard {
  int files = 0;   // arrays
  int linked = 0;  // those that are the older shard's
};
// Writes the shard of `graph` into `folder` (which exists and is empty). older: null if there is
// none.
WrittenShard write_shard(const std::filesystem::path& folder, const Dataset& dataset,
                         const LocalGraph& graph, const OlderShard* older = nullptr);

}  // namespace atl
