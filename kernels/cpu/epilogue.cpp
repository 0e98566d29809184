// What follows a convolution: normalisation, bias, activation, dropout in one pass; and its
// gradient.
#include <bit>
#include <cstring>

#include "kernels/cpu/cpu_backend.hpp"
#include "kernels/cpu/random_blocks.hpp"

namespace atl {

namespace {

static_assert(std::endian::native == std::endian::little,
              "half-words of a random block are read from memory low half first");

constexpr int kLanes = 16;                         // random blocks drawn at a time
constexpr std::int64_t kColsPerBlock = 8;          // half-words of one block
constexpr std::int64_t kColsPerTile = 8 * kLanes;  // columns of kLanes blocks

// y[j] = kept(j) ? y[j] * scale : 0 for one row.
ATOLL_INLINE inline void drop_row(const DropoutSpec& dropout, std::uint64_t row, std::int64_t cols,
                                  float* __restrict y) {
  const std::uint32_t threshold = dropout.rate.threshold;
  const float scale = dropout.rate.scale;
  std::uint32_t words[kColsPerTile / 2];
  std::uint16_t halves[kColsPerTile];
  for (std::int64_t tile = 0; tile < cols; tile += kColsPerTile) {
    const std::int64_t count = std::min(kColsPerTile, cols - tile);
    const auto first = static_cast<std::uint32_t>(tile / kColsPerBlock);
    if (count > 4 * kColsPerBlock) {
      draw_blocks<kLanes>(dropout.key, row, first, words);
    } else {
      draw_blocks<4>(dropout.key, row, first, words);
    }
    std::memcpy(halves, words, sizeof(halves));
    float* __restrict to = y + tile;
#pragma omp simd
    for (std::int64_t j = 0; j < count; ++j) {
      to[j] = halves[j] < threshold ? to[j] * scale : 0.0F;
    }
  }
}

ATOLL_INLINE inline void affine_row(const float* mean, const float* scale, const float* shift,
                                    bool relu, std::int64_t cols, const float* x, float* y) {
  // x may be y, element by element, so neither is restrict. NaN stays NaN.
  if (relu) {
#pragma omp simd
    for (std::int64_t j = 0; j < cols; ++j) {
      const float value = (x[j] - mean[j]) * scale[j] + shift[j];
      y[j] = value < 0.0F ? 0.0F : value;
    }
  } else {
#pragma omp simd
    for (std::int64_t j = 0; j < cols; ++j) y[j] = (x[j] - mean[j]) * scale[j] + shift[j];
  }
}

}  // namespace

CpuBackend::ColumnEpilogue CpuBackend::column_epilogue(const Epilogue& epilogue, std::int64_t cols,
                                                       std::span<float> memory) {
  float* mean = memory.data();
  float* scale = mean + cols;
  float* shift = scale + cols;
  for (std::int64_t j = 0; j < cols; ++j) {
    const bool normalised = !epilogue.mean.empty();
    const double gamma =
        epilogue.gamma.absent() ? 1 : static_cast<double>(epilogue.gamma.row<float>(0)[j]);
    mean[j] = normalised ? static_cast<float>(epilogue.mean[j]) : 0.0F;
    scale[j] = static_cast<float>(normalised ? epilogue.inv_std[j] * gamma : gamma);
    shift[j] = epilogue.beta.absent() ? 0.0F : epilogue.beta.row<float>(0)[j];
  }
  ColumnEpilogue result{mean, scale, shift, epilogue.relu, epilogue.dropout};
  if (result.dropout.active()) result.dropout.key = epilogue.dropout.key_now();
  return result;
}

void CpuBackend::apply_to_rows(const ColumnEpilogue& epilogue, RowRange range, ConstMatrixView x,
                               MatrixView y) const {
  const DropoutSpec& dropout = epilogue.dropout;
  run_vectorised(isa_, [&]() ATOLL_INLINE {
    for (std::int64_t i = range.begin; i < range.end; ++i) {
      float* to = y.row<float>(i);
      affine_row(epilogue.mean, epilogue.scale, epilogue.shift, epilogue.relu, x.cols,
                 x.row<float>(i), to);
      if (!dropout.active()) continue;
      drop_row(dropout, static_cast<std::uint64_t>(to_index(dropout.row_ids[i])), x.cols, to);
    }
  });
}

void CpuBackend::do_apply_epilogue(Queue&, ConstMatrixView x, const Epilogue& epilogue,
                                   MatrixView y) {
  const ColumnEpilogue columns =
      column_epilogue(epilogue, x.cols, scratch<float>(kColumnFactors * x.cols));
  for_chunks(x.rows, rows_per_chunk(x.cols),
             [&](RowRange range) { apply_to_rows(columns, range, x, y); });
}

void CpuBackend::do_relu_dropout_backward(Queue&, ConstMatrixView y, ConstMatrixView dy,
                                          float dropout_scale, MatrixView dx) {
  for_chunks(y.rows, rows_per_chunk(y.cols), [&](RowRange range) {
    run_vectorised(isa_, [&]() ATOLL_INLINE {
      for (std::int64_t i = range.begin; i < range.end; ++i) {
        const float* out = y.row<float>(i);
        const float* gradient = dy.row<float>(i);
        float* to = dx.row<float>(i);
        const float scale = dropout_scale;
#pragma omp simd
        for (std::int64_t j = 0; j < y.cols; ++j) {
          to[j] = out[j] != 0.0F ? scale * gradient[j] : 0.0F;
        }
      }
    });
  });
}

}  // namespace atl
