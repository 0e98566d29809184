// What a run is, as far as its numbers go: what a checkpoint must have in common with its
// resumption.
#include "engine/training/training_run.hpp"

namespace atl {

Json fingerprint(const TrainOptions& options, const DatasetInfo& dataset) {
  const OptimizerConfig& optimizer = options.optimizer;
  Json result = {{"dataset_checksum", dataset.checksum},
                 {"model", options.model},
                 {"layers", options.layers},
                 {"hidden", options.hidden},
                 {"dropout", options.dropout},
                 {"input-dropout", options.input_dropout},
                 {"norm", to_string(options.norm)},
                 {"lr", optimizer.learning_rate},
                 {"weight-decay", optimizer.weight_decay},
                 {"weight-decay-layers", optimizer.decay_first_layer_only ? "first" : "all"},
                 {"lr-schedule", to_string(optimizer.schedule)},
                 {"seed", options.seed},
                 {"split-index", options.split_index},
                 {"dtype", to_string(options.dtype)},
                 {"tf32", options.tf32},
                 {"exchange", options.exchange}};
  if (options.exchange == "quantized") {
    result["bits"] = options.widths.bits;
    const bool adaptive = options.widths.bits == "adaptive";
    if (adaptive || options.widths.bits == "random") {
      result["reassign-every"] = options.widths.reassign_every;
    }
    if (adaptive) {
      result["lambda"] = options.widths.lambda;
      result["sensitivity"] = to_string(options.widths.sensitivity);
    }
  }
  if (optimizer.schedule == LearningRateSchedule::kCosine) result["epochs"] = optimizer.epochs;
  if (optimizer.schedule == LearningRateSchedule::kStep) {
    result["lr-step-epochs"] = optimizer.step_epochs;
    result["lr-step-factor"] = optimizer.step_factor;
  }
  return result;
}

}  // namespace atl
