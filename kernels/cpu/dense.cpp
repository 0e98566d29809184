// Dense operations: fills, conversions and sums. Products are in gemm.cpp.
#include <array>
#include <cstring>
#include <type_traits>

#include "kernels/cpu/column_sums.hpp"
#include "kernels/cpu/cpu_backend.hpp"

namespace atl {

namespace {
constexpr std::int64_t kMovedElements = 1 << 17;  // of a chunk in which nothing is computed
}

void kernel(CpuBackend& backend, Queue&, const kernels::FillZero& call) {
  const auto y = call.y;
  const std::int64_t bytes = bytes_of(y.dtype);
  const auto clear = [&](RowRange range) {
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      std::memset(static_cast<std::byte*>(y.data) + i * y.stride * bytes, 0,
                  static_cast<std::size_t>(y.cols * bytes));
    }
  };
  backend.for_rows(y.rows, y.cols, kMovedElements, clear);
}

void convert_rows(Isa isa, ConstMatrixView x, MatrixView y) {
  const auto convert = [&]<typename From, typename To>(From, To) {
    run_with_vectors(isa, [&]<int kBytes>() ATOLL_INLINE {
      for (std::int64_t i = 0; i < x.rows; ++i) {
        convert_columns<kBytes>(x.row<From>(i), x.cols, y.row<To>(i));
      }
    });
  };
  if (x.dtype == DType::kF32 && y.dtype == DType::kBf16) return convert(float{}, Bf16{});
  if (x.dtype == DType::kBf16 && y.dtype == DType::kF32) return convert(Bf16{}, float{});
  with_element(x.dtype, [&]<typename T>(T) {
    for (std::int64_t i = 0; i < x.rows; ++i) {
      std::memcpy(y.row<T>(i), x.row<T>(i), static_cast<std::size_t>(x.cols) * sizeof(T));
    }
  });
}

void kernel(CpuBackend& backend, Queue&, const kernels::Convert& call) {
  const auto& [x, y] = call;
  const auto convert = [&](RowRange range) {
    convert_rows(backend.isa(), x.rows_in(range), y.rows_in(range));
  };
  backend.for_rows(x.rows, x.cols, kMovedElements, convert);
}

void kernel(CpuBackend& backend, Queue&, const kernels::ColumnSums& call) {
  const auto& [x, accumulate, out, activation] = call;
  const ConstMatrixView terms = activation.absent() ? x : activation.dx;
  const auto sums =
      backend.sum_chunks(x.rows, x.cols, x.cols, [&](RowRange range, double* partial) {
        run_with_vectors(backend.isa(), x.dtype, [&]<int kBytes, typename T>(T) ATOLL_INLINE {
          sum_gradients<kBytes, T>(x, activation, range, std::array{partial},
                                   [&]<int kUnit>(std::int64_t i, std::int64_t j, auto* to)
                                       ATOLL_INLINE {
                                         typename Vectors<kUnit>::Doubles value;
                                         load_doubles<kUnit>(terms.row<T>(i) + j, value);
                                         to[0] += value;
                                       });
        });
      });
  float* to = out.row<float>(0);
  for (std::int64_t j = 0; j < x.cols; ++j) {
    to[j] = static_cast<float>(sums[j] + (accumulate ? static_cast<double>(to[j]) : 0));
  }
}

// Sums per column first, as all sums over rows are taken.
void kernel(CpuBackend& backend, Queue&, const kernels::Dot& call) {
  const auto& [x, z, accumulate, out] = call;
  const auto sums =
      backend.sum_chunks(x.rows, x.cols, x.cols, [&](RowRange range, double* partial) {
        run_with_vectors(backend.isa(), x.dtype, [&]<int kBytes, typename T>(T) ATOLL_INLINE {
          sum_columns<kBytes, T>(std::array{x, z}, range, std::array{partial},
                                 [&]<int kUnit>(std::int64_t i, std::int64_t j, auto* to)
                                     ATOLL_INLINE {
                                       typename Vectors<kUnit>::Doubles first;
                                       typename Vectors<kUnit>::Doubles second;
                                       load_doubles<kUnit>(x.row<T>(i) + j, first);
                                       load_doubles<kUnit>(z.row<T>(i) + j, second);
                                       to[0] += first * second;
                                     });
        });
      });
  double sum = 0;
  for (const double column : sums) sum += column;
  const auto add_to = [&](auto& total) {
    const double before = accumulate ? static_cast<double>(total) : 0;
    total = static_cast<std::remove_reference_t<decltype(total)>>(before + sum);
  };
  if (out.dtype == DType::kF64) return add_to(*out.row<double>(0));
  add_to(*out.row<float>(0));
}

}  // namespace atl
