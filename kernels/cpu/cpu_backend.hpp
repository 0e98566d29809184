// The CPU backend: threads that share fixed chunks of rows, SIMD inside them, oneDNN for products;
// f32 and bf16, which is widened where it is read and rounded where it is stored.
//
// Results do not depend on the number of threads: work is cut into chunks by size alone, every
// output row is written by one chunk, and sums over rows are partial sums per chunk added in order.
// One backend belongs to one host thread at a time (it owns scratch memory); many may live in one
// process, each with its own threads.
#pragma once

#include <algorithm>
#include <array>
#include <memory>

#include "base/workers.hpp"
#include "kernels/cpu/column_epilogue.hpp"
#include "kernels/cpu/edge_chunks.hpp"
#include "kernels/cpu/elements.hpp"
#include "kernels/cpu/write_rows.hpp"
#include "kernels/host_backend.hpp"

namespace atl {

class CpuBackend final : public Implements<CpuBackend, HostBackend, kernels::DeviceOperations> {
 public:
  explicit CpuBackend(int threads);

  std::string name() const override { return "cpu"; }
  std::string device() const override;
  bool supports(DType dtype) const override { return dtype != DType::kF64; }
  void copy(Queue& queue, void* to, const void* from, std::int64_t bytes, CopyKind kind) override;

  // --- for kernels ---
  Workers& workers() { return workers_; }
  Isa isa() const { return isa_; }

  // Rows `range` of y = epilogue(x), x holding these rows alone: f32, or of the type of y. x may be
  // the rows of y.
  void apply_to_rows(const ColumnEpilogue& epilogue, RowRange range, ConstMatrixView x,
                     MatrixView y) const;

  // y = f(inputs), element by element: see write_rows().
  template <std::size_t kInputs, typename Function>
  void write_matrix(const std::array<ConstMatrixView, kInputs>& inputs, MatrixView y,
                    const Function& f) {
    for_rows(y.rows, y.cols, [&](RowRange range) {
      run_with_vectors(isa_, y.dtype, [&]<int kBytes, typename T>(T) ATOLL_INLINE {
        write_rows<kBytes, T>(inputs, y, range, f);
      });
    });
  }
  // Rows `rows` of y = epilogue(sums over edges), in chunks of about equal cost, where
  // sum(T{}, range, out, out_first, out_stride, memory) writes the sums of rows `range`, row i to
  // out + (i - out_first) * out_stride. T is the type of y; sums of a narrow type that an epilogue
  // follows are written as f32. start(shared) comes first; memory and shared hold as many floats as
  // `extra` says.
  struct EdgeScratch {
    std::int64_t shared = 0;
    std::int64_t each = 0;  // of a chunk
  };
  template <typename Start, typename Sum>
  void sum_over_edges(std::span<const std::int64_t> row_ptr, RowRange rows, MatrixView y,
                      const Epilogue& epilogue, const EdgeScratch& extra, const Start& start,
                      const Sum& sum) {
    constexpr std::int64_t kBlockRows = 16;  // summed as f32 before an epilogue, where y is not
    constexpr std::int64_t kEdgesPerElement = 2;  // that take as long as one of threads_for
    const bool plain = epilogue.identity();
    const std::int64_t factors = plain ? 0 : kColumnFactors * y.cols;
    const std::int64_t block = kBlockRows * y.cols;
    const std::int64_t each = extra.each + block;
    const std::span<float> memory =
        scratch<float>(extra.shared + workers_.threads() * each + factors);
    float* const slots = memory.data() + extra.shared;
    const ColumnEpilogue columns = column_epilogue(epilogue, plain ? 0 : y.cols,
                                                   memory.last(static_cast<std::size_t>(factors)));
    start(memory.data());
    const std::int64_t cost = cost_of_rows(row_ptr, rows);
    with_element(y.dtype, [&]<typename T>(T element) {
      const auto finish = [&](RowRange range, ConstMatrixView sums) {
        apply_to_rows(columns, {range.begin - rows.begin, range.end - rows.begin}, sums,
                      y.rows_in(rows));
      };
      const auto sum_chunk = [&](RowRange costs, int slot) {
        const RowRange range = rows_of_chunk(row_ptr, rows, costs);
        float* const own = slots + slot * each;
        if (plain || std::is_same_v<T, float>) {
          sum(element, range, y.row<T>(0), 0, y.stride, own);
          if (!plain) finish(range, y.rows_in(range));
          return;
        }
        // Sums of a narrow type are rounded once, behind the epilogue.
        float* const sums = own + extra.each;
        for (std::int64_t first = range.begin; first < range.end; first += kBlockRows) {
          const RowRange some{first, std::min(first + kBlockRows, range.end)};
          sum(element, some, sums, first, y.cols, own);
          finish(some, {sums, some.size(), y.cols, y.cols, DType::kF32});
        }
      };
      for_chunks(cost, kCostPerChunk, cost * y.cols / kEdgesPerElement, sum_chunk);
    });
  }

