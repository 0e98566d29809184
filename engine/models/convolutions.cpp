#include "engine/models/convolutions.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>

#include "base/error.hpp"
#include "base/own_names.hpp"
#include "base/suggest.hpp"

namespace atl {

namespace {

// x or (1 + epsilon) x added to a sum over neighbours.
Value with_own_row(Builder& builder, Value neighbours, Value x, Root root) {
  const Value sum = builder.add(neighbours, x);
  if (root != Root::kEpsilon) return sum;
  return builder.add(sum, builder.scale(x, builder.scalar("epsilon", Initialisation::kZeros)));
}

// How rows of neighbours become one: a sparse product, or pooled.
struct Neighbourhood {
  Normalisation normalisation = Normalisation::kMean;
  std::optional<PoolSpec> pool = {};
  const char* trained = nullptr;  // the parameter that is the sharpness of what is pooled

  Value aggregate(Builder& builder, Value x) const {
    if (!pool) return builder.aggregate(normalisation, x);
    if (trained == nullptr) return builder.pool(*pool, x);
    const auto start = static_cast<double>(pool->sharpness);
    return builder.pool(*pool, x, builder.scalar(trained, start));
  }
  // Pooled rows can't be pooled behind the weight instead.
  Value propagate(Builder& builder, Value x, Value weight) const {
    return pool ? builder.linear(aggregate(builder, x), weight)
                : builder.propagate(normalisation, x, weight);
  }
};

// (Neighbours of x) W, and what `root` adds of the node's own row.
Value weighted_convolution(Builder& builder, const ConvolutionInput& input,
                           const Neighbourhood& neighbours, Root root) {
  const Value x = input.x;
  const Value weight = builder.weight("weight", x, input.columns);
  // A + I is an operator of its own.
  if (root == Root::kIdentity && !neighbours.pool &&
      neighbours.normalisation == Normalisation::kSum) {
    return builder.propagate(Normalisation::kSumAndSelf, x, weight);
  }
  if (root == Root::kNone) return neighbours.propagate(builder, x, weight);
  if (root == Root::kLinear) {
    const Value root_weight = builder.weight("root_weight", x, input.columns);
    const Value of_neighbours = neighbours.propagate(builder, x, weight);
    const Value own = builder.linear(x, root_weight);
    return builder.add(of_neighbours, own);
  }
  return builder.linear(with_own_row(builder, neighbours.aggregate(builder, x), x, root), weight);
}

// GIN's MLP behind its first product: the layer's norm and activation, and the second product.
Value rest_of_mlp(Builder& builder, const ConvolutionInput& input, Value hidden) {
  hidden = norm_or_bias(builder, hidden, input.options.norm, "hidden_");
  const bool has_activation = input.options.activation != ActivationFunction::kNone;
  hidden = builder.activate(
      hidden, has_activation ? input.options.activation : ActivationFunction::kRelu, 0);
  return builder.linear(hidden, builder.weight("second_weight", hidden, input.columns));
}

Root root_of(const ConvolutionInput& input, Root usual) {
  return input.options.root == Root::kUsual ? usual : input.options.root;
}

// (1 - alpha) S x + alpha first.
Value with_first(Builder& builder, const ConvolutionInput& input) {
  const auto alpha = static_cast<float>(input.options.alpha);
  return builder.combine(1 - alpha, builder.aggregate(Normalisation::kSymmetric, input.x), alpha,
                         input.first);
}

}  // namespace

Value norm_or_bias(Builder& builder, Value x, Norm norm, const std::string& prefix) {
  switch (norm) {
    case Norm::kNone:
      return builder.bias(x, prefix + "bias");
    case Norm::kLayer:
      return builder.layer_norm(x, prefix + "norm");
    case Norm::kBatch:
      return builder.batch_norm(x, prefix + "norm");
  }
  return x;
}

Value gcn_convolution(Builder& builder, const ConvolutionInput& input) {
  return weighted_convolution(builder, input, {Normalisation::kSymmetric},
                              root_of(input, Root::kNone));
}

Value sage_convolution(Builder& builder, const ConvolutionInput& input) {
  const LayerOptions& options = input.options;
  Neighbourhood neighbours;
  const char* trained = nullptr;
  switch (options.aggregator) {
    case Aggregator::kMean:
      break;
    case Aggregator::kSum:
      neighbours.normalisation = Normalisation::kSum;
      break;
    case Aggregator::kMax:
      neighbours.pool = PoolSpec{PoolKind::kMaximum};
      break;
    case Aggregator::kSoftmax:
      neighbours.pool = PoolSpec{PoolKind::kSoftmax, static_cast<float>(options.temperature)};
      trained = "temperature";
      break;
    case Aggregator::kPower:
      if (std::abs(options.aggregator_power) < static_cast<double>(kLeastPower)) {
        fail_option("aggregator-power {}: allowed are numbers of at least {} or at most -{}",
                    options.aggregator_power, kLeastPower, kLeastPower);
      }
      neighbours.pool =
          PoolSpec{PoolKind::kPowerMean, static_cast<float>(options.aggregator_power)};
      trained = "power";
      break;
  }
  if (options.learns_aggregator) {
    if (trained == nullptr) {
      fail_option("learn-aggregator: {} has nothing to train; allowed are softmax and power",
                  to_string(options.aggregator));
    }
    neighbours.trained = trained;
  }
  return weighted_convolution(builder, input, neighbours, root_of(input, Root::kLinear));
}

namespace {

// The mean or the sum over in-neighbours, times W.
Value mean_convolution(Builder& builder, const ConvolutionInput& input) {
  return weighted_convolution(builder, input, {Normalisation::kMean}, root_of(input, Root::kNone));
}

Value sum_convolution(Builder& builder, const ConvolutionInput& input) {
  return weighted_convolution(builder, input, {Normalisation::kSum}, root_of(input, Root::kNone));
}

// GIN (Xu et al. 2019, eq. 4.1): an MLP of two layers of x + sum_j(x_j); between them the layer's
// norm and activation (ReLU where it has none).
Value gin_convolution(Builder& builder, const ConvolutionInput& input) {
  return rest_of_mlp(
      builder, input,
      weighted_convolution(builder, input, {Normalisation::kSum}, root_of(input, Root::kIdentity)));
}

// GINE (Hu et al. 2020, eq. 3.2 of the appendix): the same MLP of x + sum_e(relu(x_j + f_e W + b))
// over in-edges e: j -> i with features f_e.
Value gine_convolution(Builder& builder, const ConvolutionInput& input) {
  if (input.edge_features == 0) {
    fail_option(
        "gine: edges of the dataset have no features; give it edge_features.npy, or choose gin, "
        "which reads none");
  }
  const Root root = root_of(input, Root::kIdentity);
  if (root == Root::kLinear) {
    fail_option("root {}: allowed with gine are usual, identity, epsilon and none",
                to_string(root));
  }
  Value sum = builder.aggregate_edges(input.x, input.edge_features);
  if (root != Root::kNone) sum = with_own_row(builder, sum, input.x, root);
  const Value weight = builder.weight("weight", input.x, input.columns);
  return rest_of_mlp(builder, input, builder.linear(sum, weight));
}

// GCNII (Chen et al. 2020, eq. 5): z = (1 - alpha) S x + alpha first, S as gcn's; then
// (1 - beta) z + beta z W with beta = log(theta / number + 1).
Value gcnii_convolution(Builder& builder, const ConvolutionInput& input) {
  const Value support = with_first(builder, input);
  const auto beta = static_cast<float>(std::log(input.options.theta / input.number + 1));
  const Value product = builder.linear(support, builder.weight("weight", support, input.columns));
  return builder.combine(1 - beta, support, beta, product);
}

// One step of APPNP (Gasteiger et al. 2019, eq. 4): (1 - alpha) S x + alpha first.
Value appnp_convolution(Builder& builder, const ConvolutionInput& input) {
  return with_first(builder, input);
}

// One hop of SGC (Wu et al. 2019, eq. 8): S x.
Value sgc_convolution(Builder& builder, const ConvolutionInput& input) {
  return builder.aggregate(Normalisation::kSymmetric, input.x);
}

// The common part of all kinds of attention: checks, and how many columns z has.
struct AttentionLayer {
  AttentionOptions options;
  std::int64_t columns = 0;

