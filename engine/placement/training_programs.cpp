#include "engine/placement/training_programs.hpp"

namespace atl {

TrainingPrograms::TrainingPrograms(const ModelConfig& model, Arrival arrival,
                                   bool remakes_constants)
    : dtype(model.dtype),
      training(model_program(model, Pass::kTraining)),
      evaluation(model_program(model, Pass::kEvaluation)),
      covers(covers_messages(model, training)),
      marginal_groups(orders_rows(arrival, covers) ? kMarginalGroups : 1),
      ranks_per_part(model.column_share.ranks),
      training_schedule(schedule(training, marginal_groups)),
      evaluation_schedule(schedule(evaluation)),
      blocks_of_scope(training.scopes.size()) {
  if (remakes_constants) step_blocks = training_schedule.prologue;
  step_blocks.insert(step_blocks.end(), training_schedule.blocks.begin(),
                     training_schedule.blocks.end());
  for (const Block& block : step_blocks) {
    blocks_of_scope[static_cast<std::size_t>(block.scope)].push_back(
        static_cast<int>(phases.size()));
    const auto phase = block.name == nullptr ? Phase::kRest : phase_named(block.name);
    ATOLL_ASSERT(phase.has_value(), "{}", block.name);
    phases.push_back(*phase);
  }
  operations_of_layer.resize(static_cast<std::size_t>(layer_count(model)) + 1);
  for (const Program* program : {&training, &evaluation}) {
    const bool trains = program == &training;
    for (Value v = 0; v < program->size(); ++v) {
      const Scope& scope = program->scope_of(v);
      const std::size_t at =
          scope.kind == Scope::Kind::kLayer ? static_cast<std::size_t>(scope.layer) + 1 : 0;
      LayerOperations& layer = operations_of_layer[at];
      const Operation& op = program->at(v);
      auto& [per_row, operations] = layer.elements[static_cast<std::size_t>(op.rows_of())];
      ++operations;
      if (trains && op.has_rows()) per_row += program->row_elements(op);
      if (!op.needs_messages() && op.rule->reach != Reach::kGroup) continue;
      (trains ? layer.training_buffers : layer.evaluation_buffers).push_back(v);
    }
  }
}

const TrainingPrograms& ProgramsByOrder::of(const LayerAlgebra& algebra, bool recomputes) {
  for (const Known& known : known_) {
    if (known.algebra == algebra && known.recomputes == recomputes) return known.programs;
  }
  ModelConfig model = ordered(algebra, recomputes);
  if (recomputes) model.recomputation = Recomputation::of_all_pairs(ranks_);
  return known_
      .emplace_back(
          Known{algebra, recomputes, TrainingPrograms(model, arrival_, remakes_constants_)})
      .programs;
}

ModelConfig ProgramsByOrder::ordered(const LayerAlgebra& algebra, bool recomputes) const {
  std::vector<LayerPlan> layers(static_cast<std::size_t>(layer_count(model_)), {algebra});
  if (recomputes) layers.front().algebra = {MultiplyOrder::kAggregateFirst, true};
  return planned_model(model_, layers);
}

bool ProgramsByOrder::can_recompute(const LayerAlgebra& algebra) const {
  return atl::can_recompute(ordered(algebra, true));
}

}  // namespace atl
