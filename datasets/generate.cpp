#include "datasets/generate.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <new>

#include "base/error.hpp"
#include "base/memory.hpp"
#include "base/progress.hpp"
#include "datasets/community_graph.hpp"
#include "datasets/dataset_writer.hpp"
#include "datasets/degree_tail.hpp"
#include "datasets/relational_graph.hpp"
#include "datasets/rmat.hpp"

namespace atl {

namespace {

// A published set: what `like:` imitates. Splits, homophily and the skew of degrees included.
struct Published {
  const char* name;
  std::int64_t nodes;
  std::int64_t directed_edges;    // 0: the published graph is undirected
  std::int64_t undirected_edges;  // distinct pairs
  std::int64_t features;
  std::int64_t classes;
  std::array<std::int64_t, 3> split;  // train, valid, test
  double homophily;
  double busiest;  // largest degree / mean degree
};

constexpr Published kPublished[] = {
    {"ogbn-arxiv", 169343, 1166243, 1157799, 128, 40, {90941, 29799, 48603}, 0.65, 960},
    {"ogbn-products", 2449029, 0, 61859140, 100, 47, {196615, 39323, 2213091}, 0.81, 346},
    {"reddit", 232965, 0, 57307946, 602, 41, {153431, 23831, 55703}, 0.78, 44},
};

constexpr std::int64_t kBlockRows = 4096;

void require(bool holds, const char* option, double value, const char* allowed) {
  if (!holds) fail_option("{} {}: allowed are {}", option, value, allowed);
}

void check_options(const GenerateOptions& o) {
  require(o.nodes >= 1 && o.nodes <= kMaxNodes, "--nodes", static_cast<double>(o.nodes),
          "1 to 2^31 - 1");
  require(o.classes >= 1 && o.classes <= std::min<std::int64_t>(o.nodes, 1 << 20), "--classes",
          static_cast<double>(o.classes), "1 to the number of nodes, at most 2^20");
  require(o.features >= 0 && o.features <= 1 << 20, "--features", static_cast<double>(o.features),
          "0 to 2^20");
  require(o.degree >= 0 && o.degree <= 1e9, "--degree", o.degree, "0 and more");
  require(o.homophily >= 0 && o.homophily <= 1, "--homophily", o.homophily, "0 to 1");
  require(std::isfinite(o.signal), "--signal", o.signal, "finite numbers");
  require(o.scale > 0 && o.scale <= 100, "--scale", o.scale, "more than 0, at most 100");
}

// `count` nodes in classes of falling size, each at least 1.
std::vector<std::int64_t> uneven_classes(std::int64_t count, std::int64_t classes) {
  std::vector<double> weights(static_cast<std::size_t>(classes));
  double sum = 0;
  for (std::int64_t c = 0; c < classes; ++c) {
    weights[c] = std::pow(static_cast<double>(c + 2), -0.7);
    sum += weights[c];
  }
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(classes), 1);
  const auto free = static_cast<double>(count - classes);
  double share = 0;
  std::int64_t given = 0;
  for (std::int64_t c = 0; c < classes; ++c) {
    share += weights[c] / sum;
    const std::int64_t upto = c + 1 == classes ? count - classes : std::llround(share * free);
    sizes[c] += upto - given;
    given = upto;
  }
  return sizes;
}

std::vector<std::int64_t> even_classes(std::int64_t count, std::int64_t classes) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(classes));
  for (std::int64_t c = 0; c < classes; ++c) {
    sizes[c] = count * (c + 1) / classes - count * c / classes;
  }
  return sizes;
}

// Builds and writes a graph of exactly `edges` distinct edges (undirected ones count once).
void write_graph(DatasetWriter& writer, const EdgeSampler& sampler, std::int64_t nodes,
                 std::int64_t edges, const GenerateOptions& options) {
  const std::uint64_t samples = samples_needed(sampler, edges, options.directed);
  GraphBuildOptions build;
  build.place = "generated graph";
  build.nodes = nodes;
  build.trust_nodes = true;
  build.directed = options.directed;
  build.keep_edges = edges;
  build.seed = options.seed;
  const BuiltGraph built = build_graph(sampled_stream(sampler, samples), build);
  writer.info().directed = options.directed;
  writer.info().edges_source = edges;
  writer.write_graph(built.csr);
}

void write_features(DatasetWriter& writer, std::span<const std::int32_t> labels,
                    std::int64_t columns, std::span<const float> centres, double signal,
                    std::uint64_t seed) {
  if (columns == 0) return;
  const auto file = writer.write_features(columns);
  std::vector<float> rows(static_cast<std::size_t>(kBlockRows * columns));
  const auto nodes = static_cast<std::int64_t>(labels.size());
  Activity activity("making features", nodes);
  for (std::int64_t begin = 0; begin < nodes; begin += kBlockRows) {
    activity.advance_to(begin);
    const std::int64_t count = std::min(kBlockRows, nodes - begin);
    const std::span<float> block(rows.data(), static_cast<std::size_t>(count * columns));
    noisy_features(labels.subspan(begin, count), begin, columns, centres, signal, seed, block);
    file->write(std::span<const float>(block));
  }
  file->close();
}

