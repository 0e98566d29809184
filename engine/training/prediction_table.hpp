// Predictions as a table of text (CSV): a line per node, with the names that nodes and classes
// have.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "datasets/dataset.hpp"
#include "engine/training/prediction.hpp"

namespace atl {

// The dataset's names of its nodes (node_ids.txt; empty: their numbers) and of its classes (empty:
// their numbers).
struct PredictionNames {
  std::vector<std::string> nodes;
  std::vector<std::string> classes;
};
// Throws Error{kInput} naming a file that is damaged.
PredictionNames prediction_names(const Dataset& dataset);

// Whether `out` is a table by its suffix; throws Error{kOption} for one that is neither .csv nor
// .npy. `option` names it.
bool is_table_file(const std::filesystem::path& out, std::string_view option);

// values: [nodes, columns], row after row: of labels the logits; numbers, logits or embeddings.
// They are of `nodes`; empty: of all nodes in their order. One row of names, then
//   labels                node, class (and its name), a probability per class
//   labels, two classes   node, class (and its name), the probability of class 1
//   several labels        node, 0 or 1 per label, a probability per label
//   others                node, a column per number
// The file is there as a whole or not at all. Throws Error{kInput} naming it if it can't be
// written.
void write_prediction_table(const std::filesystem::path& out, PredictionKind kind, Task task,
                            std::span<const float> values, std::int64_t columns,
                            const PredictionNames& names, std::span<const GlobalId> nodes = {});

}  // namespace atl
