#include "engine/placement/strategy.hpp"

namespace atl {

std::vector<LayerStrategy> default_strategy(const ModelConfig& model) {
  std::vector<LayerStrategy> strategy;
  for (const ProgramLayer& layer : model_program(model, Pass::kEvaluation).layers) {
    strategy.push_back({layer.order.order, layer.order.cache_aggregate, 32});
  }
  return strategy;
}

ModelConfig planned_model(ModelConfig model, std::span<const LayerStrategy> strategy) {
  model.layer_orders.clear();
  for (const LayerStrategy& layer : strategy) {
    model.layer_orders.push_back({layer.order, layer.cache_aggregate});
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
  model.layer_orders.assign(static_cast<std::size_t>(layer_count(model)), wish.order);
  if (wish.recomputes) model.layer_orders.front() = {MultiplyOrder::kAggregateFirst, true};
  model.recomputation = Recomputation();
  return model;
}

bool ProgramsByOrder::can_recompute(const LayerOrder& order) const {
  return atl::can_recompute(ordered({order, true}));
}

}  // namespace atl
