// SpMM: the sum of one row stays in registers, a tile of columns at a time, while rows of
// neighbours that come later are prefetched.
#include <algorithm>
#include <type_traits>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cpu/elements.hpp"
#include "kernels/cpu/row_prefetch.hpp"
#include "kernels/cpu/vectors.hpp"
#include "kernels/operator_pointers.hpp"

namespace atl {

namespace {

// x and what y held are of type T, sums are written as Out.
template <typename T, typename Out>
struct SpmmArguments : OperatorPointers {
  const T* x;
  std::int64_t x_stride;
  const T* before;  // what is added to, row i at i * before_stride; null: nothing
  std::int64_t before_stride;
  Out* out;  // row i at (i - out_first) * out_stride
  std::int64_t out_first;
  std::int64_t out_stride;
  std::int64_t cols;
  std::int64_t nnz;
};

// kCount units of row i: one after another from column `first`, but the last one from column
// `last`, so that a number of columns that units don't divide ends with two that overlap.
template <int kBytes, int kCount, bool kWeighted, typename T, typename Out>
ATOLL_INLINE inline void spmm_row(const SpmmArguments<T, Out>& a, std::int64_t i,
                                  std::int64_t first, std::int64_t last, const Prefetching& ahead) {
  using Columns = Unit<kBytes, T>;
  using Floats = typename Columns::Floats;
  constexpr int kEach = Columns::kRegisters;
  const auto column = [&](int k) ATOLL_INLINE {
    return k == kCount - 1 ? last : first + k * Columns::kColumns;
  };
  Floats sums[kCount * kEach];
#pragma GCC unroll 16
  for (int r = 0; r < kCount * kEach; ++r) sums[r] = Floats{};
  const auto add = [&](const T* x, float weight) ATOLL_INLINE {
#pragma GCC unroll 16
    for (int k = 0; k < kCount; ++k) {
      Floats part[kEach];
      Columns::load(x + column(k), part);
#pragma GCC unroll 2
      for (int r = 0; r < kEach; ++r) sums[k * kEach + r] += part[r] * weight;
    }
  };
  const auto source = [&](std::int64_t e) ATOLL_INLINE { return a.x + a.col_idx[e] * a.x_stride; };
  const auto weight_of = [&](std::int64_t e) ATOLL_INLINE {
    float weight = 1;
    if constexpr (kWeighted) {
      if (a.values != nullptr) weight = a.values[e];
      if (a.col_scale != nullptr) weight *= a.col_scale[a.col_idx[e]];
    }
    return weight;
  };
  const auto prefetch = [&](std::int64_t e) ATOLL_INLINE {
    const std::int64_t bytes =
        (last + Columns::kColumns - first) * static_cast<std::int64_t>(sizeof(T));
    atl::prefetch<2>(source(std::min(e + ahead.far, a.nnz - 1)) + first, bytes);
    atl::prefetch<3>(source(std::min(e + ahead.near, a.nnz - 1)) + first, bytes);
  };
  // Without self weight the row itself is not read: it may hold anything.
  if (const float self = a.self_weight == nullptr ? 0.0F : a.self_weight[i]; self != 0.0F) {
    add(a.x + i * a.x_stride, a.col_scale == nullptr ? self : self * a.col_scale[i]);
  }
  const std::int64_t end = a.row_ptr[i + 1];
  std::int64_t e = a.row_ptr[i];
  // Four at a time are added up among themselves first: fewer roundings of the whole sum.
  for (; e + 4 <= end; e += 4) {
    const T* x[4];
    float weights[4];
#pragma GCC unroll 4
    for (int n = 0; n < 4; ++n) {
      prefetch(e + n);
      x[n] = source(e + n);
      weights[n] = weight_of(e + n);
    }
#pragma GCC unroll 16
    for (int k = 0; k < kCount; ++k) {
      Floats parts[4][kEach];
#pragma GCC unroll 4
      for (int n = 0; n < 4; ++n) Columns::load(x[n] + column(k), parts[n]);
#pragma GCC unroll 2
      for (int r = 0; r < kEach; ++r) {
        if constexpr (kWeighted) {
#pragma GCC unroll 4
          for (int n = 0; n < 4; ++n) parts[n][r] *= weights[n];
        }
        sums[k * kEach + r] += (parts[0][r] + parts[1][r]) + (parts[2][r] + parts[3][r]);
      }
    }
  }
  for (; e < end; ++e) {
    prefetch(e);
    add(source(e), weight_of(e));
  }
  if (a.row_scale != nullptr) {
    const float scale = a.row_scale[i];
#pragma GCC unroll 16
    for (int r = 0; r < kCount * kEach; ++r) sums[r] *= scale;
  }
  // All are read before one is written: the last two may overlap.
  if (a.before != nullptr) add(a.before + i * a.before_stride, 1);
  Out* out = a.out + (i - a.out_first) * a.out_stride;
#pragma GCC unroll 16
  for (int k = 0; k < kCount; ++k) Columns::store(&sums[k * kEach], out + column(k));
}

template <int kBytes, int kCount, typename T, typename Out>
ATOLL_INLINE inline void spmm_tile(const SpmmArguments<T, Out>& a, RowRange rows,
                                   std::int64_t first, std::int64_t last) {
  const std::int64_t columns = last + Unit<kBytes, T>::kColumns - first;
  const Prefetching ahead = prefetching(columns * static_cast<std::int64_t>(sizeof(T)));
  if (a.values != nullptr || a.col_scale != nullptr) {
    for (std::int64_t i = rows.begin; i < rows.end; ++i) {
      spmm_row<kBytes, kCount, true>(a, i, first, last, ahead);
    }
  } else {
    for (std::int64_t i = rows.begin; i < rows.end; ++i) {
      spmm_row<kBytes, kCount, false>(a, i, first, last, ahead);
    }
  }
}

// Fewer columns than the smallest vector has: one sum at a time, in double.
template <typename T, typename Out>
ATOLL_INLINE inline void spmm_narrow(const SpmmArguments<T, Out>& a, RowRange rows) {
  for (std::int64_t i = rows.begin; i < rows.end; ++i) {
    for (std::int64_t j = 0; j < a.cols; ++j) {
      const auto column = [&](std::int64_t row) ATOLL_INLINE {
        const float factor = a.col_scale == nullptr ? 1.0F : a.col_scale[row];
        return static_cast<double>(factor * load(a.x + row * a.x_stride, j));
      };
      double sum = 0;
      if (a.self_weight != nullptr && a.self_weight[i] != 0.0F) {
        sum = static_cast<double>(a.self_weight[i]) * column(i);
      }
      for (std::int64_t e = a.row_ptr[i]; e < a.row_ptr[i + 1]; ++e) {
        const float weight = a.values == nullptr ? 1.0F : a.values[e];
        sum += static_cast<double>(weight) * column(a.col_idx[e]);
      }
      if (a.row_scale != nullptr) sum *= static_cast<double>(a.row_scale[i]);
      if (a.before != nullptr) {
        sum += static_cast<double>(load(a.before + i * a.before_stride, j));
      }
      store(a.out + (i - a.out_first) * a.out_stride, j, static_cast<float>(sum));
    }
  }
}

// Sums and what is added to them must fit the registers, 32 with AVX-512 and 16 else.
template <int kBytes, typename T>
constexpr int kMostUnits = (kBytes == 64 ? 16 : 8) / Unit<kBytes, T>::kRegisters;

// How many units the next tile has if `left` are left. A unit that overlaps the one before must
// share its tile, which reads what it adds to before it writes.
template <int kBytes, typename T>
int units_of_tile(std::int64_t left, bool overlap) {
  for (const int count : {16, 8, 4, 3, 2}) {
    if (count <= kMostUnits<kBytes, T> && count <= left && !(overlap && left - count == 1))
      return count;
  }
  return 1;
}

template <int kBytes, typename T, typename Out>
ATOLL_INLINE inline void spmm_rows(const SpmmArguments<T, Out>& a, RowRange rows) {
  constexpr std::int64_t kColumns = Unit<kBytes, T>::kColumns;
  if (a.cols < kColumns) {
    if constexpr (kBytes > 16) {
      return spmm_rows<kBytes / 2>(a, rows);
    } else {
      return spmm_narrow(a, rows);
    }
  }
  const bool overlap = a.cols % kColumns != 0;
  std::int64_t left = (a.cols + kColumns - 1) / kColumns;
  for (std::int64_t first = 0; left > 0;) {
    const int count = units_of_tile<kBytes, T>(left, overlap);
    left -= count;
    const std::int64_t last = left == 0 ? a.cols - kColumns : first + (count - 1) * kColumns;
    switch (count) {
      case 16:
        if constexpr (kMostUnits<kBytes, T> >= 16) spmm_tile<kBytes, 16>(a, rows, first, last);
        break;
      case 8:
        if constexpr (kMostUnits<kBytes, T> >= 8) spmm_tile<kBytes, 8>(a, rows, first, last);
        break;
      case 4:
        spmm_tile<kBytes, 4>(a, rows, first, last);
        break;
      case 3:
        spmm_tile<kBytes, 3>(a, rows, first, last);
        break;
      case 2:
        spmm_tile<kBytes, 2>(a, rows, first, last);
        break;
      default:
        spmm_tile<kBytes, 1>(a, rows, first, last);
    }
    first += count * kColumns;
  }
}

}  // namespace

void kernel(CpuBackend& backend, Queue&, const kernels::Spmm& call) {
  const auto& [op, rows, x, beta, y, epilogue] = call;
  backend.sum_over_edges(
      op.row_ptr, rows, y, epilogue, {}, [](float*) {},
      [&]<typename T, typename Out>(T, RowRange range, Out* out, std::int64_t out_first,
                                    std::int64_t out_stride, float*) {
        const SpmmArguments<T, Out> arguments{
            pointers_of(op), x.row<T>(0),
            x.stride,        beta == 0 ? nullptr : y.row<T>(0),
            y.stride,        out,
            out_first,       out_stride,
            x.cols,          static_cast<std::int64_t>(op.col_idx.size())};
        run_with_vectors(backend.isa(),
                         [&]<int kBytes>() ATOLL_INLINE { spmm_rows<kBytes>(arguments, range); });
      });
}

}  // namespace atl
