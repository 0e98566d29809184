#include "engine/placement/policy/policy_prior.hpp"

#include <cstring>

#include "base/numbers.hpp"
#include "engine/placement/policy/shipped_weights.hpp"
#include "engine/tensor/safetensors.hpp"

namespace atl {

namespace {

constexpr const char* kPolicyFormat = "atoll policy 1";

std::int64_t number_in(const SafetensorsFile& file, const std::string& field, std::int64_t most,
                       const std::string& place) {
  const auto found = file.metadata.find(field);
  const std::string text = found == file.metadata.end() ? "" : found->second;
  const auto number = parse_number<std::int64_t>(text, 1, most);
  if (!number) {
    fail_input("{}: metadata '{}' is '{}'; allowed are 1 to {}", place, field, text, most);
  }
  return *number;
}

PolicyNetwork make_policy(const SafetensorsFile& file, const std::string& place) {
  const auto format = file.metadata.find("format");
  if (format == file.metadata.end() || format->second != kPolicyFormat) {
    fail_input("{}: metadata 'format' is '{}'; weights of a policy have '{}'", place,
               format == file.metadata.end() ? "" : format->second, kPolicyFormat);
  }
  PolicyShape shape;
  shape.hidden = number_in(file, "hidden", 1024, place);
  shape.layers = static_cast<int>(number_in(file, "layers", 64, place));
  if (shape.hidden % PolicyNetwork::kHeads != 0) {
    fail_input("{}: metadata 'hidden' is {}; allowed are multiples of {}", place, shape.hidden,
               PolicyNetwork::kHeads);
  }
  PolicyNetwork network(shape, 0);
  ParameterStore& parameters = network.parameters();
  if (file.tensors.size() != parameters.list().size()) {
    fail_input("{}: {} tensors; a policy of {} layers has {}", place, file.tensors.size(),
               shape.layers, parameters.list().size());
  }
  for (std::size_t p = 0; p < parameters.list().size(); ++p) {
    const Parameter& parameter = parameters.list()[p];
    const auto found = file.tensors.find(parameter.name);
    if (found == file.tensors.end()) fail_input("{}: no tensor '{}'", place, parameter.name);
    const std::vector<std::int64_t> expected = {parameter.rows, parameter.columns};
    if (found->second.dtype != "F32" || found->second.shape != expected) {
      fail_input("{}: tensor '{}' is {} [{}]; F32 [{}] is needed", place, parameter.name,
                 found->second.dtype, fmt::join(found->second.shape, ", "),
                 fmt::join(expected, ", "));
    }
    std::memcpy(parameters.value(static_cast<int>(p)).data, found->second.bytes.data(),
                found->second.bytes.size());
  }
  return network;
}

}  // namespace

std::string policy_weights(PolicyNetwork& network) {
  SafetensorsFile file;
  file.metadata = {{"format", kPolicyFormat},
                   {"hidden", std::to_string(network.shape().hidden)},
                   {"layers", std::to_string(network.shape().layers)}};
  ParameterStore& parameters = network.parameters();
  for (std::size_t p = 0; p < parameters.list().size(); ++p) {
    const Parameter& parameter = parameters.list()[p];
    const MatrixView value = parameters.value(static_cast<int>(p));
    ATOLL_ASSERT(value.dtype == DType::kF32);
    file.tensors[parameter.name] = host_tensor<float>(
        "F32", {value.rows, value.cols},
        {value.row<float>(0), static_cast<std::size_t>(value.rows * value.cols)});
  }
  return to_safetensors(file);
}

PolicyNetwork read_policy(const std::filesystem::path& path) {
  return make_policy(read_safetensors(path), path.string());
}

PolicyNetwork shipped_policy() {
  const std::string name = "the program's weights of the policy";
  return make_policy(parse_safetensors(shipped_weights(), name), name);
}

Prior policy_prior(PlanSpace& space, PolicyNetwork& network) {
  return [&space, &network, maker = std::shared_ptr<PolicyGraphMaker>()](
             SearchSpace& of, std::span<const int> chosen, int decision) mutable {
    ATOLL_ASSERT(&of == &space, "a prior of another space");
    if (of.options(decision) == 1) return std::vector<double>{1};
    if (!maker) maker = std::make_shared<PolicyGraphMaker>(space);
    return network.probabilities(maker->make(chosen, decision));
  };
}

}  // namespace atl
