// Losses and their gradients over listed rows. The sum of losses is taken in double, in an order
// that depends on the shape alone.
#include <cuda_runtime.h>
#include <math.h>

#include <cstdint>

#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/launch.hpp"
#include "kernels/cuda/launchers.hpp"
#include "kernels/cuda/walk.cuh"
#include "kernels/focus_factors.hpp"
#include "kernels/operations/loss.hpp"

namespace atl::cuda {

namespace {

constexpr std::int64_t kLossBlocks = 1584;  // partial sums; the same number on every device
constexpr int kLaneClasses = 32;            // classes that a lane can hold
constexpr std::int64_t kTeamClasses = 32 * kLaneClasses;

// Arguments of the kernels of all losses beside labels or targets.
template <typename T>
struct LossArgs {
  Rows<const T> logits;
  const LocalId* ids;   // listed rows
  std::int64_t listed;  // how many
  std::int64_t cols;
  double grad_scale;
  Rows<T> dlogits;
  double* partials;  // a loss per block

  __device__ std::int64_t row(std::int64_t k) const { return static_cast<std::int64_t>(ids[k]); }
};

// The block's loss to its place.
__device__ void store_partial(double loss, double* partials) {
  __shared__ double scratch[32];
  const double sum = block_sum(loss, scratch);
  if (threadIdx.x == 0) partials[blockIdx.x] = sum;
}

__global__ void __launch_bounds__(kBlockThreads)
    sum_partials_kernel(int count, const double* partials, double* loss_sum) {
  double loss = 0;
  for (int k = static_cast<int>(threadIdx.x); k < count; k += kBlockThreads) loss += partials[k];
  store_partial(loss, loss_sum);
}

// --- softmax ------------------------------------------------------------------------------------

// -log of the label's probability. `sum`: of exp(logit - largest) over the classes.
template <typename T>
__device__ double softmax_loss(const LossArgs<T>& args, std::int64_t i, std::int32_t label,
                               float largest, double sum) {
  if (label < 0 || label >= args.cols) return static_cast<double>(NAN);
  const float logit = to_f32(*args.logits.at(i, label));
  return ::log(sum) - (static_cast<double>(logit) - static_cast<double>(largest));
}

// Gradient of one logit from exp(logit - largest). The label's is a difference of numbers that may
// be close, hence double.
struct SoftmaxGradient {
  double sum;
  double grad_scale;
  float factor;

  __device__ SoftmaxGradient(double total, double scale)
      : sum(total), grad_scale(scale), factor(static_cast<float>(scale / total)) {}
  __device__ float operator()(float power, bool is_label) const {
    if (!is_label) return power * factor;
    return static_cast<float>(grad_scale * ((static_cast<double>(power) - sum) / sum));
  }
};

// A team of lanes per row, which holds the row in registers.
template <typename T, int kUnit>
__global__ void __launch_bounds__(kBlockThreads)
    softmax_kernel(int lanes, LossArgs<T> args, const std::int32_t* labels) {
  constexpr int kUnits = kLaneClasses / kUnit;
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const int team = static_cast<int>(threadIdx.x) / lanes;
  const int teams = kBlockThreads / lanes;
  double loss = 0;
  for (std::int64_t base = std::int64_t{blockIdx.x} * teams; base < args.listed;
       base += std::int64_t{gridDim.x} * teams) {
    const bool own = base + team < args.listed;  // other teams go along with zeros
    const std::int64_t i = own ? args.row(base + team) : 0;
    const std::int32_t label = own ? labels[i] : -1;
    Packed<float, kUnit> row[kUnits];
    float largest = -INFINITY;
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      const int col = (u * lanes + lane) * kUnit;
      if (col >= args.cols) break;
      row[u] = own ? widen(load<kUnit>(args.logits.at(i, col))) : Packed<float, kUnit>{};
#pragma unroll
      for (int k = 0; k < kUnit; ++k) largest = fmaxf(largest, row[u].values[k]);
    }
    largest = team_max(largest, lanes);
    double sum = 0;
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      if ((u * lanes + lane) * kUnit >= args.cols) break;
#pragma unroll
      for (int k = 0; k < kUnit; ++k) {
        row[u].values[k] = expf(row[u].values[k] - largest);
        sum += static_cast<double>(row[u].values[k]);
      }
    }
    sum = team_sum(sum, lanes);
    if (!own) continue;
    if (lane == 0) loss += softmax_loss(args, i, label, largest, sum);
    const SoftmaxGradient gradient(sum, args.grad_scale);
#pragma unroll
    for (int u = 0; u < kUnits; ++u) {
      const int col = (u * lanes + lane) * kUnit;
      if (col >= args.cols) break;
#pragma unroll
      for (int k = 0; k < kUnit; ++k) {
        row[u].values[k] = gradient(row[u].values[k], col + k == label);
      }
      store(args.dlogits.at(i, col), narrow<T>(row[u]));
    }
  }
  store_partial(loss, args.partials);
}

