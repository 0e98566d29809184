#include "engine/models/model.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "base/suggest.hpp"
#include "engine/models/convolutions.hpp"
#include "engine/program/differentiate.hpp"
#include "engine/program/fuse.hpp"
#include "engine/program/operations/rules.hpp"
#include "engine/program/place_halo.hpp"

namespace atl {

const char* to_string(InputLayerChoice choice) {
  return std::array{"auto", "none", "linear", "activated", "typed"}.at(
      static_cast<std::size_t>(choice));
}

const char* to_string(Decoder decoder) {
  return std::array{"dot", "mlp"}.at(static_cast<std::size_t>(decoder));
}

const char* to_string(HeadChoice choice) {
  return std::array{"auto", "none", "linear"}.at(static_cast<std::size_t>(choice));
}

const char* to_string(MultiplyOrder order) {
  return order == MultiplyOrder::kMultiplyFirst ? "multiply-first" : "aggregate-first";
}

std::optional<MultiplyOrder> multiply_order_named(const std::string& name) {
  for (const auto order : {MultiplyOrder::kMultiplyFirst, MultiplyOrder::kAggregateFirst}) {
    if (name == to_string(order)) return order;
  }
  return std::nullopt;
}

namespace {

// The model whose layers have no convolution is not called after it.
constexpr const char* kPlainModel = "mlp";
constexpr const char* kPlainConvolution = "none";

// Writes a described model, layer after layer.
class Writer {
 public:
  Writer(const ModelConfig& config, Pass pass)
      : config_(config),
        model_(describe(config)),
        builder_(pass, config.features, {config.order, config.cache_aggregate, config.algebra},
                 config.input_dropout, {config.relations, config.edge_features},
                 config.trains_nodes()) {}

  Program run() {
    x_ = before_dropout_ = builder_.input();
    if (model_.input) add_input();
    first_ = before_dropout_;
    Value embeddings = x_;
    for (std::size_t l = 0; l < model_.layers.size(); ++l) {
      if (!model_.has_head) embeddings = x_;
      add_layer(l);
    }
    if (!model_.has_head) return builder_.finish(x_, embeddings);
    builder_.begin_head();
    embeddings = jumped();
    return builder_.finish(add_head(embeddings), embeddings);
  }

 private:
  // Sets x_, and what it was before dropout where somebody reads that.
  void activate(Value x, ActivationFunction function, double dropout, bool keeps) {
    before_dropout_ = keeps ? builder_.activate(x, function, 0) : kNoValue;
    x_ = keeps ? builder_.dropout(before_dropout_, dropout)
               : builder_.activate(x, function, dropout);
    if (dropout == 0) before_dropout_ = x_;
  }

  // True if layer `l`, or the layers behind the input layer (-1), give what is read before dropout.
  bool is_read_as_first(int l) const {
    const auto next = static_cast<std::size_t>(l + 1);
    if (l == -1) {
      for (const LayerDescription& layer : model_.layers) {
        if (layer.skip != Skip::kNone && layer.skip_from == SkipFrom::kFirst) return true;
      }
    }
    return next < model_.layers.size() && begins_stretch(next) &&
           convolution_named(model_.layers[next].convolution).reads_first;
  }
  bool begins_stretch(std::size_t l) const {
    return l == 0 || model_.layers[l].convolution != model_.layers[l - 1].convolution;
  }

  void add_input() {
    const ModelDescription::InputLayer& input = *model_.input;
    activate(input.typed
                 ? input_by_type(input.columns)
                 : builder_.bias(builder_.linear(x_, builder_.weight("weight", x_, input.columns))),
             input.activation, input.dropout, is_read_as_first(-1));
  }

  Value input_by_type(std::int64_t columns) {
    if (config_.node_types == 0) {
      fail_option(
          "--input-layer typed: nodes of the dataset have no types; give it node_types.npy, or "
          "choose linear or activated");
    }
    const std::vector<std::int64_t>& widths = config_.features_by_type;
    return builder_.linear_by_type(
        x_, widths.empty() ? std::vector(config_.node_types, config_.features) : widths, columns);
  }

  Value activated(Value x, const LayerOptions& options) {
    if (options.norm != Norm::kNone) x = norm_or_bias(builder_, x, options.norm);
    return builder_.activate(x, options.activation, options.dropout);
  }

