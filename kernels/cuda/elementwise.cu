// Operations element by element: zero, conversion, gathered rows, one matrix of several, the
// epilogue and its gradient.
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/gradient_rows.cuh"
#include "kernels/cuda/launch.hpp"
#include "kernels/cuda/launchers.hpp"
#include "kernels/cuda/walk.cuh"
#include "kernels/operations/dense.hpp"
#include "kernels/operations/wire.hpp"

namespace atl::cuda {

namespace {

constexpr int kBatch = 4;  // rows under way per thread

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

template <typename T, int kUnit>
__global__ void __launch_bounds__(kBlockThreads)
    zero_kernel(Walk walk, std::int64_t down, std::int64_t rows, Rows<T> y) {
  const Place place = place_of(walk, blockIdx.x, threadIdx.x);
  for_rows<kBatch>(
      walk, place, down, rows, [](std::int64_t i) { return i; },
      [&](std::int64_t i, std::int64_t) {
        store_some(y.at(i, place.col), Packed<float, kUnit>{}, walk.cols - place.col);
      });
}

template <typename T, int kCount>
struct Inputs {
  Rows<const T> of[kCount];
};

// y = f(inputs), element by element in f32; y may be one of them. f.prepare() comes first.
template <typename T, int kUnit, int kInputs, typename Function>
__global__ void __launch_bounds__(kBlockThreads)
    write_kernel(Walk walk, std::int64_t down, std::int64_t rows, Inputs<T, kInputs> inputs,
                 Function f, Rows<T> y) {
  struct Held {
    Packed<T, kUnit> of[kInputs];
  };
  const Place place = place_of(walk, blockIdx.x, threadIdx.x);
  f.prepare();
  for_rows<kBatch>(
      walk, place, down, rows,
      [&](std::int64_t i) {
        Held held;
#pragma unroll
        for (int n = 0; n < kInputs; ++n) held.of[n] = load<kUnit>(inputs.of[n].at(i, place.col));
        return held;
      },
      [&](std::int64_t i, const Held& held) {
        Packed<float, kUnit> wide[kInputs];
#pragma unroll
        for (int n = 0; n < kInputs; ++n) wide[n] = widen(held.of[n]);
        Packed<float, kUnit> made;
#pragma unroll
        for (int k = 0; k < kUnit; ++k) {
          float values[kInputs];
#pragma unroll
          for (int n = 0; n < kInputs; ++n) values[n] = wide[n].values[k];
          made.values[k] = f(values);
        }
        store_some(y.at(i, place.col), made, walk.cols - place.col);
      });
}

struct NoPreparation {
  __device__ void prepare() {}
};

struct Combination : NoPreparation {
  float a;
  float b;
  __device__ float operator()(const float (&values)[2]) const {
    return a * values[0] + b * values[1];
  }
};

struct Scaling {
  const float* factor;
  float e;
  __device__ void prepare() { e = *factor; }
  __device__ float operator()(const float (&values)[1]) const { return e * values[0]; }
};

struct Maximum : NoPreparation {
  __device__ float operator()(const float (&values)[2]) const {
    const bool takes_second = values[1] > values[0] || values[1] != values[1];
    return takes_second ? values[1] : values[0];
  }
};

struct MaximumGradient : NoPreparation {
  bool of_second;
  __device__ float operator()(const float (&values)[3]) const {
    return (values[1] >= values[2]) != of_second ? values[0] : 0.0F;
  }
};

struct ReluGradient : NoPreparation {
  float scale;
  __device__ float operator()(const float (&values)[2]) const {
    return relu_gradient(values[0], values[1], scale);
  }
};

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

// dy times f' for another function than relu.
template <typename T, int kElements>
struct SlopedRows : RowPairs<T, kElements> {
  using Held = typename RowPairs<T, kElements>::Held;
  static constexpr int kUnit = kElements;
  ActivationFunction function;
  float unscaled;