// A block per row, for more classes than a warp holds.
template <typename T>
__global__ void __launch_bounds__(kBlockThreads)
    wide_softmax_kernel(LossArgs<T> args, const std::int32_t* labels) {
  __shared__ float maxima[kBlockThreads / 32];
  __shared__ double scratch[32];
  double loss = 0;
  for (std::int64_t k = blockIdx.x; k < args.listed; k += gridDim.x) {
    const std::int64_t i = args.row(k);
    const std::int32_t label = labels[i];
    const T* row = args.logits.at(i, 0);
    float largest = -INFINITY;
    for (std::int64_t j = threadIdx.x; j < args.cols; j += kBlockThreads) {
      largest = fmaxf(largest, to_f32(row[j]));
    }
    largest = team_max(largest, 32);
    if (threadIdx.x % 32 == 0) maxima[threadIdx.x / 32] = largest;
    __syncthreads();
    for (const float found : maxima) largest = fmaxf(largest, found);
    double sum = 0;
    for (std::int64_t j = threadIdx.x; j < args.cols; j += kBlockThreads) {
      sum += static_cast<double>(expf(to_f32(row[j]) - largest));
    }
    sum = block_sum(sum, scratch);
    if (threadIdx.x == 0) loss += softmax_loss(args, i, label, largest, sum);
    const SoftmaxGradient gradient(sum, args.grad_scale);
    for (std::int64_t j = threadIdx.x; j < args.cols; j += kBlockThreads) {
      const Packed<float, 1> value{{gradient(expf(to_f32(row[j]) - largest), j == label)}};
      store(args.dlogits.at(i, j), narrow<T>(value));
    }
  }
  store_partial(loss, args.partials);
}

// Where the label is not all (SoftmaxTarget): a warp per row, which reads the row three times
// rather than hold it, so that one kernel serves any number of classes.
template <typename T>
__global__ void __launch_bounds__(kBlockThreads)
    spread_softmax_kernel(LossArgs<T> args, const std::int32_t* labels, const float* weights,
                          double smoothing, double focus) {
  constexpr int kTeams = kBlockThreads / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int team = static_cast<int>(threadIdx.x) / 32;
  const double spread = smoothing / static_cast<double>(args.cols);
  double loss = 0;
  for (std::int64_t k = std::int64_t{blockIdx.x} * kTeams + team; k < args.listed;
       k += std::int64_t{gridDim.x} * kTeams) {
    const std::int64_t i = args.row(k);
    const std::int32_t label = labels[i];
    const bool known = label >= 0 && label < args.cols;
    const T* row = args.logits.at(i, 0);
    float largest = -INFINITY;
    for (std::int64_t j = lane; j < args.cols; j += 32) largest = fmaxf(largest, to_f32(row[j]));
    largest = team_max(largest, 32);
    const auto most = static_cast<double>(largest);
    const auto weight = [&](std::int64_t j) {
      return weights == nullptr ? 1.0 : static_cast<double>(weights[j]);
    };
    const double label_wanted = known ? (1 - smoothing) * weight(label) : 0.0;
    double sum = 0;
    double all_wanted = 0;
    double wanted_above = 0;
    for (std::int64_t j = lane; j < args.cols; j += 32) {
      const float logit = to_f32(row[j]);
      sum += static_cast<double>(expf(logit - largest));
      const double wanted = (spread > 0 ? spread * weight(j) : 0) + (j == label ? label_wanted : 0);
      if (wanted == 0) continue;
      all_wanted += wanted;
      wanted_above += wanted * (static_cast<double>(logit) - most);
    }
    sum = team_sum(sum, 32);
    all_wanted = team_sum(all_wanted, 32);
    wanted_above = team_sum(wanted_above, 32);
    const float label_logit = known ? to_f32(row[label]) : largest;
    const auto label_power = static_cast<double>(expf(label_logit - largest));
    const FocusFactors factors(focus, label_power / sum, (sum - label_power) / sum,
                               ::log(sum) - (static_cast<double>(label_logit) - most));
    if (lane == 0) {
      loss += known ? factors.loss * (all_wanted * ::log(sum) - wanted_above)
                    : static_cast<double>(NAN);
    }
    const double grad_scale = args.grad_scale * factors.slope;
    const double factor = grad_scale * all_wanted / sum;
    for (std::int64_t j = lane; j < args.cols; j += 32) {
      const auto power = static_cast<double>(expf(to_f32(row[j]) - largest));
      const double wanted = spread * weight(j) + (j == label ? label_wanted : 0);
      const Packed<float, 1> value{{static_cast<float>(factor * power - grad_scale * wanted)}};
      store(args.dlogits.at(i, j), narrow<T>(value));
    }
  }
  store_partial(loss, args.partials);
}