  AttentionLayer(const ConvolutionInput& input, AttentionScore score)
      : options{.score = score,
                .heads = input.options.heads,
                .with_self = input.options.root != Root::kNone,
                .dropout = input.options.attention_dropout},
        columns(input.options.averages_heads ? input.columns * options.heads : input.columns) {
    if (columns % options.heads != 0) {
      fail_option(
          "heads {}: a layer of {} columns can't be divided among them; needed is a number of "
          "columns that {} divides, or the mean of the heads",
          options.heads, columns, options.heads);
    }
    if (input.options.root != Root::kUsual && input.options.root != Root::kNone &&
        input.options.root != Root::kIdentity) {
      fail_option(
          "root {}: a node attends to itself or not; allowed with attention are usual, identity "
          "and none (a linear layer of its own row is what a skip adds)",
          to_string(input.options.root));
    }
    if (!input.options.edge_scores) return;
    if (score == AttentionScore::kDot) {
      fail_option(
          "edge-scores: products of rows read no features of edges; scores of gat and gatv2 do");
    }
    if (input.edge_features == 0) {
      fail_option(
          "edge-scores: edges of the dataset have no features; give it edge_features.npy, or leave "
          "edge-scores out");
    }
  }
  bool scales(const ConvolutionInput& input) const {
    return input.options.attention_norm == AttentionNorm::kSymmetric;
  }
  // The value that is weighted, from z.
  Value weighed(Builder& builder, const ConvolutionInput& input, Value z) const {
    return scales(input) ? builder.scale_by_degree(z, DegreeRoot::kSource, options.with_self) : z;
  }
  // The layer's columns, from those of all heads.
  Value joined(Builder& builder, const ConvolutionInput& input, Value y) const {
    if (input.options.averages_heads) y = builder.head_mean(y, options.heads);
    return scales(input) ? builder.scale_by_degree(y, DegreeRoot::kTarget, options.with_self) : y;
  }
};

// GAT (Velickovic et al. 2018): z = x W, e_ij = leaky(<a_source, z_j> + <a_target, z_i>).
Value gat_convolution(Builder& builder, const ConvolutionInput& input) {
  const AttentionLayer layer(input, AttentionScore::kAdditive);
  const Value z = builder.linear(input.x, builder.weight("weight", input.x, layer.columns));
  const Value source = builder.head_vector("attention_source", z, layer.options.heads);
  const Value target = builder.head_vector("attention_target", z, layer.options.heads);
  const Value t = builder.head_dots(z, target, layer.options.heads);
  const Value weighed = layer.weighed(builder, input, z);
  const Value of_edges = input.options.edge_scores
                             ? builder.edge_scores(layer.options, z, input.edge_features)
                             : kNoValue;
  return layer.joined(builder, input, builder.attend(layer.options, weighed, t, source, of_edges));
}

// GATv2 (Brody et al. 2022, eq. 7): z = x W + b, e_ij = <a, leaky(z_j + x_i R + c)>.
Value gatv2_convolution(Builder& builder, const ConvolutionInput& input) {
  const AttentionLayer layer(input, AttentionScore::kGatv2);
  const Value x = input.x;
  const Value product = builder.linear(x, builder.weight("weight", x, layer.columns));
  const Value z = builder.bias(product, "source_bias");
  const Value own = builder.linear(x, builder.weight("target_weight", x, layer.columns));
  const Value t = builder.bias(own, "target_bias");
  const Value vector = builder.head_vector("attention", z, layer.options.heads);
  const Value weighed = layer.weighed(builder, input, z);
  const Value of_edges =
      input.options.edge_scores ? builder.edge_weight(input.edge_features, z) : kNoValue;
  return layer.joined(builder, input, builder.attend(layer.options, weighed, t, vector, of_edges));
}

// Scaled dot products, keys and values alike: z = x W, e_ij = <x_i Q, z_j> / sqrt(columns of a
// head).
Value dot_convolution(Builder& builder, const ConvolutionInput& input) {
  const AttentionLayer layer(input, AttentionScore::kDot);
  const Value x = input.x;
  const Value z = builder.linear(x, builder.weight("weight", x, layer.columns));
  const Value t = builder.linear(x, builder.weight("target_weight", x, layer.columns));
  const Value weighed = layer.weighed(builder, input, z);
  return layer.joined(builder, input, builder.attend(layer.options, weighed, t, kNoValue));
}

// A bilinear score (Luong et al. 2015, section 3.1, "general"), M a matrix per head: z = x W,
// e_ij = <z_i M, z_j> / sqrt(columns of a head).
Value bilinear_convolution(Builder& builder, const ConvolutionInput& input) {
  const AttentionLayer layer(input, AttentionScore::kDot);
  const Value z = builder.linear(input.x, builder.weight("weight", input.x, layer.columns));
  const Value t = builder.head_linear("score_weight", z, layer.options.heads);
  const Value weighed = layer.weighed(builder, input, z);
  return layer.joined(builder, input, builder.attend(layer.options, weighed, t, kNoValue));
}

// R-GCN (Schlichtkrull et al. 2018, eq. 2): sum over relations r of mean_{j in N_r}(x_j) W_r, and
// x W_0.
Value rgcn_convolution(Builder& builder, const ConvolutionInput& input) {
  if (input.relations == 0) {
    fail_option(
        "rgcn: edges of the dataset have no types; give it edge_types.npy, or choose sage, "
        "which takes all edges alike");
  }
  const Root root = root_of(input, Root::kLinear);
  if (root == Root::kIdentity || root == Root::kEpsilon) {
    fail_option("root {}: allowed with rgcn are usual, linear and none", to_string(root));
  }
  const Value means = builder.aggregate_relations(input.x, input.relations);
  const Value weight =
      input.options.bases == 0
          ? builder.stacked_weight("weight", input.relations, input.x, input.columns)
          : builder.composed_weight("weight", input.relations, input.options.bases, input.x,
                                    input.columns);
  const Value neighbours = builder.linear(means, weight);
  if (root == Root::kNone) return neighbours;
  const Value own = builder.linear(input.x, builder.weight("root_weight", input.x, input.columns));
  return builder.add(neighbours, own);
}

// x W.
Value no_convolution(Builder& builder, const ConvolutionInput& input) {
  return builder.linear(input.x, builder.weight("weight", input.x, input.columns));
}

using OptionNames = std::vector<std::string>;

using enum PygTensor::Form;

// Class of sage, mean and sum: their products are those of SAGEConv.
PygClass pyg_sage() {
  return {.roots = {Root::kNone, Root::kLinear},
          .tensors = {{"weight", "lin_l.weight"},
                      {"root_weight", "lin_r.weight"},
                      {"bias", "lin_l.bias"},
                      {"temperature", "aggr_module.t"},
                      {"power", "aggr_module.p"}}};
}

// Class of GIN's MLP, and what else it has.
PygClass pyg_gin(std::vector<PygTensor> tensors = {}) {
  const std::vector<PygTensor> of_mlp = {
      {"weight", "nn.0.weight"},        {"hidden_bias", "nn.0.bias"}, {"hidden_norm", "nn.1"},
      {"second_weight", "nn.3.weight"}, {"bias", "nn.3.bias"},        {"epsilon", "eps"}};
  tensors.insert(tensors.end(), of_mlp.begin(), of_mlp.end());
  return {.roots = {Root::kNone, Root::kIdentity, Root::kEpsilon},
          .tensors = std::move(tensors),
          .has_epsilon = true};
}

// Options that all kinds of attention read, and others.
OptionNames attention_options(const OptionNames& others = {}) {
  OptionNames names = {
      "root", "heads", "output-heads", "average-heads", "attention-dropout", "attention-norm"};
  names.insert(names.end(), others.begin(), others.end());
  return names;
}

std::vector<ConvolutionKind>& all_kinds() {
  static std::vector<ConvolutionKind> kinds = {
      {.name = "gcn",
       .make = gcn_convolution,
       .reads = OptionNames{"root"},
       .pyg = PygClass{.roots = {Root::kNone},
                       .tensors = {{"weight", "lin.weight"}, {"bias", "bias"}}}},
      {.name = "sage",
       .make = sage_convolution,
       .reads =
           OptionNames{"root", "aggregator", "temperature", "aggregator-power", "learn-aggregator"},
       .pyg = pyg_sage()},
      {.name = "gin", .make = gin_convolution, .reads = OptionNames{"root"}, .pyg = pyg_gin()},
      {.name = "gine",
       .make = gine_convolution,
       .reads = OptionNames{"root"},
       .pyg = pyg_gin({{"edge_weight", "lin.weight"}, {"edge_bias", "lin.bias"}})},
      {.name = "mean", .make = mean_convolution, .reads = OptionNames{"root"}, .pyg = pyg_sage()},
      {.name = "sum", .make = sum_convolution, .reads = OptionNames{"root"}, .pyg = pyg_sage()},
      {.name = "none",
       .make = no_convolution,
       .reads = OptionNames{},
       .pyg = PygClass{.tensors = {{"weight", "weight"}, {"bias", "bias"}}}},
      {.name = "gat",
       .make = gat_convolution,
       .reads = attention_options({"edge-scores"}),
       .pyg = PygClass{.roots = {Root::kNone, Root::kIdentity},
                       .tensors = {{"weight", "lin.weight"},
                                   {"edge_weight", "lin_edge.weight"},
                                   {"attention_edge", "att_edge", kPerHead},
                                   {"attention_source", "att_src", kPerHead},
                                   {"attention_target", "att_dst", kPerHead},
                                   {"bias", "bias"}}}},
      {.name = "gatv2",
       .make = gatv2_convolution,
       .reads = attention_options({"edge-scores"}),
       .pyg = PygClass{.roots = {Root::kNone, Root::kIdentity},
                       .tensors = {{"weight", "lin_l.weight"},
                                   {"edge_weight", "lin_edge.weight"},
                                   {"source_bias", "lin_l.bias"},
                                   {"target_weight", "lin_r.weight"},
                                   {"target_bias", "lin_r.bias"},
                                   {"attention", "att", kPerHead},
                                   {"bias", "bias"}}}},
      {.name = "dot", .make = dot_convolution, .reads = attention_options()},
      {.name = "bilinear", .make = bilinear_convolution, .reads = attention_options()},
      {.name = "rgcn",
       .make = rgcn_convolution,
       .reads = OptionNames{"root", "bases"},
       .pyg = PygClass{.roots = {Root::kNone, Root::kLinear},
                       .tensors = {{"weight", "weight", kStacked},
                                   {"bases", "weight", kStacked},
                                   {"coefficients", "comp", kAsItIs},
                                   {"root_weight", "root", kAsItIs},
                                   {"bias", "bias"}}}},
      {.name = "gcnii",
       .make = gcnii_convolution,
       .keeps_columns = true,
       .has_bias = false,
       .reads_first = true,
       .reads = OptionNames{"alpha", "theta"},
       .pyg = PygClass{.tensors = {{"weight", "weight1", kAsItIs}}}},
      {.name = "appnp",
       .make = appnp_convolution,
       .keeps_columns = true,
       .has_bias = false,
       .has_weight = false,
       .reads_first = true,
       .reads = OptionNames{"alpha", "hops"},
       .pyg = PygClass{}},
      {.name = "sgc",
       .make = sgc_convolution,
       .keeps_columns = true,
       .has_bias = false,
       .has_weight = false,
       .reads = OptionNames{},
       .lacks = {"norm", "norm-place", "activation", "skip"},
       .pyg = PygClass{}},
  };
  return kinds;
}

}  // namespace

const std::vector<ConvolutionKind>& convolution_kinds() { return all_kinds(); }

void add_convolutions(const std::vector<ConvolutionKind>& kinds) {
  for (const ConvolutionKind& kind : kinds) {
    std::vector<std::string> taken = convolution_names();
    taken.emplace_back("mlp");
    check_own_name("model", kind.name, taken);
    if (kind.make == nullptr) {
      fail_option("model '{}' of this program has no function that writes it", kind.name);
    }
    for (const std::string& option : kind.reads.value_or(OptionNames{})) {
      OptionNames known;
      for (const auto& row : layer_options()) known.push_back(row.name);
      if (std::ranges::find(known, option) != known.end()) continue;
      fail_option(
          "model '{}' of this program reads the option '{}', which no layer has{}; allowed are {}",
          kind.name, option, did_you_mean(option, known), fmt::join(known, ", "));
    }
    all_kinds().push_back(kind);
  }
}

std::vector<std::string> convolution_names() {
  std::vector<std::string> names;
  for (const ConvolutionKind& kind : convolution_kinds()) names.push_back(kind.name);
  return names;
}

const ConvolutionKind& convolution_named(const std::string& name) {
  const auto& kinds = convolution_kinds();
  const auto found = std::ranges::find(kinds, name, &ConvolutionKind::name);
  if (found == kinds.end()) {
    const std::vector<std::string> names = convolution_names();
    fail_option("convolution '{}': unknown{}; allowed are {}", name, did_you_mean(name, names),
                fmt::join(names, ", "));
  }
  return *found;
}

const PygClass& pyg_class(const LayerDescription& layer, std::size_t index) {
  const std::optional<PygClass>& found = convolution_named(layer.convolution).pyg;
  if (!found) {
    std::vector<std::string> known;
    for (const ConvolutionKind& kind : convolution_kinds()) {
      if (kind.pyg) known.push_back(kind.name);
    }
    fail_option("layer {} ({}): PyTorch Geometric has no class for it; it has those for {}", index,
                layer.convolution, fmt::join(known, ", "));
  }
  if (layer.attention_norm != AttentionNorm::kNone) {
    fail_option(
        "layer {} ({}): PyTorch Geometric has no class for it with attention-norm {}; it has none",
        index, layer.convolution, to_string(layer.attention_norm));
  }
  const bool usual = layer.root == Root::kUsual || found->roots.empty();
  if (!usual && std::ranges::find(found->roots, layer.root) == found->roots.end()) {
    std::vector<const char*> known;
    for (const Root root : found->roots) known.push_back(to_string(root));
    fail_option("layer {} ({}): PyTorch Geometric has no class for it with root {}; it has {}",
                index, layer.convolution, to_string(layer.root), fmt::join(known, ", "));
  }
  return *found;
}

}  // namespace atl
