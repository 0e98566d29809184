#include "engine/training/pyg_convolutions.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/error.hpp"

namespace atl {

namespace {

// Sums and means over in-neighbours times a weight, and the node's row times another.
PygConvolution sage_row(std::string_view convolution) {
  return {.convolution = convolution,
          .roots = {Root::kNone, Root::kLinear},
          .tensors = {{"weight", "lin_l.weight"},
                      {"root_weight", "lin_r.weight"},
                      {"bias", "lin_l.bias"},
                      {"temperature", "aggr_module.t"},
                      {"power", "aggr_module.p"}}};
}

}  // namespace

const std::vector<PygConvolution>& pyg_convolutions() {
  static const std::vector<PygConvolution> rows = {
      {.convolution = "gcn",
       .roots = {Root::kNone},
       .tensors = {{"weight", "lin.weight"}, {"bias", "bias"}}},
      sage_row("sage"),
      sage_row("mean"),
      sage_row("sum"),
      {.convolution = "gin",
       .roots = {Root::kNone, Root::kIdentity, Root::kEpsilon},
       .tensors = {{"weight", "nn.0.weight"},
                   {"hidden_bias", "nn.0.bias"},
                   {"hidden_norm", "nn.1"},
                   {"second_weight", "nn.3.weight"},
                   {"bias", "nn.3.bias"},
                   {"epsilon", "eps"}},
       .has_epsilon = true},
      {.convolution = "gine",
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
      {.convolution = "gcnii", .tensors = {{"weight", "weight1", PygTensor::Form::kAsItIs}}},
      {.convolution = "appnp"},
      {.convolution = "sgc"},
      {.convolution = "gat",
       .roots = {Root::kNone, Root::kIdentity},
       .tensors = {{"weight", "lin.weight"},
                   {"edge_weight", "lin_edge.weight"},
                   {"attention_edge", "att_edge", PygTensor::Form::kPerHead},
                   {"attention_source", "att_src", PygTensor::Form::kPerHead},
                   {"attention_target", "att_dst", PygTensor::Form::kPerHead},
                   {"bias", "bias"}}},
      {.convolution = "gatv2",
       .roots = {Root::kNone, Root::kIdentity},
       .tensors = {{"weight", "lin_l.weight"},
                   {"edge_weight", "lin_edge.weight"},
                   {"source_bias", "lin_l.bias"},
                   {"target_weight", "lin_r.weight"},
                   {"target_bias", "lin_r.bias"},
                   {"attention", "att", PygTensor::Form::kPerHead},
                   {"bias", "bias"}}},
      {.convolution = "rgcn",
       .roots = {Root::kNone, Root::kLinear},
       .tensors = {{"weight", "weight", PygTensor::Form::kStacked},
                   {"bases", "weight", PygTensor::Form::kStacked},
                   {"coefficients", "comp", PygTensor::Form::kAsItIs},
                   {"root_weight", "root", PygTensor::Form::kAsItIs},
                   {"bias", "bias"}}},
      {.convolution = "none", .tensors = {{"weight", "weight"}, {"bias", "bias"}}},
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