// --- losses of entries --------------------------------------------------------------------------

// Loss and gradient of every entry of the listed rows against a target each. loss_of(value, target,
// column, gradient) returns the one and sets the other, which stays zero where a target is unknown.
template <typename T, int kUnit, typename EntryLoss>
__global__ void __launch_bounds__(kBlockThreads)
    entries_kernel(Walk walk, std::int64_t down, LossArgs<T> args,
                   const typename EntryLoss::Target* targets, EntryLoss loss_of) {
  using Target = typename EntryLoss::Target;
  struct Loaded {
    Packed<T, kUnit> values;
    Target targets[kUnit];
  };
  const Place place = place_of(walk, blockIdx.x, threadIdx.x);
  const auto grad_scale = static_cast<float>(args.grad_scale);
  double loss = 0;
  for_rows<2>(
      walk, place, down, args.listed,
      [&](std::int64_t k) {
        const std::int64_t i = args.row(k);
        Loaded loaded;
        loaded.values = load<kUnit>(args.logits.at(i, place.col));
#pragma unroll
        for (int j = 0; j < kUnit; ++j) loaded.targets[j] = targets[i * args.cols + place.col + j];
        return loaded;
      },
      [&](std::int64_t k, const Loaded& loaded) {
        const Packed<float, kUnit> values = widen(loaded.values);
        Packed<float, kUnit> gradient;
#pragma unroll
        for (int j = 0; j < kUnit; ++j) {
          float slope = 0;
          loss += loss_of(values.values[j], loaded.targets[j], place.col + j, slope);
          gradient.values[j] = grad_scale * slope;
        }
        store(args.dlogits.at(args.row(k), place.col), narrow<T>(gradient));
      });
  store_partial(loss, args.partials);
}

struct SigmoidLoss {
  using Target = std::uint8_t;

  __device__ double operator()(float z, Target wanted, std::int64_t /*col*/, float& slope) const {
    if (wanted == 255) return 0;
    const auto target = static_cast<float>(wanted);
    // log(1 + exp(z)) - target * z and its derivative from one exponential that can't overflow.
    const float small = expf(-fabsf(z));
    slope = (z < 0.0F ? small : 1.0F) / (1.0F + small) - target;
    return static_cast<double>((z < 0.0F ? 0.0F : z) - z * target + log1pf(small));
  }
};

// The same with weights and a focus (SigmoidTarget).
struct WeightedSigmoidLoss {
  using Target = std::uint8_t;
  const float* weights;  // null: 1
  double focus;

  __device__ double operator()(float logit, Target wanted, std::int64_t col, float& slope) const {
    if (wanted == 255) return 0;
    const double weight = weights == nullptr ? 1.0 : static_cast<double>(weights[2 * col + wanted]);
    // The logit of what is wanted, its probability and that of the other.
    const double sign = wanted == 1 ? 1.0 : -1.0;
    const double z = sign * static_cast<double>(logit);
    const double small = ::exp(-::fabs(z));
    const double probability = (z < 0 ? small : 1.0) / (1 + small);
    const double missed = (z < 0 ? 1.0 : small) / (1 + small);
    const double minus_log = (z < 0 ? -z : 0.0) + ::log1p(small);
    const FocusFactors factors(focus, probability, missed, minus_log);
    slope = static_cast<float>(-sign * weight * factors.slope * missed);
    return weight * factors.loss * minus_log;
  }
};

struct ErrorLoss {
  using Target = float;
  ErrorMeasure measure;

  __device__ double operator()(float value, Target target, std::int64_t /*col*/,
                               float& slope) const {
    if (target != target) return 0;
    const float error = value - target;
    const auto wide = static_cast<double>(error);
    if (measure == ErrorMeasure::kSquared) {
      slope = 2 * error;
      return wide * wide;
    }
    slope = error > 0 ? 1.0F : error < 0 ? -1.0F : error;
    return fabs(wide);
  }
};

void sum_partials(const Launch& where, std::int64_t blocks, std::span<double> loss_sum) {
  launch(where, 1, kBlockThreads, sum_partials_kernel, static_cast<int>(blocks),
         reinterpret_cast<const double*>(where.workspace.data()), loss_sum.data());
}

