#include "datasets/made_features.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/npy.hpp"
#include "base/progress.hpp"
#include "datasets/dataset_change.hpp"
#include "datasets/edge_sampler.hpp"
#include "datasets/normals.hpp"
#include "partition/transpose.hpp"

namespace atl {

namespace fs = std::filesystem;

namespace {

constexpr const char* kFeaturesFile = "features.npy";

std::vector<std::int64_t> out_degrees(const CsrView& in_edges) {
  std::vector<std::int64_t> degrees(static_cast<std::size_t>(in_edges.rows()), 0);
  for (const std::int32_t source : in_edges.col_idx) ++degrees[source];
  return degrees;
}

float log_degree(std::int64_t degree) {
  return static_cast<float>(std::log1p(static_cast<double>(degree)));
}

// row_of(node, row) fills a row.
template <typename RowOf>
void write_each_row(std::int64_t nodes, std::int64_t columns, const RowSink& sink,
                    const RowOf& row_of) {
  constexpr std::int64_t kBlockElements = std::int64_t{1} << 18U;
  const std::int64_t block = std::max<std::int64_t>(1, kBlockElements / columns);
  std::vector<float> rows;
  Activity activity("making features", nodes);
  for (std::int64_t begin = 0; begin < nodes; begin += block) {
    activity.advance_to(begin);
    const std::int64_t count = std::min(block, nodes - begin);
    rows.resize(static_cast<std::size_t>(count * columns));
    for (std::int64_t i = 0; i < count; ++i) {
      row_of(begin + i, std::span(rows).subspan(static_cast<std::size_t>(i * columns),
                                                static_cast<std::size_t>(columns)));
    }
    sink(rows);
  }
}

}  // namespace

void require_made(const FeatureSource& source) {
  if (source.is_data()) return;
  fail_option(
      "--features {}: these are parameters of a model, an option of atoll train; allowed here are "
      "degree, constant, edges, random:D, positional:D",
      to_string(source));
}

std::int64_t made_columns(const FeatureSource& source, bool directed) {
  switch (source.kind) {
    case FeatureKind::kDegree:
      return directed ? 2 : 1;
    case FeatureKind::kConstant:
      return 1;
    default:
      return source.columns;
  }
}

void make_features(const FeatureSource& source, std::uint64_t seed, const CsrView& in_edges,
                   bool directed, const RowSink& sink) {
  const std::int64_t nodes = in_edges.rows();
  const std::int64_t columns = made_columns(source, directed);
  if (source.kind == FeatureKind::kConstant) {
    write_each_row(nodes, columns, sink,
                   [](std::int64_t, std::span<float> row) { row.front() = 1.0F; });
  } else if (source.kind == FeatureKind::kDegree) {
    const std::vector<std::int64_t> out =
        directed ? out_degrees(in_edges) : std::vector<std::int64_t>();
    write_each_row(nodes, columns, sink, [&](std::int64_t node, std::span<float> row) {
      row[0] = log_degree(in_edges.row_ptr[node + 1] - in_edges.row_ptr[node]);
      if (directed) row[1] = log_degree(out[node]);
    });
  } else if (source.kind == FeatureKind::kRandom) {
    const RandomKey key = generator_key(seed, GeneratorPurpose::kNodeFeatures);
    write_each_row(nodes, columns, sink, [&](std::int64_t node, std::span<float> row) {
      for (std::size_t j = 0; j < row.size(); ++j) {
        row[j] = normals(random_block(key, static_cast<std::uint64_t>(node),
                                      static_cast<std::uint32_t>(j / 4)))[j % 4];
      }
    });
  } else {
    ATOLL_ASSERT(source.kind == FeatureKind::kPositional, "{}", to_string(source));
    const Csr transposed = directed ? transpose(in_edges) : Csr();
    const Csr neighbours = undirected_structure(in_edges, directed ? transposed.view() : CsrView());
    const std::vector<double> all = positional_features(neighbours.view(), columns, seed);
    write_each_row(nodes, columns, sink, [&](std::int64_t node, std::span<float> row) {
      std::transform(all.begin() + node * columns, all.begin() + (node + 1) * columns, row.begin(),
                     [](double value) { return static_cast<float>(value); });
    });
  }
}

void make_edge_means(const CsrView& in_edges, std::span<const float> edge_features,
                     std::int64_t columns, const RowSink& sink) {
  std::vector<double> sum(static_cast<std::size_t>(columns));
  write_each_row(in_edges.rows(), columns, sink, [&](std::int64_t node, std::span<float> mean) {
    std::ranges::fill(sum, 0);
    for (std::int64_t e = in_edges.row_ptr[node]; e < in_edges.row_ptr[node + 1]; ++e) {
      const auto row = edge_features.subspan(e * columns, columns);
      for (std::size_t j = 0; j < row.size(); ++j) sum[j] += static_cast<double>(row[j]);
    }
    const auto count = static_cast<double>(std::max<std::size_t>(1, in_edges.row(node).size()));
    for (std::size_t j = 0; j < sum.size(); ++j) mean[j] = static_cast<float>(sum[j] / count);
  });
}

Dataset give_features(const fs::path& folder, const FeatureSource& source, std::uint64_t seed,
                      bool replace) {
  require_made(source);
  {
    const DatasetChange change(folder);
    const Dataset dataset = Dataset::open(folder);
    const DatasetInfo& info = dataset.info();
    if (info.features > 0 && !replace) {
      fail_option("{}: the dataset has {} features; --replace makes others in their place",
                  folder.string(), info.features);
    }
    // Features of a damaged graph would look as good as any.
    dataset.validate_checksums();
    const bool of_edges = source.kind == FeatureKind::kEdges;
    if (of_edges && info.edge_features == 0) {
      fail_option("{}: the edges have no features to take the mean of", folder.string());
    }
    const std::int64_t columns =
        of_edges ? info.edge_features : made_columns(source, info.directed);
    const auto write_features = [&](const fs::path& file) {
      NpyWriter writer(file, npy_descr<float>(), std::vector{info.nodes, columns});
      const auto write = [&](std::span<float> rows) { writer.write(std::span<const float>(rows)); };
      const GraphView graph = dataset.graph();
      if (of_edges) {
        make_edge_means(graph.in_edges, graph.edge_features, columns, write);
      } else {
        make_features(source, seed, graph.in_edges, info.directed, write);
      }
      writer.close();
    };
    change.replace({kFeaturesFile,
                    "features",
                    columns,
                    "features",
                    {{"source", to_string(source)}, {"seed", seed}}},
                   write_features);
  }
  return Dataset::open(folder);
}

}  // namespace atl
