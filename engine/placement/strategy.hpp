// The decisions of a plan about the layers of a model, and the programs that follow from it.
#pragma once

#include <compare>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "engine/models/model.hpp"
#include "engine/program/schedule.hpp"

namespace atl {

struct LayerPlan {
  MultiplyOrder order = MultiplyOrder::kMultiplyFirst;
  bool cache_aggregate = false;  // only where the layer's input is constant
  double bits = 32;              // per value of a message, mean over the messages
  // Recomputation of halo rows of its input, only in layer 1 above a kept aggregate; null: none.
  std::shared_ptr<const Recomputation> recomputation = nullptr;
  auto operator<=>(const LayerPlan&) const = default;
};

// The strategy of a model's layers without a plan.
std::vector<LayerPlan> default_strategy(const ModelConfig& model);
// The model with the orders and the recomputation that a strategy gives it.
ModelConfig planned_model(ModelConfig model, std::span<const LayerPlan> strategy);

// The programs that a model runs: the same on all ranks.
struct TrainingPrograms {
  explicit TrainingPrograms(const ModelConfig& model);

  DType dtype;
  Program training;
  Program evaluation;
  Schedule training_schedule;
  Schedule evaluation_schedule;
};

// Programs of a model in which all layers have one order, each made once. What a scope of a program
// is depends on the order of its own layer alone, and of the first two layers on whether halo rows
// are computed; so these few serve all plans wherever scopes are looked at one by one.
class ProgramsByOrder {
 public:
  // recomputes: the first layer keeps its aggregate then, whatever the order.
  struct Wish {
    LayerAlgebra algebra = {};
    bool recomputes = false;
    bool operator==(const Wish&) const = default;
  };

  // `model` must outlive it.
  ProgramsByOrder(const ModelConfig& model, int ranks) : model_(model), ranks_(ranks) {}

  // Valid as long as this.
  const TrainingPrograms& of(const Wish& wish);
  // With the decisions of this layer.
  const TrainingPrograms& of(const LayerPlan& layer) {
    const bool recomputes = layer.recomputation != nullptr && layer.recomputation->any();
    return of({{layer.order, layer.cache_aggregate}, recomputes});
  }
  // Whether the model has a program that computes halo rows, with this algebra of the layers behind
  // the first.
  bool can_recompute(const LayerAlgebra& algebra) const;
  // For what depends on no layer's order.
  const TrainingPrograms& any() { return known_.empty() ? of(Wish{}) : known_.front().programs; }

 private:
  struct Known {
    Wish wish;
    TrainingPrograms programs;
  };
  // Without recomputation.
  ModelConfig ordered(const Wish& wish) const;

  const ModelConfig& model_;
  int ranks_;
  std::deque<Known> known_;
};

}  // namespace atl
