// Dense operations: fills, sums and matrix products.
#include <cblas.h>
#include <omp.h>

#include <cstring>
#include <limits>

#include "base/error.hpp"
#include "kernels/cpu/cpu_backend.hpp"

namespace atl {

namespace {

constexpr std::int64_t kGemmRows = 512;       // rows of c per call of BLAS
constexpr std::int64_t kMinInnerRows = 1024;  // rows of a summed by one call, transposed case
constexpr std::int64_t kMaxInnerChunks = 32;  // bounds the memory of the partial sums

int to_blas(std::int64_t n) {
  ATOLL_ASSERT(n <= std::numeric_limits<int>::max(), "{} does not fit BLAS", n);
  return static_cast<int>(n);
}

CBLAS_TRANSPOSE to_blas(Transpose transpose) {
  return transpose == Transpose::kYes ? CblasTrans : CblasNoTrans;
}

// c = op(a) op(b) + beta * c by one thread, whatever the thread count OpenBLAS was left with. Its
// OpenMP build asks OpenMP for it, and the setting made here ends with the caller's parallel
// region.
void sgemm(Transpose transpose_a, ConstMatrixView a, Transpose transpose_b, ConstMatrixView b,
           float beta, float* c, std::int64_t c_stride) {
  const bool swap_a = transpose_a == Transpose::kYes;
  const bool swap_b = transpose_b == Transpose::kYes;
  cblas_sgemm(CblasRowMajor, to_blas(transpose_a), to_blas(transpose_b),
              to_blas(swap_a ? a.cols : a.rows), to_blas(swap_b ? b.rows : b.cols),
              to_blas(swap_a ? a.rows : a.cols), 1.0F, a.row<float>(0), to_blas(a.stride),
              b.row<float>(0), to_blas(b.stride), beta, c, to_blas(c_stride));
}

}  // namespace

void CpuBackend::do_fill_zero(Queue&, MatrixView y) {
  const std::int64_t bytes = bytes_of(y.dtype);
  for_chunks(y.rows, rows_per_chunk(y.cols, 1 << 17), [&](RowRange range) {
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      std::memset(static_cast<std::byte*>(y.data) + i * y.stride * bytes, 0,
                  static_cast<std::size_t>(y.cols * bytes));
    }
  });
}

void CpuBackend::do_convert(Queue&, ConstMatrixView x, MatrixView y) {
  const auto bytes = static_cast<std::size_t>(x.cols * bytes_of(x.dtype));
  for_chunks(x.rows, rows_per_chunk(x.cols, 1 << 17), [&](RowRange range) {
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      std::memcpy(y.row<float>(i), x.row<float>(i), bytes);
    }
  });
}

void CpuBackend::do_gemm(Queue&, Transpose transpose_a, ConstMatrixView a, Transpose transpose_b,
                         ConstMatrixView b, double beta, MatrixView c, const Epilogue& epilogue) {
  if (transpose_a == Transpose::kNo) {
    gemm_over_rows(a, transpose_b, b, beta, c, epilogue);
  } else {
    gemm_over_inner(a, transpose_b, b, beta, c, epilogue);
  }
}

// c = epilogue(a op(b) + beta c) with a tall: blocks of rows are independent.
void CpuBackend::gemm_over_rows(ConstMatrixView a, Transpose transpose_b, ConstMatrixView b,
                                double beta, MatrixView c, const Epilogue& epilogue) {
  const bool plain = epilogue.identity();
  const ColumnEpilogue columns =
      column_epilogue(epilogue, plain ? 0 : c.cols, scratch<float>(kColumnFactors * c.cols));
  const std::int64_t blocks = (c.rows + kGemmRows - 1) / kGemmRows;
#pragma omp parallel num_threads(static_cast <int>(std::min <std::int64_t>(threads_, blocks)))
  {
    omp_set_num_threads(1);
#pragma omp for schedule(dynamic)
    for (std::int64_t block = 0; block < blocks; ++block) {
      const RowRange rows{block * kGemmRows, std::min((block + 1) * kGemmRows, c.rows)};
      sgemm(Transpose::kNo, a.rows_in(rows), transpose_b, b, static_cast<float>(beta),
            c.row<float>(rows.begin), c.stride);
      if (!plain) apply_to_rows(columns, rows, c, c);
    }
  }
}

// c = epilogue(a^T op(b) + beta c) with a tall, as in a weight gradient: the sum over the rows of a
// is cut into chunks by size alone, and the partial products are added in their order, in double.
void CpuBackend::gemm_over_inner(ConstMatrixView a, Transpose transpose_b, ConstMatrixView b,
                                 double beta, MatrixView c, const Epilogue& epilogue) {
  const std::int64_t chunk =
      std::max(kMinInnerRows, (a.rows + kMaxInnerChunks - 1) / kMaxInnerChunks);
  const std::int64_t chunks = (a.rows + chunk - 1) / chunk;
  const std::int64_t size = c.rows * c.cols;
  const std::span<float> memory = scratch<float>(chunks * size + kColumnFactors * c.cols);
  const std::span<float> partials = memory.first(static_cast<std::size_t>(chunks * size));
#pragma omp parallel num_threads(static_cast <int>(std::min <std::int64_t>(threads_, chunks)))
  {
    omp_set_num_threads(1);
#pragma omp for schedule(dynamic)
    for (std::int64_t k = 0; k < chunks; ++k) {
      const RowRange rows{k * chunk, std::min((k + 1) * chunk, a.rows)};
      ConstMatrixView b_part = b;
      if (transpose_b == Transpose::kNo) {
        b_part = b.rows_in(rows);
      } else {
        b_part.data = b.row<float>(0) + rows.begin;
        b_part.cols = rows.size();
      }
      sgemm(Transpose::kYes, a.rows_in(rows), transpose_b, b_part, 0.0F, partials.data() + k * size,
            c.cols);
    }
  }
  const bool plain = epilogue.identity();
  const ColumnEpilogue columns =
      column_epilogue(epilogue, plain ? 0 : c.cols, memory.subspan(partials.size()));
  for_chunks(c.rows, rows_per_chunk(c.cols), [&](RowRange range) {
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      float* to = c.row<float>(i);
      for (std::int64_t j = 0; j < c.cols; ++j) {
        double sum = beta == 0 ? 0 : static_cast<double>(to[j]);
        for (std::int64_t k = 0; k < chunks; ++k) {
          sum += static_cast<double>(partials[k * size + i * c.cols + j]);
        }
        to[j] = static_cast<float>(sum);
      }
    }
    if (!plain) apply_to_rows(columns, range, c, c);
  });
}

void CpuBackend::do_column_sums(Queue&, ConstMatrixView x, bool accumulate, MatrixView out) {
  const auto sums = sum_chunks(x.rows, x.cols, [&](RowRange range, double* partial) {
    run_vectorised(isa_, [&]() ATOLL_INLINE {
      double* __restrict sum = partial;
      for (std::int64_t i = range.begin; i < range.end; ++i) {
        const float* from = x.row<float>(i);
#pragma omp simd
        for (std::int64_t j = 0; j < x.cols; ++j) sum[j] += static_cast<double>(from[j]);
      }
    });
  });
  float* to = out.row<float>(0);
  for (std::int64_t j = 0; j < x.cols; ++j) {
    to[j] = static_cast<float>(sums[j] + (accumulate ? static_cast<double>(to[j]) : 0));
  }
}

}  // namespace atl
