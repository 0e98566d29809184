// Datasets that grow: appended step by step they are what an import of everything gives, byte by
// byte.
#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "base/files.hpp"
#include "datasets/append.hpp"
#include "datasets/dataset_writer.hpp"
#include "datasets/import.hpp"
#include "datasets/partition_folder.hpp"
#include "tests/support/temp_dir.hpp"

namespace atl {
namespace {

namespace fs = std::filesystem;

// A graph that grows, and what it has; all of it arrives in `steps` parts.
struct Kind {
  const char* name;
  bool directed = false;
  bool weighted = false;
  bool typed = false;
  bool reverse_relations = false;
  bool keep_self_loops = false;
  bool row_normalize = false;
  std::int64_t features = 3;
  std::int64_t edge_features = 0;
  bool node_types = false;
  Task task = Task::kSingleLabel;
  bool labels = true;
  std::int64_t splits = 1;
};

void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

constexpr std::int64_t kClasses = 3;

// Arrays of a graph; nodes and edges in the order in which they come.
struct Arrivals {
  std::int64_t nodes = 0;
  std::vector<std::int64_t> sources, targets;
  std::vector<float> weights;
  std::vector<std::int32_t> types;
  std::vector<float> edge_features, features;
  std::vector<std::int32_t> node_types, classes;
  std::vector<std::uint8_t> many;                  // labels
  std::vector<float> numbers;                      // labels
  std::vector<std::uint8_t> roles;                 // of each split
  std::vector<std::int64_t> node_ends, edge_ends;  // of the steps
};

Arrivals draw(const Kind& kind, int steps, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  Arrivals all;
  const auto add_edge = [&](std::int64_t source, std::int64_t target, std::int64_t weight,
                            std::int64_t type) {
    all.sources.push_back(source);
    all.targets.push_back(target);
    all.weights.push_back(static_cast<float>(weight));
    all.types.push_back(static_cast<std::int32_t>(type));
    for (std::int64_t k = 0; k < kind.edge_features; ++k) {
      all.edge_features.push_back(static_cast<float>(below(100)));
    }
  };
  for (int step = 0; step < steps; ++step) {
    all.nodes += step == 0 ? 40 : below(9);  // also none
    all.node_ends.push_back(all.nodes);
    for (std::int64_t e = step == 0 ? 120 : below(40); e > 0; --e) {
      const std::int64_t source = below(all.nodes);
      const std::int64_t target = below(8) == 0 ? source : below(all.nodes);
      const std::int64_t weight = 1 + below(9);
      const std::int64_t type = kind.typed ? below(3) : 0;
      add_edge(source, target, weight, type);
      // Both directions, with the weight of one: the larger sum is that of either.
      if (kind.weighted && !kind.directed) add_edge(target, source, weight, type);
    }
    all.edge_ends.push_back(std::ssize(all.sources));
  }
  all.types.front() = kind.typed ? 2 : 0;  // all relations from the first step on
  if (kind.typed && kind.weighted && !kind.directed) all.types[1] = 2;
  for (std::int64_t i = 0; i < all.nodes; ++i) {
    for (std::int64_t k = 0; k < kind.features; ++k) {
      all.features.push_back(static_cast<float>(below(50)) - 7);
    }
    all.node_types.push_back(static_cast<std::int32_t>(i < 2 ? 1 - i : below(2)));
    all.classes.push_back(static_cast<std::int32_t>(below(kClasses + 1)) - 1);
    for (std::int64_t k = 0; k < kClasses; ++k) {
      const std::int64_t value = below(3);
      all.many.push_back(value == 2 ? std::uint8_t{255} : static_cast<std::uint8_t>(value));
      all.numbers.push_back(value == 2 ? std::numeric_limits<float>::quiet_NaN()
                                       : static_cast<float>(below(100)) / 8);
    }
  }
  for (std::int64_t k = 0; k < kind.splits; ++k) {
    for (std::int64_t i = 0; i < all.nodes; ++i) {
      const std::int64_t role = i == 0 ? 0 : below(4);
      all.roles.push_back(role == 3 ? std::uint8_t{255} : static_cast<std::uint8_t>(role));
    }
  }
  return all;
}

template <typename T>
void save(const fs::path& path, const std::vector<T>& values, std::int64_t columns,
          std::int64_t begin, std::int64_t end, bool matrix) {
  const std::vector<T> part(values.begin() + begin * columns, values.begin() + end * columns);
  write_npy<T>(path, part, matrix ? std::vector{end - begin, columns} : std::vector{end - begin});
}

class AppendTest : public ::testing::TestWithParam<Kind> {
 protected:
  // Arrays of nodes and edges [begin, end) of steps [first, last), by the names of an import.
  fs::path write_arrays(const Arrivals& all, std::size_t first, std::size_t last) {
    const Kind& kind = GetParam();
    const fs::path folder = dir_.path() / fmt::format("arrays-{}-{}", first, last);
    fs::create_directories(folder);
    const std::int64_t nodes = first == 0 ? 0 : all.node_ends[first - 1];
    const std::int64_t edges = first == 0 ? 0 : all.edge_ends[first - 1];
    const std::int64_t nodes_end = all.node_ends[last - 1];
    const std::int64_t edges_end = all.edge_ends[last - 1];
    std::vector<std::int64_t> index(all.sources.begin() + edges, all.sources.begin() + edges_end);
    index.insert(index.end(), all.targets.begin() + edges, all.targets.begin() + edges_end);
    write_npy<std::int64_t>(folder / "edge_index.npy", index, {2, edges_end - edges});
    const auto of_edges = [&](const char* name, const auto& values, std::int64_t columns) {
      save(folder / name, values, columns, edges, edges_end, columns > 1);
    };
    if (kind.weighted) of_edges("edge_weights.npy", all.weights, 1);
    if (kind.typed) of_edges("edge_types.npy", all.types, 1);
    if (kind.edge_features > 0)
      of_edges("edge_features.npy", all.edge_features, kind.edge_features);
    const auto of_nodes = [&](const char* name, const auto& values, std::int64_t columns,
                              bool matrix) {
      save(folder / name, values, columns, nodes, nodes_end, matrix);
    };
    if (kind.features > 0) of_nodes("features.npy", all.features, kind.features, true);
    if (kind.node_types) of_nodes("node_types.npy", all.node_types, 1, false);
    if (kind.labels && kind.task == Task::kMultiLabel) {
      of_nodes("labels.npy", all.many, kClasses, true);
    } else if (kind.labels && kind.task == Task::kRegression) {
      of_nodes("labels.npy", all.numbers, kClasses, true);
    } else if (kind.labels) {
      of_nodes("labels.npy", all.classes, 1, false);
    }
    if (kind.splits > 0) {
      std::vector<std::uint8_t> roles;
      for (std::int64_t k = 0; k < kind.splits; ++k) {
        const auto begin = all.roles.begin() + k * all.nodes;
        roles.insert(roles.end(), begin + nodes, begin + nodes_end);
      }
      write_npy<std::uint8_t>(folder / "split.npy", roles,
                              kind.splits == 1 ? std::vector{nodes_end - nodes}
                                               : std::vector{kind.splits, nodes_end - nodes});
    }
    return folder;
  }

