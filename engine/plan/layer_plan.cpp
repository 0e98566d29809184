#include "engine/plan/layer_plan.hpp"

#include "base/error.hpp"
#include "engine/training/option_table.hpp"

namespace atl {

std::vector<LayerPlan> layers_without_plan(const ModelConfig& model) {
  std::vector<LayerPlan> layers;
  for (const ProgramLayer& layer : model_program(model, Pass::kEvaluation).layers) {
    layers.push_back({layer.algebra});
  }
  return layers;
}

ModelConfig planned_model(ModelConfig model, std::span<const LayerPlan> layers) {
  model.algebra.clear();
  for (const LayerPlan& layer : layers) model.algebra.push_back(layer.algebra);
  const auto recomputation = recomputation_of(layers);
  model.recomputation = recomputation ? *recomputation : Recomputation();
  return model;
}

ExchangeOptions planned_exchange(ExchangeOptions mode, std::span<const LayerPlan> layers) {
  BitChoice bits{.by = BitChoice::By::kFixed};
  for (const LayerPlan& layer : layers) bits.widths.push_back(static_cast<int>(layer.bits));
  mode.message_bits.bits = std::move(bits);
  return mode;
}

std::shared_ptr<const Recomputation> recomputation_of(std::span<const LayerPlan> layers) {
  return layers.size() > 1 ? layers[1].recomputation : nullptr;
}

MultiplyOrder read_order(const Json& layer, const std::filesystem::path& place) {
  const auto name = json_field<std::string>(layer, "order", place);
  const std::optional<MultiplyOrder> order = multiply_order_named(name);
  if (!order) {
    fail_input("{}: field 'order' is '{}'; allowed are {}, {}", place.string(), name,
               to_string(MultiplyOrder::kMultiplyFirst), to_string(MultiplyOrder::kAggregateFirst));
  }
  return *order;
}

ExchangeOptions read_exchange(const Json& json, const std::filesystem::path& place) {
  TrainOptions options;
  read_exchange_json(json.is_string() ? Json{{"exchange", json}} : json, place, options);
  const ExchangeOptions exchange = options.exchange_options();
  try {
    check_exchange(exchange);
  } catch (const Error& error) {
    fail_input("{}: {}", place.string(), error.what());
  }
  return exchange;
}

void read_recomputation(const Json& json, int ranks, const std::filesystem::path& path,
                        std::vector<LayerPlan>& layers) {
  Recomputation recomputation =
      parse_recomputation(json, ranks, fmt::format("{}: field 'recomputation'", path.string()));
  if (!recomputation.any()) return;
  if (layers.size() < 2 ||
      layers[0].algebra != LayerAlgebra{MultiplyOrder::kAggregateFirst, true}) {
    fail_input(
        "{}: field 'recomputation' names rows of the first layer's output; it must be null unless "
        "layer 0 is aggregate-first with 'cache_aggregate' true and a layer follows it",
        path.string());
  }
  layers[1].recomputation = std::make_shared<const Recomputation>(std::move(recomputation));
}

}  // namespace atl
