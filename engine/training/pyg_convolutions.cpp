#include "engine/training/pyg_convolutions.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.hpp"

namespace atl {

namespace {

// SAGEConv and GINConv know no weights of edges.
constexpr std::string_view kSage = R"(
class WeightedSAGE(SAGEConv):
    """SAGEConv that takes a weight per edge, if there are any."""

    def forward(self, x, edge_index, edge_weight=None):
        if edge_weight is None or self.aggr not in ("mean", "sum"):
            return super().forward(x, edge_index)
        source, target = edge_index
        if self.aggr == "mean":
            total = x.new_zeros(len(x)).index_add_(0, target, edge_weight)
            edge_weight = (edge_weight / total[target]).nan_to_num(0, 0, 0)
        rows = torch.zeros_like(x).index_add(0, target, edge_weight[:, None] * x[source])
        return self.lin_l(rows) + (self.lin_r(x) if self.root_weight else 0)
)";
constexpr std::string_view kGin = R"(
class WeightedGIN(GINConv):
    """GINConv that takes a weight per edge, if there are any."""

    def forward(self, x, edge_index, edge_weight=None):
        if edge_weight is None:
            return super().forward(x, edge_index)
        source, target = edge_index
        rows = torch.zeros_like(x).index_add(0, target, edge_weight[:, None] * x[source])
        return self.nn(rows + (1 + self.eps) * x)
)";

// Its flag `bias` is about its products, too.
constexpr std::string_view kGatv2 = R"(
class LaterBiasedGATv2(GATv2Conv):
    """GATv2Conv whose products always have a bias; `bias` is about what it gives."""

    def __init__(self, *arguments, bias=True, **options):
        super().__init__(*arguments, **options)
        if not bias:
            self.bias = None
)";

// Sums and means over in-neighbours times a weight, and the node's row times another.
PygConvolution sage_row(std::string_view convolution, std::string_view constructor) {
  return {.convolution = convolution,
          .import = "SAGEConv",
          .definition = kSage,
          .constructor = constructor,
          .roots = {Root::kNone, Root::kLinear},
          .tensors = {{"weight", "lin_l.weight"},
                      {"root_weight", "lin_r.weight"},
                      {"bias", "lin_l.bias"},
                      {"temperature", "aggr_module.t"},
                      {"power", "aggr_module.p"}}};
}

constexpr std::string_view kMean =
    "WeightedSAGE({in}, {out}, aggr=\"mean\", root_weight={root}, bias={bias})";
// Weights of edges are not read.
constexpr std::string_view kAttend = "{conv}({x}, edge_index{edge_attr})";
constexpr std::string_view kSum =
    "WeightedSAGE({in}, {out}, aggr=\"sum\", root_weight={root}, bias={bias})";

}  // namespace

