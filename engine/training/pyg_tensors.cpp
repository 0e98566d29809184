#include "engine/training/pyg_tensors.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

#include "base/error.hpp"

namespace atl {

namespace {

// PyG's mean takes no weights of edges.
constexpr std::string_view kWeightedSage = R"(
class WeightedSAGE(SAGEConv):
    """SAGEConv whose mean takes a weight per edge, if there are any."""

    def forward(self, x, edge_index, edge_weight=None):
        if edge_weight is None:
            return super().forward(x, edge_index)
        source, target = edge_index
        total = x.new_zeros(len(x)).index_add_(0, target, edge_weight)
        weight = (edge_weight / total[target]).nan_to_num(0, 0, 0)
        mean = torch.zeros_like(x).index_add_(0, target, weight[:, None] * x[source])
        return self.lin_l(mean) + self.lin_r(x)
)";

// What layers have beside their convolutions, behind "norms.N.".
constexpr PygTensor kNormTensors[] = {
    {"norm.weight", "weight", PygShape::kRow},
    {"norm.bias", "bias", PygShape::kRow},
};

// A tensor that a file must hold.
struct ExpectedTensor {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
};

// The same tensor in both programs.
struct TensorPair {
  ExpectedTensor own;
  ExpectedTensor pyg;
  bool transposed = false;
};

// N and what follows of "layers.N.rest".
struct LayerName {
  int layer = 0;
  std::string_view rest;
};
std::optional<LayerName> layer_name(std::string_view name) {
  constexpr std::string_view kPrefix = "layers.";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  LayerName result;
  const char* const end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data() + kPrefix.size(), end, result.layer);
  if (error != std::errc() || rest == end || *rest != '.') return std::nullopt;
  result.rest = {rest + 1, end};
  return result;
}

ExpectedTensor own_tensor(const DeclaredParameter& parameter) {
  return {parameter.name, "F32", {parameter.rows, parameter.columns}};
}

// Of a batch norm; they are doubles here.
std::vector<ExpectedTensor> own_statistics(const DeclaredNorm& norm) {
  return {{norm.name + ".running_mean", "F64", {norm.columns}},
          {norm.name + ".running_var", "F64", {norm.columns}}};
}

std::vector<ExpectedTensor> own_tensors(const ModelConfig& model) {
  const Program program = model_program(model, Pass::kEvaluation);
  std::vector<ExpectedTensor> tensors;
  for (const DeclaredParameter& parameter : program.parameters) {
    tensors.push_back(own_tensor(parameter));
  }
  for (const DeclaredNorm& norm : program.norms) {
    for (ExpectedTensor& tensor : own_statistics(norm)) tensors.push_back(std::move(tensor));
  }
  return tensors;
}

TensorPair pair_of(const DeclaredParameter& parameter, const std::string& pyg, PygShape shape) {
  TensorPair pair{.own = own_tensor(parameter), .pyg = {pyg, "F32", {parameter.columns}}};
  if (shape == PygShape::kTransposed) {
    pair.pyg.shape.push_back(parameter.rows);
    pair.transposed = true;
  }
  return pair;
}

TensorPair pair_of(const DeclaredParameter& parameter, const PygConvolution& convolution) {
  const std::optional<LayerName> name = layer_name(parameter.name);
  if (name) {
    for (const PygTensor& tensor : convolution.tensors) {
      if (tensor.own == name->rest) {
        return pair_of(parameter, fmt::format("convs.{}.{}", name->layer, tensor.pyg),
                       tensor.shape);
      }
    }
    for (const PygTensor& tensor : kNormTensors) {
      if (tensor.own == name->rest) {
        return pair_of(parameter, fmt::format("norms.{}.{}", name->layer, tensor.pyg),
                       tensor.shape);
      }
    }
  }
  ATOLL_ASSERT(false, "{} has no name in PyG", parameter.name);
}

