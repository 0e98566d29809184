// Sums down columns and over ranks, and batch norm, whose statistics are such sums.
#include <cuda_runtime.h>
#include <math.h>

#include <cstdint>

#include "kernels/cuda/column_reduction.cuh"
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/gradient_rows.cuh"
#include "kernels/cuda/launch.hpp"
#include "kernels/cuda/walk.cuh"
#include "kernels/inverse_deviation.hpp"
#include "kernels/operations/dense.hpp"
#include "kernels/operations/normalization.hpp"

namespace atl::cuda {

namespace {

constexpr int kRowBatch = 4;  // rows under way per thread

template <int kCount>
struct Doubles {
  double values[kCount];
};
// The first `count` from `from` on, or all.
template <int kCount>
__device__ Doubles<kCount> load_doubles(const double* from, std::int64_t count) {
  Doubles<kCount> doubles;
#pragma unroll
  for (int k = 0; k < kCount; ++k) doubles.values[k] = k < count ? from[k] : 0.0;
  return doubles;
}

// --- column sums --------------------------------------------------------------------------------

// Terms: StoredRows or ActivationRows.
template <typename Terms>
struct ColumnSum : NoColumns {
  static constexpr int kSums = 1;
  static constexpr int kUnit = Terms::kUnit;
  static constexpr int kBatch = kRowBatch;
  Terms terms;

  __device__ auto load(std::int64_t i, std::int64_t col) const { return terms.load(i, col); }
  __device__ void add(const Columns&, std::int64_t i, std::int64_t col,
                      const typename Terms::Held& row, double (&sums)[1][kUnit]) const {
    const Packed<float, kUnit> values = terms.take(i, col, row);
#pragma unroll
    for (int k = 0; k < kUnit; ++k) sums[0][k] += static_cast<double>(values.values[k]);
  }
};

template <typename T, int kUnit>
__global__ void __launch_bounds__(kBlockThreads)
    sum_parts_kernel(std::int64_t parts, std::int64_t cols, Rows<const T> from, T* out) {
  const std::int64_t col = (std::int64_t{blockIdx.x} * kBlockThreads + threadIdx.x) * kUnit;
  if (col >= cols) return;
  double sums[kUnit] = {};
  const auto add = [&](std::int64_t part, const Packed<T, kUnit>& values) {
#pragma unroll
    for (int k = 0; k < kUnit; ++k) {
      const auto value = static_cast<double>(values.values[k]);
      sums[k] = part == 0 ? value : sums[k] + value;
    }
  };
  for_rows<kRowBatch>(
      0, parts, 1, [&](std::int64_t part) { return load<kUnit>(from.at(part, col)); }, add);
  Packed<T, kUnit> sum;
#pragma unroll
  for (int k = 0; k < kUnit; ++k) sum.values[k] = static_cast<T>(sums[k]);
  store(out + col, sum);
}

// --- dot product --------------------------------------------------------------------------------

template <typename T, int kElements>
struct Products : RowPairs<T, kElements>, NoColumns {
  using Held = typename RowPairs<T, kElements>::Held;
  static constexpr int kSums = 1;
  static constexpr int kUnit = kElements;
  static constexpr int kBatch = kRowBatch / 2;

  __device__ void add(const Columns&, std::int64_t, std::int64_t, const Held& held,
                      double (&sums)[1][kUnit]) const {
    const Packed<float, kUnit> first = widen(held.first);
    const Packed<float, kUnit> second = widen(held.second);
#pragma unroll
    for (int k = 0; k < kUnit; ++k) {
      sums[0][k] += static_cast<double>(first.values[k]) * static_cast<double>(second.values[k]);
    }
  }
};

struct StoreColumn {
  double* sums;
  __device__ void operator()(std::int64_t col, const double (&found)[1]) const {
    sums[col] = found[0];
  }
};

// One block adds the sums of columns.
template <typename Total>
__global__ void __launch_bounds__(kBlockThreads)
    sum_columns_kernel(std::int64_t cols, const double* sums, bool accumulate, Total* out) {
  __shared__ double scratch[32];
  double sum = 0;
  for (std::int64_t j = threadIdx.x; j < cols; j += kBlockThreads) sum += sums[j];
  sum = block_sum(sum, scratch);
  if (threadIdx.x > 0) return;
  *out = static_cast<Total>((accumulate ? static_cast<double>(*out) : 0.0) + sum);
}

// --- batch norm ---------------------------------------------------------------------------------

template <typename T, int kElements>
struct Moments {
  static constexpr int kSums = 2;
  static constexpr int kUnit = kElements;
  static constexpr int kBatch = kRowBatch;
  Rows<const T> x;
  const double* shift;
  std::int64_t cols;

