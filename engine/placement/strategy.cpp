#include "engine/placement/strategy.hpp"

namespace atl {

std::vector<LayerPlan> default_strategy(const ModelConfig& model) {
  std::vector<LayerPlan> strategy;
  for (const ProgramLayer& layer : model_program(model, Pass::kEvaluation).layers) {
    strategy.push_back({layer.algebra.order, layer.algebra.cache_aggregate, 32});
  }
  return strategy;
}

ModelConfig planned_model(ModelConfig model, std::span<const LayerPlan> strategy) {
  model.algebra.clear();
  for (const LayerPlan& layer : strategy) {
    model.algebra.push_back({layer.order, layer.cache_aggregate});
  }
  const bool recomputes = strategy.size() > 1 && strategy[1].recomputation != nullptr;
  model.recomputation = recomputes ? *strategy[1].recomputation : Recomputation();
  return model;
}

TrainingPrograms::TrainingPrograms(const ModelConfig& model)
    : dtype(model.dtype),
      training(model_program(model, Pass::kTraining)),
      evaluation(model_program(model, Pass::kEvaluation)),
      training_schedule(schedule(training)),
      evaluation_schedule(schedule(evaluation)) {}

const TrainingPrograms& ProgramsByOrder::of(const Wish& wish) {
  for (const Known& known : known_) {
    if (known.wish == wish) return known.programs;
  }
  ModelConfig model = ordered(wish);
  if (wish.recomputes) model.recomputation = Recomputation::of_all_pairs(ranks_);
  return known_.emplace_back(Known{wish, TrainingPrograms(model)}).programs;
}

ModelConfig ProgramsByOrder::ordered(const Wish& wish) const {
  ModelConfig model = model_;
  model.algebra.assign(static_cast<std::size_t>(layer_count(model)), wish.algebra);
  if (wish.recomputes) model.algebra.front() = {MultiplyOrder::kAggregateFirst, true};
  model.recomputation = Recomputation();
  return model;
}

bool ProgramsByOrder::can_recompute(const LayerAlgebra& algebra) const {
  return atl::can_recompute(ordered({algebra, true}));
}

}  // namespace atl
