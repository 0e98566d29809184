// SpMM 256 wide with the factors of a GCN layer, alone and with what follows it; gather of halo
// rows.
#include "base/error.hpp"
#include "tests/benchmarks/bench.hpp"
#include "tests/benchmarks/graph_shapes.hpp"

namespace atl {

namespace {

// S x of element (row, 0) with S = 1/2 (A + I) 1/2.
double expected_sum(const RandomGraph& graph, std::int64_t row) {
  double sum = Bench::value(row * kColumns);
  for (std::int64_t e = graph.row_ptr[row]; e < graph.row_ptr[row + 1]; ++e) {
    sum += Bench::value(graph.col_idx[e] * kColumns);
  }
  return sum / 4;
}

// Sets the kernel that the backend is to choose for all rows of this graph; a CPU has no choice.
void choose_kernel(Bench& bench, const RandomGraph& graph, DType dtype, const std::string& kernel) {
  const std::string device = bench.backend().device();
  bench.choices().record({"spmm", graph.rows(), graph.nnz(), kColumns, dtype,
                          device.substr(0, device.find(" (device "))},
                         {kernel, {}, {}});
}

Case spmm(Bench& bench, const BenchmarkShape& shape, DType dtype, bool fused,
          const std::string& kernel) {
  const RandomGraph graph = make_graph(
      shape, static_cast<double>(bench.scaled(shape.nodes)) / static_cast<double>(shape.nodes));
  const std::int64_t rows = graph.rows();
  const std::int64_t nnz = graph.nnz();
  choose_kernel(bench, graph, dtype, kernel);
  const auto entries = static_cast<std::size_t>(rows);
  SparseOperator op;
  op.rows = rows;
  op.cols = rows;
  op.row_ptr = bench.upload(graph.row_ptr);
  op.col_idx = bench.upload(graph.col_idx);
  op.row_scale = bench.upload(std::vector<float>(entries, 0.5F));
  op.col_scale = op.row_scale;
  op.self_weight = bench.upload(std::vector<float>(entries, 1.0F));
  const std::vector<RowRange> ranges{{0, rows}};
  const auto prepared = bench.backend().prepare_spmm(bench.queue(), op, graph.row_ptr, ranges);
  op.prepared = prepared.get();
  const MatrixView x = bench.matrix(rows, kColumns, dtype);
  const MatrixView y = bench.matrix(rows, kColumns, dtype);
  Epilogue epilogue;
  double expected = expected_sum(graph, rows - 1);
  if (fused) {
    const std::vector<double> twos(kColumns, 2);
    epilogue.mean = bench.upload(twos);
    epilogue.inv_std = epilogue.mean;
    epilogue.gamma = bench.matrix(1, kColumns, DType::kF32);
    epilogue.beta = epilogue.gamma;
    epilogue.function = ActivationFunction::kRelu;
    expected = std::max(0.0, (expected - 2) * 2 * Bench::value(0) + Bench::value(0));
  }
  const auto size = static_cast<double>(kColumns * bytes_of(dtype));
  const auto edges = static_cast<double>(nnz);
  const auto nodes = static_cast<double>(rows);
  Case made;
  // Prepared buffers live as long as the case.
  made.run = [=, &bench, keep = prepared] {
    bench.backend().run(bench.queue(), kernels::Spmm{op, {0, rows}, x, 0, y, epilogue});
    const std::string ran = bench.backend().last_kernel();
    if (!ran.empty() && ran != kernel) fail_input("{} ran instead of {}", ran, kernel);
  };
  // Per edge: an index, a column factor, a row of x. Per row: its offset, three factors, its own
  // row of x, the row of y.
  made.no_reuse_bytes = edges * (4 + 4 + size) + nodes * (8 + 3 * 4 + 2 * size);
  made.compulsory_bytes = edges * 4 + nodes * (8 + 3 * 4 + 2 * size);
  made.flops = 2 * edges * static_cast<double>(kColumns);
  made.checked = element(y, rows - 1, 0);
  made.expected = expected;
  return made;
}

// A quarter of the rows in random order, as one rank's messages.
Case gather(Bench& bench, DType dtype) {
  const std::int64_t rows = bench.scaled(1'000'000);
  std::vector<LocalId> ids;
  for (std::int64_t k = 0; k < rows / 4; ++k) {
    ids.push_back(LocalId{static_cast<std::int32_t>(k * 7919 % rows)});
  }
  const auto device_ids = bench.upload(ids);
  const MatrixView x = bench.matrix(rows, kColumns, dtype);
  const MatrixView y = bench.matrix(rows / 4, kColumns, dtype);
  Case made;
  made.run = [=, &bench] {
    bench.backend().run(bench.queue(), kernels::GatherRows{x, device_ids, {}, y});
  };
  made.no_reuse_bytes = made.compulsory_bytes =
      static_cast<double>(rows / 4) * (4.0 + 2.0 * static_cast<double>(kColumns * bytes_of(dtype)));
  made.checked = element(y, rows / 4 - 1, 0);
  made.expected = Bench::value(to_index(ids.back()) * kColumns);
  return made;
}

}  // namespace

std::vector<Benchmark> sparse_benchmarks() {
  std::vector<Benchmark> list;
  for (const BenchmarkShape& shape : kGraphShapes) {
    for (const DType dtype : {DType::kF32, DType::kBf16}) {
      for (const bool fused : {false, true}) {
        const std::string name =
            with_type(std::string(fused ? "spmm_norm_relu/" : "spmm/") + shape.name, dtype);
        for (const std::string& kernel : KernelChoices::kernels_of("spmm")) {
          const bool own = kernel == "own";
          if (fused && !own) continue;  // only the own kernel has what follows in it
          list.push_back({own ? name : name + "/" + kernel,
                          [=](Bench& bench) { return spmm(bench, shape, dtype, fused, kernel); },
                          dtype, own ? "" : kernel});
        }
      }
    }
  }
  for (const DType dtype : {DType::kF32, DType::kBf16}) {
    list.push_back(
        {with_type("gather", dtype), [=](Bench& bench) { return gather(bench, dtype); }, dtype});
  }
  return list;
}

}  // namespace atl