  __device__ Doubles<kUnit> columns(std::int64_t col) const {
    return load_doubles<kUnit>(shift + col, cols - col);
  }
  __device__ Packed<T, kUnit> load(std::int64_t i, std::int64_t col) const {
    return cuda::load<kUnit>(x.at(i, col));
  }
  __device__ void add(const Doubles<kUnit>& shifts, std::int64_t, std::int64_t,
                      const Packed<T, kUnit>& row, double (&sums)[2][kUnit]) const {
    const Packed<float, kUnit> values = widen(row);
#pragma unroll
    for (int k = 0; k < kUnit; ++k) {
      const double value = static_cast<double>(values.values[k]) - shifts.values[k];
      sums[0][k] += value;
      sums[1][k] += value * value;
    }
  }
};

struct StoreMoments {
  double* sums;
  double* squares;
  __device__ void operator()(std::int64_t col, const double (&found)[2]) const {
    sums[col] = found[0];
    squares[col] = found[1];
  }
};

// dy and dy * (x - mean).
template <typename Gradients>
struct GradientSums {
  using T = typename Gradients::Element;
  static constexpr int kSums = 2;
  static constexpr int kUnit = Gradients::kUnit;
  static constexpr int kBatch = kRowBatch / 2;  // of two or three matrices
  struct Held {
    typename Gradients::Held gradient;
    Packed<T, kUnit> value;
  };
  Gradients dy;
  Rows<const T> x;
  const double* mean;
  std::int64_t cols;

