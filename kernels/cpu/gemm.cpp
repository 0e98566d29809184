// Matrix products, cut into blocks by size alone; each block is one product of one thread
// (kernels/cpu/product.hpp, panels.hpp, tiles.hpp). Where the processor does not multiply bf16,
// operands are widened block by block.
#include <omp.h>

#include "kernels/cpu/column_epilogue.hpp"
#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cpu/panels.hpp"
#include "kernels/cpu/product.hpp"
#include "kernels/cpu/tiles.hpp"

namespace atl {

namespace {

constexpr std::int64_t kGemmRows = 512;       // rows of c per product
constexpr std::int64_t kMinInnerRows = 1024;  // rows of a summed by one chunk, transposed case
constexpr std::int64_t kMaxInnerChunks = 32;  // bounds the memory of the partial sums
constexpr std::int64_t kWideInnerRows = 512;  // rows of a and b widened at a time, transposed case

// The part that belongs to rows [range) of op(b).
ConstMatrixView inner_part(Transpose transpose, ConstMatrixView b, RowRange range) {
  if (transpose == Transpose::kNo) return b.rows_in(range);
  return {static_cast<const std::byte*>(b.data) + range.begin * bytes_of(b.dtype), b.rows,
          range.size(), b.stride, b.dtype};
}

// multiply() takes operands of this type as they are.
bool is_operand(DType dtype) { return dtype == DType::kF32 || multiplies_bf16(); }

// Entries of f32 for a matrix, in whole vectors.
std::int64_t f32_entries(std::int64_t rows, std::int64_t cols) {
  return (rows * cols + 15) / 16 * 16;
}

// The same for an operand: none if it is taken as it is.
std::int64_t wide_entries(DType dtype, std::int64_t rows, std::int64_t cols) {
  return is_operand(dtype) ? 0 : f32_entries(rows, cols);
}

MatrixView f32_view(float* data, std::int64_t rows, std::int64_t cols) {
  return {data, rows, cols, cols, DType::kF32};
}

// x if it is taken as it is, else an f32 copy of it in `memory`.
ConstMatrixView widened(Isa isa, ConstMatrixView x, float* memory) {
  if (is_operand(x.dtype)) return x;
  const MatrixView wide = f32_view(memory, x.rows, x.cols);
  convert_rows(isa, x, wide);
  return wide;
}

// The smaller operand of products with blocks of rows, made ready for all of them.
struct Factor {
  Transpose transpose;
  ConstMatrixView as_it_is;  // or widened
  const Bf16* tiles;         // null: not in tiles
  const float* panels;       // null: not in panels
};

// Each block of rows goes over all tiles once: they must leave room in the second cache.
bool in_tiles(Isa isa, FactorShape factor, DType dtype) {
  constexpr std::int64_t kMostEntries = 1 << 17;  // of bf16: 256 KB
  return dtype == DType::kBf16 && isa == Isa::kAvx512 && multiplies_in_tiles() &&
         tiled_entries(factor.inner, factor.cols) <= kMostEntries;
}

// Columns from which on panels pay: with 7 of 16 they took twice oneDNN's time.
constexpr std::int64_t kLeastPanelCols = 16;

// As in_tiles.
bool in_panels(Isa isa, FactorShape factor, DType dtype) {
  constexpr std::int64_t kMostEntries = 1 << 17;
  return (dtype == DType::kF32 || !is_operand(dtype)) && isa == Isa::kAvx512 &&
         factor.inner <= kMostInner && factor.cols >= kLeastPanelCols &&
         factor.inner * factor.cols <= kMostEntries;
}

// Entries of f32 for make_factor: a whole number of lines.
std::int64_t factor_entries(Isa isa, FactorShape factor, DType dtype) {
  if (in_tiles(isa, factor, dtype)) return tiled_entries(factor.inner, factor.cols) / 2;
  if (in_panels(isa, factor, dtype)) return panel_floats(factor.inner, factor.cols);
  return wide_entries(dtype, factor.inner, factor.cols);
}

Factor make_factor(Isa isa, Transpose transpose, ConstMatrixView b, float* memory) {
  const FactorShape shape = factor_shape(transpose, b);
  if (in_tiles(isa, shape, b.dtype)) {
    auto* const tiles = reinterpret_cast<Bf16*>(memory);
    store_as_tiles(transpose, b, tiles);
    return {transpose, b, tiles, nullptr};
  }
  if (in_panels(isa, shape, b.dtype)) {
    store_as_panels(transpose, b, memory);
    return {transpose, b, nullptr, memory};
  }
  return {transpose, widened(isa, b, memory), nullptr, nullptr};
}

// c = a times the factor + beta c, for an operand a.
void multiply_block(ConstMatrixView a, const Factor& factor, double beta, MatrixView c) {
  if (factor.tiles != nullptr) return multiply_tiles(a, factor.tiles, beta, c);
  // A few rows oneDNN sums in another order; what was not f32 is none of its operands.
  constexpr std::int64_t kFewRows = 32;
  const bool same_bits = a.rows >= kFewRows || factor.as_it_is.dtype != DType::kF32;
  if (factor.panels != nullptr && same_bits) return multiply_panels(a, factor.panels, beta, c);
  multiply(Transpose::kNo, a, factor.transpose, factor.as_it_is, beta, c);
}

// a^T op(b) is summed in tiles.
bool in_tiles(Isa isa, ConstMatrixView a, Transpose transpose_b, ConstMatrixView b) {
  return a.dtype == DType::kBf16 && transpose_b == Transpose::kNo && isa == Isa::kAvx512 &&
         transposes_in_tiles(a.cols, b.cols);
}

// a^T op(b) is summed in panels; a matrix of one row oneDNN sums in another order.
bool in_panels(Isa isa, ConstMatrixView a, Transpose transpose_b, ConstMatrixView b) {
  constexpr std::int64_t kMostEntries = 3 << 16;
  return a.dtype == DType::kF32 && transpose_b == Transpose::kNo && isa == Isa::kAvx512 &&
         a.cols > 1 && b.cols >= kLeastPanelCols && a.cols * b.cols <= kMostEntries;
}

// Floats of memory that multiply_transposed needs.
std::int64_t transposed_entries(Isa isa, ConstMatrixView a, Transpose transpose_b,
                                ConstMatrixView b, std::int64_t cols) {
  if (in_tiles(isa, a, transpose_b, b)) return transposed_tiles_floats(a.cols, b.cols);
  if (in_panels(isa, a, transpose_b, b)) return transposed_panels_floats(a.cols, b.cols);
  return wide_entries(a.dtype, kWideInnerRows, a.cols) +
         wide_entries(b.dtype, kWideInnerRows, cols);
}

// sums = a^T op(b). What must be widened is, a few rows of a and b at a time in `memory`, so that
// it is still in the cache when it is multiplied.
void multiply_transposed(Isa isa, ConstMatrixView a, Transpose transpose_b, ConstMatrixView b,
                         float* memory, MatrixView sums) {
  if (in_tiles(isa, a, transpose_b, b)) return multiply_transposed_tiles(a, b, memory, sums);
  if (in_panels(isa, a, transpose_b, b)) return multiply_transposed_panels(a, b, memory, sums);
  const std::int64_t step = is_operand(a.dtype) ? a.rows : kWideInnerRows;
  for (std::int64_t begin = 0; begin < a.rows; begin += step) {
    const RowRange rows{begin, std::min(begin + step, a.rows)};
    const ConstMatrixView a_part = a.rows_in(rows);
    float* const b_memory = memory + wide_entries(a.dtype, rows.size(), a.cols);
    multiply(Transpose::kYes, widened(isa, a_part, memory), transpose_b,
             widened(isa, inner_part(transpose_b, b, rows), b_memory), begin == 0 ? 0 : 1, sums);
  }
}

// Rows `range` of total = beta * c + the partial products, added in their order in double. `total`
// is the first of the `chunks` products, which lie one behind the other.
void add_products(RowRange range, std::int64_t chunks, double beta, ConstMatrixView c,
                  MatrixView total) {
  const std::int64_t size = total.rows * total.cols;
  with_element(c.dtype, [&]<typename T>(T) {
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      const T* before = c.row<T>(i);
      float* to = total.row<float>(i);
      for (std::int64_t j = 0; j < total.cols; ++j) {
        double sum = beta == 0 ? 0 : static_cast<double>(load(before, j));
        for (std::int64_t k = 0; k < chunks; ++k) sum += static_cast<double>(to[k * size + j]);
        to[j] = static_cast<float>(sum);
      }
    }
  });
}

// How many threads the product of a and b is worth.
int threads_of_product(ConstMatrixView a, ConstMatrixView c, std::int64_t inner, int most) {
  constexpr std::int64_t kProductsPerElement = 16;  // that take as long
  return threads_for(
      a.rows * a.cols + c.rows * c.cols + c.rows * inner * c.cols / kProductsPerElement, most);
}

int most_threads(CpuBackend& backend, std::int64_t blocks) {
  return static_cast<int>(std::min<std::int64_t>(backend.workers().threads(), blocks));
}

// How many threads OpenMP, which oneDNN asks, uses for what the calling thread does, for a while.
class OpenMpThreads {
 public:
  explicit OpenMpThreads(int threads) : before_(omp_get_max_threads()) {
    omp_set_num_threads(threads);
  }
  OpenMpThreads(const OpenMpThreads&) = delete;
  OpenMpThreads& operator=(const OpenMpThreads&) = delete;
  ~OpenMpThreads() { omp_set_num_threads(before_); }

