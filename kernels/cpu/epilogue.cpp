// Element by element: what follows a convolution (normalisation, bias, activation, dropout in one
// pass), its gradient, and what makes one matrix of several.
#include <array>
#include <cstring>

#include "kernels/cpu/activation.hpp"
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
  ColumnEpilogue result{mean, scale, shift, epilogue.function, epilogue.dropout};
  if (result.dropout.active()) result.dropout.key = epilogue.dropout.key_now();
  return result;
}

void CpuBackend::apply_to_rows(const ColumnEpilogue& epilogue, RowRange range, ConstMatrixView x,
                               MatrixView y) const {
  const auto apply = [&]<typename From, typename To>(From, To) {
    const std::int64_t x_bytes = y.cols * static_cast<std::int64_t>(sizeof(From));
    const std::int64_t y_bytes = y.cols * static_cast<std::int64_t>(sizeof(To));
    const std::int64_t ahead = rows_ahead(x_bytes, kBytesAheadL1);
    const auto finish = [&]<int kBytes, bool kCurved>() ATOLL_INLINE {
      for (std::int64_t i = range.begin; i < range.end; ++i) {
        // So that memory is read while numbers are drawn; what is written is read first.
        if (const std::int64_t next = i + ahead; next < range.end) {
          prefetch<3>(x.row<From>(next - range.begin), x_bytes);
          prefetch<3>(y.row<To>(next), y_bytes);
        }
        finish_row<kBytes, kCurved>(epilogue, i, y.cols, x.row<From>(i - range.begin),
                                    y.row<To>(i));
      }
    };
    run_with_vectors(isa_, [&]<int kBytes>() ATOLL_INLINE {
      if (epilogue.curved()) return finish.template operator()<kBytes, true>();
      finish.template operator()<kBytes, false>();
    });
  };
  with_element(y.dtype, [&](auto element) {
    if (x.dtype == y.dtype) return apply(element, element);
    apply(float{}, element);
  });
}

void kernel(CpuBackend& backend, Queue&, const kernels::ApplyEpilogue& call) {
  const auto& [x, epilogue, y] = call;
  const ColumnEpilogue columns =
      column_epilogue(epilogue, x.cols, backend.scratch<float>(kColumnFactors * x.cols));
  constexpr std::int64_t kChunkElements = 65536;  // far more than what is fetched ahead
  backend.for_rows(x.rows, x.cols, kChunkElements, [&](RowRange range) {
    backend.apply_to_rows(columns, range, x.rows_in(range), y);
  });
}

void kernel(CpuBackend& backend, Queue&, const kernels::Combine& call) {
  const auto& [a, x, b, z, y] = call;
  backend.write_matrix(std::array{x, z}, y,
                       [=]<typename Floats>(Floats& value, const Floats& other)
                           ATOLL_INLINE { value = value * a + other * b; });
}

void kernel(CpuBackend& backend, Queue&, const kernels::Scale& call) {
  const auto& [x, factor, y] = call;
  const float e = factor.row<float>(0)[0];
  backend.write_matrix(std::array{x}, y,
                       [=]<typename Floats>(Floats& value) ATOLL_INLINE { value = value * e; });
}

// GCC turns masks that are combined, or used twice, into single lanes; so each selection has a
// comparison of its own. The two here differ where one number is NaN: one of them gives it, and
// with the other's bits it stays NaN.
void kernel(CpuBackend& backend, Queue&, const kernels::Maximum& call) {
  const auto& [x, z, y] = call;
  backend.write_matrix(std::array{x, z}, y,
                       []<typename Floats>(Floats& first, const Floats& second) ATOLL_INLINE {
                         typename Vectors<sizeof(Floats)>::Words bits[2];
                         const Floats or_first = second > first ? second : first;
                         const Floats or_second = first > second ? first : second;
                         std::memcpy(&bits[0], &or_first, sizeof(Floats));
                         std::memcpy(&bits[1], &or_second, sizeof(Floats));
                         bits[0] |= bits[1];
                         std::memcpy(&first, &bits[0], sizeof(Floats));
                       });
}

void kernel(CpuBackend& backend, Queue&, const kernels::MaximumBackward& call) {
  const auto& [dy, x, z, of, dx] = call;
  const std::array inputs{dy, x, z};
  if (of == MaximumOf::kFirst) {
    return backend.write_matrix(
        inputs, dx,
        []<typename Floats>(Floats& value, const Floats& first, const Floats& second)
            ATOLL_INLINE { value = first >= second ? value : Floats{}; });
  }
  backend.write_matrix(inputs, dx,
                       []<typename Floats>(Floats& value, const Floats& first, const Floats& second)
                           ATOLL_INLINE { value = first >= second ? Floats{} : value; });
}

namespace {

// Through another function than relu: dy times the slope in f32, then dropout as in the forward
// pass, rounded once.
void curved_backward(CpuBackend& backend, ConstMatrixView dy,
                     const ActivationGradient& activation) {
  const auto& [from, dx, function, dropout] = activation;
  const float unscaled = 1 / dropout.rate.scale;
  const auto slope = [function = function, unscaled]<typename Floats>(
                         Floats& gradient, const Floats& at) ATOLL_INLINE {
    multiply_by_slope<static_cast<int>(sizeof(Floats))>(function, unscaled, at, gradient);
  };
  if (!dropout.active()) return backend.write_matrix(std::array{dy, from}, dx, slope);
  Epilogue rest;
  rest.dropout = dropout;
  const ColumnEpilogue drop =
      column_epilogue(rest, dy.cols, backend.scratch<float>(kColumnFactors * dy.cols));
  backend.for_rows(dy.rows, dy.cols, [&, from = from, dx = dx](RowRange range) {
    WideRows memory(1, dy.cols);
    run_with_vectors(backend.isa(), dy.dtype, [&]<int kBytes, typename T>(T) ATOLL_INLINE {
      for (std::int64_t i = range.begin; i < range.end; ++i) {
        float* const wide = row_to_compute(dx.row<T>(i), memory.row(0));
        const MatrixView to{wide, 1, dy.cols, dy.cols, DType::kF32};
        write_rows<kBytes, T, float>(std::array{dy.rows_in({i, i + 1}), from.rows_in({i, i + 1})},
                                     to, {0, 1}, slope);
        finish_row<kBytes, false>(drop, i, dy.cols, wide, dx.row<T>(i));
      }
    });
  });
}

}  // namespace

void kernel(CpuBackend& backend, Queue&, const kernels::ActivationBackward& call) {
  const auto& [dy, activation] = call;
  if (activation.function != ActivationFunction::kRelu)
    return curved_backward(backend, dy, activation);
  backend.for_rows(dy.rows, dy.cols, [&](RowRange range) {
    run_with_vectors(backend.isa(), dy.dtype, [&]<int kBytes, typename T>(T) ATOLL_INLINE {
      relu_gradient_rows<kBytes, T>(activation, dy, range);
    });
  });
}

}  // namespace atl