  // Calls body(range, slot) once for each run of `chunk` indices of [0, count), by as many threads
  // as are worth it for work on `elements` elements in all; slot: see Workers::run.
  template <typename Body>
  void for_chunks(std::int64_t count, std::int64_t chunk, std::int64_t elements, const Body& body) {
    workers_.run((count + chunk - 1) / chunk, threads_for(elements, workers_.threads()),
                 [&](std::int64_t c, int slot) {
                   body(RowRange{c * chunk, std::min((c + 1) * chunk, count)}, slot);
                 });
  }

  // Calls body(range) for chunks of the rows of a matrix `cols` wide, of about so many elements.
  template <typename Body>
  void for_rows(std::int64_t rows, std::int64_t cols, std::int64_t chunk_elements,
                const Body& body) {
    const std::int64_t chunk =
        std::max<std::int64_t>(1, chunk_elements / std::max<std::int64_t>(1, cols));
    for_chunks(rows, chunk, rows * cols, [&](RowRange range, int) { body(range); });
  }
  template <typename Body>
  void for_rows(std::int64_t rows, std::int64_t cols, const Body& body) {
    constexpr std::int64_t kChunkElements = 16384;
    for_rows(rows, cols, kChunkElements, body);
  }

  // Calls body(range, partial) for chunks of the rows [0, rows) of a matrix `cols` wide; `partial`
  // has `count` zeros to add to. Returns the sums of the partials over the chunks, in scratch,
  // added in the chunks' order.
  template <typename Body>
  std::span<double> sum_chunks(std::int64_t rows, std::int64_t cols, std::int64_t count,
                               const Body& body) {
    const std::int64_t chunk = std::max(kMinSumRows, (rows + kMaxSums - 1) / kMaxSums);
    const std::int64_t chunks = (rows + chunk - 1) / chunk;
    const std::span<double> partials = scratch<double>(std::max<std::int64_t>(1, chunks) * count);
    std::fill(partials.begin(), partials.end(), 0.0);
    for_chunks(rows, chunk, rows * cols, [&](RowRange range, int) {
      body(range, partials.data() + range.begin / chunk * count);
    });
    for (std::int64_t c = 1; c < chunks; ++c) {
      for (std::int64_t j = 0; j < count; ++j) partials[j] += partials[c * count + j];
    }
    return partials.first(static_cast<std::size_t>(count));
  }

  // Uninitialised memory that lives until the next call; grown, never shrunk.
  template <typename T>
  std::span<T> scratch(std::int64_t count) {
    reserve_scratch(count * static_cast<std::int64_t>(sizeof(T)));
    return {static_cast<T*>(scratch_.get()), static_cast<std::size_t>(count)};
  }

 private:
  void reserve_scratch(std::int64_t bytes);

  static constexpr std::int64_t kMinSumRows = 128;
  static constexpr std::int64_t kMaxSums = 128;

  Workers workers_;
  Isa isa_;
  DeviceMemory scratch_;
  std::int64_t scratch_bytes_ = 0;
};

}  // namespace atl
