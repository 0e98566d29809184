// The optimizer's update.
#include <cmath>

#include "kernels/cpu/cpu_backend.hpp"

namespace atl {

void kernel(CpuBackend& backend, Queue&, const kernels::AdamStep& call) {
  const auto& [spec, parameters, gradients, m, v] = call;
  const EpochState& state = *spec.state;
  const auto beta1 = static_cast<float>(spec.beta1);
  const auto beta2 = static_cast<float>(spec.beta2);
  // 1 - beta in double first: beta2 lies so close to 1 that f32 would lose five digits of it.
  const auto rest1 = static_cast<float>(1 - spec.beta1);
  const auto rest2 = static_cast<float>(1 - spec.beta2);
  const auto root = static_cast<float>(1 / std::sqrt(state.second_correction));
  const auto epsilon = static_cast<float>(spec.epsilon);
  const auto kept = static_cast<float>(
      spec.squared_norm != nullptr ? AdamSpec::clip_factor(*spec.squared_norm, spec.most_norm) : 1);
  constexpr std::int64_t kChunk = 16384;
  const auto step = [&]<bool kClips, bool kDecoupled>() {
    for (const AdamSegment& segment : spec.segments) {
      const double base_rate = state.learning_rate * segment.rate_factor;
      const auto rate = static_cast<float>(base_rate / state.first_correction);
      const auto decay = static_cast<float>(segment.weight_decay);
      const auto shrink = static_cast<float>(1 - base_rate * segment.weight_decay);
      const std::int64_t count = segment.end - segment.begin;
      backend.for_chunks(count, kChunk, count, [&](RowRange range, int) {
        run_vectorised(backend.isa(), [&]() ATOLL_INLINE {
          float* __restrict p = parameters.row<float>(0) + segment.begin;
          const float* __restrict g = gradients.row<float>(0) + segment.begin;
          float* __restrict first = m.row<float>(0) + segment.begin;
          float* __restrict second = v.row<float>(0) + segment.begin;
#pragma omp simd
          for (std::int64_t i = range.begin; i < range.end; ++i) {
            // Parts that are off are left out, not multiplied by 0 or 1: that would be fused with
            // others.
            float gradient = g[i];
            if constexpr (kClips) gradient *= kept;
            if constexpr (kDecoupled) {
              p[i] *= shrink;
            } else {
              gradient += decay * p[i];
            }
            first[i] = beta1 * first[i] + rest1 * gradient;
            second[i] = beta2 * second[i] + rest2 * gradient * gradient;
            p[i] -= rate * first[i] / (std::sqrt(second[i]) * root + epsilon);
          }
        });
      });
    }
  };
  if (spec.squared_norm != nullptr) {
    spec.decoupled ? step.operator()<true, true>() : step.operator()<true, false>();
  } else {
    spec.decoupled ? step.operator()<false, true>() : step.operator()<false, false>();
  }
}

}  // namespace atl