std::vector<TensorPair> all_pairs(const ModelConfig& model) {
  const PygConvolution& convolution = pyg_convolution(model.kind);
  const Program program = model_program(model, Pass::kEvaluation);
  std::vector<TensorPair> pairs;
  for (const DeclaredParameter& parameter : program.parameters) {
    pairs.push_back(pair_of(parameter, convolution));
  }
  for (const DeclaredNorm& norm : program.norms) {
    for (ExpectedTensor& own : own_statistics(norm)) {
      const std::string_view rest = layer_name(own.name)->rest;  // norm.running_mean
      const std::string name =
          fmt::format("norms.{}.{}", layer_name(own.name)->layer, rest.substr(rest.find('.') + 1));
      pairs.push_back({.own = own, .pyg = {name, "F32", own.shape}});
    }
  }
  return pairs;
}

// Its elements as numbers of another type.
template <typename To, typename From>
std::vector<std::byte> converted(const std::vector<std::byte>& bytes) {
  const std::size_t count = bytes.size() / sizeof(From);
  std::vector<std::byte> result(count * sizeof(To));
  for (std::size_t i = 0; i < count; ++i) {
    From value{};
    std::memcpy(&value, bytes.data() + i * sizeof(From), sizeof(From));
    const auto other = static_cast<To>(value);
    std::memcpy(result.data() + i * sizeof(To), &other, sizeof(To));
  }
  return result;
}

std::vector<std::byte> transposed(const std::vector<std::byte>& bytes, std::int64_t rows,
                                  std::int64_t columns) {
  std::vector<std::byte> result(bytes.size());
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t j = 0; j < columns; ++j) {
      std::memcpy(result.data() + (j * rows + i) * sizeof(float),
                  bytes.data() + (i * columns + j) * sizeof(float), sizeof(float));
    }
  }
  return result;
}

// `tensor`, which is `from` in its program, as the other program's `to`.
NamedTensor carried_over(const NamedTensor& tensor, const ExpectedTensor& from,
                         const ExpectedTensor& to, bool is_transposed) {
  NamedTensor result{to.dtype, to.shape, tensor.bytes};
  if (is_transposed) result.bytes = transposed(tensor.bytes, from.shape[0], from.shape[1]);
  if (from.dtype == "F64" && to.dtype == "F32") {
    result.bytes = converted<float, double>(tensor.bytes);
  }
  if (from.dtype == "F32" && to.dtype == "F64") {
    result.bytes = converted<double, float>(tensor.bytes);
  }
  return result;
}

// The first few of `items`, and how many more there are.
std::string listed(const std::vector<std::string>& items) {
  constexpr std::size_t kShown = 6;
  const std::vector<std::string> shown(items.begin(),
                                       items.begin() + std::min(kShown, items.size()));
  const std::string more =
      items.size() > kShown ? fmt::format(" and {} more", items.size() - kShown) : "";
  return fmt::format("{}{}", fmt::join(shown, ", "), more);
}

std::string in_words(const std::string& dtype, const std::vector<std::int64_t>& shape) {
  return fmt::format("{} [{}]", dtype, fmt::join(shape, ", "));
}

// PyTorch counts the batches that its batch norms have seen.
bool is_counter(std::string_view name) { return name.ends_with(".num_batches_tracked"); }

void require_tensors(const SafetensorsFile& file, const std::vector<ExpectedTensor>& expected,
                     const ModelConfig& model, const std::string& place) {
  std::vector<std::string> missing;
  std::vector<std::string> other;
  for (const ExpectedTensor& tensor : expected) {
    const auto found = file.tensors.find(tensor.name);
    if (found == file.tensors.end()) {
      missing.push_back(tensor.name);
    } else if (found->second.dtype != tensor.dtype || found->second.shape != tensor.shape) {
      other.push_back(fmt::format("{} is {} and must be {}", tensor.name,
                                  in_words(found->second.dtype, found->second.shape),
                                  in_words(tensor.dtype, tensor.shape)));
    }
  }
  std::vector<std::string> surplus;
  for (const auto& [name, tensor] : file.tensors) {
    const bool known =
        is_counter(name) || std::ranges::count(expected, name, &ExpectedTensor::name) > 0;
    if (!known) surplus.push_back(name);
  }
  std::string problems;
  const auto add = [&](const char* what, const std::vector<std::string>& names) {
    if (!names.empty()) problems += fmt::format("; {}: {}", what, listed(names));
  };
  add("missing", missing);
  add("surplus", surplus);
  add("of another type or shape", other);
  if (problems.empty()) return;
  fail_input("{}: not the weights of this model ({}, {} layers){}", place, model.kind, model.layers,
             problems);
}

}  // namespace