const std::vector<PygConvolution>& pyg_convolutions() {
  static const std::vector<PygConvolution> rows = {
      {.convolution = "gcn",
       .import = "GCNConv",
       .constructor = "GCNConv({in}, {out}, bias={bias})",
       .roots = {Root::kNone},
       .tensors = {{"weight", "lin.weight"}, {"bias", "bias"}}},
      sage_row("sage",
               "WeightedSAGE({in}, {out}, aggr={aggregator}, root_weight={root}, bias={bias})"),
      sage_row("mean", kMean),
      sage_row("sum", kSum),
      {.convolution = "gin",
       .import = "GINConv",
       .definition = kGin,
       .constructor =
           "WeightedGIN(torch.nn.Sequential(torch.nn.Linear({in}, {out}, bias={hidden_bias}), "
           "{hidden_norm}, {activation}, torch.nn.Linear({out}, {out}, bias={bias})), "
           "eps={epsilon}, train_eps={trains_epsilon})",
       .roots = {Root::kNone, Root::kIdentity, Root::kEpsilon},
       .tensors = {{"weight", "nn.0.weight"},
                   {"hidden_bias", "nn.0.bias"},
                   {"hidden_norm", "nn.1"},
                   {"second_weight", "nn.3.weight"},
                   {"bias", "nn.3.bias"},
                   {"epsilon", "eps"}},
       .has_epsilon = true},
      {.convolution = "gine",
       .import = "GINEConv",
       .constructor =
           "GINEConv(torch.nn.Sequential(torch.nn.Linear({in}, {out}, bias={hidden_bias}), "
           "{hidden_norm}, {activation}, torch.nn.Linear({out}, {out}, bias={bias})), "
           "eps={epsilon}, train_eps={trains_epsilon}, edge_dim={edge_features})",
       .call = "{conv}({x}, edge_index, edge_attr)",
       .roots = {Root::kNone, Root::kIdentity, Root::kEpsilon},
       .tensors = {{"edge_weight", "lin.weight"},
                   {"edge_bias", "lin.bias"},
                   {"weight", "nn.0.weight"},
                   {"hidden_bias", "nn.0.bias"},
                   {"hidden_norm", "nn.1"},
                   {"second_weight", "nn.3.weight"},
                   {"bias", "nn.3.bias"},
                   {"epsilon", "eps"}},
       .has_epsilon = true},
      {.convolution = "gcnii",
       .import = "GCN2Conv",
       .constructor = "GCN2Conv({out}, alpha={alpha}, theta={theta}, layer={number})",
       .call = "{conv}({x}, start, edge_index, edge_weight)",
       .tensors = {{"weight", "weight1", PygTensor::Form::kAsItIs}}},
      // A step of APPNP without its share of the first row is S x.
      {.convolution = "appnp",
       .import = "APPNP",
       .constructor = "APPNP(K=1, alpha=0)",
       .call = "(1 - {alpha}) * {conv}({x}, edge_index, edge_weight) + {alpha} * start"},
      {.convolution = "sgc", .import = "APPNP", .constructor = "APPNP(K=1, alpha=0)"},
      {.convolution = "gat",
       .import = "GATConv",
       .constructor = "GATConv({in}, {head_out}, {heads}, concat={concat}, "
                      "dropout={attention_dropout}, add_self_loops={self}, bias={bias}, "
                      "edge_dim={edge_dim})",
       .call = kAttend,
       .roots = {Root::kNone, Root::kIdentity},
       .tensors = {{"weight", "lin.weight"},
                   {"edge_weight", "lin_edge.weight"},
                   {"attention_edge", "att_edge", PygTensor::Form::kPerHead},
                   {"attention_source", "att_src", PygTensor::Form::kPerHead},
                   {"attention_target", "att_dst", PygTensor::Form::kPerHead},
                   {"bias", "bias"}}},
      {.convolution = "gatv2",
       .import = "GATv2Conv",
       .definition = kGatv2,
       .constructor = "LaterBiasedGATv2({in}, {head_out}, {heads}, concat={concat}, "
                      "dropout={attention_dropout}, add_self_loops={self}, bias={bias}, "
                      "edge_dim={edge_dim})",
       .call = kAttend,
       .roots = {Root::kNone, Root::kIdentity},
       .tensors = {{"weight", "lin_l.weight"},
                   {"edge_weight", "lin_edge.weight"},
                   {"source_bias", "lin_l.bias"},
                   {"target_weight", "lin_r.weight"},
                   {"target_bias", "lin_r.bias"},
                   {"attention", "att", PygTensor::Form::kPerHead},
                   {"bias", "bias"}}},
      {.convolution = "rgcn",
       .import = "RGCNConv",
       .constructor = "RGCNConv({in}, {out}, {relations}, num_bases={bases}, root_weight={root}, "
                      "bias={bias})",
       .call = "{conv}({x}, edge_index, edge_type)",
       .roots = {Root::kNone, Root::kLinear},
       .tensors = {{"weight", "weight", PygTensor::Form::kStacked},
                   {"bases", "weight", PygTensor::Form::kStacked},
                   {"coefficients", "comp", PygTensor::Form::kAsItIs},
                   {"root_weight", "root", PygTensor::Form::kAsItIs},
                   {"bias", "bias"}},
       .refuses_weights = true},
      {.convolution = "none",
       .import = "",
       .constructor = "torch.nn.Linear({in}, {out}, bias={bias})",
       .call = "{conv}({x})",
       .tensors = {{"weight", "weight"}, {"bias", "bias"}}},
  };
  return rows;
}

const PygConvolution& pyg_convolution(const LayerDescription& layer, std::size_t index) {
  const auto& rows = pyg_convolutions();
  const auto row = std::ranges::find(rows, layer.convolution, &PygConvolution::convolution);
  if (row == rows.end()) {
    std::vector<std::string_view> known;
    for (const PygConvolution& other : rows) known.push_back(other.convolution);
    fail_option("layer {} ({}): PyTorch Geometric has no class for it; it has those for {}", index,
                layer.convolution, fmt::join(known, ", "));
  }
  if (layer.attention_norm != AttentionNorm::kNone) {
    fail_option(
        "layer {} ({}): PyTorch Geometric has no class for it with attention-norm {}; it has none",
        index, layer.convolution, to_string(layer.attention_norm));
  }
  const bool usual = layer.root == Root::kUsual || row->roots.empty();
  if (!usual && std::ranges::find(row->roots, layer.root) == row->roots.end()) {
    std::vector<const char*> known;
    for (const Root root : row->roots) known.push_back(to_string(root));
    fail_option("layer {} ({}): PyTorch Geometric has no class for it with root {}; it has {}",
                index, layer.convolution, to_string(layer.root), fmt::join(known, ", "));
  }
  return *row;
}

}  // namespace atl