 private:
  int before_;
};

// Calls body(block, memory) for every block of [0, blocks) by `threads` threads, each of which has
// `own` entries of `memory` to itself.
template <typename Body>
void for_blocks(CpuBackend& backend, int threads, std::int64_t blocks, float* memory,
                std::int64_t own, const Body& body) {
  // oneDNN asks OpenMP how many threads to use: the caller's blocks are for one each. The others
  // have said so for good (Workers).
  const OpenMpThreads one(1);
  backend.workers().run(blocks, threads,
                        [&](std::int64_t block, int slot) { body(block, memory + slot * own); });
}

// c = epilogue(a op(b) + beta c) with a tall: blocks of rows are independent. b is made ready as a
// whole. What else must be widened is: a block of a and the sums of this block in memory of their
// thread.
void gemm_over_rows(CpuBackend& backend, ConstMatrixView a, Transpose transpose_b,
                    ConstMatrixView b, double beta, MatrixView c, const Epilogue& epilogue) {
  const Isa isa = backend.isa();
  const bool plain = epilogue.identity();
  // Sums that an epilogue follows are rounded behind it, others by the product; that of oneDNN
  // does not add to what is rounded.
  const FactorShape shape = factor_shape(transpose_b, b);
  const bool rounds = plain && (beta == 0 ? multiplies_bf16() : in_tiles(isa, shape, b.dtype));
  const bool narrow = c.dtype != DType::kF32 && !rounds;
  const std::int64_t blocks = (c.rows + kGemmRows - 1) / kGemmRows;
  if (blocks == 0) return;
  const int threads = threads_of_product(a, c, a.cols, most_threads(backend, blocks));
  const std::int64_t block_rows = std::min(kGemmRows, c.rows);
  const std::int64_t a_entries = wide_entries(a.dtype, block_rows, a.cols);
  const std::int64_t own = a_entries + (narrow ? f32_entries(block_rows, c.cols) : 0);
  const std::int64_t b_entries = factor_entries(isa, shape, b.dtype);
  const std::span<float> memory =
      backend.scratch<float>(threads * own + b_entries + kColumnFactors * c.cols);
  const Factor factor = make_factor(isa, transpose_b, b, memory.data() + threads * own);
  const ColumnEpilogue columns = column_epilogue(
      epilogue, plain ? 0 : c.cols, memory.last(static_cast<std::size_t>(kColumnFactors * c.cols)));
  for_blocks(backend, threads, blocks, memory.data(), own, [&](std::int64_t block, float* mine) {
    const RowRange rows{block * kGemmRows, std::min((block + 1) * kGemmRows, c.rows)};
    const MatrixView out = c.rows_in(rows);
    const MatrixView sums = narrow ? f32_view(mine + a_entries, rows.size(), c.cols) : out;
    if (narrow && beta != 0) convert_rows(isa, out, sums);
    multiply_block(widened(isa, a.rows_in(rows), mine), factor, beta, sums);
    if (!plain) {
      backend.apply_to_rows(columns, rows, sums, c);
    } else if (narrow) {
      convert_rows(isa, sums, out);
    }
  });
}

// c = epilogue(a^T op(b) + beta c) with a tall, as in a weight gradient: the sum over the rows of a
// is cut into chunks by size alone, and the products of the chunks are added in their order.
void gemm_over_inner(CpuBackend& backend, ConstMatrixView a, Transpose transpose_b,
                     ConstMatrixView b, double beta, MatrixView c, const Epilogue& epilogue) {
  const Isa isa = backend.isa();
  const std::int64_t chunk =
      std::max(kMinInnerRows, (a.rows + kMaxInnerChunks - 1) / kMaxInnerChunks);
  const std::int64_t chunks = (a.rows + chunk - 1) / chunk;
  const int threads = threads_of_product(a, c, a.rows, most_threads(backend, chunks));
  const std::int64_t size = c.rows * c.cols;
  const std::int64_t own = transposed_entries(isa, a, transpose_b, b, c.cols);
  const std::span<float> memory =
      backend.scratch<float>(threads * own + chunks * size + kColumnFactors * c.cols);
  const MatrixView total = f32_view(memory.data() + threads * own, c.rows, c.cols);
  for_blocks(backend, threads, chunks, memory.data(), own, [&](std::int64_t k, float* mine) {
    const RowRange rows{k * chunk, std::min((k + 1) * chunk, a.rows)};
    multiply_transposed(isa, a.rows_in(rows), transpose_b, inner_part(transpose_b, b, rows), mine,
                        f32_view(total.row<float>(0) + k * size, c.rows, c.cols));
  });
  const bool plain = epilogue.identity();
  const ColumnEpilogue columns = column_epilogue(
      epilogue, plain ? 0 : c.cols, memory.last(static_cast<std::size_t>(kColumnFactors * c.cols)));
  backend.for_rows(c.rows, c.cols, [&](RowRange range) {
    add_products(range, chunks, beta, c, total);
    if (plain) return convert_rows(isa, total.rows_in(range), c.rows_in(range));
    backend.apply_to_rows(columns, range, total.rows_in(range), c);
  });
}

}  // namespace

void kernel(CpuBackend& backend, Queue&, const kernels::Gemm& call) {
  const auto& [transpose_a, a, transpose_b, b, beta, c, epilogue] = call;
  if (transpose_a == Transpose::kNo) {
    gemm_over_rows(backend, a, transpose_b, b, beta, c, epilogue);
  } else {
    gemm_over_inner(backend, a, transpose_b, b, beta, c, epilogue);
  }
}

}  // namespace atl
