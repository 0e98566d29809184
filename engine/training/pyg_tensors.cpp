#include "engine/training/pyg_tensors.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <optional>

#include "base/error.hpp"
#include "engine/models/convolutions.hpp"

namespace atl {

namespace {

// PyTorch counts the batches that its batch norms have seen.
constexpr const char* kCounter = ".num_batches_tracked";

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
  // Rows of each of several stacked matrices, if their heights differ. PyG's are equally high, and
  // what others lack are rows of 0.
  std::vector<std::int64_t> heights = {};
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

// Statistics of a batch norm; they are doubles here.
std::vector<ExpectedTensor> own_statistics(const DeclaredNorm& norm) {
  return {{norm.name + ".running_mean", "F64", {norm.columns}},
          {norm.name + ".running_var", "F64", {norm.columns}}};
}

std::vector<ExpectedTensor> own_tensors(const ModelConfig& model) {
  const Program program = model_program(model, Pass::kEvaluation);
  std::vector<ExpectedTensor> tensors;
  for (const DeclaredParameter& parameter : program.parameters) {
    if (parameter.composition.present()) continue;  // what it is made of says it
    tensors.push_back(own_tensor(parameter));
  }
  for (const DeclaredNorm& norm : program.norms) {
    for (ExpectedTensor& tensor : own_statistics(norm)) tensors.push_back(std::move(tensor));
  }
  return tensors;
}

// The text behind `own` in `rest`, which is a tensor of that name or one of a norm that is called
// so: "" or ".weight".
std::optional<std::string_view> tail_of(std::string_view rest, std::string_view own) {
  if (!rest.starts_with(own)) return std::nullopt;
  rest.remove_prefix(own.size());
  if (!rest.empty() && rest.front() != '.') return std::nullopt;
  return rest;
}

struct PygName {
  std::string name;
  PygTensor::Form form = PygTensor::Form::kTransposed;
};

PygName pyg_name(const std::string& own, const ModelDescription& model) {
  const std::optional<LayerName> name = layer_name(own);
  if (!name) {  // input.weight, head.bias, head.norm.weight
    constexpr std::string_view kHeadNorm = "head.norm.";
    if (own.starts_with(kHeadNorm)) return {"head_norm." + own.substr(kHeadNorm.size())};
    if (own == "input.nodes") return {"nodes.weight", PygTensor::Form::kAsItIs};
    if (!model.input || !model.input->typed) return {own};
    if (own == "input.weight") return {own, PygTensor::Form::kStacked};
    return {own, own == "input.bias" ? PygTensor::Form::kAsItIs : PygTensor::Form::kTransposed};
  }
  const auto layer = static_cast<std::size_t>(name->layer);
  for (const PygTensor& tensor : pyg_class(model.layers.at(layer), layer).tensors) {
    if (const auto tail = tail_of(name->rest, tensor.own)) {
      return {fmt::format("convs.{}.{}{}", layer, tensor.pyg, *tail), tensor.form};
    }
  }
  if (const auto tail = tail_of(name->rest, "norm")) {
    return {fmt::format("norms.{}{}", layer, *tail)};
  }
  ATOLL_ASSERT(name->rest == "skip_weight", "{} has no name in PyTorch Geometric", own);
  return {fmt::format("skips.{}.weight", layer)};
}

TensorPair pair_of(const DeclaredParameter& parameter, const ModelDescription& model,
                   std::int64_t features) {
  const PygName pyg = pyg_name(parameter.name, model);
  const bool is_matrix = parameter.initialisation == Initialisation::kGlorotUniform;
  TensorPair pair{.own = own_tensor(parameter), .pyg = {pyg.name, "F32", {parameter.columns}}};
  pair.transposed = is_matrix && pyg.form == PygTensor::Form::kTransposed;
  if (pair.transposed) pair.pyg.shape.push_back(parameter.rows);
  if (pyg.form == PygTensor::Form::kAsItIs) pair.pyg.shape = pair.own.shape;
  if (pyg.form == PygTensor::Form::kPerHead) {
    pair.pyg.shape = {1, parameter.rows, parameter.columns};
  }
  if (pyg.form == PygTensor::Form::kStacked) {
    const std::int64_t rows = parameter.rows / parameter.stacked;
    pair.pyg.shape = {parameter.stacked, parameter.heights.empty() ? rows : features,
                      parameter.columns};
    pair.heights = parameter.heights;
  }
  return pair;
}

std::vector<TensorPair> all_pairs(const ModelConfig& config) {
  const ModelDescription model = describe(config);
  const Program program = model_program(config, Pass::kEvaluation);
  std::vector<TensorPair> pairs;
  for (const DeclaredParameter& parameter : program.parameters) {
    if (parameter.composition.present()) continue;  // what it is made of says it
    pairs.push_back(pair_of(parameter, model, config.features));
  }
  for (const DeclaredNorm& norm : program.norms) {
    for (ExpectedTensor& own : own_statistics(norm)) {
      const std::string name = pyg_name(own.name, model).name;
      pairs.push_back({.own = own, .pyg = {name, "F32", own.shape}});
    }
  }
  return pairs;
}

// Tensors of PyG's classes that are no weights of the model.
std::map<std::string, NamedTensor> constants(const ModelConfig& config) {
  std::map<std::string, NamedTensor> result;
  const ModelDescription model = describe(config);
  const Program program = model_program(config, Pass::kEvaluation);
  for (std::size_t l = 0; l < model.layers.size(); ++l) {
    const LayerDescription& layer = model.layers[l];
    if (!pyg_class(layer, l).has_epsilon || layer.root == Root::kEpsilon) continue;
    const float epsilon = layer.root == Root::kNone ? -1.0F : 0.0F;
    NamedTensor tensor{"F32", {1}, std::vector<std::byte>(sizeof(float))};
    std::memcpy(tensor.bytes.data(), &epsilon, sizeof(float));
    result[fmt::format("convs.{}.eps", l)] = tensor;
  }
  for (const DeclaredNorm& norm : program.norms) {
    result[pyg_name(norm.name + kCounter, model).name] = {
        "I64", {}, std::vector<std::byte>(sizeof(std::int64_t))};
  }
  return result;
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

// Stacked matrices of different heights from or to equally high ones.
std::vector<std::byte> restacked(const std::vector<std::byte>& bytes, const TensorPair& pair,
                                 bool to_pyg) {
  const auto row = static_cast<std::size_t>(pair.own.shape[1]) * sizeof(float);
  const auto of_pyg = static_cast<std::size_t>(pair.pyg.shape[1]) * row;
  std::vector<std::byte> result;
  std::size_t at = 0;
  for (const std::int64_t height : pair.heights) {
    const std::size_t own = static_cast<std::size_t>(height) * row;
    const auto first = bytes.begin() + static_cast<std::ptrdiff_t>(at);
    result.insert(result.end(), first, first + static_cast<std::ptrdiff_t>(own));
    if (to_pyg) result.resize(result.size() + of_pyg - own);
    at += to_pyg ? own : of_pyg;
  }
  return result;
}

// `tensor` of one program as the other has it.
NamedTensor carried_over(const NamedTensor& tensor, const TensorPair& pair, bool to_pyg) {
  const ExpectedTensor& from = to_pyg ? pair.own : pair.pyg;
  const ExpectedTensor& to = to_pyg ? pair.pyg : pair.own;
  NamedTensor result{to.dtype, to.shape, tensor.bytes};
  if (!pair.heights.empty()) result.bytes = restacked(tensor.bytes, pair, to_pyg);
  if (pair.transposed) result.bytes = transposed(tensor.bytes, from.shape[0], from.shape[1]);
  if (from.dtype == "F64" && to.dtype == "F32") {
    result.bytes = converted<float, double>(tensor.bytes);
  }
  if (from.dtype == "F32" && to.dtype == "F64") {
    result.bytes = converted<double, float>(tensor.bytes);
  }
  return result;
}

// The first number that differs from that of another tensor of the same shape, and that one.
std::pair<float, float> first_difference(const NamedTensor& tensor, const NamedTensor& other) {
  std::pair<float, float> numbers;
  for (std::size_t at = 0; at < tensor.bytes.size(); at += sizeof(float)) {
    std::memcpy(&numbers.first, tensor.bytes.data() + at, sizeof(float));
    std::memcpy(&numbers.second, other.bytes.data() + at, sizeof(float));
    if (numbers.first != numbers.second) break;
  }
  return numbers;
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
        name.ends_with(kCounter) || std::ranges::count(expected, name, &ExpectedTensor::name) > 0;
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
  fail_input("{}: not the weights of this model ({} of {} layers){}", place, model_name(model),
             layer_count(model), problems);
}

}  // namespace

SafetensorsFile to_pyg(const SafetensorsFile& own, const ModelConfig& model) {
  SafetensorsFile result;
  result.tensors = constants(model);
  for (const TensorPair& pair : all_pairs(model)) {
    result.tensors[pair.pyg.name] =
        carried_over(own.tensors.at(pair.own.name), pair, /*to_pyg=*/true);
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
  const std::map<std::string, NamedTensor> fixed = constants(model);
  for (const auto& [name, tensor] : fixed) {
    if (!name.ends_with(kCounter)) expected.push_back({name, tensor.dtype, tensor.shape});
  }
  require_tensors(file, expected, model, place);
  for (const auto& [name, tensor] : fixed) {
    if (name.ends_with(kCounter) || file.tensors.at(name).bytes == tensor.bytes) continue;
    const auto [found, fixed_number] = first_difference(file.tensors.at(name), tensor);
    fail_input("{}: tensor '{}' has {}; this model has {} there", place, name, found, fixed_number);
  }
  SafetensorsFile result;
  for (const TensorPair& pair : pairs) {
    result.tensors[pair.own.name] =
        carried_over(file.tensors.at(pair.pyg.name), pair, /*to_pyg=*/false);
  }
  return result;
}

}  // namespace atl
