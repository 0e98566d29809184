// The decisions of a strategy search for one graph, one model and one machine: plan.json, which
// `atoll plan` writes and `atoll train --plan` follows (docs/placement.md).
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "engine/plan/layer_plan.hpp"
#include "partition/partitioner.hpp"
#include "partition/sum_route.hpp"

namespace atl {

// Layers in stages (docs/stages.md): one on each rank.
struct PlannedStages {
  std::vector<int> first_layer;  // by stage, ascending; the first one is 0
  int chunks = 0;
  int stale_from = 0;
  bool operator==(const PlannedStages&) const = default;
};

struct Plan {
  // Training by the plan refuses any other graph, ranks or model.
  std::string dataset;  // name
  std::string dataset_checksum;
  std::string shape;  // file of a shape that stood for the dataset; empty: none
  int ranks = 0;
  int group_ranks = 1;  // that hold a part together
  Json model;           // options that say what is computed: model, layers, hidden, norm, ...

  PartitionOptions partition;  // part p is trained by the p-th group of ranks
  std::vector<LayerPlan> layers;
  std::optional<PlannedStages> stages;  // then all ranks hold one part together
  SumRoute gradient_sum;
  // Options of the exchange mode, by name; null: exact, or quantized by the bits of the layers.
  Json exchange;

  // The simulator's expectations, for reports; ms per epoch.
  double predicted_ms = 0;
  double default_ms = 0;      // without a plan
  double lower_bound_ms = 0;  // of any order of the plan's work
  Json messages;              // rows and bytes per epoch, of all ranks
  Json search;                // how it was found
};

// plan.json, apart from its seal.
Json to_json(const Plan& plan);
void write_plan(const Plan& plan, const std::filesystem::path& path);
// Throws Error{kInput} naming `path`, the field, the value found and those allowed.
Plan read_plan(const std::filesystem::path& path);

// Throws Error{kInput} naming `path` and both values unless the plan was made for this graph, this
// many ranks and this model, or if it was made from a shape. model: planned_options(); layers: with
// those that hops are.
void require_plan_fits(const Plan& plan, const std::filesystem::path& path,
                       const std::string& dataset_checksum, int ranks, const Json& model,
                       int layers);

// For people. Throws Error{kInput} if the plan says something of its search that can't be read.
std::string to_text(const Plan& plan);

}  // namespace atl
