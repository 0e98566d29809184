// Programs of pairs: what they are, what they read, and what they take.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "engine/models/model.hpp"
#include "engine/program/allocate.hpp"
#include "engine/program/operations/rules.hpp"
#include "tests/support/typed_edges.hpp"

namespace atl {
namespace {

ModelConfig small_model(Decoder decoder) {
  ModelConfig config;
  config.relations = EdgeArrays::kTypes;
  config.edge_features = EdgeArrays::kColumns;
  config.hidden = 8;
  config.features = 6;
  config.outputs = 8;
  config.decoder = decoder;
  return config;
}

// Parameters that operations of a program read, and what they are composed of.
std::set<std::string> read_by(const Program& program) {
  std::set<std::string> names;
  const auto add = [&](int number) {
    if (number < 0) return;
    const auto& all = program.parameters;
    const DeclaredParameter& p = all[static_cast<std::size_t>(number)];
    names.insert(p.name);
    if (!p.composition.present()) return;
    names.insert(all[static_cast<std::size_t>(p.composition.coefficients)].name);
    names.insert(all[static_cast<std::size_t>(p.composition.bases)].name);
  };
  for (const Operation& op : program.operations) {
    if (op.rule->is_leaf && !op.is(rules::kNodeParameters)) continue;
    add(op.parameter);
    add(op.second_parameter);
    for (const Value in : {op.tail.gamma, op.tail.bias}) {
      if (in != kNoValue) add(program.at(in).parameter);
    }
  }
  return names;
}

void expect_all_read(const ModelConfig& config) {
  for (const Pass pass : {Pass::kTraining, Pass::kEvaluation}) {
    const Program model = model_program(config, pass);
    const Program pairs = pair_program(config, pass);
    std::set<std::string> read = read_by(model);
    read.merge(read_by(pairs));
    for (const DeclaredParameter& p : model.parameters) {
      EXPECT_TRUE(read.contains(p.name)) << p.name << " of " << config.kind;
    }
    // A number means the same in both.
    ASSERT_LE(pairs.parameters.size(), model.parameters.size());
    for (std::size_t p = 0; p < pairs.parameters.size(); ++p) {
      EXPECT_EQ(pairs.parameters[p].name, model.parameters[p].name);
      EXPECT_EQ(pairs.parameters[p].layer, model.parameters[p].layer);
    }
  }
}

TEST(Pairs, EveryParameterOfAModelIsReadByAnOperation) {
  for (const std::string& kind : model_kinds()) {
    for (const Decoder decoder : {Decoder::kDot, Decoder::kMlp}) {
      for (const Norm norm : {Norm::kNone, Norm::kLayer, Norm::kBatch}) {
        ModelConfig config = small_model(decoder);
        config.kind = kind;
        config.norm = norm;
        expect_all_read(config);
        config.head = HeadChoice::kLinear;
        config.skip = Skip::kLinear;
        config.node_features = "trained:6";
        config.nodes = 70;
        expect_all_read(config);
      }
    }
  }
}

// Inner products keep the type of parameters all the way.
TEST(Pairs, GradientsOfInnerProductsAreFactorsOfTheOtherEnd) {
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    ModelConfig config = small_model(Decoder::kDot);
    config.dtype = dtype;
    EXPECT_EQ(to_string(pair_program(config, Pass::kTraining)),
              "decoder 0 forward\n"
              "  %0 = embeddings\n"
              "  %1 = pair dots %0\n"
              "loss\n"
              "  %2 = loss %1\n"
              "decoder 0 backward\n"
              "  %3 = end factors %2\n"
              "  %4 = add ends %3\n");
  }
}

constexpr const char* kForwardOfTwoLayers =
    "decoder 0 forward\n"
    "  %0 = embeddings\n"
    "  %1 = pair products %0\n"
    "  %2 = parameter 'decoder.0.weight'\n"
    "  %3 = parameter 'decoder.0.bias'\n"
    "  %4 = linear %1 %2 'decoder.0.weight', bias %3, relu, dropout 0.5\n"
    "decoder 1 forward\n"
    "  %5 = parameter 'decoder.1.weight'\n"
    "  %6 = parameter 'decoder.1.bias'\n"
    "  %7 = linear %4 %5 'decoder.1.weight', bias %6\n"
    "loss\n"
    "  %8 = loss %7\n";

// In bf16 the product writes scores in f32, and all of backward reads their narrowed gradient.
TEST(Pairs, ADecoderIsFusedAsOtherLayers) {
  ModelConfig config = small_model(Decoder::kMlp);
  config.decoder_layers = 2;
  config.decoder_dropout = 0.5;
  const std::string first_layer =
      "decoder 0 backward\n"
      "  %{4} = bias gradient %{3} 'decoder.0.bias', through activation %4, relu, dropout 0.5\n"
      "  %{5} = weight gradient %1 %{4} 'decoder.0.weight'\n"
      "  %{6} = linear transposed %{4} %2 'decoder.0.weight'\n"
      "  %{7} = end rows %{6}\n"
      "  %{8} = add ends %{7}\n";
  // Numbers from the first operation of backward on.
  const auto numbered = [&](int first) {
    std::string text = first_layer;
    for (int k = 3; k <= 8; ++k) {
      const std::string name = "{" + std::to_string(k) + "}";
      for (auto at = text.find(name); at != std::string::npos; at = text.find(name)) {
        text.replace(at, name.size(), std::to_string(first + k));
      }
    }
    return text;
  };
  EXPECT_EQ(to_string(pair_program(config, Pass::kTraining)),
            std::string(kForwardOfTwoLayers) +
                "decoder 1 backward\n"
                "  %9 = bias gradient %8 'decoder.1.bias'\n"
                "  %10 = weight gradient %4 %8 'decoder.1.weight'\n"
                "  %11 = linear transposed %8 %5 'decoder.1.weight'\n" +
                numbered(8));
  config.dtype = DType::kBf16;
  const Program narrow = pair_program(config, Pass::kTraining);
  EXPECT_EQ(to_string(narrow), std::string(kForwardOfTwoLayers) +
                                   "decoder 1 backward\n"
                                   "  %9 = narrow %8\n"
                                   "  %10 = bias gradient %9 'decoder.1.bias'\n"
                                   "  %11 = weight gradient %4 %9 'decoder.1.weight'\n"
                                   "  %12 = linear transposed %9 %5 'decoder.1.weight'\n" +
                                   numbered(9));
  for (Value v = 0; v < narrow.size(); ++v) {
    EXPECT_EQ(narrow.at(v).wide, v == 7 || v == 8) << to_string(narrow, v);
  }
}

// As docs/tasks.md has it: rows of embeddings for each pair.
TEST(Pairs, TakeRowsForTheirLayersAndBothEnds) {
  constexpr std::int64_t kPairs = 1000;
  for (const int layers : {1, 2, 3, 5}) {
    ModelConfig config = small_model(Decoder::kMlp);
    config.decoder_layers = layers;
    config.outputs = 64;
    const Program program = pair_program(config, Pass::kTraining);
    const Layout layout = allocate(program, schedule(program), {.inner = 10, .pairs = kPairs});
    const std::int64_t row = kPairs * config.outputs;
    EXPECT_EQ(layout.elements / row, std::max(layers + 1, 3)) << layers;
  }
}

}  // namespace
}  // namespace atl
