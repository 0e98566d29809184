#include "launch/planned_graph.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "engine/training/block_dealing.hpp"
#include "engine/training/trainer.hpp"

namespace atl {

std::int64_t outputs_of(const DatasetInfo& info) {
  if (info.task == Task::kLinkPrediction) {
    fail_input(
        "dataset {}: its task is link-prediction, whose epochs are neither listed nor planned",
        info.name);
  }
  return info.task == Task::kBinary ? 1 : info.classes;
}

ModelConfig model_for(const DatasetInfo& info, const ModelConfig& model, int ranks) {
  const std::int64_t outputs = outputs_of(info);
  const bool has_features = info.features > 0 || model.trains_nodes();
  if (!has_features || outputs == 0) {
    fail_input("dataset {} has {} features and {} classes; a model needs both{}", info.name,
               info.features, outputs,
               has_features ? "" : " (--features trained:64 trains a row for each node)");
  }
  return model.sized(sizes_of(info, outputs), ranks);
}

GraphBlocks first_blocks(const Dataset& dataset, const std::filesystem::path& folder,
                         const TrainOptions& options, const std::filesystem::path& parts_dir) {
  if (!options.blocks.deals()) return {};
  const GraphView graph = dataset.graph();
  std::vector<GlobalId> ids(static_cast<std::size_t>(graph.nodes()));
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<GlobalId>(i);
  LocalGraphView whole;
  whole.global_nodes = graph.nodes();
  whole.inner_ids = ids;
  whole.forward.csr = graph.in_edges;
  GraphBlocks blocks;
  constexpr double kTimeout = 60;  // nobody is waited for
  run_local_ranks(1, kTimeout, [&](Transport& alone) {
    const BlockDealing dealing(alone, folder, whole, options.blocks, options.seed, parts_dir);
    blocks = {dealing.blocks(), dealing.of_epoch(1).inner};
  });
  return blocks;
}

int trained_blocks(const GraphBlocks& blocks, std::span<const std::uint8_t> split) {
  std::vector<bool> is_trained(static_cast<std::size_t>(blocks.count), split.empty());
  for (std::size_t i = 0; i < split.size(); ++i) {
    if (split[i] == 0) is_trained[static_cast<std::size_t>(blocks.of_node[i])] = true;
  }
  return std::max(1, static_cast<int>(std::ranges::count(is_trained, true)));
}

GraphShape shape_of(const DatasetInfo& info, const PartitionOptions& options,
                    PartitionQuality quality) {
  if (info.features == 0 || outputs_of(info) == 0) {
    fail_input("dataset {} has {} features and {} classes; a shape needs both", info.name,
               info.features, info.classes);
  }
  return {.name = info.name,
          .nodes = info.nodes,
          .edges = info.edges,
          .features = info.features,
          .classes = outputs_of(info),
          .relations = info.relations,
          .edge_features = info.edge_features,
          .node_types = info.node_types,
          .partition = options,
          .quality = std::move(quality)};
}

namespace {

NamedShape read_named(const std::string& word) {
  // A file may be called a=b.
  const std::size_t equals = std::filesystem::exists(word) ? std::string::npos : word.find('=');
  const bool named = equals != std::string::npos && equals > 0;
  const std::string file = named ? word.substr(equals + 1) : word;
  return {named ? word.substr(0, equals) : file, file, read_shape(file)};
}

void require_same(const NamedShape& first, const NamedShape& other) {
  const GraphShape& a = first.shape;
  const GraphShape& b = other.shape;
  for (const auto& [field, expected, found] : {std::tuple("nodes", a.nodes, b.nodes),
                                               {"edges", a.edges, b.edges},
                                               {"features", a.features, b.features},
                                               {"classes", a.classes, b.classes},
                                               {"relations", a.relations, b.relations},
                                               {"edge_features", a.edge_features, b.edge_features},
                                               {"node_types", a.node_types, b.node_types}}) {
    if (expected == found) continue;
    fail_input("{}: '{}' is {}; allowed is {}, as in {}: all shapes are cuts of one graph",
               other.file, field, found, expected, first.file);
  }
}

}  // namespace

std::vector<NamedShape> read_shapes(const std::vector<std::string>& words, int ranks) {
  std::vector<NamedShape> shapes;
  for (const std::string& word : words) {
    NamedShape next = read_named(word);
    const std::size_t parts = next.shape.quality.parts.size();
    if (static_cast<std::size_t>(ranks) % parts != 0) {
      fail_input(
          "{}: {} parts; allowed are {}, one for every rank of the topology, and divisors of it, "
          "for several ranks that hold a part together",
          next.file, parts, ranks);
    }
    if (!shapes.empty()) require_same(shapes.front(), next);
    if (std::ranges::find(shapes, next.name, &NamedShape::name) != shapes.end()) {
      fail_option("--shape {}: there is a cut '{}' already; allowed are names of their own", word,
                  next.name);
    }
    shapes.push_back(std::move(next));
  }
  return shapes;
}

}  // namespace atl
