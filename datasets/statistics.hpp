// Facts that `atoll info` prints about a dataset: sizes, degrees, self-loops, splits, classes,
// checksums and the partitions made so far.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "datasets/dataset.hpp"

namespace atl {

struct DegreeStatistics {  // of the in-edges of nodes, self-loops included
  std::int64_t minimum = 0;
  std::int64_t median = 0;  // the lower one of two
  double mean = 0;
  std::int64_t maximum = 0;
};

struct DatasetStatistics {
  DegreeStatistics degrees;
  std::int64_t isolated = 0;  // nodes without in- and out-edges other than a self-loop
  std::int64_t self_loops = 0;
  std::vector<std::array<std::int64_t, 3>> splits;  // per split: train, valid, test nodes
  std::vector<std::int64_t> class_counts;           // nodes with that class
  std::vector<std::int64_t> relation_counts;        // edges of each type; empty: they have none
  std::vector<std::int64_t> node_type_counts;       // nodes of each type; empty: they have none
  struct Numbers {
    std::int64_t labelled = 0;
    double mean = 0;
    double deviation = 0;  // standard deviation of the labelled nodes
  };
  std::vector<Numbers> numbers;  // regression: of each number per node
  std::int64_t unlabelled = 0;   // nodes without any label
  // Share of edges between two labelled nodes that join equal labels; -1 without such edges or
  // for multi-label sets.
  double homophily = -1;
  std::vector<std::string> parts;  // names of the usable partitions in DIR/parts
};

// Per node 1 where it has an in- or out-edge other than a self-loop. `symmetric`: the graph equals
// its transpose, which spares a look at every edge.
std::vector<std::uint8_t> joined_nodes(const CsrView& csr, bool symmetric);

// Train, valid and test nodes of one split.
std::array<std::int64_t, 3> count_split(const Dataset& dataset, std::int64_t index);

// How many features each type of nodes has, and what it takes to store them in rows of equal
// length. nodes: of each type.
std::string describe_padding(const std::vector<std::int64_t>& widths,
                             const std::vector<std::int64_t>& nodes);

DatasetStatistics describe_dataset(const Dataset& dataset);
// `checksums`: what comparing the files gave, e.g. "ok".
Json statistics_json(const Dataset& dataset, const DatasetStatistics& statistics,
                     const std::string& checksums);
std::string statistics_text(const Dataset& dataset, const DatasetStatistics& statistics,
                            const std::string& checksums);

}  // namespace atl
