// bench_order DATASET [THREADS] [COLUMNS] [f32|bf16]: what the order of a part's nodes does to
// SpMM: each order of partition/node_order.hpp on the graph of a dataset folder, as one part,
// against the same machine's triad.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <numeric>
#include <random>
#include <string>

#include "base/error.hpp"
#include "base/median.hpp"
#include "datasets/dataset.hpp"
#include "kernels/ceilings.hpp"
#include "kernels/registry.hpp"
#include "partition/node_order.hpp"
#include "tests/benchmarks/arguments.hpp"

namespace atl {
namespace {

struct Options {
  std::string folder;
  int threads = 1;
  std::int64_t columns = 256;
  int repetitions = 7;
  DType dtype = DType::kF32;
};

// The graph with node order[i] as node i, columns of a row ascending.
Csr reordered(const CsrView& graph, const std::vector<std::int32_t>& order) {
  std::vector<std::int32_t> place(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    place[static_cast<std::size_t>(order[i])] = static_cast<std::int32_t>(i);
  }
  Csr csr;
  csr.col_idx.reserve(static_cast<std::size_t>(graph.nnz()));
  for (const std::int32_t v : order) {
    const auto first = static_cast<std::ptrdiff_t>(csr.col_idx.size());
    for (const std::int32_t u : graph.row(v))
      csr.col_idx.push_back(place[static_cast<std::size_t>(u)]);
    std::sort(csr.col_idx.begin() + first, csr.col_idx.end());
    csr.row_ptr.push_back(static_cast<std::int64_t>(csr.col_idx.size()));
  }
  return csr;
}

double seconds_of(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

struct Contender {
  std::string name;
  double order_s = 0;
  Csr csr;
  std::vector<double> seconds{};
};

void run(const Options& options) {
  const Dataset dataset = Dataset::open(options.folder);
  const CsrView graph = dataset.graph().in_edges;
  std::vector<Contender> contenders;
  const auto add = [&](const std::string& name,
                       const std::function<std::vector<std::int32_t>()>& make) {
    std::vector<std::int32_t> order;
    const double seconds = seconds_of([&] { order = make(); });
    contenders.push_back({name, seconds, reordered(graph, order)});
  };
  add("random", [&] {
    std::vector<std::int32_t> order = node_order(NodeOrder::kNatural, graph);
    std::shuffle(order.begin(), order.end(), std::mt19937(1));
    return order;
  });
  for (const NodeOrder order : {NodeOrder::kNatural, NodeOrder::kDegree, NodeOrder::kBreadthFirst,
                                NodeOrder::kRcm, NodeOrder::kMetis, NodeOrder::kCommunities}) {
    add(to_string(order), [&] { return node_order(order, graph); });
  }
  const auto backend = make_backend("cpu", {.threads = options.threads});
  const auto queue = backend->make_queue();
  const std::int64_t nodes = graph.rows();
  const std::int64_t bytes = nodes * options.columns * bytes_of(options.dtype);
  void* x = backend->allocate(bytes);
  void* y = backend->allocate(bytes);
  const MatrixView input{x, nodes, options.columns, options.columns, options.dtype};
  const MatrixView output{y, nodes, options.columns, options.columns, options.dtype};
  backend->run(*queue, kernels::FillZero{input});
  const std::vector<float> scale(static_cast<std::size_t>(nodes), 0.5F);
  std::vector<double> triad;
  for (int repetition = 0; repetition < options.repetitions; ++repetition) {
    triad.push_back(triad_bytes_per_s(options.threads));
    for (Contender& contender : contenders) {
      SparseOperator op;
      op.rows = op.cols = nodes;
      op.row_ptr = contender.csr.row_ptr;
      op.col_idx = contender.csr.col_idx;
      op.row_scale = op.col_scale = op.self_weight = scale;
      contender.seconds.push_back(seconds_of([&] {
        backend->run(*queue, kernels::Spmm{op, {0, nodes}, input, 0, output});
      }));
    }
  }
  backend->release(x);
  backend->release(y);
  const double row = static_cast<double>(options.columns * bytes_of(options.dtype));
  const double no_reuse =
      static_cast<double>(graph.nnz()) * (row + 4) + static_cast<double>(nodes) * (2 * row + 8);
  const double limit = median(triad);
  fmt::print("triad {:.1f} GB/s with {} threads; {} nodes, {} edges, columns {}\n", limit / 1e9,
             options.threads, nodes, graph.nnz(), options.columns);
  for (const Contender& contender : contenders) {
    const double seconds = median(contender.seconds);
    fmt::print("{:<14} order {:7.2f} s  spmm {:8.2f} ms  {:6.1f} GB/s  {:5.1f} % of triad\n",
               contender.name, contender.order_s, 1e3 * seconds, no_reuse / seconds / 1e9,
               100 * no_reuse / seconds / limit);
  }
}

}  // namespace
}  // namespace atl

int main(int argc, char** argv) {
  constexpr const char* kWhole = "whole numbers from 1 on";
  try {
    atl::Options options;
    if (argc < 2 || argc > 5) {
      atl::fail_option("usage: bench_order DATASET [THREADS] [COLUMNS] [f32|bf16]");
    }
    options.folder = argv[1];
    if (argc > 2) options.threads = atl::parse_number<int>("THREADS", argv[2], kWhole);
    if (argc > 3) options.columns = atl::parse_number<int>("COLUMNS", argv[3], kWhole);
    if (argc > 4) {
      const auto dtype = atl::dtype_named(argv[4]);
      if (!dtype || *dtype == atl::DType::kF64) {
        atl::fail_option("TYPE: '{}' found; allowed are f32, bf16", argv[4]);
      }
      options.dtype = *dtype;
    }
    atl::run(options);
    return 0;
  } catch (const atl::Error& error) {
    fmt::print(stderr, "bench_order: {}\n", error.what());
    return error.exit_code();
  }
}
