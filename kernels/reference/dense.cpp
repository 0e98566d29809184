// Dense operations of the oracle and its optimizer.
#include <cmath>
#include <cstring>

#include "kernels/reference/elements.hpp"
#include "kernels/reference/reference_backend.hpp"

namespace atl {

void kernel(ReferenceBackend&, Queue&, const kernels::FillZero& call) {
  const auto y = call.y;
  for (std::int64_t i = 0; i < y.rows; ++i) {
    auto* row = static_cast<std::byte*>(y.data) + i * y.stride * bytes_of(y.dtype);
    std::memset(row, 0, static_cast<std::size_t>(y.cols * bytes_of(y.dtype)));
  }
}

void kernel(ReferenceBackend&, Queue&, const kernels::Convert& call) {
  const auto& [x, y] = call;
  with_value_type(x.dtype, [&]<typename From>(From) {
    with_value_type(y.dtype, [&]<typename To>(To) {
      set_all<To>(y, [&](std::int64_t i, std::int64_t j) { return at<From>(x, i, j); });
    });
  });
}

void kernel(ReferenceBackend&, Queue&, const kernels::Gemm& call) {
  const auto& [transpose_a, a, transpose_b, b, beta, c, epilogue] = call;
  const bool swap_a = transpose_a == Transpose::kYes;
  const bool swap_b = transpose_b == Transpose::kYes;
  const std::int64_t inner = swap_a ? a.rows : a.cols;
  const auto multiply = [&]<typename T, typename C>(T, C) {
    set_all<C>(c, [&](std::int64_t i, std::int64_t j) {
      double sum = beta == 0 ? 0 : at<C>(c, i, j);
      for (std::int64_t k = 0; k < inner; ++k) {
        sum +=
            (swap_a ? at<T>(a, k, i) : at<T>(a, i, k)) * (swap_b ? at<T>(b, j, k) : at<T>(b, k, j));
      }
      return epilogue_value<Parameter<T>>(epilogue, i, j, sum);
    });
  };
  with_value_type(a.dtype, [&]<typename T>(T) {
    if (c.dtype == a.dtype) return multiply(T{}, T{});
    multiply(T{}, Parameter<T>{});
  });
}

void kernel(ReferenceBackend&, Queue&, const kernels::ApplyEpilogue& call) {
  const auto& [x, epilogue, y] = call;
  with_value_type(x.dtype, [&]<typename T>(T) {
    set_all<T>(y, [&](std::int64_t i, std::int64_t j) {
      return epilogue_value<Parameter<T>>(epilogue, i, j, at<T>(x, i, j));
    });
  });
}

void kernel(ReferenceBackend&, Queue&, const kernels::Combine& call) {
  const auto& [a, x, b, z, y] = call;
  with_value_type(x.dtype, [&]<typename T>(T) {
    set_all<T>(
        y, [&](std::int64_t i, std::int64_t j) { return a * at<T>(x, i, j) + b * at<T>(z, i, j); });
  });
}

void kernel(ReferenceBackend&, Queue&, const kernels::Scale& call) {
  const auto& [x, factor, y] = call;
  with_value_type(x.dtype, [&]<typename T>(T) {
    const double e = at<Parameter<T>>(factor, 0, 0);
    set_all<T>(y, [&](std::int64_t i, std::int64_t j) { return e * at<T>(x, i, j); });
  });
}

void kernel(ReferenceBackend&, Queue&, const kernels::Dot& call) {
  const auto& [x, z, accumulate, out] = call;
  double sum = 0;
  with_value_type(x.dtype, [&]<typename T>(T) {
    for (std::int64_t i = 0; i < x.rows; ++i) {
      for (std::int64_t j = 0; j < x.cols; ++j) sum += at<T>(x, i, j) * at<T>(z, i, j);
    }
  });
  with_value_type(out.dtype, [&]<typename T>(T) {
    set<T>(out, 0, 0, (accumulate ? at<T>(out, 0, 0) : 0) + sum);
  });
}

void kernel(ReferenceBackend&, Queue&, const kernels::Maximum& call) {
  const auto& [x, z, y] = call;
  with_value_type(x.dtype, [&]<typename T>(T) {
    set_all<T>(y, [&](std::int64_t i, std::int64_t j) {
      const double first = at<T>(x, i, j);
      const double second = at<T>(z, i, j);
      return second > first || std::isnan(second) ? second : first;
    });
  });
}

void kernel(ReferenceBackend&, Queue&, const kernels::MaximumBackward& call) {
  const auto& [dy, x, z, of, dx] = call;
  with_value_type(dy.dtype, [&]<typename T>(T) {
    set_all<T>(dx, [&](std::int64_t i, std::int64_t j) {
      const bool is_first = at<T>(x, i, j) >= at<T>(z, i, j);
      return is_first == (of == MaximumOf::kFirst) ? at<T>(dy, i, j) : 0;
    });
  });
}

void kernel(ReferenceBackend&, Queue&, const kernels::ActivationBackward& call) {
  const auto& [dy, activation] = call;
  const DropoutSpec& dropout = activation.dropout;
  const auto scale = static_cast<double>(dropout.rate.scale);
  const bool of_output = activation.function != ActivationFunction::kGelu;
  with_value_type(dy.dtype, [&]<typename T>(T) {
    set_all<T>(activation.dx, [&](std::int64_t i, std::int64_t j) {
      const double from = at<T>(activation.from, i, j);
      const double gradient = at<T>(dy, i, j);
      if (activation.function == ActivationFunction::kRelu) return from != 0 ? scale * gradient : 0;
      const double slope = activation_slope(activation.function, of_output ? from / scale : from);
      return dropout_value(dropout, i, j, slope * gradient);
    });
  });
}

void kernel(ReferenceBackend& backend, Queue& queue, const kernels::ColumnSums& call) {
  const auto& [terms, accumulate, out, activation] = call;
  if (!activation.absent()) {
    kernel(backend, queue, kernels::ActivationBackward{terms, activation});
  }
  const ConstMatrixView x = activation.absent() ? terms : ConstMatrixView(activation.dx);
  with_value_type(x.dtype, [&]<typename T>(T) {
    for (std::int64_t j = 0; j < x.cols; ++j) {
      double sum = accumulate ? at<Parameter<T>>(out, 0, j) : 0;
      for (std::int64_t i = 0; i < x.rows; ++i) sum += at<T>(x, i, j);
      set<Parameter<T>>(out, 0, j, sum);
    }
  });
}

void kernel(ReferenceBackend&, Queue&, const kernels::AdamStep& call) {
  const auto& [spec, parameters, gradients, m, v] = call;
  const EpochState& state = *spec.state;
  const double kept =
      spec.squared_norm != nullptr ? AdamSpec::clip_factor(*spec.squared_norm, spec.most_norm) : 1;
  with_value_type(parameters.dtype, [&]<typename T>(T) {
    for (const AdamSegment& segment : spec.segments) {
      const double rate = state.learning_rate * segment.rate_factor;
      const double decay = spec.decoupled ? 0 : segment.weight_decay;
      const double shrink = spec.decoupled ? 1 - rate * segment.weight_decay : 1;
      for (std::int64_t i = segment.begin; i < segment.end; ++i) {
        const double parameter = at<T>(parameters, 0, i);
        const double gradient = kept * at<T>(gradients, 0, i) + decay * parameter;
        const double first = spec.beta1 * at<T>(m, 0, i) + (1 - spec.beta1) * gradient;
        const double second = spec.beta2 * at<T>(v, 0, i) + (1 - spec.beta2) * gradient * gradient;
        set<T>(m, 0, i, first);
        set<T>(v, 0, i, second);
        const double step = first / state.first_correction /
                            (std::sqrt(second / state.second_correction) + spec.epsilon);
        set<T>(parameters, 0, i, shrink * parameter - rate * step);
      }
    }
  });
}

}  // namespace atl