void write_split(DatasetWriter& writer, const GenerateOptions& options,
                 std::span<const std::int32_t> labels,
                 const std::optional<std::array<std::int64_t, 3>>& counts) {
  std::vector<std::uint8_t> labelled(labels.size());
  std::ranges::transform(labels, labelled.begin(), [](std::int32_t label) {
    return label >= 0 ? std::uint8_t{1} : std::uint8_t{0};
  });
  const SplitSpec spec = options.split.value_or(SplitSpec{false, {0.6, 0.2, 0.2}});
  writer.write_splits(counts && !options.split ? make_split(*counts, labelled, options.seed)
                                               : make_split(spec, labelled, labels, options.seed),
                      1);
}

// Writes what is beside the graph: labels, features that show the groups of the nodes, a split.
DatasetInfo finish(DatasetWriter& writer, const GenerateOptions& options,
                   std::span<const std::int32_t> labels, std::span<const std::int32_t> groups) {
  writer.write_labels(labels, options.classes);
  write_features(writer, groups, options.features,
                 class_centres(options.classes, options.features, options.seed), options.signal,
                 options.seed);
  write_split(writer, options, labels, std::nullopt);
  return writer.commit();
}

std::int64_t wanted_edges(const GenerateOptions& options) {
  const double ends = static_cast<double>(options.nodes) * options.degree;
  const double edges = options.directed ? ends : ends / 2;
  if (edges > 1e11) fail_option("--degree {}: {} edges are too many", options.degree, edges);
  return std::llround(edges);
}

DatasetInfo generate_sbm(DatasetWriter& writer, const GenerateOptions& options) {
  CommunitySpec spec;
  spec.class_sizes = even_classes(options.nodes, options.classes);
  spec.homophily = options.homophily;
  spec.skew = 0.5;
  spec.busiest = 10;
  spec.seed = options.seed;
  const CommunityGraph graph(spec);
  write_graph(
      writer, [&](std::uint64_t i) { return graph.edge(i); }, options.nodes, wanted_edges(options),
      options);
  const std::vector<std::int32_t> labels = graph.labels();
  return finish(writer, options, labels, labels);
}

DatasetInfo generate_rmat(DatasetWriter& writer, const GenerateOptions& options) {
  const RmatGraph graph(options.nodes, options.rmat_a, options.rmat_b, options.rmat_c,
                        options.seed);
  write_graph(
      writer, [&](std::uint64_t i) { return graph.edge(i); }, options.nodes, wanted_edges(options),
      options);
  std::vector<std::int32_t> labels(static_cast<std::size_t>(options.nodes));
  const RandomKey key = generator_key(options.seed, GeneratorPurpose::kLabels);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    const std::uint64_t bits = random_bits(key, i, 0);
    labels[i] =
        static_cast<std::int32_t>(bits * static_cast<std::uint64_t>(options.classes) >> 32U);
  }
  writer.write_labels(labels, options.classes);
  write_features(writer, labels, options.features, {}, 0, options.seed);
  write_split(writer, options, labels, std::nullopt);
  return writer.commit();
}

DatasetInfo generate_relational(DatasetWriter& writer, const GenerateOptions& options) {
  const RelationalGraph graph({.nodes = options.nodes,
                               .classes = options.classes,
                               .relations = options.relations,
                               .degree = std::llround(options.degree),
                               .agreement = options.homophily,
                               .seed = options.seed});
  const EdgeSampler sampler = [&](std::uint64_t i) { return graph.edge(i); };
  GraphBuildOptions build;
  build.place = "generated graph";
  build.nodes = options.nodes;
  build.trust_nodes = true;
  build.directed = true;
  build.typed = true;
  build.relations = options.relations;
  const BuiltGraph built = build_graph(sampled_stream(sampler, graph.edges()), build);
  writer.info().directed = true;
  writer.info().edges_source = built.csr.view().nnz();
  writer.write_graph(built.csr);
  writer.write_edge_types(built.types, built.relations);

  std::vector<std::int32_t> groups(static_cast<std::size_t>(options.nodes));
  for (std::size_t v = 0; v < groups.size(); ++v) {
    groups[v] = graph.group(static_cast<std::int64_t>(v));
  }
  writer.write_node_types(std::vector<std::uint16_t>(groups.begin(), groups.end()),
                          options.classes);
  const std::vector<std::int32_t> labels = graph.labels(built.csr.view(), built.types);
  return finish(writer, options, labels, groups);
}

// Beyond what check_options asks of every kind.
void check_relational(const GenerateOptions& o) {
  require(o.relations >= 1 && o.relations <= kMaxTypes, "--relations",
          static_cast<double>(o.relations), "1 to 65536");
  if (o.relations % o.classes != 0) {
    fail_option("--relations {}: allowed are multiples of --classes {}", o.relations, o.classes);
  }
  require(o.degree >= 1, "--degree", o.degree, "1 and more");
}

