#include "launch/pyg_module.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "engine/models/convolutions.hpp"
#include "engine/training/pyg_convolutions.hpp"

namespace atl {

namespace {

constexpr const char* kText =
    R"("""A model that Atoll has trained ({name}, {layers} layers), as classes of PyTorch Geometric.

    model = load()
    logits = model(*read_dataset("data/mine"))
"""

import pathlib

import numpy
import torch
from safetensors.torch import load_file
from torch.nn import functional
{imports}{definitions}

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
{modules}

    def forward(self, x, edge_index, edge_weight=None, edge_type=None, edge_attr=None, node_type=None):
        """Logits [nodes, {outputs}] of {x}; edge_index [2, edges] has sources and targets."""
{checks}{forward}
{score}

def load():
    """The model with the weights of model.safetensors beside this file, not in training mode."""
    model = Model()
    model.load_state_dict(load_file(pathlib.Path(__file__).with_name("model.safetensors")))
    return model.eval()


def read_dataset(folder):
    """x, edge_index and, or None, edge_weight, edge_type, edge_attr and node_type of a dataset folder of Atoll."""
    def read(name):
        file = pathlib.Path(folder) / f"{{name}}.npy"
        return torch.from_numpy(numpy.load(file)) if file.exists() else None

    x, row_ptr, source = read("features"), read("row_ptr"), read("col_idx").long()
    target = torch.repeat_interleave(torch.arange(len(row_ptr) - 1), row_ptr.diff())
    weights, types, features, node_types = (
        read(name) for name in ("edge_weights", "edge_types", "edge_features", "node_types"))
    types, node_types = (None if t is None else t.long() for t in (types, node_types))
    return x, torch.stack([source, target]), weights, types, features, node_types
)";

// PyG's PowerMeanAggregation has other bounds, and in some versions takes no power of what it adds.
constexpr const char* kPowerMean = R"(
class PowerMean(Aggregation):
    """(mean of b^p)^(1/p) of numbers b, x but at least 1e-7 and at most 10; 0 of none."""

    def __init__(self, p, learn=False):
        super().__init__()
        self.p = torch.nn.Parameter(torch.tensor([float(p)])) if learn else p

    def forward(self, x, index=None, ptr=None, dim_size=None, dim=-2):
        scores = self.p * x.clamp(1e-7, 10).log()
        most = self.reduce(scores, index, ptr, dim_size, dim, reduce="max")
        mean = self.reduce((scores - most.index_select(dim, index)).exp(), index, ptr, dim_size, dim,
                           reduce="mean")
        return torch.where(mean > 0, ((most + mean.log()) / self.p).exp(), 0)
)";

using Lines = std::vector<std::string>;

// A module for a function, or the function of `x`.
std::string activation_module(ActivationFunction function) {
  switch (function) {
    case ActivationFunction::kRelu:
      return "torch.nn.ReLU()";
    case ActivationFunction::kLeakyRelu:
      return fmt::format("torch.nn.LeakyReLU({})", kLeakySlope);
    case ActivationFunction::kElu:
      return "torch.nn.ELU()";
    case ActivationFunction::kGelu:
      return "torch.nn.GELU()";
    default:
      return "torch.nn.Identity()";
  }
}

std::string activated(ActivationFunction function, const std::string& x) {
  switch (function) {
    case ActivationFunction::kRelu:
      return fmt::format("torch.relu({})", x);
    case ActivationFunction::kLeakyRelu:
      return fmt::format("functional.leaky_relu({}, {})", x, kLeakySlope);
    case ActivationFunction::kElu:
      return fmt::format("functional.elu({})", x);
    case ActivationFunction::kGelu:
      return fmt::format("functional.gelu({})", x);
    default:
      return x;
  }
}

std::string dropped(double probability, const std::string& x) {
  return probability == 0
             ? x
             : fmt::format("functional.dropout({}, {}, self.training)", x, probability);
}

std::string norm_module(Norm norm, std::int64_t columns) {
  switch (norm) {
    case Norm::kBatch:
      return fmt::format("torch.nn.BatchNorm1d({})", columns);
    case Norm::kLayer:
      return fmt::format("torch.nn.LayerNorm({})", columns);
    default:
      return "torch.nn.Identity()";
  }
}

const char* python(bool value) { return value ? "True" : "False"; }

// How often each is repeated from each place on.
std::size_t repetitions(const Lines& items, std::size_t from) {
  std::size_t end = from;
  while (end < items.size() && items[end] == items[from]) ++end;
  return end - from;
}

// self.NAME as a list of modules, equal ones that follow each other as one.
void add_module_list(Lines& lines, const char* name, const Lines& modules) {
  lines.push_back(fmt::format("self.{} = torch.nn.ModuleList([", name));
  for (std::size_t i = 0; i < modules.size();) {
    const std::size_t count = repetitions(modules, i);
    lines.push_back(count == 1 ? fmt::format("    {},", modules[i])
                               : fmt::format("    *[{} for _ in range({})],", modules[i], count));
    i += count;
  }
  lines.emplace_back("])");
}

// Writes the class, layer by layer as engine/models/model.cpp writes the program.
class Module {
 public:
  explicit Module(const ModelConfig& config) : config_(config), model_(describe(config)) {
    for (const DeclaredParameter& p : model_program(config, Pass::kEvaluation).parameters) {
      parameters_[p.name] = p;
    }
    for (std::size_t l = 0; l < model_.layers.size(); ++l) {
      rows_.push_back(&pyg_convolution(model_.layers[l], l));
    }
  }

  std::string text() const {
    return fmt::format(fmt::runtime(kText), fmt::arg("name", model_name(config_)),
                       fmt::arg("layers", model_.layers.size()), fmt::arg("imports", imports()),
                       fmt::arg("definitions", definitions()),
                       fmt::arg("modules", indented(modules())),
                       fmt::arg("outputs", config_.outputs), fmt::arg("x", described_input()),
                       fmt::arg("checks", checks()), fmt::arg("forward", indented(forward())),
                       fmt::arg("score", score()));
  }

 private:
  // What the modules of a layer are called where they are used.
  struct Names {
    std::string conv, norm, skip;
  };

  static std::string indented(Lines lines) {
    for (std::string& line : lines) line.insert(0, "        ");
    return fmt::format("{}", fmt::join(lines, "\n"));
  }

  std::string imports() const {
    std::set<std::string_view> names;
    for (const PygConvolution* row : rows_) {
      if (!row->import.empty()) names.insert(row->import);
    }
    if (is_typed()) names.insert("HeteroLinear");
    if (takes_powers()) names.insert("Aggregation");
    if (names.empty()) return "";
    return fmt::format("from torch_geometric.nn import {}\n", fmt::join(names, ", "));
  }

  bool takes_powers() const {
    return std::ranges::any_of(model_.layers, [](const LayerDescription& layer) {
      return layer.convolution == "sage" && layer.aggregator == Aggregator::kPower;
    });
  }

  bool is_typed() const { return model_.input && model_.input->typed; }

  std::string definitions() const {
    std::vector<std::string_view> texts;
    for (const PygConvolution* row : rows_) {
      const bool is_new = std::ranges::find(texts, row->definition) == texts.end();
      if (!row->definition.empty() && is_new) texts.push_back(row->definition);
    }
    std::string result;
    if (takes_powers()) result += fmt::format("\n{}", kPowerMean);
    for (const std::string_view text : texts) result += fmt::format("\n{}", text);
    return result;
  }

  // Lines before those of the layers.
  std::string checks() const {
    const bool refuses_weights =
        std::ranges::any_of(rows_, [](const PygConvolution* row) { return row->refuses_weights; });
    if (!refuses_weights) return "";
    return indented({"if edge_weight is not None:",
                     "    raise ValueError(\"RGCNConv takes no weights of edges\")"}) +
           "\n";
  }

  // What an MLP makes of pairs of nodes.
  std::string score() const {
    if (config_.decoder != Decoder::kMlp) return "";
    return fmt::format(R"(
    def score(self, z, pairs):
        """Scores [n] of pairs [2, n] of nodes with embeddings z = self(...)."""
        x = z[pairs[0]] * z[pairs[1]]
        for layer in self.decoder[:-1]:
            x = {}
        return self.decoder[-1](x).squeeze(1)
)",
                       dropped(config_.decoder_dropout, "torch.relu(layer(x))"));
  }

  bool has(std::size_t l, const char* parameter) const {
    return parameters_.contains(fmt::format("layers.{}.{}", l, parameter));
  }
  std::string described_input() const {
    return config_.trains_nodes()
               ? fmt::format("the {} nodes that it was trained on (x is not read)", config_.nodes)
               : fmt::format("x [nodes, {}]", config_.features);
  }
  const DeclaredParameter* find(const std::string& name) const {
    const auto found = parameters_.find(name);
    return found == parameters_.end() ? nullptr : &found->second;
  }
  // "layers.0.norm" as a module.
  std::string norm_of(const std::string& name, Norm norm) const {
    const DeclaredParameter* gamma = find(name + ".weight");
    return gamma == nullptr ? norm_module(Norm::kNone, 0) : norm_module(norm, gamma->columns);
  }

  std::string linear_of(const std::string& weight, bool has_bias) const {
    const DeclaredParameter& matrix = parameters_.at(weight);
    return fmt::format("torch.nn.Linear({}, {}, bias={})", matrix.rows, matrix.columns,
                       python(has_bias));
  }

  std::string input() const {
    if (!is_typed()) return linear_of("input.weight", true);
    const DeclaredParameter& matrices = parameters_.at("input.weight");
    return fmt::format("HeteroLinear({}, {}, {})", config_.features, matrices.columns,
                       matrices.stacked);
  }

  // With the options of its class.
  static std::string aggregator(const LayerDescription& layer) {
    const char* const name = to_string(layer.aggregator);
    if (layer.aggregator == Aggregator::kPower) {
      return fmt::format("PowerMean({}{})", static_cast<float>(layer.aggregator_power),
                         layer.learns_aggregator ? ", learn=True" : "");
    }
    if (layer.aggregator != Aggregator::kSoftmax) return fmt::format("\"{}\"", name);
    return fmt::format("\"{}\", aggr_kwargs={{\"t\": {}{}}}", name,
                       static_cast<float>(layer.temperature),
                       layer.learns_aggregator ? ", \"learn\": True" : "");
  }

  std::string convolution(std::size_t l, int number) const {
    const LayerDescription& layer = model_.layers[l];
    const std::string prefix = fmt::format("layers.{}.", l);
    const DeclaredParameter* weight = find(prefix + "weight");
    const std::int64_t columns = weight == nullptr ? 0 : weight->columns;
    const bool activates = layer.activation != ActivationFunction::kNone;
    return fmt::format(
        fmt::runtime(rows_[l]->constructor),
        fmt::arg("in", weight == nullptr ? 0 : weight->rows / weight->stacked),
        fmt::arg("aggregator", aggregator(layer)), fmt::arg("relations", config_.relations),
        fmt::arg("edge_features", config_.edge_features),
        fmt::arg("bases", layer.bases == 0 ? "None" : std::to_string(layer.bases)),
        fmt::arg("out", columns), fmt::arg("heads", layer.heads),
        fmt::arg("head_out", columns / layer.heads),
        fmt::arg("concat", python(!layer.averages_heads)),
        fmt::arg("attention_dropout", layer.attention_dropout),
        fmt::arg("self", python(layer.root != Root::kNone)),
        fmt::arg("edge_dim", layer.edge_scores ? std::to_string(config_.edge_features) : "None"),
        fmt::arg("bias", python(has(l, "bias"))), fmt::arg("root", python(has(l, "root_weight"))),
        fmt::arg("alpha", layer.alpha), fmt::arg("theta", layer.theta), fmt::arg("number", number),
        fmt::arg("hidden_bias", python(has(l, "hidden_bias"))),
        fmt::arg("hidden_norm", norm_of(prefix + "hidden_norm", layer.norm)),
        fmt::arg("activation",
                 activation_module(activates ? layer.activation : ActivationFunction::kRelu)),
        fmt::arg("epsilon", layer.root == Root::kNone ? -1 : 0),
        fmt::arg("trains_epsilon", python(has(l, "epsilon"))));
  }

  Lines modules() const {
    Lines lines;
    Lines convs;
    Lines norms;
    Lines skips;
    int number = 0;
    for (std::size_t l = 0; l < model_.layers.size(); ++l) {
      number = begins_run(l) ? 1 : number + 1;
      convs.push_back(convolution(l, number));
      norms.push_back(norm_of(fmt::format("layers.{}.norm", l), model_.layers[l].norm));
      const std::string skip = fmt::format("layers.{}.skip_weight", l);
      skips.push_back(find(skip) == nullptr ? "torch.nn.Identity()" : linear_of(skip, false));
    }
    if (config_.trains_nodes()) {
      lines.push_back(
          fmt::format("self.nodes = torch.nn.Embedding({}, {})", config_.nodes, config_.features));
    }
    if (model_.input) lines.push_back("self.input = " + input());
    add_module_list(lines, "convs", convs);
    const auto some = [](const Lines& all) {
      return std::ranges::any_of(all, [](const auto& m) { return m != "torch.nn.Identity()"; });
    };
    if (some(norms)) add_module_list(lines, "norms", norms);
    if (some(skips)) add_module_list(lines, "skips", skips);
    if (model_.has_head) {
      if (find("head.norm.weight") != nullptr) {
        lines.push_back("self.head_norm = " + norm_of("head.norm", model_.layers.back().norm));
      }
      lines.push_back("self.head = " + linear_of("head.weight", true));
    }
    Lines decoder;
    for (int l = 0; find(decoder_names(l).weight) != nullptr; ++l) {
      decoder.push_back(linear_of(decoder_names(l).weight, true));
    }
    if (!decoder.empty()) add_module_list(lines, "decoder", decoder);
    return lines;
  }

  bool begins_run(std::size_t l) const {
    return l == 0 || model_.layers[l].convolution != model_.layers[l - 1].convolution;
  }
  // Layer `l` reads what the layer before it gives, before dropout, in all of its run.
  bool starts(std::size_t l) const {
    return l < model_.layers.size() && begins_run(l) &&
           convolution_named(model_.layers[l].convolution).reads_first;
  }
  bool skips_from_first() const {
    return std::ranges::any_of(model_.layers, [](const LayerDescription& layer) {
      return layer.skip != Skip::kNone && layer.skip_from == SkipFrom::kFirst;
    });
  }

  // Lines for x = dropout(x), after those that keep x for layers behind `next`.
  void add_dropout(Lines& lines, double probability, std::size_t next) const {
    if (next == 0 && skips_from_first()) lines.emplace_back("first = x");
    if (starts(next)) lines.emplace_back("start = x");
    if (probability > 0) lines.push_back("x = " + dropped(probability, "x"));
  }

  std::string pre_activated(const LayerDescription& layer, const std::string& norm,
                            const std::string& x) const {
    const std::string normed = layer.norm == Norm::kNone ? x : fmt::format("{}({})", norm, x);
    return dropped(layer.dropout, activated(layer.activation, normed));
  }

  Lines layer_lines(std::size_t l, const Names& names) const {
    const LayerDescription& layer = model_.layers[l];
    const bool norm_before = layer.norm_place == NormPlace::kBefore;
    Lines lines;
    std::string y = "x";
    if (norm_before) {
      y = pre_activated(layer, names.norm, "x");
      if (y != "x") lines.push_back("y = " + y);
      if (y != "x") y = "y";
    }
    y = fmt::format(fmt::runtime(rows_[l]->call), fmt::arg("conv", names.conv), fmt::arg("x", y),
                    fmt::arg("edge_attr", layer.edge_scores ? ", edge_attr" : ""),
                    fmt::arg("alpha", layer.alpha));
    const char* from = layer.skip_from == SkipFrom::kFirst ? "first" : "x";
    if (layer.skip == Skip::kIdentity) y += fmt::format(" + {}", from);
    if (layer.skip == Skip::kLinear) y += fmt::format(" + {}({})", names.skip, from);
    if (!norm_before) {
      if (layer.norm != Norm::kNone) y = fmt::format("{}({})", names.norm, y);
      y = activated(layer.activation, y);
    }
    const bool keeps = starts(l + 1);
    const double dropout = norm_before ? 0 : layer.dropout;
    lines.push_back("x = " + (keeps ? y : dropped(dropout, y)));
    if (keeps) add_dropout(lines, dropout, l + 1);
    if (model_.jump != Jump::kLast) lines.emplace_back("outputs.append(x)");
    return lines;
  }

  // Layers from `l` on that compute alike, as one loop.
  std::size_t add_layers(Lines& lines, std::size_t l) const {
    const Names each{"conv", "norm", "skip"};
    const Lines body = layer_lines(l, each);
    std::size_t end = l + 1;
    while (end < model_.layers.size() && layer_lines(end, each) == body) ++end;
    if (end == l + 1) {
      const auto one = [&](const char* list) { return fmt::format("self.{}[{}]", list, l); };
      for (std::string& line : layer_lines(l, {one("convs"), one("norms"), one("skips")})) {
        lines.push_back(std::move(line));
      }
      return end;
    }
    Lines names = {"conv"};
    Lines lists = {fmt::format("self.convs[{}:{}]", l, end)};
    const LayerDescription& layer = model_.layers[l];
    const auto add = [&](bool is_used, const char* name, const char* list) {
      if (!is_used) return;
      names.emplace_back(name);
      lists.push_back(fmt::format("self.{}[{}:{}]", list, l, end));
    };
    add(layer.norm != Norm::kNone, "norm", "norms");
    add(layer.skip == Skip::kLinear, "skip", "skips");
    const std::string all = fmt::format("{}", fmt::join(lists, ", "));
    lines.push_back(fmt::format("for {} in {}:", fmt::join(names, ", "),
                                lists.size() == 1 ? all : fmt::format("zip({})", all)));
    for (const std::string& line : body) lines.push_back("    " + line);
    return end;
  }

  Lines forward() const {
    Lines lines;
    if (config_.trains_nodes()) lines.emplace_back("x = self.nodes.weight");
    if (config_.input_dropout > 0) lines.push_back("x = " + dropped(config_.input_dropout, "x"));
    if (model_.input) {
      const char* const input = is_typed() ? "self.input(x, node_type)" : "self.input(x)";
      lines.push_back("x = " + activated(model_.input->activation, input));
    }
    add_dropout(lines, model_.input ? model_.input->dropout : 0, 0);
    if (model_.jump != Jump::kLast) lines.emplace_back("outputs = []");
    for (std::size_t l = 0; l < model_.layers.size();) l = add_layers(lines, l);
    lines.push_back("return " + (model_.has_head ? head(lines) : std::string("x")));
    return lines;
  }

  // Of what the head gives, after lines for what it gets.
  std::string head(Lines& lines) const {
    const LayerDescription& last = model_.layers.back();
    const auto before = [&](const std::string& x) {
      return last.norm_place == NormPlace::kBefore ? pre_activated(last, "self.head_norm", x) : x;
    };
    switch (model_.jump) {
      case Jump::kSum:
        return fmt::format("self.head({})", before("sum(outputs)"));
      case Jump::kMax:
        return fmt::format("self.head({})", before("torch.stack(outputs).amax(0)"));
      case Jump::kConcatenate:
        if (before("x") != "x") lines.push_back("outputs[-1] = " + before("x"));
        return "self.head(torch.cat(outputs, 1))";
      default:
        return fmt::format("self.head({})", before("x"));
    }
  }

  const ModelConfig& config_;
  ModelDescription model_;
  std::map<std::string, DeclaredParameter> parameters_;
  std::vector<const PygConvolution*> rows_;  // by layer
};

}  // namespace

std::string pyg_module(const ModelConfig& model) { return Module(model).text(); }

}  // namespace atl
