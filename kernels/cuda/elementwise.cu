// Operations element by element: zero, conversion, gathered rows, the epilogue and its gradient.
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <limits>

#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/operations.hpp"
#include "kernels/cuda/walk.cuh"

namespace atl::cuda {

namespace {

constexpr int kBatch = 4;  // rows under way per thread

// The blocks of a kernel that walks over rows.
struct Grid {
  Walk walk;
  std::int64_t down;

  dim3 blocks() const { return dim3(static_cast<unsigned>(walk.tiles * down)); }
};

Grid make_grid(const Launch& where, std::int64_t rows, std::int64_t cols, int unit, int group = 1,
               int batch = kBatch) {
  const Walk walk = make_walk(cols, unit, group);
  return {walk, blocks_down(walk, rows, batch, kBlocksPerMultiprocessor * where.multiprocessors)};
}

// --- kernels ------------------------------------------------------------------------------------

template <typename From, typename To, int kUnit>
__global__ void __launch_bounds__(kBlockThreads)
    convert_kernel(Walk walk, std::int64_t down, std::int64_t rows, Rows<const From> x,
                   Rows<To> y) {
  const Place place = place_of(walk, blockIdx.x, threadIdx.x);
  for_rows<kBatch>(
      walk, place, down, rows, [&](std::int64_t i) { return load<kUnit>(x.at(i, place.col)); },
      [&](std::int64_t i, const Packed<From, kUnit>& values) {
        store_some(y.at(i, place.col), widen(values), walk.cols - place.col);
      });
}

// y = f(x, z), unit by unit in f32; y may be x or z.
template <int kUnit, typename T, typename Function>
__device__ void write_pairs(Walk walk, std::int64_t down, std::int64_t rows, Rows<const T> x,
                            Rows<const T> z, Rows<T> y, const Function& f) {
  struct Pair {
    Packed<T, kUnit> first;
    Packed<T, kUnit> second;
  };
  const Place place = place_of(walk, blockIdx.x, threadIdx.x);
  for_rows<kBatch>(
      walk, place, down, rows,
      [&](std::int64_t i) {
        return Pair{load<kUnit>(x.at(i, place.col)), load<kUnit>(z.at(i, place.col))};
      },
      [&](std::int64_t i, const Pair& pair) {
        store_some(y.at(i, place.col), f(widen(pair.first), widen(pair.second)),
                   walk.cols - place.col);
      });
}

template <typename T, int kUnit>
__global__ void __launch_bounds__(kBlockThreads)
    combine_kernel(Walk walk, std::int64_t down, std::int64_t rows, float a, Rows<const T> x,
                   float b, Rows<const T> z, Rows<T> y) {
  using Values = Packed<float, kUnit>;
  write_pairs<kUnit>(walk, down, rows, x, z, y, [=](const Values& first, const Values& second) {
    Values sum;
#pragma unroll
    for (int j = 0; j < kUnit; ++j) sum.values[j] = a * first.values[j] + b * second.values[j];
    return sum;
  });
}

template <typename T, int kUnit>
__global__ void __launch_bounds__(kBlockThreads)
    relu_dropout_backward_kernel(Walk walk, std::int64_t down, std::int64_t rows, Rows<const T> y,
                                 Rows<const T> dy, float scale, Rows<T> dx) {
  using Values = Packed<float, kUnit>;
  write_pairs<kUnit>(walk, down, rows, y, dy, dx,
                     [=](const Values& output, const Values& gradient) {
                       return activation_gradient(output, gradient, scale);
                     });
}

template <typename T, int kUnit>
__global__ void __launch_bounds__(kBlockThreads)
    gather_kernel(Walk walk, std::int64_t down, std::int64_t rows, Rows<const T> x,
                  const LocalId* ids, const float* scale, Rows<T> y) {
  const Place place = place_of(walk, blockIdx.x, threadIdx.x);
  if (!place.inside) return;
  const std::int64_t step = down * walk.rows;
  for (std::int64_t first = place.block * walk.rows + place.row; first < rows;
       first += kBatch * step) {
    // All ids of the batch before all its rows: a row can't be asked for without its id.
    std::int64_t source[kBatch];
    Packed<T, kUnit> values[kBatch];
    float factor[kBatch];
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const std::int64_t k = first + b * step;
      source[b] = static_cast<std::int64_t>(ids[k < rows ? k : first]);
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      values[b] = load<kUnit>(x.at(source[b], place.col));
      factor[b] = scale != nullptr ? scale[source[b]] : 1.0F;
    }
#pragma unroll
    for (int b = 0; b < kBatch; ++b) {
      const std::int64_t k = first + b * step;
      if (k >= rows) break;
      Packed<float, kUnit> wide = widen(values[b]);
#pragma unroll
      for (int j = 0; j < kUnit; ++j) wide.values[j] *= factor[b];
      store_some(y.at(k, place.col), wide, walk.cols - place.col);
    }
  }
}

// Threads whose units lie in one group of columns share its random blocks: each draws for another
// row of the batch.
template <typename From, typename To, int kUnit, bool kAffine>
__global__ void __launch_bounds__(kBlockThreads)
    epilogue_kernel(Walk walk, std::int64_t down, std::int64_t rows, Rows<const From> x,
                    EpilogueArgs args, Rows<To> y) {
  constexpr int kSharers = kDropoutGroup / kUnit;
  constexpr int kRows = kSharers > kBatch ? kSharers : kBatch;
  const Place place = place_of(walk, blockIdx.x, threadIdx.x);
  const int sharer = static_cast<int>(threadIdx.x) % kSharers;
  ColumnFactors factors[kUnit];
  if (kAffine && place.inside) load_factors(args, place.col, walk.cols, factors);
  const RandomKey key = args.drops() ? args.key_now() : args.key;
  const std::int64_t step = down * walk.rows;
  // The same turns for all threads of a block, because sharers meet in every one.
  for (std::int64_t base = place.block * walk.rows; base < rows; base += kRows * step) {
    const std::int64_t first = base + place.row;
    Packed<From, kUnit> held[kRows];
#pragma unroll
    for (int b = 0; b < kRows; ++b) {
      if (place.inside && first + b * step < rows) {
        held[b] = load<kUnit>(x.at(first + b * step, place.col));
      }
    }
    unsigned drawn[kRows / kSharers];
    if (args.drops()) {
#pragma unroll
      for (int m = 0; m < kRows / kSharers; ++m) {
        const std::int64_t i = first + (m * kSharers + sharer) * step;
        drawn[m] = place.row < walk.rows && i < rows
                       ? dropout_bits(args, key, i, place.col / kDropoutGroup)
                       : 0;
      }
    }
#pragma unroll
    for (int b = 0; b < kRows; ++b) {
      unsigned kept = ~0U;
      if (args.drops()) {
        kept = drawn[b / kSharers];
        if constexpr (kSharers > 1) kept = __shfl_sync(kFullWarp, kept, b % kSharers, kSharers);
        kept >>= static_cast<unsigned>(place.col % kDropoutGroup);
      }
      if (!place.inside || first + b * step >= rows) continue;
      Packed<float, kUnit> values = widen(held[b]);
      apply_epilogue<kAffine>(args, factors, kept, values);
      store_some(y.at(first + b * step, place.col), values, walk.cols - place.col);
    }
  }
}

// --- contiguous matrices ------------------------------------------------------------------------

// A piece of several equally shaped matrices.
class Part {
 public:
  static Part whole() { return Part(0, 0, 0); }
  static Part stretch(std::int64_t first, std::int64_t rows, std::int64_t cols) {
    return Part(first, rows, cols);
  }

