// The optimizer's update.
#include <cmath>

#include "kernels/cpu/cpu_backend.hpp"

namespace atl {

void CpuBackend::do_adam_step(Queue&, const AdamSpec& spec, MatrixView parameters,
                              ConstMatrixView gradients, MatrixView m, MatrixView v) {
  const EpochState& state = *spec.state;
  const auto beta1 = static_cast<float>(spec.beta1);
  const auto beta2 = static_cast<float>(spec.beta2);
  // 1 - beta in double first: beta2 lies so close to 1 that f32 would lose five digits of it.
  const auto rest1 = static_cast<float>(1 - spec.beta1);
  const auto rest2 = static_cast<float>(1 - spec.beta2);
  const auto rate = static_cast<float>(state.learning_rate / state.first_correction);
  const auto root = static_cast<float>(1 / std::sqrt(state.second_correction));
  const auto epsilon = static_cast<float>(spec.epsilon);
  constexpr std::int64_t kChunk = 16384;
  for (const DecaySegment& segment : spec.segments) {
    const auto decay = static_cast<float>(segment.weight_decay);
    const std::int64_t count = segment.end - segment.begin;
    for_chunks(count, kChunk, count, [&](RowRange range, int) {
      run_vectorised(isa_, [&]() ATOLL_INLINE {
        float* __restrict p = parameters.row<float>(0) + segment.begin;
        const float* __restrict g = gradients.row<float>(0) + segment.begin;
        float* __restrict first = m.row<float>(0) + segment.begin;
        float* __restrict second = v.row<float>(0) + segment.begin;
#pragma omp simd
        for (std::int64_t i = range.begin; i < range.end; ++i) {
          const float gradient = g[i] + decay * p[i];
          first[i] = beta1 * first[i] + rest1 * gradient;
          second[i] = beta2 * second[i] + rest2 * gradient * gradient;
          p[i] -= rate * first[i] / (std::sqrt(second[i]) * root + epsilon);
        }
      });
    });
  }
}

}  // namespace atl
