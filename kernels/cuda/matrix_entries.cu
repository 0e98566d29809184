// Steps that make an explicit matrix of an operator, and that look at what it holds. What the
// toolkit's CUB does is left to it: these results are integers, the same in any order.
#include <thrust/iterator/counting_iterator.h>

#include <cub/device/device_reduce.cuh>
#include <cub/device/device_scan.cuh>

#include "kernels/cuda/elements.cuh"
#include "kernels/cuda/launch.hpp"
#include "kernels/cuda/launchers.hpp"
#include "kernels/cuda/walk.cuh"
#include "kernels/operator_pointers.hpp"

namespace atl::cuda {

namespace {

constexpr int kFillRows = kBlockThreads / 32;  // of a block, a warp each

__device__ inline float self_of(const OperatorPointers& op, std::int64_t row) {
  return op.self_weight != nullptr ? op.self_weight[row] : 0;
}

__global__ void __launch_bounds__(kBlockThreads)
    count_kernel(OperatorPointers op, std::int64_t first_row, std::int64_t rows,
                 std::int32_t* row_ptr) {
  const std::int64_t i = std::int64_t{blockIdx.x} * kBlockThreads + threadIdx.x;
  if (i > rows) return;
  if (i == 0) row_ptr[0] = 0;
  if (i == rows) return;
  const std::int64_t row = first_row + i;
  const std::int64_t edges = op.row_ptr[row + 1] - op.row_ptr[row];
  row_ptr[i + 1] = static_cast<std::int32_t>(edges) + (self_of(op, row) != 0 ? 1 : 0);
}

template <typename T>
__device__ T entry_value(const OperatorPointers& op, std::int64_t row, std::int32_t col,
                         float weight) {
  if constexpr (std::is_same_v<T, float>) {
    if (op.row_scale != nullptr) weight = op.row_scale[row] * weight;
    return op.col_scale != nullptr ? weight * op.col_scale[col] : weight;
  } else {
    return narrow<T>(Packed<float, 1>{{weight}}).values[0];
  }
}

template <typename T>
__global__ void __launch_bounds__(kBlockThreads)
    fill_kernel(OperatorPointers op, std::int64_t first_row, std::int64_t rows,
                const std::int32_t* row_ptr, std::int32_t* col_idx, T* values) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const std::int64_t i = std::int64_t{blockIdx.x} * kFillRows + threadIdx.x / 32;
  if (i >= rows) return;
  const std::int64_t row = first_row + i;
  const float self = self_of(op, row);
  std::int64_t at = row_ptr[i];
  if (self != 0) {
    if (lane == 0) {
      col_idx[at] = static_cast<std::int32_t>(row);
      values[at] = entry_value<T>(op, row, static_cast<std::int32_t>(row), self);
    }
    ++at;
  }
  const std::int64_t begin = op.row_ptr[row];
  const std::int64_t end = op.row_ptr[row + 1];
  for (std::int64_t e = begin + lane; e < end; e += 32) {
    const std::int32_t col = op.col_idx[e];
    col_idx[at + e - begin] = col;
    values[at + e - begin] =
        entry_value<T>(op, row, col, op.values != nullptr ? op.values[e] : 1.0F);
  }
}

// Calls CUB twice, as it wants: for the size of its scratch memory, then with the workspace.
template <typename Call>
void by_cub(const Launch& where, const char* name, const Call& call) {
  std::size_t bytes = 0;
  check(call(nullptr, bytes), name);
  ATOLL_ASSERT(bytes <= where.workspace.size(), "{} wants {} bytes of scratch", name, bytes);
  check(call(where.workspace.data(), bytes), name);
}

struct Sum {
  template <typename T>
  __host__ __device__ T operator()(T a, T b) const {
    return a + b;
  }
};

struct IsRounded {
  __host__ __device__ std::int64_t operator()(float value) const {
    return to_float(to_bf16(value)) == value ? 0 : 1;
  }
};

// The bits of an element and its place, mixed (the finalizer of MurmurHash3).
template <typename T>
struct Mixed {
  const T* data;
  std::int64_t cols;
  std::int64_t stride;

  __host__ __device__ std::uint64_t operator()(std::int64_t index) const {
    const std::int64_t at = index / cols * stride + index % cols;
    std::uint64_t x = static_cast<std::uint64_t>(index) << 32U;
    if constexpr (sizeof(T) == 4) {
      x ^= reinterpret_cast<const std::uint32_t*>(data)[at];
    } else {
      x ^= data[at].bits;
    }
    x ^= static_cast<std::uint64_t>(index) >> 32U;
    x = (x ^ (x >> 33U)) * 0xff51afd7ed558ccdU;
    x = (x ^ (x >> 33U)) * 0xc4ceb9fe1a85ec53U;
    return x ^ (x >> 33U);
  }
};

template <typename Input, typename Value, typename Of>
void sum_of(const Launch& where, Input input, std::int64_t count, const Of& of, Value* sum) {
  by_cub(where, "cub::DeviceReduce::TransformReduce", [&](void* scratch, std::size_t& bytes) {
    return cub::DeviceReduce::TransformReduce(scratch, bytes, input, sum, count, Sum{}, of,
                                              Value{0}, where.stream);
  });
}

}  // namespace

void count_entries(const Launch& where, const SparseOperator& op, RowRange range,
                   std::span<std::int32_t> row_ptr) {
  launch(where, ceil_divide(range.size() + 1, kBlockThreads), kBlockThreads, count_kernel,
         pointers_of(op), range.begin, range.size(), row_ptr.data());
  std::int32_t* const ends = row_ptr.data() + 1;
  by_cub(where, "cub::DeviceScan::InclusiveSum", [&](void* scratch, std::size_t& bytes) {
    return cub::DeviceScan::InclusiveSum(scratch, bytes, ends, ends, range.size(), where.stream);
  });
}

void fill_entries(const Launch& where, const SparseOperator& op, RowRange range, DType dtype,
                  const std::int32_t* row_ptr, std::int32_t* col_idx, void* values) {
  with_element(dtype, [&]<typename T>(T) {
    launch(where, ceil_divide(range.size(), kFillRows), kBlockThreads, fill_kernel<T>,
           pointers_of(op), range.begin, range.size(), row_ptr, col_idx, static_cast<T*>(values));
  });
}

void largest_column(const Launch& where, std::span<const std::int32_t> col_idx, std::int32_t* out) {
  by_cub(where, "cub::DeviceReduce::Max", [&](void* scratch, std::size_t& bytes) {
    return cub::DeviceReduce::Max(scratch, bytes, col_idx.data(), out,
                                  static_cast<std::int64_t>(col_idx.size()), where.stream);
  });
}

void count_rounded(const Launch& where, std::span<const float> values, std::int64_t* out) {
  sum_of(where, values.data(), static_cast<std::int64_t>(values.size()), IsRounded{}, out);
}

void fingerprint(const Launch& where, ConstMatrixView x, std::uint64_t* out) {
  with_element(x.dtype, [&]<typename T>(T) {
    sum_of(where, thrust::counting_iterator<std::int64_t>(0), x.rows * x.cols,
           Mixed<T>{static_cast<const T*>(x.data), x.cols, x.stride}, out);
  });
}

}  // namespace atl::cuda
