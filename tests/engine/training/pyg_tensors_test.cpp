#include "engine/training/pyg_tensors.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "base/error.hpp"
#include "engine/models/convolutions.hpp"
#include "tests/support/thrown_error.hpp"

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
  model.relations = 2;
  model.edge_features = 2;
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

void expect_comes_back(const ModelConfig& model, const std::string& label) {
  const SafetensorsFile own = state_of(model);
  const SafetensorsFile there = to_pyg(own, model);
  const SafetensorsFile back = initial_weights(there, model, "weights.safetensors");
  ASSERT_EQ(back.tensors.size(), own.tensors.size()) << label;
  for (const auto& [name, tensor] : own.tensors) {
    EXPECT_EQ(back.tensors.at(name).dtype, tensor.dtype) << label << name;
    EXPECT_EQ(back.tensors.at(name).shape, tensor.shape) << label << name;
    EXPECT_EQ(back.tensors.at(name).bytes, tensor.bytes) << label << name;
  }
  for (const auto& [name, tensor] : there.tensors) {
    const bool counter = name.ends_with("num_batches_tracked");
    EXPECT_EQ(tensor.dtype, counter ? "I64" : "F32") << label << name;
  }
}

TEST_P(PygTensors, EveryModelComesBackAsItWent) {
  for (const std::string& kind : model_kinds()) {
    if (!convolution_named(convolution_of(kind)).pyg) continue;  // see below
    ModelConfig model = small_model(kind, GetParam());
    expect_comes_back(model, kind + " ");
    model.input_layer = InputLayerChoice::kLinear;
    model.head = HeadChoice::kLinear;
    model.skip = Skip::kLinear;
    expect_comes_back(model, kind + " with skips ");
    model.norm_place = NormPlace::kBefore;
    model.jump = Jump::kConcatenate;
    model.skip_from = SkipFrom::kFirst;
    expect_comes_back(model, kind + " with norms before ");
  }
}

TEST(PygTensorsOfNoClass, AreRefused) {
  for (const std::string& kind : model_kinds()) {
    if (convolution_named(convolution_of(kind)).pyg) continue;
    const ModelConfig model = small_model(kind, Norm::kNone);
    EXPECT_THAT(
        thrown_error([&] { to_pyg(state_of(model), model); }).what(),
        HasSubstr(fmt::format("layer 0 ({}): PyTorch Geometric has no class for it", kind)));
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

std::vector<std::string> names_in_pyg(const ModelConfig& model) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : to_pyg(state_of(model), model).tensors) names.push_back(name);
  return names;
}

TEST(PygNames, GinHasAnMlpAndAnEpsilon) {
  ModelConfig model = small_model("gin", Norm::kLayer);
  model.layers = 2;
  EXPECT_THAT(names_in_pyg(model),
              ::testing::ElementsAre(
                  "convs.0.eps", "convs.0.nn.0.weight", "convs.0.nn.1.bias", "convs.0.nn.1.weight",
                  "convs.0.nn.3.weight", "convs.1.eps", "convs.1.nn.0.bias", "convs.1.nn.0.weight",
                  "convs.1.nn.3.bias", "convs.1.nn.3.weight", "norms.0.bias", "norms.0.weight"));
  EXPECT_EQ(values_of<float>(to_pyg(state_of(model), model).tensors.at("convs.0.eps")),
            std::vector<float>{0});
  model.root = Root::kNone;  // -1 + 1 times the node's row
  EXPECT_EQ(values_of<float>(to_pyg(state_of(model), model).tensors.at("convs.0.eps")),
            std::vector<float>{-1});
  model.root = Root::kEpsilon;
  EXPECT_EQ(to_pyg(state_of(model), model).tensors.at("convs.0.eps").bytes,
            state_of(model).tensors.at("layers.0.epsilon").bytes);
}

TEST(PygNames, AnInputLayerOfTypesIsAHeteroLinear) {
  ModelConfig model = small_model("gcn");
  model.input_layer = InputLayerChoice::kTyped;
  model.node_types = 4;
  const auto tensors = to_pyg(state_of(model), model).tensors;
  EXPECT_EQ(tensors.at("input.weight").shape,
            (std::vector<std::int64_t>{4, model.features, model.hidden}));
  EXPECT_EQ(tensors.at("input.bias").shape, (std::vector<std::int64_t>{4, model.hidden}));
  EXPECT_EQ(tensors.at("input.weight").bytes, state_of(model).tensors.at("input.weight").bytes);
  expect_comes_back(model, "typed ");
}

