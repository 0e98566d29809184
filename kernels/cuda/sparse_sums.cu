// The passes before and after products of a library in bf16: column factors of the operator on x,
// then row factors, what the matrix held before and the epilogue on sums in f32.
#include <cstdint>

#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/launch.hpp"
#include "kernels/cuda/launchers.hpp"
#include "kernels/cuda/walk.cuh"

namespace atl::cuda {

namespace {

constexpr int kSumsBatch = 4;  // rows under way per thread

// y = before + scale * x; `before` and `scale` may be null. y may be x.
template <typename From, typename To, int kUnit>
__global__ void __launch_bounds__(kBlockThreads)
    scale_rows_kernel(Walk walk, std::int64_t down, std::int64_t rows, Rows<const From> x,
                      const float* scale, Rows<const Bf16> before, Rows<To> y) {
  struct Held {
    Packed<From, kUnit> x;
    Packed<Bf16, kUnit> before;
    float scale;
  };
  const Place place = place_of(walk, blockIdx.x, threadIdx.x);
  for_rows<kSumsBatch>(
      walk, place, down, rows,
      [&](std::int64_t i) {
        Held held{};
        held.x = load<kUnit>(x.at(i, place.col));
        if (before.data != nullptr) held.before = load<kUnit>(before.at(i, place.col));
        held.scale = scale != nullptr ? scale[i] : 1.0F;
        return held;
      },
      [&](std::int64_t i, const Held& held) {
        Packed<float, kUnit> values = widen(held.before);
        const Packed<float, kUnit> x_values = widen(held.x);
#pragma unroll
        for (int k = 0; k < kUnit; ++k) {
          values.values[k] = fmaf(held.scale, x_values.values[k], values.values[k]);
        }
        store(y.at(i, place.col), narrow<To>(values));
      });
}

// bf16_view: one that `before` may stand for, or y.
template <typename From, typename To>
void scale_rows(const Launch& where, ConstMatrixView x, const float* scale, Rows<const Bf16> before,
                MatrixView y, ConstMatrixView bf16_view) {
  with_unit<From>({x, bf16_view}, [&](auto unit) {
    launch(where, make_grid(where, x.rows, x.cols, unit, kSumsBatch),
           scale_rows_kernel<From, To, unit>, x.rows, rows_of<From>(x), scale, before,
           rows_of<To>(y));
  });
}

}  // namespace

void scale_rows(const Launch& where, ConstMatrixView x, std::span<const float> factors,
                MatrixView y) {
  scale_rows<Bf16, Bf16>(where, x, factors.data(), {nullptr, 0}, y, y);
}

void finish_sums(const Launch& where, MatrixView sums, std::span<const float> row_scale,
                 double beta, const Epilogue& epilogue, MatrixView y) {
  const float* scale = row_scale.empty() ? nullptr : row_scale.data();
  Rows<const Bf16> before = rows_of<Bf16>(ConstMatrixView(y));
  if (beta == 0) before.data = nullptr;
  if (epilogue.identity()) return scale_rows<float, Bf16>(where, sums, scale, before, y, y);
  scale_rows<float, float>(where, sums, scale, before, sums, y);
  apply_epilogue(where, sums, epilogue, y);
}

}  // namespace atl::cuda