  void add_layer(std::size_t l) {
    const LayerDescription& layer = model_.layers[l];
    const ConvolutionKind& kind = convolution_named(layer.convolution);
    builder_.begin_layer(layer.convolution);
    if (begins_stretch(l)) {
      stretch_first_ = before_dropout_;
      number_ = 0;
    }
    ++number_;
    const bool is_last = l + 1 == model_.layers.size();
    const std::int64_t columns = layer.columns > 0    ? layer.columns
                                 : kind.keeps_columns ? builder_.columns(x_)
                                                      : config_.outputs;
    const bool norm_before = layer.norm_place == NormPlace::kBefore;
    const Value x = norm_before ? activated(x_, layer) : x_;
    Value y = convolved(kind, l,
                        {x, kind.reads_first ? stretch_first_ : kNoValue, number_, columns,
                         config_.relations, config_.edge_features, layer});
    // Functions of a user's own program may do anything.
    if (!builder_.is_in_layer(l)) {
      fail_option(
          "{}: its convolution begins or ends more than its layer; it only writes the "
          "layer's operations",
          name_of(l));
    }
    const std::int64_t given = builder_.has_rows(y) ? builder_.columns(y) : 0;
    if (given != columns) {
      fail_option("{}: its convolution gives {}; needed is a value of {} columns", name_of(l),
                  given == 0 ? std::string("no value with a row per node")
                             : fmt::format("a value of {} columns", given),
                  columns);
    }
    y = with_skip(y, l);
    if (norm_before) {
      x_ = before_dropout_ = kind.has_bias ? builder_.bias(y) : y;
    } else {
      if (kind.has_bias || layer.norm != Norm::kNone) y = norm_or_bias(builder_, y, layer.norm);
      activate(y, layer.activation, layer.dropout, is_read_as_first(static_cast<int>(l)));
    }
    if (is_last && !model_.has_head && builder_.columns(x_) != config_.outputs) {
      fail_option(
          "{}: it gives {} columns, but the dataset has {} logits per node; a linear head "
          "turns them into logits",
          name_of(l), builder_.columns(x_), config_.outputs);
    }
    builder_.end_layer(x_);
    outputs_.push_back(x_);
  }

  // Errors begin with an option as a model file has it, where it may be of any layer.
  Value convolved(const ConvolutionKind& kind, std::size_t l, const ConvolutionInput& input) {
    try {
      return kind.make(builder_, input);
    } catch (const Error& error) {
      const std::string text = error.what();
      if (!config_.description.empty()) {
        fail(error.kind(), "model file: {}: {}", name_of(l), text);
      }
      const std::string word = text.substr(0, text.find_first_of(" :"));
      const bool is_option =
          std::ranges::count(layer_options(), word, &Option<LayerOptions>::name) > 0;
      if (is_option) fail(error.kind(), "--{}", text);
      throw;
    }
  }

  std::string name_of(std::size_t l) const {
    return name_of_layer(static_cast<int>(l), model_.layers[l].convolution);
  }

  Value with_skip(Value y, std::size_t l) {
    const LayerDescription& layer = model_.layers[l];
    if (layer.skip == Skip::kNone) return y;
    const Value from = layer.skip_from == SkipFrom::kFirst ? first_ : x_;
    if (layer.skip == Skip::kLinear) {
      const Value weight = builder_.weight("skip_weight", from, builder_.columns(y));
      return builder_.add(y, builder_.linear(from, weight));
    }
    if (builder_.columns(from) != builder_.columns(y)) {
      fail_option(
          "{}: an identity skip adds {} columns to {}; use a linear skip, or an input "
          "layer and a head, between which all layers have the same columns",
          name_of(l), builder_.columns(from), builder_.columns(y));
    }
    return builder_.add(y, from);
  }

  // The input of the head, but for concatenation, which is in its product.
  Value jumped() {
    if (model_.jump == Jump::kLast || model_.jump == Jump::kConcatenate) return outputs_.back();
    Value all = outputs_.front();
    for (std::size_t l = 1; l < outputs_.size(); ++l) {
      if (builder_.columns(outputs_[l]) != builder_.columns(all)) {
        fail_option(
            "{}: it gives {} columns, those before it {}; a {} over layers needs as many "
            "of each",
            name_of(l), builder_.columns(outputs_[l]), builder_.columns(all),
            to_string(model_.jump));
      }
      all = model_.jump == Jump::kSum ? builder_.add(all, outputs_[l])
                                      : builder_.maximum(all, outputs_[l]);
    }
    return all;
  }

  Value add_head(Value x) {
    const LayerDescription& last = model_.layers.back();
    const bool norm_before = last.norm_place == NormPlace::kBefore;
    if (model_.jump != Jump::kConcatenate) {
      if (norm_before) x = activated(x, last);
      return builder_.bias(builder_.linear(x, builder_.weight("weight", x, config_.outputs)));
    }
    std::vector<Value> all = outputs_;
    if (norm_before) all.back() = activated(all.back(), last);
    return builder_.bias(builder_.linear_of_all("weight", all, config_.outputs));
  }

