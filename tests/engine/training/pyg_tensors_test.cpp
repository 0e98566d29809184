#include "engine/training/pyg_tensors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/error.hpp"

namespace atl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

template <typename T>
NamedTensor tensor_of(const char* dtype, std::vector<std::int64_t> shape,
                      const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {dtype, std::move(shape), {bytes.begin(), bytes.end()}};
}

// 1, 2, 3, ... from `first` on.
template <typename T>
NamedTensor counted(const char* dtype, std::vector<std::int64_t> shape, T first) {
  std::int64_t count = 1;
  for (const std::int64_t length : shape) count *= length;
  std::vector<T> values(static_cast<std::size_t>(count));
  for (T& value : values) value = first++;
  return tensor_of(dtype, std::move(shape), values);
}

template <typename T>
std::vector<T> values_of(const NamedTensor& tensor) {
  std::vector<T> values(tensor.bytes.size() / sizeof(T));
  std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  return values;
}

ModelConfig small_model(std::string_view kind, Norm norm = Norm::kNone) {
  ModelConfig model;
  model.kind = kind;
  model.layers = 3;
  model.hidden = 4;
  model.features = 3;
  model.outputs = 2;
  model.norm = norm;
  return model;
}

// A state of the model's network in which all numbers differ.
SafetensorsFile state_of(const ModelConfig& model) {
  SafetensorsFile file;
  const Program program = model_program(model, Pass::kEvaluation);
  float first = 0;
  for (const DeclaredParameter& p : program.parameters) {
    file.tensors[p.name] = counted<float>("F32", {p.rows, p.columns}, first += 100);
  }
  for (const DeclaredNorm& norm : program.norms) {
    for (const char* name : {".running_mean", ".running_var"}) {
      file.tensors[norm.name + name] = counted<double>("F64", {norm.columns}, first += 100);
    }
  }
  return file;
}

std::string refusal(const SafetensorsFile& file, const ModelConfig& model) {
  try {
    initial_weights(file, model, "weights.safetensors");
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    return error.what();
  }
  return "not refused";
}

class PygTensors : public ::testing::TestWithParam<Norm> {};

TEST_P(PygTensors, EveryModelComesBackAsItWent) {
  for (const PygConvolution& convolution : pyg_convolutions()) {
    const ModelConfig model = small_model(convolution.kind, GetParam());
    const SafetensorsFile own = state_of(model);
    const SafetensorsFile there = to_pyg(own, model);
    const SafetensorsFile back = initial_weights(there, model, "weights.safetensors");
    ASSERT_EQ(back.tensors.size(), own.tensors.size()) << convolution.kind;
    for (const auto& [name, tensor] : own.tensors) {
      EXPECT_EQ(back.tensors.at(name).dtype, tensor.dtype) << name;
      EXPECT_EQ(back.tensors.at(name).shape, tensor.shape) << name;
      EXPECT_EQ(back.tensors.at(name).bytes, tensor.bytes) << name;
    }
    for (const auto& [name, tensor] : there.tensors) {
      const bool counter = name.ends_with("num_batches_tracked");
      EXPECT_EQ(tensor.dtype, counter ? "I64" : "F32") << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Norms, PygTensors,
                         ::testing::Values(Norm::kNone, Norm::kLayer, Norm::kBatch));

TEST(PygNames, AreThoseOfItsClasses) {
  const ModelConfig gcn = small_model("gcn", Norm::kBatch);
  std::vector<std::string> names;
  for (const auto& [name, tensor] : to_pyg(state_of(gcn), gcn).tensors) names.push_back(name);
  EXPECT_THAT(names, ::testing::ElementsAre("convs.0.lin.weight", "convs.1.lin.weight",
                                            "convs.2.bias", "convs.2.lin.weight", "norms.0.bias",
                                            "norms.0.num_batches_tracked", "norms.0.running_mean",
                                            "norms.0.running_var", "norms.0.weight", "norms.1.bias",
                                            "norms.1.num_batches_tracked", "norms.1.running_mean",
                                            "norms.1.running_var", "norms.1.weight"));
  ModelConfig sage = small_model("sage");
  sage.layers = 1;
  const auto tensors = to_pyg(state_of(sage), sage).tensors;
  ASSERT_EQ(tensors.size(), 3U);
  EXPECT_EQ(tensors.at("convs.0.lin_l.bias").shape, std::vector<std::int64_t>{2});
  // [in, out] 100 101 | 102 103 | 104 105
  EXPECT_EQ(tensors.at("convs.0.lin_l.weight").shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(values_of<float>(tensors.at("convs.0.lin_l.weight")),
            (std::vector<float>{100, 102, 104, 101, 103, 105}));
  EXPECT_EQ(values_of<float>(tensors.at("convs.0.lin_r.weight")),
            (std::vector<float>{200, 202, 204, 201, 203, 205}));
}

TEST(PygNames, LayersSayWhatTheirModulesNeed) {
  const std::vector<PygLayer> layers = pyg_layers(small_model("gcn", Norm::kBatch));
  ASSERT_EQ(layers.size(), 3U);
  EXPECT_EQ(layers[0].in, 3);
  EXPECT_EQ(layers[0].out, 4);
  EXPECT_EQ(layers[1].norm, Norm::kBatch);
  EXPECT_FALSE(layers[1].has_bias);
  EXPECT_EQ(layers[2].norm, Norm::kNone);
  EXPECT_TRUE(layers[2].has_bias);
}

TEST(InitialWeights, AllThatDoesNotFitIsListed) {
  const ModelConfig model = small_model("gcn");
  SafetensorsFile file = to_pyg(state_of(model), model);
  file.tensors["convs.0.weight"] = file.tensors.extract("convs.0.lin.weight").mapped();
  file.tensors["convs.1.lin.weight"].shape = {2, 8};
  file.tensors["convs.2.bias"] = counted<double>("F64", {2}, 0);
  EXPECT_THAT(refusal(file, model),
              AllOf(HasSubstr("weights.safetensors: not the weights of this model (gcn, 3 layers)"),
                    HasSubstr("missing: convs.0.lin.weight"), HasSubstr("surplus: convs.0.weight"),
                    HasSubstr("convs.1.lin.weight is F32 [2, 8] and must be F32 [4, 4]"),
                    HasSubstr("convs.2.bias is F64 [2] and must be F32 [2]")));
}

TEST(InitialWeights, LongListsAreCut) {
  EXPECT_THAT(refusal(SafetensorsFile(), small_model("sage", Norm::kBatch)),
              HasSubstr("norms.0.bias, convs.1.lin_l.weight, convs.1.lin_r.weight and 9 more"));
}

TEST(InitialWeights, OwnModelsAreTakenAsTheyAre) {
  const ModelConfig model = small_model("sage", Norm::kBatch);
  SafetensorsFile own = state_of(model);
  own.metadata = {{"atoll", "{}"}, {"checksum", "0123456789abcdef"}};
  EXPECT_EQ(initial_weights(own, model, "w").tensors.size(), own.tensors.size());
  own.tensors.erase("layers.1.root_weight");
  EXPECT_THAT(refusal(own, model), HasSubstr("missing: layers.1.root_weight"));
  own.metadata.erase("checksum");
  EXPECT_THAT(refusal(own, model), HasSubstr("no 'checksum'"));
}

}  // namespace
}  // namespace atl
