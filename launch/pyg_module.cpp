#include "launch/pyg_module.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "engine/training/pyg_tensors.hpp"

namespace atl {

namespace {

constexpr const char* kText =
    R"("""A model that Atoll has trained ({kind}, {layers} layers), as classes of PyTorch Geometric.

    model = load()
    logits = model(*read_dataset("data/mine"))
"""

import pathlib

import numpy
import torch
from safetensors.torch import load_file
from torch.nn import functional
from torch_geometric.nn import {import}

{definition}
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = torch.nn.ModuleList([
{convs}
        ])
        self.norms = torch.nn.ModuleList([
{norms}
        ])

    def forward(self, x, edge_index, edge_weight=None):
        """Logits [nodes, {outputs}] of x [nodes, {features}]; edge_index [2, edges] has sources and targets."""
{forward}
        return x


def load():
    """The model with the weights of model.safetensors beside this file, not in training mode."""
    model = Model()
    model.load_state_dict(load_file(pathlib.Path(__file__).with_name("model.safetensors")))
    return model.eval()


def read_dataset(folder):
    """x, edge_index and, if edges have weights, edge_weight of a dataset folder of Atoll."""
    def read(name):
        return torch.from_numpy(numpy.load(pathlib.Path(folder) / f"{{name}}.npy"))

    x, row_ptr, source = read("features"), read("row_ptr"), read("col_idx").long()
    target = torch.repeat_interleave(torch.arange(len(x)), row_ptr.diff())
    weighted = (pathlib.Path(folder) / "edge_weights.npy").exists()
    return (x, torch.stack([source, target]), *([read("edge_weights")] if weighted else []))
)";

// Elements of a Python list, one per line; equal ones that follow each other as one.
std::string list_elements(const std::vector<std::string>& elements) {
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < elements.size();) {
    std::size_t end = i;
    while (end < elements.size() && elements[end] == elements[i]) ++end;
    lines.push_back(
        end - i == 1 ? fmt::format("            {},", elements[i])
                     : fmt::format("            *[{} for _ in range({})],", elements[i], end - i));
    i = end;
  }
  return fmt::format("{}", fmt::join(lines, "\n"));
}

std::string norm_constructor(const PygLayer& layer) {
  switch (layer.norm) {
    case Norm::kBatch:
      return fmt::format("torch.nn.BatchNorm1d({})", layer.out);
    case Norm::kLayer:
      return fmt::format("torch.nn.LayerNorm({})", layer.out);
    default:
      return "torch.nn.Identity()";
  }
}

std::string dropout(const std::string& x, double probability) {
  return probability == 0
             ? x
             : fmt::format("functional.dropout({}, {}, self.training)", x, probability);
}

std::string forward_text(const ModelConfig& model) {
  std::vector<std::string> lines;
  if (model.input_dropout > 0) lines.push_back("x = " + dropout("x", model.input_dropout));
  lines.emplace_back("for layer, (conv, norm) in enumerate(zip(self.convs, self.norms)):");
  lines.emplace_back("    x = norm(conv(x, edge_index, edge_weight))");
  lines.emplace_back("    if layer + 1 < len(self.convs):");
  lines.push_back("        x = " + dropout("torch.relu(x)", model.dropout));
  for (std::string& line : lines) line.insert(0, "        ");
  return fmt::format("{}", fmt::join(lines, "\n"));
}

}  // namespace

std::string pyg_module(const ModelConfig& model) {
  const PygConvolution& convolution = pyg_convolution(model.kind);
  std::vector<std::string> convs;
  std::vector<std::string> norms;
  for (const PygLayer& layer : pyg_layers(model)) {
    convs.push_back(fmt::format(fmt::runtime(convolution.constructor), fmt::arg("in", layer.in),
                                fmt::arg("out", layer.out),
                                fmt::arg("bias", layer.has_bias ? "True" : "False")));
    norms.push_back(norm_constructor(layer));
  }
  const std::string definition =
      convolution.definition.empty() ? "" : fmt::format("{}\n", convolution.definition);
  return fmt::format(fmt::runtime(kText), fmt::arg("kind", model.kind),
                     fmt::arg("layers", model.layers), fmt::arg("import", convolution.import),
                     fmt::arg("definition", definition), fmt::arg("convs", list_elements(convs)),
                     fmt::arg("norms", list_elements(norms)), fmt::arg("outputs", model.outputs),
                     fmt::arg("features", model.features),
                     fmt::arg("forward", forward_text(model)));
}

}  // namespace atl
