// Models of every kind and option, with small datasets that suit them: directed and not, weighted
// and not, with types and features of edges. What they should compute says
// tests/support/dense_oracle.hpp.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>

#include "base/log.hpp"
#include "datasets/dataset_writer.hpp"
#include "engine/training/rank_job.hpp"
#include "tests/support/dense_oracle.hpp"
#include "tests/support/random_graph.hpp"
#include "tests/support/temp_dir.hpp"

namespace atl {

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
inline void for_hidden(oracle::Model& model, const Change& change) {
  for (oracle::Layer& layer : model.layers) {
    if (layer.activation != "none") change(layer);
  }
}

inline void add_head(oracle::Model& model) {
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

inline std::vector<OracleCase> oracle_cases() {
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

inline std::string name_of_oracle_case(const ::testing::TestParamInfo<OracleCase>& info) {
  const OracleCase& c = info.param;
  return fmt::format("{}_{}_{}_{}{}_{}_layers_{}", c.model, c.variant->name, to_string(c.norm),
                     c.directed ? "directed" : "undirected", c.weighted ? "_weighted" : "",
                     c.layers, c.task == Task::kSingleLabel ? "softmax" : "sigmoid");
}

// Isolated nodes, skewed degrees, a self-loop; where directed, several of these and duplicates.
inline Csr graph_of(const OracleCase& c) {
  Csr csr = random_graph(kNodes, 3, c.directed, c.weighted, 11);
  // A weight by which a kept self-loop and an added one differ.
  for (std::int64_t e = csr.row_ptr[2]; c.weighted && e < csr.row_ptr[3]; ++e) {
    if (csr.col_idx[static_cast<std::size_t>(e)] == 2)
      csr.values[static_cast<std::size_t>(e)] = 0.3F;
  }
  return csr;
}

// The same in both directions.
inline int type_of(int from, int to) { return (from * to + from + to) % kRelations; }

constexpr int kNodeTypes = 4;
// Nobody is of type 2.
inline int node_type_of(int node) {
  return std::array{0, 3, 1, 0, 3}.at(static_cast<std::size_t>(node % 5));
}

constexpr int kEdgeFeatures = 3;
inline std::vector<double> edge_features_of(int from, int to) {
  std::vector<double> features;
  for (int k = 0; k < kEdgeFeatures; ++k) {
    features.push_back(
        static_cast<double>(std::sin(static_cast<float>(from * to + from + to + 5 * k))));
  }
  return features;
}

inline oracle::Graph edges_of(const Csr& csr) {
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

inline float feature(int node, int column) {
  return std::cos(static_cast<float>(node * node * 13 + column * 7 + 1));
}

inline oracle::Matrix feature_matrix() {
  oracle::Matrix x(kNodes, kFeatures);
  for (int i = 0; i < kNodes; ++i) {
    for (int j = 0; j < kFeatures; ++j) x(i, j) = static_cast<double>(feature(i, j));
  }
  return x;
}

inline oracle::Targets targets_of(const OracleCase& c) {
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

inline std::filesystem::path write_dataset(const TempDir& dir, const OracleCase& c,
                                           const Csr& csr) {
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
inline double start_value(const OracleCase& c, const std::string& name, std::size_t element) {
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

inline void fill_start(const OracleCase& c, const std::string& name, NamedTensor& tensor) {
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

constexpr int kHops = 3;

inline TrainOptions options_of(const OracleCase& c, const Way& way) {
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

}  // namespace atl