void check_degree_tail(const std::string& kind) {
  std::vector<std::string> allowed;
  for (const std::string_view set : sets_with_hub_degrees()) {
    allowed.push_back(fmt::format("like:{}", set));
  }
  if (std::ranges::find(allowed, kind) != allowed.end()) return;
  fail_option("--degree-tail: the largest degrees of '{}' are not known; allowed is {}", kind,
              fmt::join(allowed, ", "));
}

std::int64_t scaled(std::int64_t count, double scale) {
  return std::llround(static_cast<double>(count) * scale);
}

DatasetInfo generate_like(DatasetWriter& writer, const Published& set,
                          const GenerateOptions& options) {
  const std::int64_t nodes = scaled(set.nodes, options.scale);
  if (nodes < set.classes || nodes > kMaxNodes) {
    fail_option("--scale {}: gives {} nodes; allowed are {} (one per class) to 2^31 - 1",
                options.scale, nodes, set.classes);
  }
  CommunitySpec spec;
  spec.class_sizes = uneven_classes(nodes, set.classes);
  spec.homophily = set.homophily;
  spec.busiest = set.busiest;
  spec.seed = options.seed;
  if (options.degree_tail) {
    spec.hubs = hub_degrees(set.name, options.scale);
    const double mean =
        2 * static_cast<double>(set.undirected_edges) / static_cast<double>(set.nodes);
    spec.busiest = static_cast<double>(kHubDegree) / mean;
  }
  const CommunityGraph graph(spec);
  const std::int64_t edges = !options.directed        ? set.undirected_edges
                             : set.directed_edges > 0 ? set.directed_edges
                                                      : 2 * set.undirected_edges;
  write_graph(
      writer, [&](std::uint64_t i) { return graph.edge(i); }, nodes, scaled(edges, options.scale),
      options);
  const std::vector<std::int32_t> labels = graph.labels();
  writer.write_labels(labels, set.classes);
  constexpr double kSignal = 1.5;
  write_features(writer, labels, set.features,
                 class_centres(set.classes, set.features, options.seed), kSignal, options.seed);
  const std::int64_t train = std::max<std::int64_t>(1, scaled(set.split[0], options.scale));
  const std::int64_t valid = std::min(scaled(set.split[1], options.scale), nodes - train);
  const std::int64_t all = set.split[0] + set.split[1] + set.split[2];
  const std::int64_t test =
      all == set.nodes ? nodes - train - valid : scaled(set.split[2], options.scale);
  write_split(writer, options, labels, std::array{train, valid, test});
  return writer.commit();
}

}  // namespace

std::vector<std::string> generator_kinds() {
  std::vector<std::string> kinds = {"sbm", "rmat", "relational"};
  for (const Published& set : kPublished) kinds.push_back(std::string("like:") + set.name);
  return kinds;
}

DatasetInfo generate_dataset(const std::string& kind, const GenerateOptions& options) {
  check_options(options);
  const std::vector<std::string> kinds = generator_kinds();
  if (std::ranges::find(kinds, kind) == kinds.end()) {
    fail_option("unknown kind '{}'; allowed are {}", kind, fmt::join(kinds, ", "));
  }
  if (kind == "relational") check_relational(options);
  if (options.degree_tail) check_degree_tail(kind);
  const Activity activity("generating " + kind);
  DatasetWriter writer(options.out);
  writer.info().name = options.name.empty() ? kind : options.name;
  writer.info().provenance = {{"generator", kind},
                              {"seed", options.seed},
                              {"directed", options.directed || kind == "relational"},
                              {"version", ATOLL_VERSION}};
  Json& provenance = writer.info().provenance;
  if (kind.starts_with("like:")) {
    provenance["scale"] = options.scale;
    if (options.degree_tail) provenance["degree_tail"] = true;
    const auto* set = std::ranges::find(kPublished, kind.substr(std::string_view("like:").size()),
                                        [](const Published& p) { return std::string(p.name); });
    return generate_like(writer, *set, options);
  }
  // Edges are sampled before features are written: say at once what can't be held.
  const double edges = static_cast<double>(options.nodes) * options.degree;
  const double memory = 8 * static_cast<double>(options.nodes) + 8 * edges;
  if (memory > static_cast<double>(available_memory_bytes())) {
    fail(ErrorKind::kMemory,
         "{} nodes of degree {} need about {:.1f} GB of memory, {} is available", options.nodes,
         options.degree, memory / 1e9, format_bytes(available_memory_bytes()));
  }
  provenance["degree"] = options.degree;
  if (kind == "rmat") {
    provenance["a"] = options.rmat_a;
    provenance["b"] = options.rmat_b;
    provenance["c"] = options.rmat_c;
    return generate_rmat(writer, options);
  }
  if (kind == "relational") provenance["relations"] = options.relations;
  provenance["homophily"] = options.homophily;
  provenance["signal"] = options.signal;
  return kind == "relational" ? generate_relational(writer, options)
                              : generate_sbm(writer, options);
}

}  // namespace atl