  template <typename Void>
  BasicMatrixView<Void> of(BasicMatrixView<Void> view) const {
    if (rows_ == 0) return view;
    using Byte = std::conditional_t<std::is_const_v<Void>, const std::byte, std::byte>;
    return {static_cast<Byte*>(view.data) + first_ * bytes_of(view.dtype), rows_, cols_, cols_,
            view.dtype};
  }

 private:
  Part(std::int64_t first, std::int64_t rows, std::int64_t cols)
      : first_(first), rows_(rows), cols_(cols) {}
  std::int64_t first_;
  std::int64_t rows_;
  std::int64_t cols_;
};

bool gapless(std::initializer_list<ConstMatrixView> views) {
  for (const ConstMatrixView view : views) {
    if (view.rows > 1 && view.stride != view.cols) return false;
  }
  return true;
}

// Calls body with the parts to work on. Where rows of an odd length keep `unit` elements from one
// access, matrices without gaps are cut into rows of another length and a rest.
template <typename Body>
void for_parts(std::initializer_list<ConstMatrixView> views, int unit, const Body& body) {
  constexpr std::int64_t kCols = 4096;
  const ConstMatrixView shape = *views.begin();
  if (fits_padded(unit, views) || !gapless(views)) return body(Part::whole());
  const std::int64_t count = shape.rows * shape.cols;
  const std::int64_t rows = count / kCols;
  const std::int64_t rest = count % kCols;
  if (rows > 0) body(Part::stretch(0, rows, kCols));
  if (rest > 0) body(Part::stretch(count - rest, 1, rest));
}

}  // namespace

// --- operations ---------------------------------------------------------------------------------

