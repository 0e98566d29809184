#include "engine/placement/policy/edge_attention.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace atl {

namespace {

constexpr double kLeak = 0.2;  // slope of leaky_relu below 0 (GATv2)

// Shares of the edges [first, last) of one head from their scores.
template <typename T>
void softmax_over_edges(std::int64_t first, std::int64_t last, std::int64_t head,
                        MatrixView shares) {
  T most = shares.row<T>(first)[head];
  for (std::int64_t e = first; e < last; ++e) most = std::max(most, shares.row<T>(e)[head]);
  T sum = 0;
  for (std::int64_t e = first; e < last; ++e) {
    T& share = shares.row<T>(e)[head];
    share = std::exp(share - most);
    sum += share;
  }
  for (std::int64_t e = first; e < last; ++e) shares.row<T>(e)[head] /= sum;
}

}  // namespace

void attend(std::span<const std::int64_t> begin, ConstMatrixView messages, ConstMatrixView targets,
            ConstMatrixView attention, MatrixView shares, MatrixView updates) {
  const std::int64_t heads = shares.cols, columns = messages.cols / heads;
  for_type(messages.dtype, [&]<typename T>(T) {
    const T leak = static_cast<T>(kLeak);
    const T* a = attention.row<T>(0);
    for (std::int64_t i = 0; i < targets.rows; ++i) {
      const std::int64_t first = begin[i], last = begin[i + 1];
      T* update = updates.row<T>(i);
      std::fill_n(update, updates.cols, T{0});
      if (first == last) continue;
      const T* t = targets.row<T>(i);
      for (std::int64_t e = first; e < last; ++e) {
        const T* z = messages.row<T>(e);
        for (std::int64_t k = 0; k < heads; ++k) {
          T score = 0;
          for (std::int64_t c = k * columns; c < (k + 1) * columns; ++c) {
            const T u = z[c] + t[c];
            score += a[c] * (u > 0 ? u : leak * u);
          }
          shares.row<T>(e)[k] = score;
        }
      }
      for (std::int64_t k = 0; k < heads; ++k) softmax_over_edges<T>(first, last, k, shares);
      for (std::int64_t e = first; e < last; ++e) {
        const T* z = messages.row<T>(e);
        for (std::int64_t k = 0; k < heads; ++k) {
          const T share = shares.row<T>(e)[k];
          for (std::int64_t c = k * columns; c < (k + 1) * columns; ++c) update[c] += share * z[c];
        }
      }
    }
  });
}

void attend_backward(std::span<const std::int64_t> begin, ConstMatrixView messages,
                     ConstMatrixView targets, ConstMatrixView attention, ConstMatrixView shares,
                     ConstMatrixView dupdates, MatrixView dmessages, MatrixView dtargets,
                     MatrixView dattention) {
  const std::int64_t heads = shares.cols, columns = messages.cols / heads;
  for_type(messages.dtype, [&]<typename T>(T) {
    const T leak = static_cast<T>(kLeak);
    const T* a = attention.row<T>(0);
    T* da = dattention.row<T>(0);
    std::vector<T> mean(static_cast<std::size_t>(heads));
    std::vector<T> dshare(static_cast<std::size_t>(heads));
    for (std::int64_t i = 0; i < targets.rows; ++i) {
      const T* t = targets.row<T>(i);
      const T* du = dupdates.row<T>(i);
      T* dt = dtargets.row<T>(i);
      const auto share_gradients = [&](std::int64_t e) {
        std::ranges::fill(dshare, T{0});
        for (std::int64_t c = 0; c < messages.cols; ++c) {
          dshare[static_cast<std::size_t>(c / columns)] += du[c] * messages.row<T>(e)[c];
        }
      };
      // Softmax: d score = share * (d share - sum over edges of share * d share).
      std::ranges::fill(mean, T{0});
      for (std::int64_t e = begin[i]; e < begin[i + 1]; ++e) {
        share_gradients(e);
        for (std::size_t k = 0; k < mean.size(); ++k) mean[k] += shares.row<T>(e)[k] * dshare[k];
      }
      for (std::int64_t e = begin[i]; e < begin[i + 1]; ++e) {
        share_gradients(e);
        const T* z = messages.row<T>(e);
        T* dz = dmessages.row<T>(e);
        for (std::int64_t c = 0; c < messages.cols; ++c) {
          const std::int64_t k = c / columns;
          const T share = shares.row<T>(e)[k];
          const T dscore =
              share * (dshare[static_cast<std::size_t>(k)] - mean[static_cast<std::size_t>(k)]);
          const T u = z[c] + t[c];
          const T through = dscore * a[c] * (u > 0 ? T{1} : leak);
          dz[c] = share * du[c] + through;
          dt[c] += through;
          da[c] += dscore * (u > 0 ? u : leak * u);
        }
      }
    }
  });
}

void scatter_add(ConstMatrixView x, std::span<const LocalId> rows, MatrixView y) {
  for_type(x.dtype, [&]<typename T>(T) {
    for (std::int64_t e = 0; e < x.rows; ++e) {
      const T* from = x.row<T>(e);
      T* to = y.row<T>(to_index(rows[static_cast<std::size_t>(e)]));
      for (std::int64_t c = 0; c < x.cols; ++c) to[c] += from[c];
    }
  });
}

}  // namespace atl
