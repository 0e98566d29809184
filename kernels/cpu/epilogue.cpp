// What follows a convolution: normalisation, bias, activation, dropout in one pass; and its
// gradient.
#include "kernels/cpu/activation_gradient.hpp"
#include "kernels/cpu/column_epilogue.hpp"
#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cpu/row_prefetch.hpp"

namespace atl {

ColumnEpilogue column_epilogue(const Epilogue& epilogue, std::int64_t cols,
                               std::span<float> memory) {
  float* mean = memory.data();
  float* scale = mean + cols;
  float* shift = scale + cols;
  for (std::int64_t j = 0; j < cols; ++j) {
    const bool normalised = !epilogue.mean.empty();
    const double gamma =
        epilogue.gamma.absent() ? 1 : static_cast<double>(epilogue.gamma.row<float>(0)[j]);
    mean[j] = normalised ? static_cast<float>(epilogue.mean[j]) : 0.0F;
    scale[j] = static_cast<float>(normalised ? epilogue.inv_std[j] * gamma : gamma);
    shift[j] = epilogue.beta.absent() ? 0.0F : epilogue.beta.row<float>(0)[j];
  }
  ColumnEpilogue result{mean, scale, shift, epilogue.relu, epilogue.dropout};
  if (result.dropout.active()) result.dropout.key = epilogue.dropout.key_now();
  return result;
}

void CpuBackend::apply_to_rows(const ColumnEpilogue& epilogue, RowRange range, ConstMatrixView x,
                               MatrixView y) const {
  const auto apply = [&]<typename From, typename To>(From, To) {
    const std::int64_t x_bytes = y.cols * static_cast<std::int64_t>(sizeof(From));
    const std::int64_t y_bytes = y.cols * static_cast<std::int64_t>(sizeof(To));
    const std::int64_t ahead = rows_ahead(x_bytes, kBytesAheadL1);
    run_with_vectors(isa_, [&]<int kBytes>() ATOLL_INLINE {
      for (std::int64_t i = range.begin; i < range.end; ++i) {
        // So that memory is read while numbers are drawn; what is written is read first.
        if (const std::int64_t next = i + ahead; next < range.end) {
          prefetch<3>(x.row<From>(next - range.begin), x_bytes);
          prefetch<3>(y.row<To>(next), y_bytes);
        }
        finish_row<kBytes>(epilogue, i, y.cols, x.row<From>(i - range.begin), y.row<To>(i));
      }
    });
  };
  with_element(y.dtype, [&](auto element) {
    if (x.dtype == y.dtype) return apply(element, element);
    apply(float{}, element);
  });
}

void CpuBackend::do_apply_epilogue(Queue&, ConstMatrixView x, const Epilogue& epilogue,
                                   MatrixView y) {
  const ColumnEpilogue columns =
      column_epilogue(epilogue, x.cols, scratch<float>(kColumnFactors * x.cols));
  constexpr std::int64_t kChunkElements = 65536;  // far more than what is fetched ahead
  for_rows(x.rows, x.cols, kChunkElements,
           [&](RowRange range) { apply_to_rows(columns, range, x.rows_in(range), y); });
}

void CpuBackend::do_combine(Queue&, float a, ConstMatrixView x, float b, ConstMatrixView z,
                            MatrixView y) {
  for_rows(x.rows, x.cols, [&](RowRange range) {
    run_with_vectors(isa_, x.dtype, [&]<int kBytes, typename T>(T) ATOLL_INLINE {
      write_row_pairs<kBytes, T>(x, z, y, range,
                                 [&]<typename Floats>(Floats& value, const Floats& other)
                                     ATOLL_INLINE { value = value * a + other * b; });
    });
  });
}

void CpuBackend::do_relu_dropout_backward(Queue&, ConstMatrixView dy,
                                          const ActivationGradient& activation) {
  for_rows(dy.rows, dy.cols, [&](RowRange range) {
    run_with_vectors(isa_, dy.dtype, [&]<int kBytes, typename T>(T) ATOLL_INLINE {
      activation_gradient_rows<kBytes, T>(activation, dy, range);
    });
  });
}

}  // namespace atl
