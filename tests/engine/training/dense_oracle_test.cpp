// Whole models, from the dataset folder to logits, loss and gradients, against the dense oracle:
// every backend, one rank and three, both orders of multiplication.
#include "tests/support/dense_oracle.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <mutex>

#include "base/log.hpp"
#include "datasets/dataset_writer.hpp"
#include "engine/training/rank_job.hpp"
#include "tests/support/random_graph.hpp"
#include "tests/support/require_device.hpp"
#include "tests/support/temp_dir.hpp"

namespace atl {
namespace {

constexpr int kNodes = 52;
constexpr int kFeatures = 6;
constexpr int kHidden = 5;
constexpr int kHiddenOfHeads = 6;
constexpr int kRelations = 3;

// A choice of options beside the model, said twice: to the engine and to the oracle.
struct Variant {
  const char* name;
  void (*set)(ModelConfig& model);
  void (*describe)(oracle::Model& model);
};

// Changes the oracle's hidden layers: neither those that give the logits, nor hops.
template <typename Change>
void for_hidden(oracle::Model& model, const Change& change) {
  for (oracle::Layer& layer : model.layers) {
    if (layer.activation != "none") change(layer);
  }
}

void add_head(oracle::Model& model) {
  model.has_head = true;
  oracle::Layer& last = model.layers.back();
  last = model.layers.front();
}

constexpr Variant kVariants[] = {
    {"usual", [](ModelConfig&) {}, [](oracle::Model&) {}},
    {"linear_skips",
     [](ModelConfig& m) {
       m.skip = Skip::kLinear;
       m.head = HeadChoice::kLinear;
       m.input_layer = InputLayerChoice::kLinear;
       m.activation = ActivationFunction::kElu;
     },
     [](oracle::Model& m) {
       add_head(m);
       m.input_activation = "none";
       for_hidden(m, [](oracle::Layer& l) { l.skip = "linear", l.activation = "elu"; });
     }},
    {"first_row",
     [](ModelConfig& m) {
       m.skip = Skip::kIdentity;
       m.skip_from = SkipFrom::kFirst;
       m.head = HeadChoice::kLinear;
       m.input_layer = InputLayerChoice::kActivated;
       m.activation = ActivationFunction::kGelu;
       m.root = Root::kEpsilon;
     },
     [](oracle::Model& m) {
       add_head(m);
       m.input_activation = "gelu";
       for_hidden(m, [](oracle::Layer& l) {
         l.skip = "identity", l.skip_from_first = true, l.activation = "gelu", l.root = "epsilon";
       });
     }},
    {"before",
     [](ModelConfig& m) {
       m.norm_place = NormPlace::kBefore;
       m.skip = Skip::kIdentity;
       m.head = HeadChoice::kLinear;
       m.input_layer = InputLayerChoice::kLinear;
       m.activation = ActivationFunction::kLeakyRelu;
       m.root = Root::kIdentity;
     },
     [](oracle::Model& m) {
       add_head(m);
       m.input_activation = "none";
       for_hidden(m, [](oracle::Layer& l) {
         l.skip = "identity", l.norm_before = true, l.activation = "leaky-relu",
         l.root = "identity";
       });
     }},
    {"before_concatenated",
     [](ModelConfig& m) {
       m.norm_place = NormPlace::kBefore;
       m.jump = Jump::kConcatenate;
     },
     [](oracle::Model& m) {
       add_head(m);
       m.jump = "concatenate";
       for_hidden(m, [](oracle::Layer& l) { l.norm_before = true; });
     }},
    {"concatenated", [](ModelConfig& m) { m.jump = Jump::kConcatenate; },
     [](oracle::Model& m) {
       add_head(m);
       m.jump = "concatenate";
     }},
    {"summed",
     [](ModelConfig& m) {
       m.jump = Jump::kSum;
       m.root = Root::kLinear;
       m.skip = Skip::kLinear;
       m.skip_from = SkipFrom::kFirst;
     },
     [](oracle::Model& m) {
       add_head(m);
       m.jump = "sum";
       for_hidden(m, [](oracle::Layer& l) {
         l.root = "linear", l.skip = "linear", l.skip_from_first = true;
       });
     }},
    {"largest",
     [](ModelConfig& m) {
       m.jump = Jump::kMax;
       m.root = Root::kNone;
     },
     [](oracle::Model& m) {
       add_head(m);
       m.jump = "max";
       for_hidden(m, [](oracle::Layer& l) { l.root = "none"; });
     }},
};

constexpr Variant kVariantsOfAttention[] = {
    {"one_head", [](ModelConfig& m) { m.heads = m.output_heads = 1; },
     [](oracle::Model& m) {
       for (oracle::Layer& l : m.layers) l.heads = 1;
     }},
    {"mean_of_heads", [](ModelConfig& m) { m.averages_heads = true; },
     [](oracle::Model& m) {
       for (oracle::Layer& l : m.layers) l.averages_heads = true;
     }},
    {"without_self",
     [](ModelConfig& m) {
       m.root = Root::kNone;
       m.skip = Skip::kLinear;
       m.activation = ActivationFunction::kElu;
     },
     [](oracle::Model& m) {
       m.layers.back().root = "none";
       for_hidden(
           m, [](oracle::Layer& l) { l.skip = "linear", l.activation = "elu", l.root = "none"; });
     }},
    {"concatenated", [](ModelConfig& m) { m.jump = Jump::kConcatenate; },
     [](oracle::Model& m) {
       add_head(m);
       m.jump = "concatenate";
     }},
};
// The second: rows attend to no means of features.
constexpr Variant kVariantsOfEdgeScores[] = {
    {"edge_scores", [](ModelConfig& m) { m.edge_scores = true; }, [](oracle::Model&) {}},
    {"edge_scores_without_self",
     [](ModelConfig& m) {
       m.edge_scores = true;
       m.root = Root::kNone;
     },
     [](oracle::Model& m) {
       for (oracle::Layer& l : m.layers) l.root = "none";
     }},
};
constexpr Variant kVariantsOfSage[] = {
    {"sum", [](ModelConfig& m) { m.aggregator = Aggregator::kSum; },
     [](oracle::Model& m) {
       for (oracle::Layer& l : m.layers) l.aggregator = "sum";
     }},
    {"max", [](ModelConfig& m) { m.aggregator = Aggregator::kMax; },
     [](oracle::Model& m) {
       for (oracle::Layer& l : m.layers) l.aggregator = "max";
     }},
    {"softmax",
     [](ModelConfig& m) {
       m.aggregator = Aggregator::kSoftmax;
       m.temperature = 1.5;
       m.root = Root::kNone;
       m.skip = Skip::kLinear;
     },
     [](oracle::Model& m) {
       for (oracle::Layer& l : m.layers) {
         l.aggregator = "softmax", l.temperature = 1.5, l.root = "none";
       }
       for_hidden(m, [](oracle::Layer& l) { l.skip = "linear"; });
     }},
};
constexpr Variant kVariantsOfAttentionNorm[] = {
    {"symmetric", [](ModelConfig& m) { m.attention_norm = AttentionNorm::kSymmetric; },
     [](oracle::Model& m) {
       for (oracle::Layer& l : m.layers) l.symmetric_attention = true;
     }},
    {"symmetric_without_self",
     [](ModelConfig& m) {
       m.attention_norm = AttentionNorm::kSymmetric;
       m.averages_heads = true;
       m.root = Root::kNone;
     },
     [](oracle::Model& m) {
       for (oracle::Layer& l : m.layers) {
         l.symmetric_attention = true, l.averages_heads = true, l.root = "none";
       }
     }},
};
// Features are on both sides of the bounds of what powers are taken of. Powers below 0 live off the
// least numbers, which bf16 knows too little of: the tests of kernels have these.
constexpr Variant kVariantsOfLearnedSage[] = {
    {"power",
     [](ModelConfig& m) {
       m.aggregator = Aggregator::kPower;
       m.aggregator_power = 2.5;
     },
     [](oracle::Model& m) {
       for (oracle::Layer& l : m.layers) l.aggregator = "power", l.power = 2.5;
     }},
    {"learned_power",
     [](ModelConfig& m) {
       m.aggregator = Aggregator::kPower;
       m.aggregator_power = 1.5;
       m.learns_aggregator = true;
     },
     [](oracle::Model& m) {
       for (oracle::Layer& l : m.layers) l.aggregator = "power";
     }},
    {"learned_softmax",
     [](ModelConfig& m) {
       m.aggregator = Aggregator::kSoftmax;
       m.temperature = 0.5;
       m.learns_aggregator = true;
     },
     [](oracle::Model& m) {
       for (oracle::Layer& l : m.layers) l.aggregator = "softmax";
     }},
};
constexpr Variant kVariantsOfTypes[] = {
    {"typed", [](ModelConfig& m) { m.input_layer = InputLayerChoice::kTyped; },
     [](oracle::Model& m) { m.input_activation = "relu", m.typed_input = true; }},
    {"typed_linear_skips",
     [](ModelConfig& m) {
       m.input_layer = InputLayerChoice::kTyped;
       m.activation = ActivationFunction::kElu;
       m.skip = Skip::kLinear;
       m.skip_from = SkipFrom::kFirst;
       m.head = HeadChoice::kLinear;
     },
     [](oracle::Model& m) {
       m.input_activation = "elu", m.typed_input = true;
       add_head(m);
       for_hidden(m, [](oracle::Layer& l) {
         l.skip = "linear", l.skip_from_first = true, l.activation = "elu";
       });
     }},
};
constexpr Variant kBases = {"bases", [](ModelConfig& m) { m.bases = 2; }, [](oracle::Model&) {}};
constexpr int kHeads = 2;
constexpr int kOutputHeads = 3;

struct OracleCase {
  std::string model;
  Norm norm;
  bool directed;
  bool weighted;
  int layers;
  Task task;
  const Variant* variant = &kVariants[0];

