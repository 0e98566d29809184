// The optimizer's update.
#include <cuda_runtime.h>
#include <math.h>

#include <cstdint>

#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/launch.hpp"
#include "kernels/cuda/walk.hpp"
#include "kernels/operations/optimizer.hpp"

namespace atl::cuda {

namespace {

constexpr int kMostSegments = 128;  // of one launch: the arguments of a kernel are 4 KiB at most

// The blocks in row y of the grid work on segment y.
struct Segments {
  std::int64_t begin[kMostSegments];
  std::int64_t end[kMostSegments];
  float weight_decay[kMostSegments];
  float rate_factor[kMostSegments];
};

struct AdamArgs {
  float* parameters;
  const float* gradients;
  float* m;
  float* v;
  const EpochState* state;
  double beta1;
  double beta2;
  double epsilon;
  bool decoupled;
  const double* squared_norm;
  double most_norm;
};

// The numbers of a step that all elements need; kept in f32, made from double.
struct AdamStep {
  float beta1;
  float rest1;  // 1 - beta in double first: beta2 lies so close to 1 that f32 would lose digits
  float beta2;
  float rest2;
  float rate;
  float root;
  float epsilon;
  float weight_decay;
  float kept;    // of gradients, by clipping
  float shrink;  // of parameters, by decoupled decay

  __device__ AdamStep(const AdamArgs& args, float decay, float rate_factor)
      : beta1(static_cast<float>(args.beta1)),
        rest1(static_cast<float>(1 - args.beta1)),
        beta2(static_cast<float>(args.beta2)),
        rest2(static_cast<float>(1 - args.beta2)),
        rate(static_cast<float>(args.state->learning_rate * static_cast<double>(rate_factor) /
                                args.state->first_correction)),
        root(static_cast<float>(1 / sqrt(args.state->second_correction))),
        epsilon(static_cast<float>(args.epsilon)),
        weight_decay(args.decoupled ? 0.0F : decay),
        kept(args.squared_norm == nullptr
                 ? 1.0F
                 : static_cast<float>(AdamSpec::clip_factor(*args.squared_norm, args.most_norm))),
        shrink(args.decoupled ? static_cast<float>(1 - args.state->learning_rate *
                                                           static_cast<double>(rate_factor * decay))
                              : 1.0F) {}

  __device__ void update(float& parameter, float gradient, float& m, float& v) const {
    const float g = fmaf(weight_decay, parameter, kept * gradient);
    m = beta1 * m + rest1 * g;
    v = beta2 * v + rest2 * g * g;
    parameter = shrink * parameter - rate * m / (sqrtf(v) * root + epsilon);
  }
};

// Threads take aligned units; what of the first and last one lies outside the segment belongs to a
// neighbour.
template <int kUnit>
__global__ void __launch_bounds__(kBlockThreads) adam_kernel(Segments segments, AdamArgs args) {
  const std::int64_t begin = segments.begin[blockIdx.y];
  const std::int64_t end = segments.end[blockIdx.y];
  const std::int64_t stride = std::int64_t{gridDim.x} * kBlockThreads * kUnit;
  std::int64_t at =
      begin / kUnit * kUnit + (std::int64_t{blockIdx.x} * kBlockThreads + threadIdx.x) * kUnit;
  if (at >= end) return;
  const AdamStep step(args, segments.weight_decay[blockIdx.y], segments.rate_factor[blockIdx.y]);
  for (; at < end; at += stride) {
    if (kUnit == 1 || (at >= begin && at + kUnit <= end)) {
      auto parameters = load<kUnit>(args.parameters + at);
      const auto gradients = load<kUnit>(args.gradients + at);
      auto m = load<kUnit>(args.m + at);
      auto v = load<kUnit>(args.v + at);
#pragma unroll
      for (int k = 0; k < kUnit; ++k) {
        step.update(parameters.values[k], gradients.values[k], m.values[k], v.values[k]);
      }
      store(args.parameters + at, parameters);
      store(args.m + at, m);
      store(args.v + at, v);
    } else {
      for (std::int64_t i = max(at, begin); i < min(at + kUnit, end); ++i) {
        step.update(args.parameters[i], args.gradients[i], args.m[i], args.v[i]);
      }
    }
  }
}

bool aligned(const void* data) { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0; }

}  // namespace

void kernel(CudaBackend& backend, Queue& queue, const kernels::AdamStep& call) {
  const auto& [spec, parameters, gradients, m, v] = call;
  const Launch& where = launch_of(backend, queue);
  ATOLL_ASSERT(parameters.dtype == DType::kF32, "adam_step dtype {}",
               static_cast<int>(parameters.dtype));
  const AdamArgs args{static_cast<float*>(parameters.data),
                      static_cast<const float*>(gradients.data),
                      static_cast<float*>(m.data),
                      static_cast<float*>(v.data),
                      spec.state,
                      spec.beta1,
                      spec.beta2,
                      spec.epsilon,
                      spec.decoupled,
                      spec.squared_norm,
                      spec.most_norm};
  const bool vectors =
      aligned(args.parameters) && aligned(args.gradients) && aligned(args.m) && aligned(args.v);
  const int unit = vectors ? 4 : 1;
  Segments segments{};
  unsigned count = 0;
  std::int64_t longest = 0;
  const auto flush = [&] {
    if (count == 0) return;
    // One unit more than fits: the first may begin before the segment.
    const std::int64_t needed = ceil_divide(longest / unit + 2, kBlockThreads);
    const std::int64_t blocks = std::min(needed, where.most_blocks());
    launch(where, dim3(static_cast<unsigned>(blocks), count), kBlockThreads,
           vectors ? adam_kernel<4> : adam_kernel<1>, segments, args);
    count = 0;
    longest = 0;
  };
  for (const AdamSegment& segment : spec.segments) {
    if (segment.begin == segment.end) continue;
    segments.begin[count] = segment.begin;
    segments.end[count] = segment.end;
    segments.weight_decay[count] = static_cast<float>(segment.weight_decay);
    segments.rate_factor[count] = static_cast<float>(segment.rate_factor);
    longest = std::max(longest, segment.end - segment.begin);
    if (++count == kMostSegments) flush();
  }
  flush();
}

}  // namespace atl::cuda