const std::vector<PygConvolution>& pyg_convolutions() {
  static const std::vector<PygConvolution> rows = {
      {.kind = "gcn",
       .import = "GCNConv",
       .definition = "",
       .constructor = "GCNConv({in}, {out}, bias={bias})",
       .tensors = {{"weight", "lin.weight"}, {"bias", "bias", PygShape::kRow}}},
      {.kind = "sage",
       .import = "SAGEConv",
       .definition = kWeightedSage,
       .constructor = "WeightedSAGE({in}, {out}, bias={bias})",
       .tensors = {{"weight", "lin_l.weight"},
                   {"root_weight", "lin_r.weight"},
                   {"bias", "lin_l.bias", PygShape::kRow}}},
  };
  return rows;
}

const PygConvolution& pyg_convolution(const std::string& kind) {
  std::vector<std::string_view> known;
  for (const PygConvolution& row : pyg_convolutions()) {
    if (row.kind == kind) return row;
    known.push_back(row.kind);
  }
  fail_option(
      "model {}: PyTorch Geometric has no class for it that this program knows; it knows {}", kind,
      fmt::join(known, ", "));
}

std::vector<PygLayer> pyg_layers(const ModelConfig& model) {
  const Program program = model_program(model, Pass::kEvaluation);
  std::vector<PygLayer> layers(program.layers.size());
  for (const DeclaredParameter& parameter : program.parameters) {
    const std::optional<LayerName> name = layer_name(parameter.name);
    if (!name) continue;
    PygLayer& layer = layers.at(static_cast<std::size_t>(name->layer));
    if (name->rest == "weight") {
      layer.in = parameter.rows;
      layer.out = parameter.columns;
    }
    if (name->rest == "bias") layer.has_bias = true;
    if (name->rest == "norm.weight") layer.norm = Norm::kLayer;
  }
  for (const DeclaredNorm& norm : program.norms) {
    layers.at(static_cast<std::size_t>(layer_name(norm.name + ".")->layer)).norm = Norm::kBatch;
  }
  return layers;
}

SafetensorsFile to_pyg(const SafetensorsFile& own, const ModelConfig& model) {
  SafetensorsFile result;
  for (const TensorPair& pair : all_pairs(model)) {
    result.tensors[pair.pyg.name] =
        carried_over(own.tensors.at(pair.own.name), pair.own, pair.pyg, pair.transposed);
  }
  for (const DeclaredNorm& norm : model_program(model, Pass::kEvaluation).norms) {
    const int layer = layer_name(norm.name + ".")->layer;
    result.tensors[fmt::format("norms.{}.num_batches_tracked", layer)] = {
        "I64", {}, std::vector<std::byte>(sizeof(std::int64_t))};
  }
  return result;
}

SafetensorsFile initial_weights(const SafetensorsFile& file, const ModelConfig& model,
                                const std::string& place) {
  if (file.metadata.contains("atoll")) {
    require_checksum(file, place);
    require_tensors(file, own_tensors(model), model, place);
    return file;
  }
  const std::vector<TensorPair> pairs = all_pairs(model);
  std::vector<ExpectedTensor> expected;
  for (const TensorPair& pair : pairs) expected.push_back(pair.pyg);
  require_tensors(file, expected, model, place);
  SafetensorsFile result;
  for (const TensorPair& pair : pairs) {
    result.tensors[pair.own.name] =
        carried_over(file.tensors.at(pair.pyg.name), pair.pyg, pair.own, pair.transposed);
  }
  return result;
}

}  // namespace atl
