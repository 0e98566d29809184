#include "engine/models/model_options.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/memory.hpp"

namespace atl {

namespace {

using ModelRow = Option<ModelConfig>;

// The field of a trace that holds an option.
std::string trace_field(const std::string& option) {
  if (option == "model") return "kind";
  if (option == "features") return "node_features";  // "features" are columns
  std::string field = option;
  std::replace(field.begin(), field.end(), '-', '_');
  return field;
}

// Counts of a dataset that a trace holds where they are not 0.
constexpr std::array<std::pair<const char*, std::int64_t DataSizes::*>, 3> kTracedCounts = {
    {{"relations", &DataSizes::relations},
     {"edge_features", &DataSizes::edge_features},
     {"node_types", &DataSizes::node_types}}};

// A problem with the features that a model may have; others are a dataset's.
std::string trained_features_problem(const std::string& text) {
  std::string problem;
  if (text.empty()) return problem;
  const FeatureSource source = parse_feature_source(text, problem);
  if (!problem.empty() || source.kind == FeatureKind::kTrained) return problem;
  return fmt::format(
      "'{0}' is made of the graph before training; allowed here is trained:D, and atoll features "
      "DATASET {0} gives a dataset {0}",
      text);
}

std::string memory_problem(const std::string& text) {
  if (text.empty() || parse_bytes(text)) return "";
  return fmt::format(
      "'{}' is no amount of memory; allowed are a number and a unit, as 8GiB, "
      "500MB or 2e9B",
      text);
}

bool is_set(const ModelRow& row, const ModelConfig& model) {
  return option_json(row, model) != option_json(row, ModelConfig());
}

const ConvolutionKind& convolution_of_model(const std::string& kind) {
  return convolution_named(convolution_of(kind));
}

// The models that say of themselves that they read an option; none: it is one of every model.
std::vector<std::string> readers_of(const std::string& option) {
  std::vector<std::string> readers;
  for (const std::string& kind : model_kinds()) {
    const auto& reads = convolution_of_model(kind).reads;
    if (reads && std::ranges::count(*reads, option) > 0) readers.push_back(kind);
  }
  return readers;
}

bool has_no_use_for(const ConvolutionKind& kind, const std::string& option) {
  return std::ranges::count(kind.lacks, option) > 0 || is_for_others(kind, option);
}

}  // namespace

bool is_for_others(const ConvolutionKind& kind, const std::string& option) {
  return kind.reads && std::ranges::count(*kind.reads, option) == 0 && !readers_of(option).empty();
}

const OptionTable<ModelConfig>& model_options() {
  static const OptionTable<ModelConfig> table = [] {
    const auto of_layers = [](const char* name) {
      return option_named(layer_options(), name).inside<ModelConfig>(InBase<LayerOptions>());
    };
    OptionTable<ModelConfig> rows = {
        {.name = "model",
         .group = "Model",
         .help = "What the layers are, see docs/models.md",
         .value = ModelRow::text_of(ATOLL_FIELD(kind), model_kinds()),
         .recorded = kAlwaysRecorded,
         .plan = PlanRole::kMadeFor},
        {.name = "layers",
         .group = "Model",
         .help = "Number of layers",
         .value = ModelRow::number(ATOLL_FIELD(layers), 1, kMostLayers),
         .recorded = kAlwaysRecorded,
         .plan = PlanRole::kMadeFor},
        {.name = "hidden",
         .group = "Model",
         .help = "Columns of every hidden layer",
         .value = ModelRow::number(ATOLL_FIELD(hidden), 1, 65536),
         .recorded = kAlwaysRecorded,
         .plan = PlanRole::kMadeFor},
        of_layers("dropout"),
        {.name = "input-dropout",
         .group = "Model",
         .help = "Dropout of the features, in [0, 1)",
         .value = ModelRow::number(ATOLL_FIELD(input_dropout), 0.0, 0.999),
         .recorded = kAlwaysRecorded,
         .plan = PlanRole::kMadeFor},
        of_layers("norm"),
    };
    const OptionTable<ModelConfig> later = {
        {.name = "features",
         .group = "Model",
         .help = "Of a dataset without features: trained:D, a row of D parameters for each node "
                 "(atoll features makes others)",
         .value = ModelRow::text(ATOLL_FIELD(node_features), trained_features_problem),
         .plan = PlanRole::kMadeFor},
        of_layers("norm-place"),
        of_layers("activation"),
        of_layers("skip"),
        of_layers("skip-from"),
        of_layers("root"),
        {.name = "input-layer",
         .group = "Model",
         .help = "A layer x W + b before the first convolution: none, linear, activated, typed "
                 "(activated, with a W and a b for each type of nodes), or auto: activated for "
                 "gcnii, else none",
         .value = ModelRow::name_of(
             ATOLL_FIELD(input_layer),
             {InputLayerChoice::kAuto, InputLayerChoice::kNone, InputLayerChoice::kLinear,
              InputLayerChoice::kActivated, InputLayerChoice::kTyped}),
         .plan = PlanRole::kMadeFor},
        {.name = "head",
         .group = "Model",
         .help = "A layer x W + b that gives the logits: none (the last layer gives them), linear, "
                 "or auto: linear for gcnii and with --jump, else none",
         .value = ModelRow::name_of(ATOLL_FIELD(head),
                                    {HeadChoice::kAuto, HeadChoice::kNone, HeadChoice::kLinear}),
         .plan = PlanRole::kMadeFor},
        {.name = "jump",
         .group = "Model",
         .help = "What the head gets of all layers (jumping knowledge)",
         .value = ModelRow::name_of(ATOLL_FIELD(jump),
                                    {Jump::kLast, Jump::kSum, Jump::kConcatenate, Jump::kMax}),
         .plan = PlanRole::kMadeFor},
        {.name = "hops",
         .group = "Model",
         .help = "steps of propagation",
         .value = ModelRow::number(ATOLL_FIELD(hops), 1, kMostLayers - 1),
         .plan = PlanRole::kMadeFor},
        of_layers("aggregator"),
        of_layers("temperature"),
        of_layers("aggregator-power"),
        of_layers("learn-aggregator"),
        of_layers("alpha"),
        of_layers("theta"),
        of_layers("heads"),
        {.name = "output-heads",
         .group = "Model",
         .help = "heads of the last layer, whose mean gives the logits",
         .value = ModelRow::number(ATOLL_FIELD(output_heads), 1, kMostHeads),
         .plan = PlanRole::kMadeFor},
    };
    const OptionTable<ModelConfig> last = {
        {.name = "decoder",
         .group = "Model",
         .help = "What scores pairs of nodes: dot, the inner product of their embeddings, or mlp, "
                 "layers on top of their product element by element (link-prediction)",
         .value = ModelRow::name_of(ATOLL_FIELD(decoder), {Decoder::kDot, Decoder::kMlp}),
         .plan = PlanRole::kMadeFor},
        {.name = "decoder-layers",
         .group = "Model",
         .help = "Layers of --decoder mlp; the last one gives the score",
         .value = ModelRow::number(ATOLL_FIELD(decoder_layers), 1, 64),
         .plan = PlanRole::kMadeFor},
        {.name = "decoder-dropout",
         .group = "Model",
         .help = "Dropout between layers of --decoder mlp, in [0, 1)",
         .value = ModelRow::number(ATOLL_FIELD(decoder_dropout), 0.0, 0.999),
         .plan = PlanRole::kMadeFor},
        {.name = "model-file",
         .group = "Model",
         .help = "TOML file that describes the model layer by layer, instead of the options of "
                 "this group (docs/models.md)",
         .value = ModelRow::document(ATOLL_FIELD(description), read_model_file),
         .plan = PlanRole::kMadeFor},
    };
    const auto append = [&rows](const ModelRow& row) { rows.push_back(recorded_if_set(row)); };
    for (const ModelRow& row : later) append(row);
    for (const auto& row : layer_options()) {
      if (std::ranges::count(rows, row.name, &ModelRow::name) == 0) {
        append(of_layers(row.name.c_str()));
      }
    }
    for (const ModelRow& row : last) append(row);
    for (ModelRow& row : rows) {
      const std::vector<std::string> readers = readers_of(row.name);
      if (!readers.empty()) row.help = fmt::format("{}: {}", fmt::join(readers, ", "), row.help);
    }
    return rows;
  }();
  return table;
}

void check_model_options(const ModelConfig& model) {
  const std::vector<std::string> kinds = model_kinds();
  const bool is_known = std::ranges::find(kinds, model.kind) != kinds.end();  // if not: describe()
  for (const ModelRow& row : model_options()) {
    if (!is_set(row, model)) continue;
    const bool stands_beside = row.name == "model-file" || row.name == "input-dropout" ||
                               row.name == "features" || row.name.starts_with("decoder");
    if (!model.description.empty() && !stands_beside) {
      fail_option("--{}: the file of --model-file says this; leave one of them out", row.name);
    }
    // An option that is set and read by nobody would be a mistake that nothing shows.
    if (is_known && has_no_use_for(convolution_of_model(model.kind), row.name)) {
      fail_option("--{}: {} has no use for it; leave it out", row.name, model.kind);
    }
  }
  if (model.temperature != ModelConfig().temperature && model.aggregator != Aggregator::kSoftmax) {
    fail_option("--temperature: only --aggregator softmax reads it; found {}",
                to_string(model.aggregator));
  }
  if (model.aggregator_power != ModelConfig().aggregator_power &&
      model.aggregator != Aggregator::kPower) {
    fail_option("--aggregator-power: only --aggregator power reads it; found {}",
                to_string(model.aggregator));
  }
  if (model.skip_from != SkipFrom::kPrevious && model.skip == Skip::kNone) {
    fail_option("--skip-from {}: nothing is added without --skip identity or linear",
                to_string(model.skip_from));
  }
  if (!model.offload_folder.empty() && model.memory.empty()) {
    fail_option(
        "--offload-folder {}: values lie there where memory has no room for them; allowed with "
        "--memory SIZE",
        model.offload_folder);
  }
  if (!model.offload_folder.empty() && model.offload == OffloadChoice::kOff) {
    fail_option("--offload-folder {}: --offload off found; allowed with auto and on",
                model.offload_folder);
  }
  if (model.decoder == Decoder::kDot) {
    for (const char* name : {"decoder-layers", "decoder-dropout"}) {
      if (!is_set(option_named(model_options(), name), model)) continue;
      fail_option("--{}: only --decoder mlp has layers; found dot", name);
    }
  }
  describe(model);
}

const OptionTable<ModelConfig>& computation_options() {
  static const OptionTable<ModelConfig> table = {
      {.name = "messages",
       .group = "Messages",
       .help = "Which messages travel: rows of nodes; or, where layers add up rows of neighbours, "
               "few rows and partial sums that cover the edges (cover); auto: cover where the "
               "model allows it",
       .value = ModelRow::name_of(ATOLL_FIELD(messages),
                                  {MessageForm::kAuto, MessageForm::kRows, MessageForm::kCover}),
       .recorded = [](const ModelConfig& model) { return model.messages != MessageForm::kAuto; },
       .plan = PlanRole::kMadeFor},
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
      {.name = "memory",
       .group = "Machine",
       .help = "Most memory of each rank for graph, features and training, as 8GiB or 500MB: "
               "values are dropped and computed again, or on GPUs kept by the host, or in a file "
               "of --offload-folder, if they must be; the numbers stay",
       .value = ModelRow::text(ATOLL_FIELD(memory), memory_problem)},
      {.name = "offload",
       .group = "Machine",
       .help = "On GPUs, values wait for backward in pinned memory of the host: auto (where "
               "--memory asks for less and that takes less time than computing them again), on "
               "(as many as --memory asks for, without it all) or off",
       .value =
           ModelRow::word<OffloadChoice>(ATOLL_FIELD(offload), {{"auto", OffloadChoice::kAuto},
                                                                {"on", OffloadChoice::kOn},
                                                                {"off", OffloadChoice::kOff}})},
      {.name = "offload-folder",
       .group = "Machine",
       .help = "On CPUs, values for which --memory has no room may lie in a file in this folder of "
               "a fast local disk, where that takes less time than computing them again, or with "
               "--offload on in any case; each rank has a file of its own, which goes with it",
       .value = ModelRow::text(ATOLL_FIELD(offload_folder))},
      {.name = "recompute",
       .group = "Machine",
       .help = "Compute the first layer's output for other ranks' nodes instead of receiving it: "
               "none or all, which sends rows and no partial sums",
       .value = ModelRow::word<bool>(ATOLL_FIELD(recompute_all), {{"none", false}, {"all", true}}),
       .plan = PlanRole::kFixes},
  };
  return table;
}

Json trace_json(const ModelConfig& model) {
  Json json;
  for (const auto* table : {&model_options(), &computation_options()}) {
    for (const ModelRow& row : *table) {
      if (is_made_for(row, model)) json[trace_field(row.name)] = option_json(row, model);
    }
  }
  json["features"] = model.features;
  json["outputs"] = model.outputs;
  for (const auto& [name, count] : kTracedCounts) {
    if (model.*count > 0) json[name] = model.*count;
  }
  if (!model.features_by_type.empty()) json["features_by_type"] = model.features_by_type;
  if (model.trains_nodes()) json["nodes"] = model.nodes;
  return json;
}

ModelConfig read_trace_model(const Json& json, const std::filesystem::path& place) {
  ModelConfig model;
  model.features = json_field<std::int64_t>(json, "features", place);
  model.outputs = json_field<std::int64_t>(json, "outputs", place);
  for (const auto& [name, count] : kTracedCounts) {
    model.*count = json_field_or<std::int64_t>(json, name, place, 0);
  }
  model.features_by_type =
      json_field_or<std::vector<std::int64_t>>(json, "features_by_type", place, {});
  model.nodes = json_field_or<std::int64_t>(json, "nodes", place, 0);
  for (const auto* table : {&model_options(), &computation_options()}) {
    for (const ModelRow& row : *table) {
      if (row.plan != PlanRole::kMadeFor) continue;
      // Options that came later are there if they were set.
      if (!json.contains(trace_field(row.name)) && !row.recorded(ModelConfig())) continue;
      read_option_json(row, json, trace_field(row.name).c_str(), place, model);
    }
  }
  return model;
}

}  // namespace atl
