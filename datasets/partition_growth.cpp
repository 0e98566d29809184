#include "datasets/partition_growth.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/mixed_bits.hpp"
#include "base/parallel.hpp"
#include "base/progress.hpp"
#include "partition/incremental.hpp"
#include "partition/quality.hpp"
#include "partition/transpose.hpp"

namespace atl {

namespace fs = std::filesystem;

namespace {

// The partition to grow from, as its folder says, with all its shards.
struct Before {
  fs::path folder;
  Json description;
  int parts = 0;
  std::int64_t nodes = 0;
  bool directed = false;
  std::vector<Shard> shards;
  std::vector<std::int32_t> part_of;

  fs::path file() const { return folder / "partition.json"; }
};

// Options that may differ: who cut the graph first is allowed for in require_same_options.
bool may_differ(const std::string& option) {
  constexpr const char* kFree[] = {"method", "parts_checksum", "refine",    "seed",
                                   "cuts",   "imbalance",      "node_order"};
  return std::ranges::find(kFree, option) != std::end(kFree);
}

// A cut keeps what it is made for: what is balanced, by which shares, for which islands.
void require_same_options(const Before& before, const PartitionOptions& options) {
  const auto then = json_field<Json>(before.description, "options", before.file());
  const Json now = to_json(options);
  const auto value = [](const Json& json, const std::string& name) {
    return json.contains(name) ? json.at(name) : Json("none");
  };
  const auto require = [&](const std::string& name) {
    if (value(then, name) == value(now, name)) return;
    std::string flag = name == "shares" ? "weights" : name;
    std::ranges::replace(flag, '_', '-');
    fail_option("--{}: {} found, but {} was cut with {}: give the same, or cut without --from",
                flag, value(now, name).dump(), before.folder.string(), value(then, name).dump());
  };
  for (const Json* json : {&then, &now}) {
    for (const auto& [name, found] : json->items()) {
      if (!may_differ(name)) require(name);
    }
  }
  // The cut that all others are measured against; a cut made elsewhere is its user's to judge.
  if (then.at("method") != "file") require("method");
}

void read_shards(Before& before) {
  const Activity activity("reading the partition before");
  const auto checksum = json_field<std::string>(before.description, "checksum", before.file());
  before.part_of.assign(static_cast<std::size_t>(before.nodes), -1);
  std::int64_t held = 0;
  for (int part = 0; part < before.parts; ++part) {
    const Shard& shard = before.shards.emplace_back(open_shard(before.folder, part, checksum));
    const fs::path ids = shard_folder(before.folder, part) / "inner_ids.npy";
    for (const GlobalId id : shard.graph().inner_ids) {
      const std::int64_t node = to_index(id);
      if (node >= before.nodes || before.part_of[node] >= 0) {
        fail_input("{}: node {} is not of the dataset, or of part {} already", ids.string(), node,
                   node < before.nodes ? before.part_of[node] : -1);
      }
      before.part_of[node] = part;
    }
    held += shard.graph().inner();
  }
  if (held != before.nodes) {
    fail_input("{}: its parts hold {} of {} nodes", before.folder.string(), held, before.nodes);
  }
}

// The folder of the partition that `from` names.
fs::path folder_to_grow_from(const fs::path& from, std::optional<int> parts,
                             const PartitionOptions& options) {
  if (is_there(from / "partition.json")) return from;
  if (!is_there(from / "dataset.json")) {
    fail_input("{}: not a partition: neither partition.json nor dataset.json found there",
               from.string());
  }
  if (!parts) {
    fail_option("--parts is required where --from names a dataset, such as {}", from.string());
  }
  const Dataset dataset = Dataset::open(from);
  // --parts-dir is where the new one goes; the older one may lie beside its dataset.
  PartitionOptions beside = options;
  beside.parts_dir.clear();
  for (const PartitionOptions* place : {&options, static_cast<const PartitionOptions*>(&beside)}) {
    const fs::path folder = partition_folder(dataset, *parts, *place);
    if (is_there(folder)) return folder;
  }
  fail_input("{}: no such partition; atoll partition {} --list shows those that there are",
             partition_folder(dataset, *parts, beside).string(), from.string());
}

Before describe_before(const fs::path& folder) {
  Before before;
  before.folder = folder;
  before.description = read_partition_description(folder);
  before.parts = json_field<int>(before.description, "parts", before.file());
  const auto dataset = json_field<Json>(before.description, "dataset", before.file());
  before.nodes = json_field<std::int64_t>(dataset, "nodes", before.file());
  before.directed = json_field<bool>(dataset, "directed", before.file());
  if (before.parts < 1 || before.parts > kMaxParts || before.nodes < before.parts) {
    fail_input("{}: {} parts of {} nodes", before.file().string(), before.parts, before.nodes);
  }
  return before;
}

void require_earlier(const Before& before, const Dataset& dataset) {
  const DatasetInfo& info = dataset.info();
  if (before.nodes > info.nodes) {
    fail_input(
        "{}: cut from a graph with {} nodes, but {} has {}; allowed are at most as many: nodes "
        "keep their ids, and new ones follow",
        before.file().string(), before.nodes, dataset.folder().string(), info.nodes);
  }
  if (before.directed != info.directed) {
    const auto kind = [](bool directed) { return directed ? "a directed" : "an undirected"; };
    fail_input("{}: cut from {} graph, but {} is {} one", before.file().string(),
               kind(before.directed), dataset.folder().string(), kind(info.directed));
  }
}

// f(node) for every entry of a row, by global ids.
template <typename F>
void for_each_source(const LocalGraphView& graph, const LocalMatrixView& matrix, std::int64_t row,
                     const F& f) {
  for (const std::int32_t column : matrix.csr.row(row)) {
    f(to_index(column < graph.inner() ? graph.inner_ids[column]
                                      : matrix.halo_ids[column - graph.inner()]));
  }
}

// Marks the nodes whose rows in `now` are other than those in the shards, in whatever order: sums
// of hashes differ. The other ends of edges that came or went have other rows in the other
// direction, or in the same if both are one.
void find_touched(const Before& before, const CsrView& now, Direction direction,
                  std::vector<std::uint8_t>& touched) {
  for (const Shard& shard : before.shards) {
    const LocalGraphView& graph = shard.graph();
    const LocalMatrixView& then = direction == Direction::kForward ? graph.forward : graph.backward;
    parallel_pieces(graph.inner(), 1024, [&](std::int64_t first, std::int64_t last, int) {
      for (std::int64_t i = first; i < last; ++i) {
        const std::int64_t node = to_index(graph.inner_ids[i]);
        const auto row = now.row(node);
        std::uint64_t change = 0;
        for (const std::int32_t id : row) change += mixed_bits(0, static_cast<std::uint64_t>(id));
        for_each_source(graph, then, i, [&](std::int64_t id) {
          change -= mixed_bits(0, static_cast<std::uint64_t>(id));
        });
        const bool same = change == 0 && then.csr.row(i).size() == row.size();
        if (!same) touched[node] = 1;
      }
    });
  }
}

std::vector<std::uint8_t> touched_nodes(const Before& before, const GraphView& graph) {
  std::vector<std::uint8_t> touched(before.part_of.size(), 0);
  find_touched(before, graph.in_edges, Direction::kForward, touched);
  if (graph.symmetric) return touched;
  const Csr out = transpose(CsrView{graph.in_edges.row_ptr, graph.in_edges.col_idx, {}});
  find_touched(before, out.view(), Direction::kBackward, touched);
  return touched;
}

std::int64_t cycles_before(const Before& before) {
  CycleCount cycles(before.nodes);
  for (const Shard& shard : before.shards) {
    const LocalGraphView& graph = shard.graph();
    for (std::int64_t i = 0; i < graph.inner(); ++i) {
      const std::int64_t node = to_index(graph.inner_ids[i]);
      for_each_source(graph, graph.forward, i, [&](std::int64_t source) {
        if (before.directed || source < node) {
          cycles.add(static_cast<std::int32_t>(source), static_cast<std::int32_t>(node));
        }
      });
    }
  }
  return cycles.count();
}

// The last whole cut: that of a step before, or the partition's own.
WholeCut whole_cut(const Before& before) {
  if (before.description.contains("whole_cut")) {
    const auto json = json_field<Json>(before.description, "whole_cut", before.file());
    return {json_field<double>(json, "halo_rows", before.file()),
            json_field<std::int64_t>(json, "cycles", before.file())};
  }
  const fs::path file = before.folder / "quality.json";
  const PartQuality total = parse_quality(read_json(file), file).total();
  const std::int64_t rows = total.halo_forward + (before.directed ? total.halo_backward : 0);
  return {static_cast<double>(rows), cycles_before(before)};
}

// Visits the fields of partition.json that a step, const or not, has: visit(name, value).
template <typename Step, typename Visit>
void each_field(Step& step, const Visit& visit) {
  visit("partition", step.partition);
  visit("checksum", step.checksum);
  visit("nodes", step.nodes);
  visit("edges", step.edges);
  visit("cut", step.cut);
  visit("halo_rows", step.halo_rows);
  visit("extended_rows", step.extended_rows);
  visit("estimate", step.estimate);
  visit("drift", step.drift);
  visit("moved", step.moved);
}

Json step_json(const GrowthStep& step) {
  Json json = Json::object();
  each_field(step, [&](const char* name, const auto& value) { json[name] = value; });
  return json;
}

// The fields of partition.json that tell of the growth.
Json history(const Before& before, const GrownCut& grown, double drift) {
  Json steps = before.description.contains("from") ? before.description.at("from") : Json::array();
  const Json& dataset = before.description.at("dataset");
  GrowthStep step;
  // Without a name where the path ends in a slash or a dot.
  step.partition = fs::canonical(before.folder).filename().string();
  step.checksum = before.description.at("checksum").get<std::string>();
  step.nodes = before.nodes;
  step.edges = dataset.at("edges").get<std::int64_t>();
  step.cut = to_string(grown.by);
  step.halo_rows = grown.rows;
  step.extended_rows = grown.extended_rows;
  step.estimate = std::llround(grown.estimate);
  step.drift = drift;
  step.moved = grown.moved;
  steps.push_back(step_json(step));
  return {{"from", steps},
          {"whole_cut", {{"halo_rows", grown.whole.rows}, {"cycles", grown.whole.cycles}}}};
}

std::vector<OlderShard> older_shards(const Before& before) {
  std::vector<OlderShard> older;
  for (std::size_t part = 0; part < before.shards.size(); ++part) {
    const fs::path folder = shard_folder(before.folder, static_cast<int>(part));
    older.push_back({folder, read_json(folder / "shard.json").at("files")});
  }
  return older;
}

}  // namespace

Partition grow_partition(const Dataset& dataset, std::optional<int> parts,
                         const PartitionOptions& options, const fs::path& from, double drift) {
  check_growth_options(options);
  if (!(drift >= kLeastDrift && drift <= kMostDrift)) {
    fail_option("--drift: {} found; allowed are {} to {}", drift, kLeastDrift, kMostDrift);
  }
  Before before = describe_before(folder_to_grow_from(from, parts, options));
  if (parts && *parts != before.parts) {
    fail_option(
        "--parts: {} found, but {} has {} parts; allowed is the same number, or a cut without "
        "--from",
        *parts, before.folder.string(), before.parts);
  }
  require_earlier(before, dataset);
  check_partition_options(dataset.info().nodes, before.parts, options);
  require_same_options(before, options);
  const fs::path folder = partition_folder(dataset, before.parts, options);
  if (is_there(folder)) return ensure_partition(dataset, before.parts, options);
  const SteadyTime start = steady_now();
  const Activity activity(fmt::format("partitioning {}", dataset.info().name));
  prepare_cut(dataset, before.parts, options, folder);
  read_shards(before);
  const SteadyTime cutting = steady_now();
  const GraphView graph = dataset.graph();
  const std::vector<std::uint8_t> touched = touched_nodes(before, graph);
  const WholeCut whole = whole_cut(before);
  GrownCut grown = grow_cut(graph, before.parts, options, partition_split(dataset, options),
                            {before.part_of, touched, whole}, drift);
  MadeCut cut{.part_of = {}, .start = start, .seconds = seconds_since(cutting)};
  cut.fields = history(before, grown, drift);
  cut.part_of = std::move(grown.part_of);
  cut.older = older_shards(before);
  write_partition(dataset, before.parts, options, folder, cut);
  return read_partition(folder, dataset, before.parts, options);
}

std::vector<GrowthStep> growth_steps(const Json& description, const fs::path& file) {
  std::vector<GrowthStep> steps;
  for (const Json& json : json_field_or<Json>(description, "from", file, Json::array())) {
    each_field(steps.emplace_back(), [&](const char* name, auto& value) {
      value = json_field<std::remove_reference_t<decltype(value)>>(json, name, file);
    });
  }
  return steps;
}

std::string to_text(const GrowthStep& step) {
  const std::string expected =
      fmt::format("about {} are expected of a fresh cut, --drift {}", step.estimate, step.drift);
  if (step.cut == to_string(GrownBy::kExtended)) {
    return fmt::format("extended {}: {} halo rows ({}); {} of its {} nodes changed their part",
                       step.partition, step.halo_rows, expected, step.moved, step.nodes);
  }
  return fmt::format("cut {}: {} halo rows ({}); {} extended would have {}",
                     step.cut == to_string(GrownBy::kQuick) ? "quickly" : "anew", step.halo_rows,
                     expected, step.partition, step.extended_rows);
}

}  // namespace atl