  __device__ Packed<float, kUnit> take(std::int64_t, std::int64_t, const Held& held) const {
    const Packed<float, kUnit> at = widen(held.first);
    Packed<float, kUnit> gradient = widen(held.second);
#pragma unroll
    for (int k = 0; k < kUnit; ++k) {
      gradient.values[k] *= curved_slope(function, at.values[k], unscaled);
    }
    return gradient;
  }
};

// y = epilogue(x); Terms, as of sums, say how x is read. Threads whose units lie in one group of
// columns share its random blocks: each draws for another
// row of the batch.
template <typename Terms, typename To, bool kAffine, bool kCurved>
__global__ void __launch_bounds__(kBlockThreads)
    epilogue_kernel(Walk walk, std::int64_t down, std::int64_t rows, Terms x, EpilogueArgs args,
                    Rows<To> y) {
  constexpr int kUnit = Terms::kUnit;
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
    typename Terms::Held held[kRows];
#pragma unroll
    for (int b = 0; b < kRows; ++b) {
      if (place.inside && first + b * step < rows) {
        held[b] = x.load(first + b * step, place.col);
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
      Packed<float, kUnit> values = x.take(first + b * step, place.col, held[b]);
      apply_epilogue<kAffine, kCurved>(args, factors, kept, values);
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

// y = f(inputs), all of one shape and type.
template <typename Function, typename... Views>
void write_matrix(const Launch& where, const Function& f, MatrixView y, const Views&... inputs) {
  constexpr int kInputs = sizeof...(inputs);
  with_element(y.dtype, [&]<typename T>(T) {
    for_parts({ConstMatrixView(inputs)..., y}, kVector<T>, [&](const Part& part) {
      const MatrixView to = part.of(y);
      with_padded_unit<T>({part.of(ConstMatrixView(inputs))..., to}, [&](auto unit) {
        const Inputs<T, kInputs> from{{rows_of<T>(part.of(ConstMatrixView(inputs)))...}};
        launch(where, make_grid(where, to.rows, to.cols, unit, kBatch),
               write_kernel<T, unit, kInputs, Function>, to.rows, from, f, rows_of<T>(to));
      });
    });
  });
}

template <bool kAffine, bool kCurved, typename Terms, typename To>
void launch_epilogue(const Launch& where, const Terms& x, const EpilogueArgs& args, Rows<To> y,
                     std::int64_t rows, std::int64_t cols) {
  constexpr int kSharers = kDropoutGroup / Terms::kUnit;
  launch(where, make_grid(where, rows, cols, Terms::kUnit, std::max(kBatch, kSharers), kSharers),
         epilogue_kernel<Terms, To, kAffine, kCurved>, rows, x, args, y);
}

}  // namespace

// --- operations ---------------------------------------------------------------------------------

void fill_zero(const Launch& where, MatrixView y) {
  if (gapless({y})) {
    const std::int64_t bytes = y.rows * y.cols * bytes_of(y.dtype);
    check(cudaMemsetAsync(y.data, 0, static_cast<std::size_t>(bytes), where.stream),
          "cudaMemsetAsync");
    return;
  }
  if (y.dtype == DType::kF64) {
    return fill_zero(where, {y.data, y.rows, 2 * y.cols, 2 * y.stride, DType::kF32});
  }
  // Not cudaMemset2DAsync, which takes ten times as long where rows have a gap of one element.
  with_element(y.dtype, [&]<typename T>(T) {
    for_parts({y}, kVector<T>, [&](const Part& part) {
      const MatrixView to = part.of(y);
      with_padded_unit<T>({to}, [&](auto unit) {
        launch(where, make_grid(where, to.rows, to.cols, unit, kBatch), zero_kernel<T, unit>,
               to.rows, rows_of<T>(to));
      });
    });
  });
}

void kernel(CudaBackend& backend, Queue& queue, const kernels::FillZero& call) {
  fill_zero(launch_of(backend, queue), call.y);
}

void convert(const Launch& where, ConstMatrixView x, MatrixView y) {
  with_element(x.dtype, [&]<typename From>(From) {
    with_element(y.dtype, [&]<typename To>(To) {
      using Wide = std::conditional_t<std::is_same_v<From, To>, From, float>;
      for_parts({x, y}, kVector<Wide>, [&](const Part& part) {
        const ConstMatrixView from = part.of(x);
        const MatrixView to = part.of(y);
        with_padded_unit<Wide>({from, to}, [&](auto unit) {
          launch(where, make_grid(where, from.rows, from.cols, unit, kBatch),
                 convert_kernel<From, To, unit>, from.rows, rows_of<From>(from), rows_of<To>(to));
        });
      });
    });
  });
}

void kernel(CudaBackend& backend, Queue& queue, const kernels::Convert& call) {
  convert(launch_of(backend, queue), call.x, call.y);
}

void kernel(CudaBackend& backend, Queue& queue, const kernels::Combine& call) {
  const auto& [a, x, b, z, y] = call;
  write_matrix(launch_of(backend, queue), Combination{{}, a, b}, y, x, z);
}

void kernel(CudaBackend& backend, Queue& queue, const kernels::Scale& call) {
  const auto& [x, factor, y] = call;
  write_matrix(launch_of(backend, queue), Scaling{static_cast<const float*>(factor.data), 1}, y, x);
}

void kernel(CudaBackend& backend, Queue& queue, const kernels::Maximum& call) {
  const auto& [x, z, y] = call;
  write_matrix(launch_of(backend, queue), Maximum{}, y, x, z);
}

void kernel(CudaBackend& backend, Queue& queue, const kernels::MaximumBackward& call) {
  const auto& [dy, x, z, of, dx] = call;
  write_matrix(launch_of(backend, queue), MaximumGradient{{}, of == MaximumOf::kSecond}, dx, dy, x,
               z);
}

void kernel(CudaBackend& backend, Queue& queue, const kernels::ActivationBackward& call) {
  const ConstMatrixView dy = call.dy;
  const auto& [from, dx, function, dropout] = call.activation;
  const Launch& where = launch_of(backend, queue);
  if (function == ActivationFunction::kRelu) {
    return write_matrix(where, ReluGradient{{}, dropout.rate.scale}, dx, from, dy);
  }
  Epilogue rest;
  rest.dropout = dropout;
  const EpilogueArgs args = epilogue_args(rest);
  with_element(dy.dtype, [&]<typename T>(T) {
    with_padded_unit<T>({from, dy, dx}, [&](auto unit) {
      const SlopedRows<T, unit> terms{
          {rows_of<T>(from), rows_of<T>(dy)}, function, 1 / args.dropout_scale};
      launch_epilogue<false, false>(where, terms, args, rows_of<T>(dx), dy.rows, dy.cols);
    });
  });
}

void kernel(CudaBackend& backend, Queue& queue, const kernels::GatherRows& call) {
  const auto& [x, rows, scale, y] = call;
  const Launch& where = launch_of(backend, queue);
  const float* factors = scale.empty() ? nullptr : scale.data();
  with_element(x.dtype, [&]<typename T>(T) {
    with_padded_unit<T>({x, y}, [&](auto unit) {
      launch(where, make_grid(where, y.rows, y.cols, unit, kBatch), gather_kernel<T, unit>, y.rows,
             rows_of<T>(x), rows.data(), factors, rows_of<T>(y));
    });
  });
}

void apply_epilogue(const Launch& where, ConstMatrixView x, const Epilogue& epilogue,
                    MatrixView y) {
  const EpilogueArgs args = epilogue_args(epilogue);
  with_element(x.dtype, [&]<typename From>(From) {
    with_element(y.dtype, [&]<typename To>(To) {
      if constexpr (std::is_same_v<From, To> || std::is_same_v<From, float>) {
        with_padded_unit<From>({x, y}, [&](auto unit) {
          using Terms = StoredRows<From, unit>;
          const auto run = !args.curved()  ? args.affine() ? launch_epilogue<true, false, Terms, To>
                                                           : launch_epilogue<false, false, Terms, To>
                            : args.affine() ? launch_epilogue<true, true, Terms, To>
                                           : launch_epilogue<false, true, Terms, To>;
          run(where, Terms{rows_of<From>(x)}, args, rows_of<To>(y), x.rows, x.cols);
        });
      } else {
        ATOLL_ASSERT(false, "an epilogue to a wider type");
      }
    });
  });
}

void kernel(CudaBackend& backend, Queue& queue, const kernels::ApplyEpilogue& call) {
  apply_epilogue(launch_of(backend, queue), call.x, call.epilogue, call.y);
}

}  // namespace atl::cuda
