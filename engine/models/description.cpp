#include "engine/models/description.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/config_text.hpp"
#include "engine/models/convolutions.hpp"
#include "engine/models/model_options.hpp"

namespace atl {

const char* to_string(Norm norm) {
  return std::array{"none", "layer", "batch"}.at(static_cast<std::size_t>(norm));
}
const char* to_string(NormPlace place) { return place == NormPlace::kAfter ? "after" : "before"; }
const char* to_string(Skip skip) {
  return std::array{"none", "identity", "linear"}.at(static_cast<std::size_t>(skip));
}
const char* to_string(SkipFrom from) { return from == SkipFrom::kPrevious ? "previous" : "first"; }
const char* to_string(Root root) {
  return std::array{"usual", "none", "identity", "epsilon", "linear"}.at(
      static_cast<std::size_t>(root));
}
const char* to_string(Aggregator aggregator) {
  return std::array{"mean", "sum", "max", "softmax", "power"}.at(
      static_cast<std::size_t>(aggregator));
}
const char* to_string(AttentionNorm norm) {
  return norm == AttentionNorm::kNone ? "none" : "symmetric";
}
const char* to_string(Jump jump) {
  return std::array{"last", "sum", "concatenate", "max"}.at(static_cast<std::size_t>(jump));
}

namespace {

using LayerRow = Option<LayerOptions>;

constexpr auto kActivations = {ActivationFunction::kRelu, ActivationFunction::kLeakyRelu,
                               ActivationFunction::kElu, ActivationFunction::kGelu,
                               ActivationFunction::kNone};

// Fields of an entry that a file gives from a table.
template <typename Config>
void read_fields(const OptionTable<Config>& table, const Json& entry, const std::string& place,
                 Config& to) {
  if (!entry.is_object()) fail_option("{}: it is no table of keys and values", place);
  for (const auto& [key, value] : entry.items()) {
    const auto row = std::ranges::find(table, key, &Option<Config>::name);
    if (row == table.end()) {
      std::vector<std::string> allowed;
      for (const Option<Config>& known : table) allowed.push_back(known.name);
      fail_option("{}: unknown key '{}'; allowed are {}", place, key, fmt::join(allowed, ", "));
    }
    read_option_json(*row, entry, key.c_str(), place, to);
  }
}

using InputLayer = ModelDescription::InputLayer;

const OptionTable<InputLayer>& input_fields() {
  using Row = Option<InputLayer>;
  static const OptionTable<InputLayer> table = {
      {.name = "columns", .value = Row::number(ATOLL_FIELD(columns), 1, 65536)},
      {.name = "activation", .value = Row::name_of(ATOLL_FIELD(activation), kActivations)},
      {.name = "dropout", .value = Row::number(ATOLL_FIELD(dropout), 0.0, 0.999)},
      {.name = "typed", .value = Row::on_or_off(ATOLL_FIELD(typed))},
  };
  return table;
}

struct HeadFields {
  Jump jump = Jump::kLast;
  bool linear = false;
};

const OptionTable<HeadFields>& head_fields() {
  using Row = Option<HeadFields>;
  static const OptionTable<HeadFields> table = {
      {.name = "jump",
       .value = Row::name_of(ATOLL_FIELD(jump),
                             {Jump::kLast, Jump::kSum, Jump::kConcatenate, Jump::kMax})},
      {.name = "layer",
       .value = Row::word<bool>(ATOLL_FIELD(linear), {{"linear", true}, {"none", false}})},
  };
  return table;
}

struct LayerEntry {
  int repeat = 1;
  LayerDescription layer;
};

const OptionTable<LayerEntry>& layer_fields() {
  using Row = Option<LayerEntry>;
  static const OptionTable<LayerEntry> table = [] {
    OptionTable<LayerEntry> rows = {
        {.name = "repeat", .value = Row::number(ATOLL_FIELD(repeat), 1, kMostLayers)},
        {.name = "convolution",
         .value = Row::text_of(ATOLL_FIELD(layer.convolution), convolution_names())},
        {.name = "columns", .value = Row::number(ATOLL_FIELD(layer.columns), 1, 65536)},
    };
    for (const LayerRow& row : layer_options()) {
      rows.push_back(row.inside<LayerDescription>(InBase<LayerOptions>())
                         .inside<LayerEntry>(ATOLL_FIELD(layer)));
    }
    return rows;
  }();
  return table;
}

template <typename Config>
Json fields_json(const OptionTable<Config>& table, const Config& config) {
  Json json = Json::object();
  for (const Option<Config>& row : table) json[row.name] = option_json(row, config);
  return json;
}

// A key that is given and read by nobody would be a mistake that nothing shows.
void require_readers(const Json& entry, const std::string& place) {
  LayerEntry read;
  read_fields(layer_fields(), entry, place, read);
  const LayerDescription& layer = read.layer;
  const ConvolutionKind& kind = convolution_named(layer.convolution);
  for (const auto& [key, value] : entry.items()) {
    if (!is_for_others(kind, key)) continue;
    fail_option("{}: '{}': {} has no use for it; leave it out", place, key, kind.name);
  }
  for (const auto& [key, reader] :
       {std::pair{"temperature", Aggregator::kSoftmax}, {"aggregator-power", Aggregator::kPower}}) {
    if (!entry.contains(key) || layer.aggregator == reader) continue;
    fail_option("{}: '{}': only aggregator = \"{}\" reads it; found \"{}\"", place, key,
                to_string(reader), to_string(layer.aggregator));
  }
  if (entry.contains("skip-from") && layer.skip == Skip::kNone) {
    fail_option("{}: 'skip-from': nothing is added without skip = \"identity\" or \"linear\"",
                place);
  }
}

// TOML as JSON; dates and times as text.
Json to_json(const toml::node& node) {
  Json json;
  if (const auto* table = node.as_table()) {
    json = Json::object();
    for (const auto& [key, value] : *table) json[std::string(key.str())] = to_json(value);
  } else if (const auto* array = node.as_array()) {
    json = Json::array();
    for (const toml::node& item : *array) json.push_back(to_json(item));
  } else if (const auto* text = node.as_string()) {
    json = text->get();
  } else if (const auto* whole = node.as_integer()) {
    json = whole->get();
  } else if (const auto* number = node.as_floating_point()) {
    json = number->get();
  } else if (const auto* flag = node.as_boolean()) {
    json = flag->get();
  } else {
    json = "date or time";
  }
  return json;
}

}  // namespace

std::string read_model_file(const std::filesystem::path& path) {
  const std::string file = path.string();
  const Json json = to_json(parse_config(read_config_text(path), file));
  parse_description(json, file);
  // Not of models that were trained before: they are what they were.
  for (std::size_t i = 0; i < json.at("layer").size(); ++i) {
    require_readers(json.at("layer")[i], fmt::format("{}: [[layer]] {}", file, i + 1));
  }
  return json.dump();
}

const OptionTable<LayerOptions>& layer_options() {
  static const OptionTable<LayerOptions> table = {
      {.name = "dropout",
       .group = "Model",
       .help = "Dropout after each hidden layer, in [0, 1)",
       .value = LayerRow::number(ATOLL_FIELD(dropout), 0.0, 0.999),
       .recorded = kAlwaysRecorded},
      {.name = "norm",
       .group = "Model",
       .help = "Normalisation of each hidden layer",
       .value = LayerRow::name_of(ATOLL_FIELD(norm), {Norm::kNone, Norm::kLayer, Norm::kBatch}),
       .recorded = kAlwaysRecorded,
       .plan = PlanRole::kMadeFor},
      {.name = "norm-place",
       .group = "Model",
       .help = "Norm, activation and dropout after each convolution or before it",
       .value = LayerRow::name_of(ATOLL_FIELD(norm_place), {NormPlace::kAfter, NormPlace::kBefore}),
       .plan = PlanRole::kMadeFor},
      {.name = "activation",
       .group = "Model",
       .help = "Activation of each hidden layer",
       .value = LayerRow::name_of(ATOLL_FIELD(activation), kActivations),
       .plan = PlanRole::kMadeFor},
      {.name = "skip",
       .group = "Model",
       .help = "What is added to each hidden layer's convolution: nothing, its input, or a linear "
               "layer of it",
       .value = LayerRow::name_of(ATOLL_FIELD(skip), {Skip::kNone, Skip::kIdentity, Skip::kLinear}),
       .plan = PlanRole::kMadeFor},
      {.name = "skip-from",
       .group = "Model",
       .help = "Which input --skip adds: the layer's own, or the first layer's",
       .value = LayerRow::name_of(ATOLL_FIELD(skip_from), {SkipFrom::kPrevious, SkipFrom::kFirst}),
       .plan = PlanRole::kMadeFor},
      {.name = "root",
       .group = "Model",
       .help = "what a convolution adds of the node's own row: what is usual for it, nothing, the "
               "row, (1 + a trained number) times the row, or a linear layer of it",
       .value = LayerRow::name_of(ATOLL_FIELD(root), {Root::kUsual, Root::kNone, Root::kIdentity,
                                                      Root::kEpsilon, Root::kLinear}),
       .plan = PlanRole::kMadeFor},
      {.name = "aggregator",
       .group = "Model",
       .help = "what it makes of the rows of neighbours",
       .value = LayerRow::name_of(ATOLL_FIELD(aggregator),
                                  {Aggregator::kMean, Aggregator::kSum, Aggregator::kMax,
                                   Aggregator::kSoftmax, Aggregator::kPower}),
       .plan = PlanRole::kMadeFor},
      {.name = "temperature",
       .group = "Model",
       .help = "what numbers are multiplied with before exp() (--aggregator softmax)",
       .value = LayerRow::number(ATOLL_FIELD(temperature), -1000.0, 1000.0)},
      {.name = "aggregator-power",
       .group = "Model",
       .help = "p of the mean (mean of x^p)^(1/p) of numbers from 1e-7 to 10 (--aggregator power); "
               "not 0",
       .value = LayerRow::number(ATOLL_FIELD(aggregator_power), -100.0, 100.0)},
      {.name = "learn-aggregator",
       .group = "Model",
       .help = "train the temperature or the power of --aggregator softmax or power, one for each "
               "layer, from the value given",
       .value = LayerRow::on_or_off(ATOLL_FIELD(learns_aggregator)),
       .plan = PlanRole::kMadeFor},
      {.name = "alpha",
       .group = "Model",
       .help = "share of the first row in every layer, in [0, 1]",
       .value = LayerRow::number(ATOLL_FIELD(alpha), 0.0, 1.0)},
      {.name = "theta",
       .group = "Model",
       .help = "layer l multiplies by its weight with share log(theta / l + 1)",
       .value = LayerRow::above(ATOLL_FIELD(theta), 0)},
      {.name = "heads",
       .group = "Model",
       .help = "heads of attention",
       .value = LayerRow::number(ATOLL_FIELD(heads), 1, kMostHeads),
       .plan = PlanRole::kMadeFor},
      {.name = "average-heads",
       .group = "Model",
       .help = "a layer gives the mean of its heads instead of all side by side",
       .value = LayerRow::on_or_off(ATOLL_FIELD(averages_heads)),
       .plan = PlanRole::kMadeFor},
      {.name = "attention-dropout",
       .group = "Model",
       .help = "dropout of the coefficients of edges, in [0, 1)",
       .value = LayerRow::number(ATOLL_FIELD(attention_dropout), 0.0, 0.999)},
      {.name = "attention-norm",
       .group = "Model",
       .help = "symmetric multiplies what is weighted by out-degree^-1/2 of its "
               "node and what a node gets by in-degree^1/2",
       .value = LayerRow::name_of(ATOLL_FIELD(attention_norm),
                                  {AttentionNorm::kNone, AttentionNorm::kSymmetric}),
       .plan = PlanRole::kMadeFor},
      {.name = "edge-scores",
       .group = "Model",
       .help = "features of edges (edge_features.npy) take part in the scores of "
               "attention",
       .value = LayerRow::on_or_off(ATOLL_FIELD(edge_scores)),
       .plan = PlanRole::kMadeFor},
      {.name = "bases",
       .group = "Model",
       .help = "the weights of relations are sums of so many matrices, with trained factors; "
               "0: each relation has a matrix of its own",
       .value = LayerRow::number(ATOLL_FIELD(bases), 0, kMostBases),
       .plan = PlanRole::kMadeFor},
  };
  return table;
}

ModelDescription parse_description(const Json& file, const std::string& place) {
  if (!file.is_object()) fail_option("{}: it is no table of keys and values", place);
  for (const auto& [key, value] : file.items()) {
    if (key != "input" && key != "head" && key != "layer") {
      fail_option("{}: unknown key '{}'; allowed are input, head and [[layer]]", place, key);
    }
  }
  ModelDescription model;
  if (file.contains("input")) {
    const std::string at = place + ": input";
    InputLayer& input = *(model.input = InputLayer{});
    read_fields(input_fields(), file.at("input"), at, input);
    if (input.columns == 0) fail_option("{}: 'columns' is missing", at);
  }
  if (file.contains("head")) {
    HeadFields head;
    const std::string at = place + ": head";
    read_fields(head_fields(), file.at("head"), at, head);
    model.jump = head.jump;
    model.has_head = head.linear;
    if (head.jump != Jump::kLast && !head.linear) {
      fail_option("{}: jump = \"{}\" needs layer = \"linear\"", at, to_string(head.jump));
    }
  }
  const Json layers = file.contains("layer") ? file.at("layer") : Json::array();
  if (!layers.is_array() || layers.empty()) {
    fail_option("{}: it has no [[layer]]; a model has at least one", place);
  }
  // Which layer gives the logits if no head does: the last one that changes columns.
  std::size_t output = layers.size();
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const std::string name = layers[i].is_object() && layers[i].contains("convolution") &&
                                     layers[i].at("convolution").is_string()
                                 ? layers[i].at("convolution").get<std::string>()
                                 : LayerDescription().convolution;
    const auto kind = std::ranges::find(convolution_kinds(), name, &ConvolutionKind::name);
    // An unknown one gets its own message below.
    if (kind == convolution_kinds().end() || !kind->keeps_columns) output = i;
  }
  if (!model.has_head && output == layers.size()) {
    fail_option(
        "{}: no layer gives the logits: it needs head = {{layer = \"linear\"}}, or a layer "
        "with a weight that changes the number of columns",
        place);
  }
  for (std::size_t i = 0; i < layers.size(); ++i) {
    LayerEntry entry;
    entry.layer.dropout = 0;
    const std::string at = fmt::format("{}: [[layer]] {}", place, i + 1);
    read_fields(layer_fields(), layers[i], at, entry);
    const ConvolutionKind& kind = convolution_named(entry.layer.convolution);
    const bool gives_logits = !model.has_head && i == output;
    if (gives_logits) {
      if (entry.repeat != 1) {
        fail_option(
            "{}: it gives the logits, so 'repeat' is left out; a model with "
            "head = {{layer = \"linear\"}} has no such layer",
            at);
      }
      for (const char* key : {"columns", "norm", "activation", "dropout"}) {
        if (!layers[i].contains(key)) continue;
        fail_option(
            "{}: it gives the logits, so '{}' is left out; a model with "
            "head = {{layer = \"linear\"}} has no such layer",
            at, key);
      }
    } else if (kind.keeps_columns && entry.layer.columns > 0) {
      fail_option("{}: {} gives as many columns as it gets; leave out 'columns'", at, kind.name);
    } else if (!kind.keeps_columns && entry.layer.columns == 0) {
      fail_option("{}: 'columns' is missing", at);
    }
    const bool is_plain = gives_logits || !kind.has_weight;
    if (is_plain && !layers[i].contains("activation")) {
      entry.layer.activation = ActivationFunction::kNone;
    }
    const auto repeat = static_cast<std::size_t>(entry.repeat);
    if (model.layers.size() + repeat > kMostLayers) {
      fail_option("{}: more than {} layers", place, kMostLayers);
    }
    model.layers.insert(model.layers.end(), repeat, entry.layer);
  }
  return model;
}

Json description_json(const ModelDescription& model) {
  Json json = {{"input", nullptr},
               {"head", fields_json(head_fields(), {model.jump, model.has_head})},
               {"layer", Json::array()}};
  if (model.input) json["input"] = fields_json(input_fields(), *model.input);
  for (const LayerDescription& layer : model.layers) {
    json["layer"].push_back(fields_json(layer_fields(), {.repeat = 1, .layer = layer}));
    json["layer"].back().erase("repeat");
  }
  return json;
}

}  // namespace atl
