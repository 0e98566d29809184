#include "engine/models/model_options.hpp"

namespace atl {

namespace {

using ModelRow = Option<ModelConfig>;

// The field of a trace that holds an option.
std::string trace_field(const std::string& option) {
  if (option == "model") return "kind";
  std::string field = option;
  std::replace(field.begin(), field.end(), '-', '_');
  return field;
}

}  // namespace

const OptionTable<ModelConfig>& model_options() {
  static const OptionTable<ModelConfig> table = {
      {.name = "model",
       .group = "Model",
       .help = "Layer type: gcn or sage (mean aggregator)",
       .value = ModelRow::text_of(ATOLL_FIELD(kind), model_kinds()),
       .recorded = kAlwaysRecorded,
       .plan = PlanRole::kMadeFor},
      {.name = "layers",
       .group = "Model",
       .help = "Number of layers",
       .value = ModelRow::number(ATOLL_FIELD(layers), 1, 200),
       .recorded = kAlwaysRecorded,
       .plan = PlanRole::kMadeFor},
      {.name = "hidden",
       .group = "Model",
       .help = "Columns of every hidden layer",
       .value = ModelRow::number(ATOLL_FIELD(hidden), 1, 65536),
       .recorded = kAlwaysRecorded,
       .plan = PlanRole::kMadeFor},
      {.name = "dropout",
       .group = "Model",
       .help = "Dropout after each hidden layer, in [0, 1)",
       .value = ModelRow::number(ATOLL_FIELD(dropout), 0.0, 0.999),
       .recorded = kAlwaysRecorded},
      {.name = "input-dropout",
       .group = "Model",
       .help = "Dropout of the features, in [0, 1)",
       .value = ModelRow::number(ATOLL_FIELD(input_dropout), 0.0, 0.999),
       .recorded = kAlwaysRecorded,
       .plan = PlanRole::kMadeFor},
      {.name = "norm",
       .group = "Model",
       .help = "Normalisation after each hidden layer",
       .value = ModelRow::name_of(ATOLL_FIELD(norm), {Norm::kNone, Norm::kLayer, Norm::kBatch}),
       .recorded = kAlwaysRecorded,
       .plan = PlanRole::kMadeFor},
  };
  return table;
}

const OptionTable<ModelConfig>& computation_options() {
  static const OptionTable<ModelConfig> table = {
      {.name = "dtype",
       .group = "Machine",
       .help = "Storage of activations and messages: f32, or bf16 with sums in f32",
       .value = ModelRow::name_of(ATOLL_FIELD(dtype), {DType::kF32, DType::kBf16}),
       .recorded = kAlwaysRecorded},
      {.name = "order",
       .group = "Machine",
       .help = "Multiply by the weight before or after aggregating",
       .value = ModelRow::word<OrderChoice>(ATOLL_FIELD(order),
                                            {{"auto", OrderChoice::kAuto},
                                             {"multiply-first", OrderChoice::kMultiplyFirst},
                                             {"aggregate-first", OrderChoice::kAggregateFirst}}),
       .plan = PlanRole::kFixes},
      {.name = "cache-aggregate",
       .group = "Machine",
       .help = "Keep the first aggregate of constant features",
       .value = ModelRow::on_or_off(ATOLL_FIELD(cache_aggregate)),
       .plan = PlanRole::kFixes},
      {.name = "recompute",
       .group = "Machine",
       .help = "Compute the first layer's output for other ranks' nodes instead of receiving it: "
               "none or all",
       .value = ModelRow::word<bool>(ATOLL_FIELD(recompute_all), {{"none", false}, {"all", true}}),
       .plan = PlanRole::kFixes},
  };
  return table;
}

Json trace_json(const ModelConfig& model) {
  Json json;
  for (const ModelRow& row : model_options()) {
    if (row.plan == PlanRole::kMadeFor) json[trace_field(row.name)] = option_json(row, model);
  }
  json["features"] = model.features;
  json["outputs"] = model.outputs;
  return json;
}

ModelConfig read_trace_model(const Json& json, const std::filesystem::path& place) {
  ModelConfig model;
  model.features = json_field<std::int64_t>(json, "features", place);
  model.outputs = json_field<std::int64_t>(json, "outputs", place);
  for (const ModelRow& row : model_options()) {
    if (row.plan != PlanRole::kMadeFor) continue;
    read_option_json(row, json, trace_field(row.name).c_str(), place, model);
  }
  return model;
}

}  // namespace atl
