// A small dataset folder with everything in it, for tests of shards and partitions.
#pragma once

#include <cmath>
#include <filesystem>
#include <vector>

#include "datasets/dataset_writer.hpp"
#include "tests/support/random_graph.hpp"

namespace atl {

// `nodes` nodes with 3 feature columns (value 10 * node + column), labels node % 4 (or multi-label,
// 4 classes, bit c of the node) and two splits.
inline void write_example_dataset(const std::filesystem::path& folder, std::int32_t nodes,
                                  bool directed, bool multi_label, bool structure_only = false,
                                  bool real_labels = false) {
  DatasetWriter writer(folder);
  DatasetInfo& info = writer.info();
  info.name = "example";
  info.directed = directed;
  info.provenance = Json::object();
  info.task = multi_label ? Task::kMultiLabel : Task::kSingleLabel;
  const Csr csr = random_graph(nodes, 3, directed, directed, 3);
  info.edges_source = csr.view().nnz();
  writer.write_graph(csr);
  if (!structure_only) {
    const auto features = writer.write_features(3);
    std::vector<std::int32_t> labels;
    std::vector<std::uint8_t> multi_labels;
    std::vector<float> numbers;
    std::vector<std::uint8_t> splits(2 * static_cast<std::size_t>(nodes));
    for (std::int32_t v = 0; v < nodes; ++v) {
      for (int column = 0; column < 3; ++column) {
        const auto value = static_cast<float>(10 * v + column);
        features->write(std::span<const float>(&value, 1));
      }
      labels.push_back(v % 4);
      for (int c = 0; c < 2; ++c) numbers.push_back(0.5F * static_cast<float>(v + 100 * c));
      for (int c = 0; c < 4; ++c) multi_labels.push_back((v >> c & 1) != 0 ? 1 : 0);
      splits[v] = static_cast<std::uint8_t>(v % 3);
      splits[nodes + v] = static_cast<std::uint8_t>((v + 1) % 3);
    }
    features->close();
    if (real_labels) {
      writer.write_real_labels(numbers, 2);
    } else if (multi_label) {
      writer.write_multi_labels(multi_labels, 4);
    } else {
      writer.write_labels(labels);
    }
    writer.write_splits(splits, 2);
  }
  writer.commit();
}

}  // namespace atl