  bool has_relations() const { return model == "rgcn"; }
  bool has_edge_features() const {
    return model == "gine" || std::string_view(variant->name).starts_with("edge_scores");
  }
  bool has_node_types() const { return std::string_view(variant->name).starts_with("typed"); }
  bool attends() const {
    return model == "gat" || model == "gatv2" || model == "dot" || model == "bilinear";
  }
  int outputs() const { return task == Task::kBinary ? 1 : task == Task::kSingleLabel ? 4 : 3; }
};

std::vector<OracleCase> all_cases() {
  std::vector<OracleCase> cases;
  for (const std::string& model : model_kinds()) {
    for (const Norm norm : {Norm::kNone, Norm::kLayer, Norm::kBatch}) {
      for (const bool directed : {true, false}) {
        for (const bool weighted : {true, false}) {
          const auto number = static_cast<int>(cases.size());
          const Task tasks[] = {Task::kSingleLabel, Task::kMultiLabel, Task::kBinary};
          cases.push_back({model, norm, directed, weighted, 3 - number % 3, tasks[number / 2 % 3]});
        }
      }
    }
  }
  for (const char* model : {"gat", "gatv2", "dot"}) {
    for (const Variant& variant : kVariantsOfAttention) {
      const auto number = static_cast<int>(cases.size());
      cases.push_back({model, number % 2 == 0 ? Norm::kLayer : Norm::kNone, number % 4 < 2, false,
                       2, Task::kSingleLabel, &variant});
    }
  }
  // Where all layers have weights and columns of their own.
  for (const char* model : {"gcn", "sage", "gin", "sum", "mlp"}) {
    for (const Variant& variant : std::span(kVariants).subspan(1)) {
      const auto number = static_cast<int>(cases.size());
      const Norm norms[] = {Norm::kBatch, Norm::kLayer, Norm::kNone};
      cases.push_back({model, norms[number % 3], number % 2 == 0, number % 4 < 2, 3,
                       Task::kSingleLabel, &variant});
    }
  }
  for (const Norm norm : {Norm::kNone, Norm::kLayer}) {
    cases.push_back({"rgcn", norm, norm == Norm::kNone, false, 2, Task::kSingleLabel, &kBases});
  }
  for (const Variant& variant : kVariants) {
    const std::string name = variant.name;
    if (name != "linear_skips" && name != "largest" && name != "before_concatenated") continue;
    const auto number = static_cast<int>(cases.size());
    cases.push_back({"rgcn", number % 2 == 0 ? Norm::kBatch : Norm::kLayer, number % 2 == 1, true,
                     3, Task::kSingleLabel, &variant});
  }
  for (const Variant& variant : kVariants) {
    if (std::string_view(variant.name) == "summed") continue;  // its root is linear
    const auto number = static_cast<int>(cases.size());
    cases.push_back({"gine", number % 2 == 0 ? Norm::kBatch : Norm::kLayer, number % 2 == 1, false,
                     3, Task::kSingleLabel, &variant});
  }
  for (const Variant& variant : kVariantsOfSage) {
    for (const Norm norm : {Norm::kNone, Norm::kLayer, Norm::kBatch}) {
      cases.push_back({"sage", norm, norm != Norm::kLayer, norm == Norm::kLayer, 3,
                       Task::kSingleLabel, &variant});
    }
  }
  for (const Variant& variant : kVariantsOfLearnedSage) {
    for (const Norm norm : {Norm::kNone, Norm::kLayer, Norm::kBatch}) {
      cases.push_back({"sage", norm, norm == Norm::kNone, norm == Norm::kBatch, 3,
                       Task::kSingleLabel, &variant});
    }
  }
  for (const Variant& variant : kVariantsOfEdgeScores) {
    for (const Norm norm : {Norm::kNone, Norm::kLayer}) {
      cases.push_back(
          {"gat", norm, norm == Norm::kNone, norm == Norm::kNone, 2, Task::kSingleLabel, &variant});
    }
  }
  const auto add_typed = [&](const std::string& model) {
    cases.push_back({model, Norm::kNone, true, false, 2, Task::kSingleLabel, &kVariantsOfTypes[0]});
  };
  for (const std::string& model : model_kinds()) {
    if (model != "bilinear") add_typed(model);
  }
  for (const auto& [model, norm] : {std::pair("gcn", Norm::kLayer),
                                    {"gcn", Norm::kBatch},
                                    {"sage", Norm::kLayer},
                                    {"sage", Norm::kBatch},
                                    {"rgcn", Norm::kBatch}}) {
    cases.push_back({model, norm, norm == Norm::kLayer, model[0] == 'g', 3, Task::kSingleLabel,
                     &kVariantsOfTypes[1]});
  }
  // Behind the others, whose norms and graphs follow from their numbers.
  for (const char* model : {"gat", "gatv2", "dot"}) {
    for (const Variant& variant : kVariantsOfAttentionNorm) {
      const auto number = static_cast<int>(cases.size());
      cases.push_back({model, number % 2 == 0 ? Norm::kLayer : Norm::kNone, number % 4 < 2, false,
                       2, Task::kSingleLabel, &variant});
    }
  }
  for (const Variant& variant : kVariantsOfEdgeScores) {
    for (const Norm norm : {Norm::kNone, Norm::kLayer}) {
      cases.push_back({"gatv2", norm, norm == Norm::kNone, norm == Norm::kNone, 2,
                       Task::kSingleLabel, &variant});
    }
  }
  // A kind that came later: norms and graphs of others follow from their numbers.
  add_typed("bilinear");
  for (const std::span<const Variant> variants :
       {std::span<const Variant>(kVariantsOfAttention), {kVariantsOfAttentionNorm}}) {
    for (const Variant& variant : variants) {
      const auto number = static_cast<int>(cases.size());
      cases.push_back({"bilinear", number % 2 == 0 ? Norm::kLayer : Norm::kNone, number % 4 < 2,
                       false, 2, Task::kSingleLabel, &variant});
    }
  }
  return cases;
}

std::string name_of(const ::testing::TestParamInfo<OracleCase>& info) {
  const OracleCase& c = info.param;
  return fmt::format("{}_{}_{}_{}{}_{}_layers_{}", c.model, c.variant->name, to_string(c.norm),
                     c.directed ? "directed" : "undirected", c.weighted ? "_weighted" : "",
                     c.layers, c.task == Task::kSingleLabel ? "softmax" : "sigmoid");
}

// Isolated nodes, skewed degrees, a self-loop; where directed, several of these and duplicates.
Csr graph_of(const OracleCase& c) {
  Csr csr = random_graph(kNodes, 3, c.directed, c.weighted, 11);
  // A weight by which a kept self-loop and an added one differ.
  for (std::int64_t e = csr.row_ptr[2]; c.weighted && e < csr.row_ptr[3]; ++e) {
    if (csr.col_idx[static_cast<std::size_t>(e)] == 2)
      csr.values[static_cast<std::size_t>(e)] = 0.3F;
  }
  return csr;
}

// The same in both directions.
int type_of(int from, int to) { return (from * to + from + to) % kRelations; }

constexpr int kNodeTypes = 4;
// Nobody is of type 2.
int node_type_of(int node) {
  return std::array{0, 3, 1, 0, 3}.at(static_cast<std::size_t>(node % 5));
}

constexpr int kEdgeFeatures = 3;
std::vector<double> edge_features_of(int from, int to) {
  std::vector<double> features;
  for (int k = 0; k < kEdgeFeatures; ++k) {
    features.push_back(
        static_cast<double>(std::sin(static_cast<float>(from * to + from + to + 5 * k))));
  }
  return features;
}

oracle::Graph edges_of(const Csr& csr) {
  oracle::Graph graph{kNodes, {}, kRelations, {}};
  for (int node = 0; node < kNodes; ++node) graph.node_types.push_back(node_type_of(node));
  for (int to = 0; to < kNodes; ++to) {
    for (auto e = static_cast<std::size_t>(csr.row_ptr[static_cast<std::size_t>(to)]);
         e < static_cast<std::size_t>(csr.row_ptr[static_cast<std::size_t>(to) + 1]); ++e) {
      graph.edges.push_back({csr.col_idx[e], to,
                             csr.values.empty() ? 1.0 : static_cast<double>(csr.values[e]),
                             type_of(csr.col_idx[e], to), edge_features_of(csr.col_idx[e], to)});
    }
  }
  return graph;
}

float feature(int node, int column) {
  return std::cos(static_cast<float>(node * node * 13 + column * 7 + 1));
}

oracle::Matrix feature_matrix() {
  oracle::Matrix x(kNodes, kFeatures);
  for (int i = 0; i < kNodes; ++i) {
    for (int j = 0; j < kFeatures; ++j) x(i, j) = static_cast<double>(feature(i, j));
  }
  return x;
}

oracle::Targets targets_of(const OracleCase& c) {
  oracle::Targets targets;
  for (int i = 0; i < kNodes; ++i) {
    targets.trained.push_back(i % 3 != 1);
    if (c.task == Task::kSingleLabel) {
      targets.classes.push_back(i % 7 == 3 ? -1 : (i + i / 5) % 4);
    } else {
      for (int j = 0; j < c.outputs(); ++j) {
        targets.bits.push_back(static_cast<std::uint8_t>((i + j) % 7 == 3 ? 255 : (i + j) % 3 % 2));
      }
    }
  }
  return targets;
}

std::filesystem::path write_dataset(const TempDir& dir, const OracleCase& c, const Csr& csr) {
  spdlog::set_level(spdlog::level::warn);
  const std::filesystem::path folder = dir.path() / "small";
  DatasetWriter writer(folder);
  writer.info().name = "small";
  writer.info().directed = c.directed;
  writer.info().task = c.task;
  writer.write_graph(csr);
  if (c.has_relations()) {
    std::vector<std::uint16_t> types;
    for (const oracle::Edge& edge : edges_of(csr).edges) {
      types.push_back(static_cast<std::uint16_t>(edge.type));
    }
    writer.write_edge_types(types, kRelations);
  }
  if (c.has_node_types()) {
    std::vector<std::uint16_t> types;
    for (int node = 0; node < kNodes; ++node) {
      types.push_back(static_cast<std::uint16_t>(node_type_of(node)));
    }
    writer.write_node_types(types, kNodeTypes);
  }
  if (c.has_edge_features()) {
    const auto array = writer.write_edge_features(kEdgeFeatures);
    for (const oracle::Edge& edge : edges_of(csr).edges) {
      const std::vector<float> row(edge.features.begin(), edge.features.end());
      array->write(std::span<const float>(row));
    }
    array->close();
  }
  const auto features = writer.write_features(kFeatures);
  for (int i = 0; i < kNodes; ++i) {
    for (int j = 0; j < kFeatures; ++j) {
      const float value = feature(i, j);
      features->write(std::span(&value, 1));
    }
  }
  features->close();
  const oracle::Targets targets = targets_of(c);
  if (c.task == Task::kSingleLabel) {
    writer.write_labels(targets.classes);
  } else if (c.task == Task::kMultiLabel) {
    writer.write_multi_labels(targets.bits, c.outputs());
  } else {
    std::vector<std::int32_t> labels;
    for (const std::uint8_t bit : targets.bits) labels.push_back(bit == 255 ? -1 : bit);
    writer.write_labels(labels);
  }
  std::vector<std::uint8_t> split;
  for (const bool trained : targets.trained) split.push_back(trained ? 0 : 1);
  writer.write_splits(split, 1);
  writer.commit();
  return folder;
}

// Values of a tensor to start from: no bias or statistic is 0, no scale 1.
// Sums over neighbours get small weights, or logits would be out of reach of a softmax.
double start_value(const OracleCase& c, const std::string& name, std::size_t element) {
  std::uint32_t seed = 1;
  for (const char letter : name) seed = seed * 31 + static_cast<unsigned char>(letter);
  const double wave =
      std::sin(static_cast<double>(seed % 1000) + 3.7 * static_cast<double>(element));
  const bool around_one =
      name.ends_with("norm.weight") || name.ends_with("running_var") || name.ends_with(".power");
  const bool sums =
      (c.model == "gin" || c.model == "gine" || c.model == "sum") && name.ends_with(".weight");
  const double size = sums ? 0.2 : 0.6;
  return static_cast<double>(static_cast<float>(around_one ? 1 + 0.5 * wave : size * wave));
}

// One tensor of a state as a matrix, vectors as one row.
oracle::Matrix matrix_of(const NamedTensor& tensor) {
  const auto cols = static_cast<int>(tensor.shape.back());
  oracle::Matrix matrix(tensor.shape.size() == 2 ? static_cast<int>(tensor.shape[0]) : 1, cols);
  for (std::size_t i = 0; i < matrix.values.size(); ++i) {
    if (tensor.dtype == "F64") {
      std::memcpy(&matrix.values[i], tensor.bytes.data() + 8 * i, 8);
    } else {
      float value = 0;
      std::memcpy(&value, tensor.bytes.data() + 4 * i, 4);
      matrix.values[i] = static_cast<double>(value);
    }
  }
  return matrix;
}

void fill(const OracleCase& c, const std::string& name, NamedTensor& tensor) {
  const std::size_t size = tensor.dtype == "F64" ? 8 : 4;
  for (std::size_t i = 0; i < tensor.bytes.size() / size; ++i) {
    const double wide = start_value(c, name, i);
    const auto narrow = static_cast<float>(wide);
    std::memcpy(tensor.bytes.data() + size * i,
                size == 8 ? static_cast<const void*>(&wide) : &narrow, size);
  }
}

// How a run computes; the numbers must not depend on it.
struct Way {
  std::string backend;
  DType dtype;
  int ranks;
  OrderChoice order;
};

using Gradients = std::map<std::string, oracle::Matrix>;

// Results of training and evaluation, in the order of global ids.
struct StepOutcome {
  oracle::Matrix training_logits;
  double loss = 0;
  Gradients gradients;
  std::map<std::string, oracle::Matrix> after;  // tensors behind the first step
  oracle::Matrix evaluation_logits;
};

constexpr int kHops = 3;

oracle::Model model_of(const OracleCase& c) {
  const bool is_mlp_first = c.model == "appnp" || c.model == "mlp";
  const oracle::Layer hidden{.convolution = is_mlp_first ? "none" : c.model,
                             .norm = to_string(c.norm)};
  const oracle::Layer last{.convolution = hidden.convolution, .activation = "none"};
  const auto count = static_cast<std::size_t>(c.layers);
  oracle::Model model;
  if (c.model == "sgc") {
    model.layers.assign(count, last);
    model.layers.push_back({.convolution = "none", .activation = "none"});
  } else if (c.model == "gcnii") {
    model.input_activation = "relu";
    model.layers.assign(count, hidden);
    model.has_head = true;
  } else {
    model.layers.assign(count, hidden);
    model.layers.back() = last;
  }
  if (c.attends()) {
    for (oracle::Layer& layer : model.layers) layer.heads = kHeads;
    model.layers.back().heads = kOutputHeads;
    model.layers.back().averages_heads = true;
  }
  if (c.model == "appnp") {
    model.layers.insert(model.layers.end(), kHops, {.convolution = "appnp", .activation = "none"});
  }
  c.variant->describe(model);
  return model;
}

TrainOptions options_of(const OracleCase& c, const Way& way) {
  TrainOptions options;
  options.model.kind = c.model;
  options.model.layers = c.layers;
  options.model.hidden = kHidden;
  options.model.norm = c.norm;
  options.model.dropout = 0;
  options.backend = way.backend;
  options.model.dtype = way.dtype;
  options.model.order = way.order;
  options.model.hops = kHops;
  if (c.attends()) {
    options.model.hidden = kHiddenOfHeads;
    options.model.heads = kHeads;
    options.model.output_heads = kOutputHeads;
  }
  c.variant->set(options.model);
  options.threads = 1;
  return options;
}

// Rows of this rank's logits go where their global ids say.
void keep_rows(RankJob& job, Backend& backend, Queue& queue, ConstMatrixView logits,
               oracle::Matrix& all) {
  const std::vector<float> values = download_f32(backend, queue, logits);
  const std::span<const GlobalId> ids = job.data().graph().inner_ids;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    for (int j = 0; j < all.cols; ++j) {
      all(static_cast<int>(to_index(ids[i])), j) = static_cast<double>(
          values[i * static_cast<std::size_t>(all.cols) + static_cast<std::size_t>(j)]);
    }
  }
}

StepOutcome run_engine(const OracleCase& c, const Way& way, const std::filesystem::path& dataset) {
  StepOutcome outcome;
  outcome.training_logits = outcome.evaluation_logits = oracle::Matrix(kNodes, c.outputs());
  std::mutex mutex;
  const TrainOptions options = options_of(c, way);
  PartitionOptions partition;
  partition.method = "random";
  run_local_ranks(way.ranks, 60, [&](Transport& transport) {
    RankJob job(transport, dataset, partition, options);
    Trainer& trainer = job.trainer();
    const Rank& rank = trainer.rank();
    SafetensorsFile start = trainer.state(false);
    for (auto& [name, tensor] : start.tensors) fill(c, name, tensor);
    trainer.load_state(start, false, "start");
    {
      trainer.network().run_forward(trainer.exchange(), trainer.round(1, /*training=*/true));
      const ConstMatrixView logits = trainer.network().logits();
      const std::lock_guard lock(mutex);
      keep_rows(job, rank.backend, rank.queue, logits, outcome.training_logits);
    }
    trainer.load_state(start, false, "start");  // running statistics as before
    const double loss = trainer.run_epoch(1).loss;
    trainer.evaluate(1);
    const std::lock_guard lock(mutex);
    keep_rows(job, rank.backend, rank.queue, trainer.network().logits(), outcome.evaluation_logits);
    if (transport.rank() != 0) return;
    outcome.loss = loss;
    for (const auto& [name, tensor] : trainer.state(false).tensors) {
      outcome.after[name] = matrix_of(tensor);
    }
    ParameterStore& parameters = trainer.network().parameters();
    const std::vector<float> gradients =
        download_f32(rank.backend, rank.queue, parameters.gradients());
    for (const Parameter& p : parameters.list()) {
      oracle::Matrix& matrix = outcome.gradients[p.name] =
          oracle::Matrix(static_cast<int>(p.rows), static_cast<int>(p.cols));
      std::copy_n(gradients.begin() + p.offset, p.rows * p.cols, matrix.values.begin());
    }
  });
  return outcome;
}

// The oracle's results of training from the same start. after and evaluation_logits hang on the
// step, which is the engine's: see evaluate().
StepOutcome run_oracle(const OracleCase& c, const Csr& csr, const StepOutcome& shapes) {
  oracle::Model model = model_of(c);
  for (const auto& [name, tensor] : shapes.after) {
    oracle::Matrix& start = model.tensors[name] = tensor;
    for (std::size_t i = 0; i < start.values.size(); ++i) start.values[i] = start_value(c, name, i);
  }
  const oracle::Graph graph = edges_of(csr);
  const oracle::Matrix features = feature_matrix();
  const oracle::Targets targets = targets_of(c);
  StepOutcome outcome;
  oracle::Model moved = model;
  outcome.training_logits = oracle::logits(moved, graph, features, oracle::Mode::kTraining);
  outcome.loss = oracle::loss(outcome.training_logits, targets);
  outcome.after = moved.tensors;
  for (const auto& [name, unused] : shapes.gradients) {
    outcome.gradients[name] = oracle::gradient(model.tensors.at(name), [&] {
      oracle::Model copy = model;
      return oracle::loss(oracle::logits(copy, graph, features, oracle::Mode::kTraining), targets);
    });
  }
  return outcome;
}

double largest_of(const oracle::Matrix& matrix) {
  double largest = 0;
  for (const double value : matrix.values) largest = std::max(largest, std::abs(value));
  return largest;
}

// Largest difference, as a share of the largest number expected, or of `least` if that is more.
double deviation(const oracle::Matrix& found, const oracle::Matrix& expected, double least = 0) {
  EXPECT_EQ(found.values.size(), expected.values.size());
  double difference = 0;
  for (std::size_t i = 0; i < expected.values.size(); ++i) {
    difference = std::max(difference, std::abs(found.values[i] - expected.values[i]));
    if (std::isnan(found.values[i])) return found.values[i];
  }
  const double largest = std::max(largest_of(expected), least);
  EXPECT_GT(largest, 0);
  return difference / largest;
}

// Length of the difference of two gradients over that of the expected one, over all parameters.
double gradient_distance(const Gradients& found, const Gradients& expected) {
  double difference = 0;
  double length = 0;
  for (const auto& [name, gradient] : expected) {
    for (std::size_t i = 0; i < gradient.values.size(); ++i) {
      const double d = found.at(name).values[i] - gradient.values[i];
      difference += d * d;
      length += gradient.values[i] * gradient.values[i];
    }
  }
  return std::sqrt(difference / length);
}

// bf16 keeps 8 bits of activations and of the weights in products, and norms of a few columns
// magnify what that costs: of its gradients the direction is tested. What a formula says is tested
// by f32.
struct Bounds {
  double logits;
  double gradient;   // of each parameter
  double gradients;  // of all together
};
Bounds bounds_of(const OracleCase& c, DType dtype) {
  // f32 against double, u = 2^-24 = 6e-8: up to three layers of at most some 100 roundings each, in
  // random directions 17 u = 1e-6, and norms of few columns magnify it a few times. Gradients of
  // scores are small differences of what all edges of a node get.
  if (dtype == DType::kF32) return {1e-5, c.attends() ? 5e-5 : 1e-5, 1e-5};
  const bool is_shallow = c.variant == &kVariants[0] && (c.model == "gcn" || c.model == "sage");
  return is_shallow ? Bounds{0.08, 0.3, 0.2} : Bounds{0.1, 1, 0.2};
}

void expect_as_oracle(const OracleCase& c, const std::vector<Way>& ways) {
  const TempDir dir;
  const Csr csr = graph_of(c);
  const std::filesystem::path dataset = write_dataset(dir, c, csr);
  StepOutcome expected;
  for (const Way& way : ways) {
    SCOPED_TRACE(fmt::format("{} {}, {} ranks, order {}", way.backend, to_string(way.dtype),
                             way.ranks, static_cast<int>(way.order)));
    const Bounds bounds = bounds_of(c, way.dtype);
    const StepOutcome found = run_engine(c, way, dataset);
    if (expected.after.empty()) expected = run_oracle(c, csr, found);
    EXPECT_LT(deviation(found.training_logits, expected.training_logits), bounds.logits);
    EXPECT_NEAR(found.loss, expected.loss, bounds.logits * expected.loss);
    double largest = 0;
    for (const auto& [name, gradient] : expected.gradients) {
      largest = std::max(largest, largest_of(gradient));
    }
    // A norm takes away what a bias before it adds: such gradients are rounding alone, and found
    // where a layer begins with a norm.
    const bool begins_with_norm = std::string(c.variant->name).starts_with("before");
    // The same holds for what only shifts all scores of a target alike, which a softmax takes away:
    // it learns by the few of its edges that leaky ReLU tells apart.
    const double small = begins_with_norm || c.attends() ? 0.01 * largest : 0;
    for (const auto& [name, gradient] : expected.gradients) {
      EXPECT_LT(deviation(found.gradients.at(name), gradient, small), bounds.gradient) << name;
    }
    EXPECT_LT(gradient_distance(found.gradients, expected.gradients), bounds.gradients);
    // The engine's weights of behind the step, but the oracle's own running statistics.
    oracle::Model after = model_of(c);
    after.tensors = found.after;
    for (const auto& [name, tensor] : expected.after) {
      if (name.find("running") == std::string::npos) continue;
      EXPECT_LT(deviation(found.after.at(name), tensor), bounds.logits) << name;
      after.tensors[name] = tensor;
    }
    const oracle::Matrix logits =
        oracle::logits(after, edges_of(csr), feature_matrix(), oracle::Mode::kEvaluation);
    EXPECT_LT(deviation(found.evaluation_logits, logits), bounds.logits);
  }
}

std::vector<Way> ways_of(const std::vector<std::pair<std::string, DType>>& backends) {
  std::vector<Way> ways;
  for (const auto& [backend, dtype] : backends) {
    for (const int ranks : {1, 3}) {
      for (const OrderChoice order : {OrderChoice::kMultiplyFirst, OrderChoice::kAggregateFirst}) {
        ways.push_back({backend, dtype, ranks, order});
      }
    }
  }
  return ways;
}

class DenseOracle : public ::testing::TestWithParam<OracleCase> {};

TEST_P(DenseOracle, HasTheSameLogitsLossAndGradients) {
  expect_as_oracle(
      GetParam(),
      ways_of({{"reference", DType::kF32}, {"cpu", DType::kF32}, {"cpu", DType::kBf16}}));
}

INSTANTIATE_TEST_SUITE_P(Models, DenseOracle, ::testing::ValuesIn(all_cases()), name_of);

class DenseOracleOfDevice : public ::testing::TestWithParam<OracleCase> {
 protected:
  void SetUp() override { require_backend("cuda"); }
};

TEST_P(DenseOracleOfDevice, HasTheSameLogitsLossAndGradients) {
  // Emulation is slow: both types meet both orders and both numbers of ranks, not all of their
  // pairs.
  expect_as_oracle(GetParam(), {{"cuda", DType::kF32, 1, OrderChoice::kMultiplyFirst},
                                {"cuda", DType::kF32, 3, OrderChoice::kAggregateFirst},
                                {"cuda", DType::kBf16, 1, OrderChoice::kAggregateFirst},
                                {"cuda", DType::kBf16, 3, OrderChoice::kMultiplyFirst}});
}

INSTANTIATE_TEST_SUITE_P(Models, DenseOracleOfDevice, ::testing::ValuesIn(all_cases()), name_of);

}  // namespace
}  // namespace atl