void fill_zero(const Launch& where, MatrixView y) {
  const auto bytes = static_cast<std::size_t>(y.cols * bytes_of(y.dtype));
  const auto pitch = static_cast<std::size_t>(y.stride * bytes_of(y.dtype));
  if (gapless({y})) {
    check(cudaMemsetAsync(y.data, 0, bytes * static_cast<std::size_t>(y.rows), where.stream),
          "cudaMemsetAsync");
  } else if (pitch <= static_cast<std::size_t>(std::numeric_limits<std::int32_t>::max())) {
    check(
        cudaMemset2DAsync(y.data, pitch, 0, bytes, static_cast<std::size_t>(y.rows), where.stream),
        "cudaMemset2DAsync");
  } else {  // more than the largest pitch
    for (std::int64_t i = 0; i < y.rows; ++i) fill_zero(where, y.rows_in({i, i + 1}));
  }
}

void convert(const Launch& where, ConstMatrixView x, MatrixView y) {
  with_element_type(x.dtype, [&]<typename From>(From) {
    with_element_type(y.dtype, [&]<typename To>(To) {
      using Wide = std::conditional_t<std::is_same_v<From, To>, From, float>;
      for_parts({x, y}, kVector<Wide>, [&](const Part& part) {
        const ConstMatrixView from = part.of(x);
        const MatrixView to = part.of(y);
        with_padded_unit<Wide>({from, to}, [&](auto unit) {
          const Grid grid = make_grid(where, from.rows, from.cols, unit);
          launch(where, grid.blocks(), grid.walk.threads(), convert_kernel<From, To, unit>,
                 grid.walk, grid.down, from.rows, rows_of<From>(from), rows_of<To>(to));
        });
      });
    });
  });
}

void combine(const Launch& where, float a, ConstMatrixView x, float b, ConstMatrixView z,
             MatrixView y) {
  with_element_type(x.dtype, [&]<typename T>(T) {
    for_parts({x, z, y}, kVector<T>, [&](const Part& part) {
      const ConstMatrixView first = part.of(x);
      const ConstMatrixView second = part.of(z);
      const MatrixView to = part.of(y);
      with_padded_unit<T>({first, second, to}, [&](auto unit) {
        const Grid grid = make_grid(where, first.rows, first.cols, unit);
        launch(where, grid.blocks(), grid.walk.threads(), combine_kernel<T, unit>, grid.walk,
               grid.down, first.rows, a, rows_of<T>(first), b, rows_of<T>(second), rows_of<T>(to));
      });
    });
  });
}

void relu_dropout_backward(const Launch& where, ConstMatrixView dy,
                           const ActivationGradient& activation) {
  with_element_type(dy.dtype, [&]<typename T>(T) {
    for_parts({activation.y, dy, activation.dx}, kVector<T>, [&](const Part& part) {
      const ConstMatrixView output = part.of(activation.y);
      const ConstMatrixView gradient = part.of(dy);
      const MatrixView to = part.of(activation.dx);
      with_padded_unit<T>({output, gradient, to}, [&](auto unit) {
        const Grid grid = make_grid(where, output.rows, output.cols, unit);
        launch(where, grid.blocks(), grid.walk.threads(), relu_dropout_backward_kernel<T, unit>,
               grid.walk, grid.down, output.rows, rows_of<T>(output), rows_of<T>(gradient),
               activation.dropout_scale, rows_of<T>(to));
      });
    });
  });
}

void gather_rows(const Launch& where, ConstMatrixView x, std::span<const LocalId> rows,
                 std::span<const float> scale, MatrixView y) {
  const float* factors = scale.empty() ? nullptr : scale.data();
  with_element_type(x.dtype, [&]<typename T>(T) {
    with_padded_unit<T>({x, y}, [&](auto unit) {
      const Grid grid = make_grid(where, y.rows, y.cols, unit);
      launch(where, grid.blocks(), grid.walk.threads(), gather_kernel<T, unit>, grid.walk,
             grid.down, y.rows, rows_of<T>(x), rows.data(), factors, rows_of<T>(y));
    });
  });
}

void apply_epilogue(const Launch& where, ConstMatrixView x, const Epilogue& epilogue,
                    MatrixView y) {
  const EpilogueArgs args = epilogue_args(epilogue);
  with_element_type(x.dtype, [&]<typename From>(From) {
    with_element_type(y.dtype, [&]<typename To>(To) {
      if constexpr (std::is_same_v<From, To> || std::is_same_v<From, float>) {
        with_padded_unit<From>({x, y}, [&](auto unit) {
          constexpr int kSharers = kDropoutGroup / unit;
          const Grid grid =
              make_grid(where, x.rows, x.cols, unit, kSharers, std::max(kBatch, kSharers));
          launch(where, grid.blocks(), grid.walk.threads(),
                 args.affine() ? epilogue_kernel<From, To, unit, true>
                               : epilogue_kernel<From, To, unit, false>,
                 grid.walk, grid.down, x.rows, rows_of<From>(x), args, rows_of<To>(y));
        });
      } else {
        ATOLL_ASSERT(false, "an epilogue to a wider type");
      }
    });
  });
}

}  // namespace atl::cuda