  Dataset import(const fs::path& arrays, const char* out) {
    const Kind& kind = GetParam();
    ImportOptions options;
    options.source = arrays;
    options.out = dir_.path() / out;
    options.name = "set";
    options.directed = kind.directed;
    options.keep_self_loops = kind.keep_self_loops;
    options.reverse_relations = kind.reverse_relations;
    options.row_normalize = kind.row_normalize;
    if (kind.labels && kind.task == Task::kSingleLabel) options.classes = kClasses;
    if (kind.labels) options.task = kind.task;
    // Without arrays of nodes their number must be said.
    if (kind.features == 0 && !kind.labels && kind.splits == 0) options.nodes = nodes_said_;
    import_dataset("npy", options);
    return Dataset::open(options.out);
  }

  AppendOptions append_options(const fs::path& arrays, const fs::path& data, const fs::path& out,
                               std::int64_t new_nodes) const {
    const Kind& kind = GetParam();
    AppendOptions options;
    options.data = data;
    options.out = out;
    options.name = "set";
    options.edges = arrays / "edge_index.npy";
    if (kind.weighted) options.edge_weights = arrays / "edge_weights.npy";
    if (kind.typed) options.edge_types = arrays / "edge_types.npy";
    if (kind.edge_features > 0) options.edge_features = arrays / "edge_features.npy";
    if (new_nodes == 0) return options;
    options.nodes =
        kind.features > 0 ? (arrays / "features.npy").string() : std::to_string(new_nodes);
    if (kind.node_types) options.node_types = arrays / "node_types.npy";
    if (kind.labels) options.labels = arrays / "labels.npy";
    if (kind.splits > 0) options.split = (arrays / "split.npy").string();
    return options;
  }