TEST(PygNames, AHeteroLinearHasRowsOfZeroWhereTypesHaveFewerFeatures) {
  ModelConfig model = small_model("gcn");
  model.input_layer = InputLayerChoice::kTyped;
  model.node_types = 3;
  model.features_by_type = {1, 0, model.features};
  const SafetensorsFile own = state_of(model);
  const std::vector<float> rows = values_of<float>(own.tensors.at("input.weight"));
  ASSERT_EQ(std::ssize(rows), (1 + model.features) * model.hidden);
  const NamedTensor padded = to_pyg(own, model).tensors.at("input.weight");
  EXPECT_EQ(padded.shape, (std::vector<std::int64_t>{3, model.features, model.hidden}));
  std::vector<float> expected(static_cast<std::size_t>(3 * model.features * model.hidden), 0.0F);
  std::copy_n(rows.begin(), model.hidden, expected.begin());
  std::copy(rows.begin() + model.hidden, rows.end(),
            expected.begin() + 2 * model.features * model.hidden);
  EXPECT_EQ(values_of<float>(padded), expected);
  expect_comes_back(model, "typed, of different widths ");
}

TEST(PygNames, SkipsInputAndHeadAreLinearLayers) {
  ModelConfig model = small_model("gcn", Norm::kLayer);
  model.layers = 1;
  model.input_layer = InputLayerChoice::kLinear;
  model.head = HeadChoice::kLinear;
  model.skip = Skip::kLinear;
  model.norm_place = NormPlace::kBefore;
  EXPECT_THAT(
      names_in_pyg(model),
      ::testing::ElementsAre("convs.0.bias", "convs.0.lin.weight", "head.bias", "head.weight",
                             "head_norm.bias", "head_norm.weight", "input.bias", "input.weight",
                             "norms.0.bias", "norms.0.weight", "skips.0.weight"));
  EXPECT_EQ(to_pyg(state_of(model), model).tensors.at("head.weight").shape,
            (std::vector<std::int64_t>{2, 4}));
}

TEST(PygNames, TheWeightOfGcniiIsNotTransposed) {
  const ModelConfig model = small_model("gcnii");
  const SafetensorsFile own = state_of(model);
  EXPECT_EQ(to_pyg(own, model).tensors.at("convs.1.weight1").bytes,
            own.tensors.at("layers.1.weight").bytes);
}

TEST(PygNames, WhatPygHasNoClassForIsRefused) {
  ModelConfig model = small_model("gcn");
  model.root = Root::kEpsilon;
  try {
    to_pyg(state_of(model), model);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kOption);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("layer 0 (gcn)"), HasSubstr("root epsilon"),
                                    HasSubstr("it has none")));
  }
}

TEST(InitialWeights, AllThatDoesNotFitIsListed) {
  const ModelConfig model = small_model("gcn");
  SafetensorsFile file = to_pyg(state_of(model), model);
  file.tensors["convs.0.weight"] = file.tensors.extract("convs.0.lin.weight").mapped();
  file.tensors["convs.1.lin.weight"].shape = {2, 8};
  file.tensors["convs.2.bias"] = counted<double>("F64", {2}, 0);
  EXPECT_THAT(
      refusal(file, model),
      AllOf(HasSubstr("weights.safetensors: not the weights of this model (gcn of 3 layers)"),
            HasSubstr("missing: convs.0.lin.weight"), HasSubstr("surplus: convs.0.weight"),
            HasSubstr("convs.1.lin.weight is F32 [2, 8] and must be F32 [4, 4]"),
            HasSubstr("convs.2.bias is F64 [2] and must be F32 [2]")));
}

TEST(InitialWeights, AnotherFixedEpsilonIsRefused) {
  ModelConfig model = small_model("gin");
  const SafetensorsFile file = to_pyg(state_of(model), model);
  model.root = Root::kNone;
  EXPECT_THAT(refusal(file, model), HasSubstr("tensor 'convs.0.eps' has 0; this model has -1"));
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
