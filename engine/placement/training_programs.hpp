// The programs that follow from what a plan decides about the layers of a model.
#pragma once

#include <array>
#include <deque>

#include "engine/placement/cost_model.hpp"
#include "engine/plan/layer_plan.hpp"
#include "engine/program/schedule.hpp"
#include "partition/arrival_choice.hpp"

namespace atl {

// The programs of a model: the same on all ranks. Where several hold a part, those of the role of
// its column share: programs of other roles differ in the number of columns of a slice alone.
struct TrainingPrograms {
  // arrival: see orders_rows(). remakes_constants: in each step, as on blocks, whose rows are other
  // ones each time.
  explicit TrainingPrograms(const ModelConfig& model, Arrival arrival = Arrival::kOff,
                            bool remakes_constants = false);

  DType dtype;
  Program training;
  Program evaluation;
  bool covers;          // see covers_messages()
  int marginal_groups;  // 1: all marginal rows wait for all messages
  int ranks_per_part;
  Schedule training_schedule;
  Schedule evaluation_schedule;
  // The blocks of a step: those of training_schedule, behind its prologue where constants are made
  // anew. The phase of each, kRest without a span, and the blocks of each scope.
  std::vector<Block> step_blocks;
  std::vector<Phase> phases;
  std::vector<std::vector<int>> blocks_of_scope;

  // The operations of a layer, in training and evaluation, as far as the memory of a rank depends
  // on them.
  struct LayerOperations {
    // By RowsOf: elements of a row of all values of training with such rows, and operations.
    struct Elements {
      std::int64_t per_row = 0;
      std::int64_t operations = 0;
    };
    std::array<Elements, kRowsOfKinds> elements = {};
    // Those that have buffers for messages or conversions.
    std::vector<Value> training_buffers = {};
    std::vector<Value> evaluation_buffers = {};
  };
  // layer: negative: operations of no layer.
  const LayerOperations& operations_of(int layer) const {
    return operations_of_layer[static_cast<std::size_t>(layer < 0 ? 0 : layer + 1)];
  }
  std::vector<LayerOperations> operations_of_layer;  // those of no layer first
};

// Programs of a model in which all layers have one order, each made once. What a scope of a program
// is depends on the order of its own layer alone, and of the first two layers on whether halo rows
// are computed; so these few serve all plans wherever scopes are looked at one by one.
class ProgramsByOrder {
 public:
  // `model` must outlive it. remakes_constants: see TrainingPrograms.
  ProgramsByOrder(const ModelConfig& model, int ranks, Arrival arrival = Arrival::kOff,
                  bool remakes_constants = false)
      : model_(model), ranks_(ranks), arrival_(arrival), remakes_constants_(remakes_constants) {}

  // Valid as long as this. recomputes: the first layer keeps its aggregate then, whatever the
  // algebra.
  const TrainingPrograms& of(const LayerAlgebra& algebra, bool recomputes);
  // With the decisions of this layer.
  const TrainingPrograms& of(const LayerPlan& layer) {
    return of(layer.algebra, layer.recomputation != nullptr && layer.recomputation->any());
  }
  // Whether the model has a program that computes halo rows, with this algebra of the layers behind
  // the first.
  bool can_recompute(const LayerAlgebra& algebra) const;
  // For what depends on no layer's order.
  const TrainingPrograms& any() { return known_.empty() ? of({}, false) : known_.front().programs; }

 private:
  struct Known {
    LayerAlgebra algebra;
    bool recomputes;
    TrainingPrograms programs;
  };
  // Without recomputation.
  ModelConfig ordered(const LayerAlgebra& algebra, bool recomputes) const;

  const ModelConfig& model_;
  int ranks_;
  Arrival arrival_;
  bool remakes_constants_;
  std::deque<Known> known_;
};

}  // namespace atl