  TempDir dir_;
  std::int64_t nodes_said_ = 0;
};

// Every file of both folders but dataset.json.
void expect_same_arrays(const fs::path& found, const fs::path& expected) {
  std::vector<std::string> names;
  for (const char* name : kDatasetFiles) {
    EXPECT_EQ(is_there(found / name), is_there(expected / name)) << name;
    if (!is_there(found / name) || !is_there(expected / name)) continue;
    names.emplace_back(name);
    EXPECT_TRUE(read_text(found / name) == read_text(expected / name)) << name;
  }
  EXPECT_GE(names.size(), 2U);
}

TEST_P(AppendTest, InStepsIsAnImportOfAll) {
  constexpr int kSteps = 6;
  for (const std::uint64_t seed : {1, 2, 3}) {
    SCOPED_TRACE(seed);
    fs::remove_all(dir_.path());
    fs::create_directories(dir_.path());
    const Arrivals all = draw(GetParam(), kSteps, seed);
    nodes_said_ = all.nodes;
    const Dataset whole = import(write_arrays(all, 0, kSteps), "whole");
    nodes_said_ = all.node_ends[0];
    import(write_arrays(all, 0, 1), "step-0");
    fs::path last = dir_.path() / "step-0";
    const std::string base_bytes =
        read_text(last / "row_ptr.npy") + read_text(last / "col_idx.npy");
    for (std::size_t step = 1; step < kSteps; ++step) {
      const fs::path out = dir_.path() / fmt::format("step-{}", step);
      const std::int64_t nodes = all.node_ends[step] - all.node_ends[step - 1];
      if (nodes + all.edge_ends[step] - all.edge_ends[step - 1] == 0) continue;
      append_dataset(append_options(write_arrays(all, step, step + 1), last, out, nodes));
      last = out;
    }
    const Dataset chain = Dataset::open(last);
    chain.validate();
    EXPECT_EQ(chain.info().checksum, whole.info().checksum);
    EXPECT_EQ(chain.info().edges, whole.info().edges);
    EXPECT_EQ(chain.info().edges_source, whole.info().edges_source);
    EXPECT_EQ(chain.info().relations, whole.info().relations);
    EXPECT_EQ(chain.info().task, whole.info().task);
    const DatasetInfo compact = compact_dataset(last, dir_.path() / "compact");
    EXPECT_EQ(compact.checksum, whole.info().checksum);
    expect_same_arrays(dir_.path() / "compact", dir_.path() / "whole");
    Dataset::open(dir_.path() / "compact").validate();
    // Partitions of one are those of the other.
    const PartitionOptions options;
    EXPECT_EQ(partition_name(chain, 2, to_json(options)),
              partition_name(Dataset::open(dir_.path() / "compact"), 2, to_json(options)));
    // Memory of the chain that was written to is not that of the base's files.
    EXPECT_EQ(read_text(dir_.path() / "step-0/row_ptr.npy") +
                  read_text(dir_.path() / "step-0/col_idx.npy"),
              base_bytes);
    Dataset::open(dir_.path() / "step-0").validate();
  }
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, AppendTest,
    ::testing::Values(
        Kind{.name = "undirected"}, Kind{.name = "directed", .directed = true},
        Kind{.name = "loops", .keep_self_loops = true, .row_normalize = true},
        Kind{.name = "weighted", .weighted = true},
        Kind{.name = "directed_weighted", .directed = true, .weighted = true},
        Kind{.name = "typed", .typed = true, .node_types = true},
        Kind{.name = "directed_typed", .directed = true, .typed = true, .edge_features = 2},
        Kind{.name = "reverse", .typed = true, .reverse_relations = true, .edge_features = 1},
        Kind{.name = "everything",
             .directed = true,
             .weighted = true,
             .typed = true,
             .keep_self_loops = true,
             .edge_features = 2,
             .node_types = true,
             .splits = 3},
        Kind{.name = "edge_features", .edge_features = 2},
        Kind{.name = "multi", .task = Task::kMultiLabel, .splits = 2},
        Kind{.name = "regression", .task = Task::kRegression},
        Kind{.name = "no_split", .splits = 0},
        Kind{.name = "structure", .features = 0, .labels = false, .splits = 0}),
    [](const auto& kind) { return std::string(kind.param.name); });

}  // namespace
}  // namespace atl
