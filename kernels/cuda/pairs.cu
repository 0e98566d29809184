// Products of pairs of rows: a team of lanes per pair.
#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/launch.hpp"
#include "kernels/cuda/walk.hpp"
#include "kernels/operations/pairs.hpp"

namespace atl::cuda {

namespace {

template <typename T>
__global__ void __launch_bounds__(kBlockThreads)
    pair_dots_kernel(int lanes, std::int64_t pairs, std::int64_t cols, Rows<const T> x,
                     const LocalId* first, const LocalId* second, Rows<float> out) {
  const std::int64_t index =
      (std::int64_t{blockIdx.x} * kBlockThreads + static_cast<int>(threadIdx.x)) / lanes;
  const int lane = static_cast<int>(threadIdx.x) % lanes;
  const bool inside = index < pairs;
  const std::int64_t i = inside ? to_index(first[index]) : 0;
  const std::int64_t j = inside ? to_index(second[index]) : 0;
  float sum = 0;
  for (std::int64_t c = lane; inside && c < cols; c += lanes) {
    sum = fmaf(to_f32(*x.at(i, c)), to_f32(*x.at(j, c)), sum);
  }
  sum = team_sum(sum, lanes);
  if (inside && lane == 0) *out.at(index, 0) = sum;
}

template <typename T>
__global__ void __launch_bounds__(kBlockThreads)
    pair_products_kernel(int lanes, std::int64_t pairs, std::int64_t cols, Rows<const T> x,
                         const LocalId* first, Rows<const T> z, const LocalId* second, Rows<T> y) {
  const std::int64_t index =
      (std::int64_t{blockIdx.x} * kBlockThreads + static_cast<int>(threadIdx.x)) / lanes;
  if (index >= pairs) return;
  const std::int64_t i = to_index(first[index]);
  const std::int64_t j = to_index(second[index]);
  for (std::int64_t c = static_cast<int>(threadIdx.x) % lanes; c < cols; c += lanes) {
    const float product = to_f32(*x.at(i, c)) * to_f32(*z.at(j, c));
    store(y.at(index, c), narrow<T>(Packed<float, 1>{{product}}));
  }
}

}  // namespace

void kernel(CudaBackend& backend, Queue& queue, const kernels::PairDots& call) {
  const auto& [x, first, second, out] = call;
  const Launch& where = launch_of(backend, queue);
  const int lanes = team_lanes(x.cols, 1, 1);
  with_element(x.dtype, [&]<typename T>(T) {
    launch(where, ceil_divide(out.rows * lanes, kBlockThreads), kBlockThreads, pair_dots_kernel<T>,
           lanes, out.rows, x.cols, rows_of<T>(x), first.data(), second.data(),
           rows_of<float>(out));
  });
}

void kernel(CudaBackend& backend, Queue& queue, const kernels::PairProducts& call) {
  const auto& [x, first, z, second, y] = call;
  const Launch& where = launch_of(backend, queue);
  const int lanes = team_lanes(x.cols, 1, 1);
  with_element(x.dtype, [&]<typename T>(T) {
    launch(where, ceil_divide(y.rows * lanes, kBlockThreads), kBlockThreads,
           pair_products_kernel<T>, lanes, y.rows, x.cols, rows_of<T>(x), first.data(),
           rows_of<T>(z), second.data(), rows_of<T>(y));
  });
}

}  // namespace atl::cuda
