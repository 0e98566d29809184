// The layers of a model under a strategy, and the parameters they have.
#include "engine/placement/epoch_tasks.hpp"

namespace atl {

std::vector<LayerConfig> planned_layers(const ModelConfig& model,
                                        std::span<const LayerStrategy> strategy) {
  ModelConfig planned = model;
  for (const LayerStrategy& layer : strategy) {
    planned.layer_orders.push_back({layer.order, layer.cache_aggregate});
  }
  std::vector<LayerConfig> layers;
  for (int l = 0; l < planned.layers; ++l) layers.push_back(layer_config(planned, l));
  return layers;
}

std::int64_t parameter_count(std::span<const LayerConfig> layers, bool root_weight) {
  ParameterSizes sizes(/*pads_operands=*/false);
  for (const LayerConfig& layer : layers) {
    for (int weight = 0; weight < (root_weight ? 2 : 1); ++weight) sizes.add(layer.in, layer.out);
    sizes.add(1, layer.out);  // bias, or the norm's
    if (layer.norm != Norm::kNone) sizes.add(1, layer.out);
  }
  return sizes.values();
}

std::vector<LayerStrategy> default_strategy(const ModelConfig& model) {
  std::vector<LayerStrategy> strategy;
  for (int l = 0; l < model.layers; ++l) {
    const LayerConfig layer = layer_config(model, l);
    strategy.push_back({layer.order, layer.cache_aggregate, 32});
  }
  return strategy;
}

}  // namespace atl