  const ModelConfig& config_;
  ModelDescription model_;
  Builder builder_;
  Value x_ = kNoValue;               // what the next layer gets
  Value before_dropout_ = kNoValue;  // of x_, if it is read
  Value first_ = kNoValue;           // what the first layer gets, before dropout
  Value stretch_first_ = kNoValue;   // the same of the stretch at hand
  int number_ = 0;                   // of the layer in it
  std::vector<Value> outputs_;       // by layer
};

// A layer that gives logits, or a hop between layers.
LayerDescription plain(LayerDescription layer) {
  layer.columns = 0;
  layer.norm = Norm::kNone;
  layer.activation = ActivationFunction::kNone;
  layer.dropout = 0;
  layer.skip = Skip::kNone;
  return layer;
}

ModelDescription describe_options(const ModelConfig& config) {
  const std::vector<std::string> kinds = model_kinds();
  if (std::ranges::find(kinds, config.kind) == kinds.end()) {
    fail_option("--model {}: unknown model{}; allowed are: {}", config.kind,
                did_you_mean(config.kind, kinds), fmt::join(kinds, ", "));
  }
  ModelDescription model;
  const bool is_gcnii = config.kind == "gcnii";
  model.jump = config.jump;
  model.has_head = config.head == HeadChoice::kLinear ||
                   (config.head == HeadChoice::kAuto && (is_gcnii || config.jump != Jump::kLast));
  if (!model.has_head && config.jump != Jump::kLast) {
    fail_option("--jump {}: what it gives needs a linear layer; leave out --head none",
                to_string(config.jump));
  }
  InputLayerChoice input = config.input_layer;
  if (input == InputLayerChoice::kAuto) {
    input = is_gcnii ? InputLayerChoice::kActivated : InputLayerChoice::kNone;
  }
  if (input != InputLayerChoice::kNone) {
    const bool activated = input != InputLayerChoice::kLinear;
    model.input = {config.hidden, activated ? config.activation : ActivationFunction::kNone,
                   config.dropout, input == InputLayerChoice::kTyped};
  }

  LayerDescription layer;
  static_cast<LayerOptions&>(layer) = config;
  const auto count = static_cast<std::size_t>(config.layers);
  const auto add = [&](std::size_t layers, const char* convolution) {
    LayerDescription hop = plain(layer);
    hop.convolution = convolution;
    model.layers.insert(model.layers.end(), layers, hop);
  };
  layer.columns = config.hidden;
  if (config.kind == "sgc") {
    add(count, "sgc");
    add(model.has_head ? 0 : 1, "none");
    return model;
  }
  layer.convolution = config.kind == "appnp" ? "none" : convolution_of(config.kind);
  if (convolution_named(layer.convolution).keeps_columns) layer.columns = 0;
  model.layers.assign(count, layer);
  if (!model.has_head) {
    model.layers.back() = plain(layer);
    model.layers.back().heads = config.output_heads;
    model.layers.back().averages_heads = true;
  }
  if (config.kind == "appnp") add(static_cast<std::size_t>(config.hops), "appnp");
  return model;
}

// The forward half of the program that scores pairs of embeddings of this model.
Program write_decoder(const ModelConfig& config, Pass pass, const Program& model) {
  Builder builder(pass, model, config.outputs);
  if (config.decoder == Decoder::kDot) return builder.finish_pairs(builder.pair_dots());
  Value x = builder.pair_products();
  for (int l = 0; l < config.decoder_layers; ++l) {
    if (l > 0) builder.begin_decoder_layer();
    const bool is_last = l + 1 == config.decoder_layers;
    const Value weight = builder.weight("weight", x, is_last ? 1 : config.outputs);
    x = builder.bias(builder.linear(x, weight));
    if (!is_last) x = builder.activate(x, ActivationFunction::kRelu, config.decoder_dropout);
  }
  return builder.finish_pairs(builder.scores(x));
}

// From a forward half to what a backend runs.
void complete(Program& program, const ModelConfig& config, Pass pass, PartOfEpoch part) {
  program.wide_elements =
      static_cast<int>(bytes_of(parameter_dtype(config.dtype)) / bytes_of(config.dtype));
  if (pass == Pass::kTraining) differentiate(program, part);
  // A program of pairs reads whole rows alone.
  if (part == PartOfEpoch::kWhole) shard_columns(program, config.column_share);
  fuse(program);
}

}  // namespace

ModelConfig ModelConfig::sized(const DataSizes& sizes, int ranks) const {
  ModelConfig result = *this;
  static_cast<DataSizes&>(result) = sizes;
  if (trains_nodes()) {
    if (sizes.features > 0) {
      fail_option(
          "--features {}: the dataset has {} features, and rows are trained only where there are "
          "none; leave the option out",
          node_features, sizes.features);
    }
    result.features = parse_feature_source(node_features).columns;
  }
  if (recompute_all) result.recomputation = Recomputation::of_all_pairs(ranks);
  // With a limit only as much as it asks for: see savings_within().
  if (offload == OffloadChoice::kOn && memory.empty()) result.offloading = kOffloadAll;
  return result;
}

std::vector<std::string> model_kinds() {
  std::vector<std::string> names = convolution_names();
  std::ranges::replace(names, std::string(kPlainConvolution), std::string(kPlainModel));
  return names;
}

std::string convolution_of(const std::string& kind) {
  return kind == kPlainModel ? kPlainConvolution : kind;
}

std::string model_name(const ModelConfig& config) {
  return config.description.empty() ? config.kind : "model file";
}

std::string model_word(const ModelConfig& config) {
  return config.description.empty() ? config.kind : "file";
}

ModelDescription describe(const ModelConfig& config) {
  ModelDescription model =
      config.description.empty()
          ? describe_options(config)
          : parse_description(parse_json(config.description, "model file"), "model file");
  if (model.layers.size() > kMostLayers) {
    fail_option("--layers {}: {} layers with those for hops; allowed are {} in all", config.layers,
                model.layers.size(), kMostLayers);
  }
  return model;
}

int layer_count(const ModelConfig& config) {
  return static_cast<int>(describe(config).layers.size());
}

bool reads(const ModelConfig& config, GraphData data) {
  return reads(model_program(config, Pass::kEvaluation), data);
}

std::vector<std::string> doubts_about(const ModelConfig& config) {
  constexpr std::int64_t kFewColumns = 4;
  const ModelDescription model = describe(config);
  const Program program = model_program(config, Pass::kEvaluation);
  for (Value v = 0; v < program.size(); ++v) {
    const Operation& op = program.at(v);
    if (!op.is(rules::kAttend)) continue;
    const int heads = op.as<AttentionOptions>().heads;
    const auto l = static_cast<std::size_t>(program.scope_of(v).layer);
    // Heads whose mean is taken have all columns of the layer each.
    const bool shares_columns = heads > 1 && !model.layers[l].averages_heads;
    if (!shares_columns || op.columns >= kFewColumns * heads) continue;
    const char* option = config.description.empty() ? "--hidden" : "columns";
    const std::int64_t columns = op.columns / heads;
    return {fmt::format(
        "{}: with {} heads and {} {} each head has {} column{}, since {} counts those of all heads "
        "together; as wide as PyTorch Geometric's GATConv with out_channels={} is {} {}",
        name_of_layer(static_cast<int>(l), model.layers[l].convolution), heads, option, op.columns,
        columns, columns == 1 ? "" : "s", option, op.columns, option, op.columns * heads)};
  }
  return {};
}

bool covers_messages(const ModelConfig& config, const Program& program) {
  const bool can = only_adds_neighbours(program);
  if (config.messages == MessageForm::kCover && !can) {
    fail_option(
        "--messages cover: this model reads rows of neighbours one by one, and partial sums can't "
        "stand for them; use auto or rows");
  }
  return can && config.messages != MessageForm::kRows;
}

bool can_recompute(const ModelConfig& config) {
  ModelConfig plain = config;
  plain.recomputation = Recomputation();
  Program program = model_program(plain, Pass::kTraining);
  return compute_halo_rows(program);
}

Program pair_program(const ModelConfig& config, Pass pass) {
  Program program = write_decoder(config, pass, Writer(config, pass).run());
  complete(program, config, pass, PartOfEpoch::kLoss);
  return program;
}

Program model_program(const ModelConfig& config, Pass pass) {
  Program program = Writer(config, pass).run();
  // Inner products have none.
  if (config.decoder != Decoder::kDot) {
    program.parameters = write_decoder(config, pass, program).parameters;
  }
  if (config.trains_nodes()) declare_node_parameters(program, config.nodes);
  complete(program, config, pass, PartOfEpoch::kWhole);
  if (config.recomputation.any() && !compute_halo_rows(program)) {
    fail_option(
        "--recompute: only a first layer that keeps its aggregate can be computed for halo rows, "
        "and only a layer after it needs them; this takes --layers 2 or more, --input-dropout 0, "
        "--cache-aggregate on, no input layer and an order that aggregates first there");
  }
  if (pass == Pass::kTraining) {
    drop_values(program, config.dropping);
    offload_values(program, config.offloading);
  }
  return program;
}

}  // namespace atl
