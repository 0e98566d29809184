// Operations on the heads of rows: products with a vector per head, means of heads, and their
// gradients.
#include "kernels/cuda/column_reduction.cuh"
#include "kernels/cuda/each_element.cuh"
#include "kernels/cuda/launch.hpp"
#include "kernels/operations/heads.hpp"

namespace atl::cuda {

namespace {

// Lanes of a team sum a head of one row.
template <typename T>
__global__ void __launch_bounds__(kBlockThreads)
    head_dots_kernel(int team, std::int64_t rows, std::int64_t heads, std::int64_t each,
                     Rows<const T> x, const float* vector, Rows<float> out) {
  const std::int64_t index =
      (std::int64_t{blockIdx.x} * kBlockThreads + static_cast<int>(threadIdx.x)) / team;
  const int lane = static_cast<int>(threadIdx.x) % team;
  const bool inside = index < rows * heads;
  const std::int64_t i = inside ? index / heads : 0;
  const std::int64_t h = inside ? index % heads : 0;
  float sum = 0;
  for (std::int64_t c = h * each + lane; c < (h + 1) * each; c += team) {
    sum = fmaf(to_f32(*x.at(i, c)), vector[c], sum);
  }
  sum = team_sum(sum, team);
  if (inside && lane == 0) *out.at(i, h) = sum;
}

struct SpreadDots {
  std::int64_t each;
  Rows<const float> d;
  const float* vector;
  __device__ float operator()(std::int64_t i, std::int64_t c) const {
    return *d.at(i, c / each) * vector[c];
  }
};

// Terms of dvector from column `first` on.
template <typename T>
struct DotGradients : NoColumns {
  static constexpr int kSums = 1;
  static constexpr int kUnit = 1;
  static constexpr int kBatch = 4;
  struct Held {
    float x;
    float d;
  };
  std::int64_t each;
  std::int64_t first;
  Rows<const T> x;
  Rows<const float> d;

  __device__ Held load(std::int64_t i, std::int64_t col) const {
    return {to_f32(*x.at(i, first + col)), *d.at(i, (first + col) / each)};
  }
  __device__ void add(const Columns&, std::int64_t, std::int64_t, const Held& held,
                      double (&sums)[1][1]) const {
    sums[0][0] += static_cast<double>(held.x) * static_cast<double>(held.d);
  }
};

template <typename T>
struct MeanOfHeads {
  std::int64_t each;
  std::int64_t heads;
  Rows<const T> x;
  __device__ float operator()(std::int64_t i, std::int64_t c) const {
    float sum = 0;
    for (std::int64_t h = 0; h < heads; ++h) sum += to_f32(*x.at(i, h * each + c));
    return sum / static_cast<float>(heads);
  }
};

template <typename T>
struct SpreadMean {
  std::int64_t each;
  float heads;
  Rows<const T> dy;
  __device__ float operator()(std::int64_t i, std::int64_t c) const {
    return to_f32(*dy.at(i, c % each)) / heads;
  }
};

}  // namespace

void kernel(CudaBackend& backend, Queue& queue, const kernels::HeadDots& call) {
  const auto& [x, vector, out] = call;
  const Launch& where = launch_of(backend, queue);
  const std::int64_t each = x.cols / out.cols;
  const int team = team_lanes(each, 1, 1);
  with_element(x.dtype, [&]<typename T>(T) {
    launch(where, ceil_divide(x.rows * out.cols * team, kBlockThreads), kBlockThreads,
           head_dots_kernel<T>, team, x.rows, out.cols, each, rows_of<T>(x),
           static_cast<const float*>(vector.data), rows_of<float>(out));
  });
}

void kernel(CudaBackend& backend, Queue& queue, const kernels::HeadDotsBackward& call) {
  const auto& [d, x, vector, dx, dvector] = call;
  const Launch& where = launch_of(backend, queue);
  const std::int64_t each = x.cols / d.cols;
  with_element(x.dtype, [&]<typename T>(T) {
    for_elements<T>(where, dx,
                    SpreadDots{each, rows_of<float>(d), static_cast<const float*>(vector.data)});
    for_column_passes(x.cols, [&](std::int64_t first, std::int64_t cols) {
      sum_columns(where, x.rows, cols,
                  DotGradients<T>{{}, each, first, rows_of<T>(x), rows_of<float>(d)},
                  StoreSum{static_cast<float*>(dvector.data) + first, /*accumulate=*/true});
    });
  });
}

void kernel(CudaBackend& backend, Queue& queue, const kernels::HeadMean& call) {
  const auto& [x, y] = call;
  const Launch& where = launch_of(backend, queue);
  with_element(x.dtype, [&]<typename T>(T) {
    for_elements<T>(where, y, MeanOfHeads<T>{y.cols, x.cols / y.cols, rows_of<T>(x)});
  });
}

void kernel(CudaBackend& backend, Queue& queue, const kernels::HeadMeanBackward& call) {
  const auto& [dy, dx] = call;
  const Launch& where = launch_of(backend, queue);
  with_element(dy.dtype, [&]<typename T>(T) {
    const auto heads = static_cast<float>(dx.cols / dy.cols);
    for_elements<T>(where, dx, SpreadMean<T>{dy.cols, heads, rows_of<T>(dy)});
  });
}

}  // namespace atl::cuda