  __device__ Doubles<kUnit> columns(std::int64_t col) const {
    return load_doubles<kUnit>(mean + col, cols - col);
  }
  __device__ Held load(std::int64_t i, std::int64_t col) const {
    return {dy.load(i, col), cuda::load<kUnit>(x.at(i, col))};
  }
  __device__ void add(const Doubles<kUnit>& means, std::int64_t i, std::int64_t col,
                      const Held& row, double (&sums)[2][kUnit]) const {
    const Packed<float, kUnit> gradients = dy.take(i, col, row.gradient);
    const Packed<float, kUnit> values = widen(row.value);
#pragma unroll
    for (int k = 0; k < kUnit; ++k) {
      const auto gradient = static_cast<double>(gradients.values[k]);
      sums[0][k] += gradient;
      sums[1][k] += gradient * (static_cast<double>(values.values[k]) - means.values[k]);
    }
  }
};

struct StoreGradientSums {
  const double* inv_std;
  double* sum_dy;
  double* sum_dy_xhat;
  float* dgamma;
  float* dbeta;
  __device__ void operator()(std::int64_t col, const double (&found)[2]) const {
    const double scaled = found[1] * inv_std[col];
    sum_dy[col] = found[0];
    sum_dy_xhat[col] = scaled;
    dbeta[col] = static_cast<float>(static_cast<double>(dbeta[col]) + found[0]);
    dgamma[col] = static_cast<float>(static_cast<double>(dgamma[col]) + scaled);
  }
};

__global__ void __launch_bounds__(kBlockThreads)
    statistics_kernel(std::int64_t cols, const double* sums, double count, double momentum,
                      double epsilon, double* running_mean, double* running_variance, double* mean,
                      double* inv_std) {
  const std::int64_t j = std::int64_t{blockIdx.x} * kBlockThreads + threadIdx.x;
  if (j >= cols) return;
  const double shift = sums[j] / count;
  mean[j] = running_mean[j] + shift;
  const double spread = sums[cols + j] / count - shift * shift;
  const double variance = spread < 0 ? 0 : spread;  // NaN stays NaN
  const double unbiased = count > 1 ? variance * count / (count - 1) : variance;
  running_mean[j] += momentum * shift;
  running_variance[j] += momentum * (unbiased - running_variance[j]);
  inv_std[j] = inverse_deviation(mean[j], variance, epsilon);
}

__global__ void __launch_bounds__(kBlockThreads)
    inverse_std_kernel(std::int64_t cols, const double* variance, double epsilon, double* out) {
  const std::int64_t j = std::int64_t{blockIdx.x} * kBlockThreads + threadIdx.x;
  if (j < cols) out[j] = 1 / sqrt(variance[j] + epsilon);
}

struct BackwardArgs {
  const double* mean;
  const double* inv_std;
  const float* gamma;
  const double* sum_dy;
  const double* sum_dy_xhat;
  double per_count;  // 1 / count: a division of doubles per column and thread would be felt
};

// dx = factor * (dy - offset - (x - mean) * slope).
struct BackwardFactors {
  SplitDouble mean;
  float slope;
  float offset;
  float factor;
};

__device__ BackwardFactors backward_factors(const BackwardArgs& args, std::int64_t col) {
  const double inv_std = args.inv_std[col];
  return {split_double(args.mean[col]),
          static_cast<float>(inv_std * args.sum_dy_xhat[col] * args.per_count),
          static_cast<float>(args.sum_dy[col] * args.per_count),
          static_cast<float>(static_cast<double>(args.gamma[col]) * inv_std)};
}

template <typename T, int kUnit>
__global__ void __launch_bounds__(kBlockThreads)
    batch_norm_backward_kernel(Walk walk, std::int64_t down, std::int64_t rows, Rows<const T> dy,
                               Rows<const T> x, BackwardArgs args, Rows<T> dx) {
  const Place place = place_of(walk, blockIdx.x, threadIdx.x);
  if (!place.inside) return;
  BackwardFactors factors[kUnit];
#pragma unroll
  for (int k = 0; k < kUnit; ++k) {
    if (place.col + k < walk.cols) factors[k] = backward_factors(args, place.col + k);
  }
  const RowPairs<T, kUnit> pairs{dy, x};
  for_rows<kRowBatch / 2>(
      walk, place, down, rows, [&](std::int64_t i) { return pairs.load(i, place.col); },
      [&](std::int64_t i, const typename RowPairs<T, kUnit>::Held& row) {
        Packed<float, kUnit> gradient = widen(row.first);
        const Packed<float, kUnit> value = widen(row.second);
#pragma unroll
        for (int k = 0; k < kUnit; ++k) {
          const BackwardFactors& f = factors[k];
          const float centred = value.values[k] - f.mean.high - f.mean.low;
          gradient.values[k] = f.factor * (gradient.values[k] - f.offset - centred * f.slope);
        }
        store_some(dx.at(i, place.col), gradient, walk.cols - place.col);
      });
}

}  // namespace

// --- operations ---------------------------------------------------------------------------------

void kernel(CudaBackend& backend, Queue& queue, const kernels::ColumnSums& call) {
  const auto& [x, accumulate, out, activation] = call;
  const Launch& where = launch_of(backend, queue);
  auto* total = static_cast<float*>(out.data);
  with_gradient_rows(x, activation, x, [&](const auto& rows_from) {
    for_column_passes(x.cols, [&](std::int64_t first, std::int64_t cols) {
      const ColumnSum<decltype(rows_from(first))> op{{}, rows_from(first)};
      sum_columns(where, x.rows, cols, op, StoreSum{total + first, accumulate});
    });
  });
}

// Sums of columns lie behind the partial sums.
static_assert(kWorkspaceBytes - kPartialsBytes >= kReductionCols * std::int64_t{sizeof(double)});

void kernel(CudaBackend& backend, Queue& queue, const kernels::Dot& call) {
  const auto& [x, z, accumulate, out] = call;
  const Launch& where = launch_of(backend, queue);
  auto* const sums = reinterpret_cast<double*>(where.workspace.data() + kPartialsBytes);
  const auto add_columns = [&]<typename Total>(std::int64_t cols, bool adds, Total* to) {
    launch(where, 1, kBlockThreads, sum_columns_kernel<Total>, cols,
           static_cast<const double*>(sums), adds, to);
  };
  with_element(x.dtype, [&]<typename T>(T) {
    with_padded_unit<T>({x, z}, [&](auto unit) {
      for_column_passes(x.cols, [&](std::int64_t first, std::int64_t cols) {
        const Products<T, unit> op{
            {rows_of<T>(columns_from(x, first)), rows_of<T>(columns_from(z, first))}};
        sum_columns(where, x.rows, cols, op, StoreColumn{sums});
        const bool adds = accumulate || first > 0;
        if (out.dtype == DType::kF64) {
          add_columns(cols, adds, static_cast<double*>(out.data));
        } else {
          add_columns(cols, adds, static_cast<float*>(out.data));
        }
      });
    });
  });
}

void kernel(CudaBackend& backend, Queue& queue, const kernels::SumParts& call) {
  const auto& [parts, out] = call;
  const Launch& where = launch_of(backend, queue);
  const auto run = [&]<typename T>(T) {
    with_unit<T>({parts, out}, [&](auto unit) {
      const std::int64_t blocks = ceil_divide(ceil_divide(out.cols, unit), kBlockThreads);
      launch(where, blocks, kBlockThreads, sum_parts_kernel<T, unit>, parts.rows, out.cols,
             rows_of<T>(parts), static_cast<T*>(out.data));
    });
  };
  if (out.dtype == DType::kF64) {
    run(double{});
  } else {
    run(float{});
  }
}

void kernel(CudaBackend& backend, Queue& queue, const kernels::BatchNormMoments& call) {
  const auto& [x, shift, sums] = call;
  const Launch& where = launch_of(backend, queue);
  with_element(x.dtype, [&]<typename T>(T) {
    with_padded_unit<T>({x}, [&](auto unit) {
      for_column_passes(x.cols, [&](std::int64_t first, std::int64_t cols) {
        const Moments<T, unit> op{rows_of<T>(columns_from(x, first)), shift.data() + first,
                                  x.cols - first};
        double* to = sums.data() + first;
        sum_columns(where, x.rows, cols, op, StoreMoments{to, to + x.cols});
      });
    });
  });
}

void kernel(CudaBackend& backend, Queue& queue, const kernels::BatchNormStatistics& call) {
  const auto& [sums, count, momentum, epsilon, running_mean, running_variance, mean, inv_std] =
      call;
  const Launch& where = launch_of(backend, queue);
  const auto cols = static_cast<std::int64_t>(mean.size());
  launch(where, ceil_divide(cols, kBlockThreads), kBlockThreads, statistics_kernel, cols,
         sums.data(), static_cast<double>(count), momentum, epsilon, running_mean.data(),
         running_variance.data(), mean.data(), inv_std.data());
}

void kernel(CudaBackend& backend, Queue& queue, const kernels::BatchNormGradientSums& call) {
  const auto& [dy, x, mean, inv_std, sums, dgamma, dbeta, activation] = call;
  const Launch& where = launch_of(backend, queue);
  with_gradient_rows(dy, activation, x, [&](const auto& rows_from) {
    for_column_passes(x.cols, [&](std::int64_t first, std::int64_t cols) {
      using Sums = GradientSums<decltype(rows_from(first))>;
      const Sums op{rows_from(first), rows_of<typename Sums::T>(columns_from(x, first)),
                    mean.data() + first, x.cols - first};
      double* to = sums.data() + first;
      const StoreGradientSums finish{inv_std.data() + first, to, to + x.cols,
                                     static_cast<float*>(dgamma.data) + first,
                                     static_cast<float*>(dbeta.data) + first};
      sum_columns(where, x.rows, cols, op, finish);
    });
  });
}

void kernel(CudaBackend& backend, Queue& queue, const kernels::BatchNormBackward& call) {
  const auto& [dy, x, mean, inv_std, gamma, sums, count, dx] = call;
  const Launch& where = launch_of(backend, queue);
  const BackwardArgs args{mean.data(), inv_std.data(),       static_cast<const float*>(gamma.data),
                          sums.data(), sums.data() + x.cols, 1 / static_cast<double>(count)};
  with_element(x.dtype, [&]<typename T>(T) {
    with_padded_unit<T>({dy, x, dx}, [&](auto unit) {
      launch(where, make_grid(where, x.rows, x.cols, unit, kRowBatch / 2),
             batch_norm_backward_kernel<T, unit>, x.rows, rows_of<T>(dy), rows_of<T>(x), args,
             rows_of<T>(dx));
    });
  });
}

void kernel(CudaBackend& backend, Queue& queue, const kernels::InverseStd& call) {
  const auto& [variance, epsilon, out] = call;
  const Launch& where = launch_of(backend, queue);
  const auto cols = static_cast<std::int64_t>(out.size());
  launch(where, ceil_divide(cols, kBlockThreads), kBlockThreads, inverse_std_kernel, cols,
         variance.data(), epsilon, out.data());
}

}  // namespace atl::cuda
