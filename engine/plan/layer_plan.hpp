// A plan's decisions about one layer of a model, and how the model follows it.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "base/json.hpp"
#include "engine/exchange/halo_exchange.hpp"
#include "engine/models/model.hpp"

namespace atl {

struct LayerPlan {
  LayerAlgebra algebra = {};
  double bits = 32;  // per value of its messages, 32: exact; of a run that has been: their mean
  // Recomputation of halo rows of its input, only in layer 1 above a kept aggregate; null: none.
  std::shared_ptr<const Recomputation> recomputation = nullptr;
  auto operator<=>(const LayerPlan&) const = default;
};

// Plans of the layers of a model without a plan of the whole.
std::vector<LayerPlan> layers_without_plan(const ModelConfig& model);
// The model with the algebra and the recomputation of these layers.
ModelConfig planned_model(ModelConfig model, std::span<const LayerPlan> layers);

// The mode with the widths of these layers.
ExchangeOptions planned_exchange(ExchangeOptions mode, std::span<const LayerPlan> layers);

// Who computes halo rows of the first layer's output; null: nobody.
std::shared_ptr<const Recomputation> recomputation_of(std::span<const LayerPlan> layers);
// Fields of plans and traces. Throw Error{kInput} naming the place, the field, the value found and
// those allowed.
MultiplyOrder read_order(const Json& layer, const std::filesystem::path& place);
// The exchange mode of exchange_json(), also by name alone, as older traces have it.
ExchangeOptions read_exchange(const Json& json, const std::filesystem::path& place);
// From `json`, the field 'recomputation' of the file `path`.
void read_recomputation(const Json& json, int ranks, const std::filesystem::path& path,
                        std::vector<LayerPlan>& layers);

}  // namespace atl