template <typename T>
LossArgs<T> loss_args(const Launch& where, ConstMatrixView logits, std::span<const LocalId> rows,
                      double grad_scale, MatrixView dlogits) {
  return {rows_of<T>(logits),
          rows.data(),
          static_cast<std::int64_t>(rows.size()),
          logits.cols,
          grad_scale,
          rows_of<T>(dlogits),
          reinterpret_cast<double*>(where.workspace.data())};
}

template <typename EntryLoss>
void entry_losses(const Launch& where, ConstMatrixView values,
                  const typename EntryLoss::Target* targets, std::span<const LocalId> rows,
                  double grad_scale, MatrixView dvalues, std::span<double> loss_sum,
                  const EntryLoss& loss_of) {
  fill_zero(where, dvalues);
  with_element(values.dtype, [&]<typename T>(T) {
    const auto args = loss_args<T>(where, values, rows, grad_scale, dvalues);
    with_unit<T>({values, dvalues}, [&](auto unit) {
      const Walk walk = make_walk(values.cols, unit);
      const Grid grid{walk, blocks_down(walk, args.listed, 2, kLossBlocks)};
      launch(where, grid, entries_kernel<T, unit, EntryLoss>, args, targets, loss_of);
      sum_partials(where, grid.blocks(), loss_sum);
    });
  });
}

void spread_cross_entropy(const Launch& where, const kernels::SoftmaxCrossEntropy& call) {
  const auto& [logits, labels, rows, grad_scale, dlogits, loss_sum, target] = call;
  fill_zero(where, dlogits);
  const float* weights = target.class_weights.empty() ? nullptr : target.class_weights.data();
  with_element(logits.dtype, [&]<typename T>(T) {
    const auto args = loss_args<T>(where, logits, rows, grad_scale, dlogits);
    const std::int64_t blocks = std::min(kLossBlocks, ceil_divide(args.listed, kBlockThreads / 32));
    launch(where, blocks, kBlockThreads, spread_softmax_kernel<T>, args, labels.data(), weights,
           target.smoothing, target.focus);
    sum_partials(where, blocks, loss_sum);
  });
}

}  // namespace

// --- operations ---------------------------------------------------------------------------------

void kernel(CudaBackend& backend, Queue& queue, const kernels::SoftmaxCrossEntropy& call) {
  const auto& [logits, labels, rows, grad_scale, dlogits, loss_sum, target] = call;
  const Launch& where = launch_of(backend, queue);
  if (!target.label_only()) return spread_cross_entropy(where, call);
  fill_zero(where, dlogits);
  const auto listed = static_cast<std::int64_t>(rows.size());
  with_element(logits.dtype, [&]<typename T>(T) {
    const auto args = loss_args<T>(where, logits, rows, grad_scale, dlogits);
    if (logits.cols > kTeamClasses) {
      const std::int64_t blocks = std::min(kLossBlocks, listed);
      launch(where, blocks, kBlockThreads, wide_softmax_kernel<T>, args, labels.data());
      sum_partials(where, blocks, loss_sum);
      return;
    }
    with_unit<T>({logits, dlogits}, [&](auto unit) {
      // A quarter of what lanes can hold, so that rows of few classes share a warp.
      const int lanes = team_lanes(logits.cols, unit, std::max(kLaneClasses / unit / 4, 1));
      const std::int64_t blocks = std::min(kLossBlocks, ceil_divide(listed, kBlockThreads / lanes));
      launch(where, blocks, kBlockThreads, softmax_kernel<T, unit>, lanes, args, labels.data());
      sum_partials(where, blocks, loss_sum);
    });
  });
}

void kernel(CudaBackend& backend, Queue& queue, const kernels::SigmoidCrossEntropy& call) {
  const auto& [logits, targets, rows, grad_scale, dlogits, loss_sum, target] = call;
  const auto run = [&](const auto& loss_of) {
    entry_losses(launch_of(backend, queue), logits, targets.data(), rows, grad_scale, dlogits,
                 loss_sum, loss_of);
  };
  if (target.target_only()) return run(SigmoidLoss{});
  const float* weights = target.weights.empty() ? nullptr : target.weights.data();
  run(WeightedSigmoidLoss{weights, target.focus});
}

void kernel(CudaBackend& backend, Queue& queue, const kernels::ErrorLoss& call) {
  const auto& [measure, values, targets, rows, grad_scale, dvalues, loss_sum] = call;
  entry_losses(launch_of(backend, queue), values, targets.data(), rows, grad_scale, dvalues,
               loss_sum, ErrorLoss{measure});
}

}  // namespace atl::cuda
