// What follows sums that a library has left in f32, on their way to bf16: row factors, what the
// matrix held before, the epilogue. Each element is rounded once.
#include <cstdint>

#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/operations.hpp"
#include "kernels/cuda/walk.cuh"

namespace atl::cuda {

namespace {

constexpr int kSumsBatch = 4;  // rows under way per thread

// y = before + scale * sums; `before` and `scale` may be null. y may be the sums.
template <typename To, int kUnit>
__global__ void __launch_bounds__(kBlockThreads)
    scale_sums_kernel(Walk walk, std::int64_t down, std::int64_t rows, Rows<const float> sums,
                      const float* scale, Rows<const Bf16> before, Rows<To> y) {
  struct Held {
    Packed<float, kUnit> sums;
    Packed<Bf16, kUnit> before;
    float scale;
  };
  const Place place = place_of(walk, blockIdx.x, threadIdx.x);
  for_rows<kSumsBatch>(
      walk, place, down, rows,
      [&](std::int64_t i) {
        Held held{};
        held.sums = load<kUnit>(sums.at(i, place.col));
        if (before.data != nullptr) held.before = load<kUnit>(before.at(i, place.col));
        held.scale = scale != nullptr ? scale[i] : 1.0F;
        return held;
      },
      [&](std::int64_t i, const Held& held) {
        Packed<float, kUnit> values = widen(held.before);
#pragma unroll
        for (int k = 0; k < kUnit; ++k) {
          values.values[k] = fmaf(held.scale, held.sums.values[k], values.values[k]);
        }
        store(y.at(i, place.col), narrow<To>(values));
      });
}

template <typename To>
void scale_sums(const Launch& where, ConstMatrixView sums, const float* scale,
                Rows<const Bf16> before, MatrixView y, ConstMatrixView bf16_view) {
  with_unit<float>({sums, bf16_view}, [&](auto unit) {
    const Walk walk = make_walk(sums.cols, unit);
    const std::int64_t down =
        blocks_down(walk, sums.rows, kSumsBatch, kBlocksPerMultiprocessor * where.multiprocessors);
    launch(where, dim3(static_cast<unsigned>(walk.tiles * down)), walk.threads(),
           scale_sums_kernel<To, unit>, walk, down, sums.rows, rows_of<float>(sums), scale, before,
           rows_of<To>(y));
  });
}

}  // namespace

void finish_sums(const Launch& where, MatrixView sums, std::span<const float> row_scale,
                 double beta, const Epilogue& epilogue, MatrixView y) {
  const float* scale = row_scale.empty() ? nullptr : row_scale.data();
  Rows<const Bf16> before = rows_of<Bf16>(ConstMatrixView(y));
  if (beta == 0) before.data = nullptr;
  if (epilogue.identity()) return scale_sums<Bf16>(where, sums, scale, before, y, y);
  scale_sums<float>(where, sums, scale, before, sums, y);
  apply_epilogue(where, sums, epilogue, y);
}

}  // namespace atl::cuda
