#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/parallel.hpp"
#include "base/progress.hpp"
#include "datasets/edge_sampler.hpp"
#include "datasets/made_features.hpp"
#include "datasets/normals.hpp"

namespace atl {

namespace {

constexpr int kRounds = 30;
constexpr double kResidual = 1e-7;
constexpr std::int64_t kChunks = 64;  // of sums, whatever the number of threads

// A small symmetric matrix, [size, size].
using Small = std::vector<double>;

// Cyclic Jacobi: `matrix` becomes diagonal; the columns of the result are its eigenvectors.
Small eigenvectors(Small& matrix, std::int64_t size) {
  Small vectors(matrix.size(), 0.0);
  for (std::int64_t i = 0; i < size; ++i) vectors[i * size + i] = 1;
  const auto rotate = [&](double& a, double& b, double c, double s) {
    const double old = a;
    a = c * old - s * b;
    b = s * old + c * b;
  };
  for (int sweep = 0; sweep < 60; ++sweep) {
    double off = 0;
    double all = 0;
    for (std::int64_t i = 0; i < size; ++i) {
      for (std::int64_t j = 0; j < size; ++j) {
        const double square = matrix[i * size + j] * matrix[i * size + j];
        all += square;
        if (i != j) off += square;
      }
    }
    if (off <= 1e-30 * all) break;
    for (std::int64_t p = 0; p < size; ++p) {
      for (std::int64_t q = p + 1; q < size; ++q) {
        const double apq = matrix[p * size + q];
        if (apq == 0) continue;
        const double theta = (matrix[q * size + q] - matrix[p * size + p]) / (2 * apq);
        const double t = (theta >= 0 ? 1 : -1) / (std::abs(theta) + std::sqrt(theta * theta + 1));
        const double c = 1 / std::sqrt(t * t + 1);
        const double s = t * c;
        for (std::int64_t k = 0; k < size; ++k) {
          rotate(matrix[k * size + p], matrix[k * size + q], c, s);
        }
        for (std::int64_t k = 0; k < size; ++k) {
          rotate(matrix[p * size + k], matrix[q * size + k], c, s);
        }
        for (std::int64_t k = 0; k < size; ++k) {
          rotate(vectors[k * size + p], vectors[k * size + q], c, s);
        }
      }
    }
  }
  return vectors;
}

// Blocks of vectors with a row per node, and what is done to them.
class Eigenvectors {
 public:
  Eigenvectors(const CsrView& graph, std::int64_t wanted, std::uint64_t seed)
      : graph_(graph), nodes_(graph.rows()), wanted_(wanted), seed_(seed) {
    find_components();
    const std::int64_t there = nodes_ - std::ssize(volume_);
    if (there < wanted) {
      fail_option(
          "--features positional:{}: the graph has {} nodes in {} components; allowed are up to {} "
          "columns",
          wanted, nodes_, volume_.size(), there);
    }
    columns_ = std::min(wanted + 8, there);
  }

  std::vector<double> run() {
    start();
    std::vector<double> values = turn();
    double residual = largest_residual(values);
    Activity activity("finding eigenvectors", kRounds);
    int round = 0;
    for (; round < kRounds && residual > kResidual; ++round) {
      activity.advance_to(round);
      filter(values.back());
      values = turn();
      residual = largest_residual(values);
    }
    if (residual > kResidual) {
      log::warn("features positional:{}: after {} rounds the residual is {:.1e}, above {:.0e}",
                wanted_, round, residual, kResidual);
    }
    return result();
  }

 private:
  void find_components() {
    component_.assign(static_cast<std::size_t>(nodes_), -1);
    root_.resize(component_.size());
    std::vector<std::int32_t> stack;
    for (std::int64_t i = 0; i < nodes_; ++i) {
      root_[i] = std::sqrt(static_cast<double>(graph_.row(i).size()));
      if (component_[i] >= 0) continue;
      const auto number = static_cast<std::int32_t>(volume_.size());
      double volume = 0;
      component_[i] = number;
      stack.push_back(static_cast<std::int32_t>(i));
      while (!stack.empty()) {
        const std::int32_t node = stack.back();
        stack.pop_back();
        volume += static_cast<double>(graph_.row(node).size());
        for (const std::int32_t other : graph_.row(node)) {
          if (component_[other] >= 0) continue;
          component_[other] = number;
          stack.push_back(other);
        }
      }
      volume_.push_back(volume);
    }
  }

  double* row(std::vector<double>& block, std::int64_t node) {
    return block.data() + node * columns_;
  }

  void start() {
    const auto elements = static_cast<std::size_t>(nodes_ * columns_);
    x_.assign(elements, 0);
    y_.assign(elements, 0);
    const RandomKey key = generator_key(seed_, GeneratorPurpose::kNodeFeatures);
    for (std::int64_t i = 0; i < nodes_; ++i) {
      for (std::int64_t j = 0; j < columns_; ++j) {
        x_[i * columns_ + j] = static_cast<double>(normals(random_block(
            key, static_cast<std::uint64_t>(i), static_cast<std::uint32_t>(j / 4)))[j % 4]);
      }
    }
  }

  // to = factor (M from - centre from) - old, M = D^-1/2 A D^-1/2; `old` may be `to`.
  void multiply(std::vector<double>& from, double factor, double centre, double old_factor,
                std::vector<double>& to) {
    parallel_pieces(nodes_, 256, [&](std::int64_t begin, std::int64_t end, int) {
      std::vector<double> sum(static_cast<std::size_t>(columns_));
      for (std::int64_t i = begin; i < end; ++i) {
        std::ranges::fill(sum, 0.0);
        for (const std::int32_t j : graph_.row(i)) {
          const double weight = 1 / (root_[i] * root_[j]);
          const double* const other = from.data() + std::int64_t{j} * columns_;
          for (std::int64_t k = 0; k < columns_; ++k) sum[k] += weight * other[k];
        }
        const double* const own = row(from, i);
        double* const result = row(to, i);
        for (std::int64_t k = 0; k < columns_; ++k) {
          result[k] = factor * (sum[k] - centre * own[k]) - old_factor * result[k];
        }
      }
    });
  }

  // Grows what belongs to eigenvalues above `cut` against the rest, which lies between -1 and it.
  void filter(double cut) {
    const double centre = (cut - 1) / 2;
    const double half = (cut + 1) / 2;
    if (half < 1e-6) return;
    // So that the vectors stay apart enough to be made orthogonal.
    const double growth = std::acosh((1 - centre) / half);
    const int degree = std::clamp(static_cast<int>(std::acosh(1e4) / growth), 1, 12);
    multiply(x_, 1 / half, centre, 0, y_);
    for (int k = 1; k < degree; ++k) {
      multiply(y_, 2 / half, centre, 1, x_);
      std::swap(x_, y_);
    }
    std::swap(x_, y_);
  }

  // Takes the eigenvectors of 0 out: one per component.
  void project() {
    std::vector<double> share(volume_.size() * static_cast<std::size_t>(columns_), 0.0);
    for (std::int64_t i = 0; i < nodes_; ++i) {
      double* const of = share.data() + component_[i] * columns_;
      for (std::int64_t k = 0; k < columns_; ++k) of[k] += root_[i] * row(x_, i)[k];
    }
    for (std::int64_t i = 0; i < nodes_; ++i) {
      const double volume = volume_[static_cast<std::size_t>(component_[i])];
      const double* const of = share.data() + component_[i] * columns_;
      for (std::int64_t k = 0; k < columns_; ++k) {
        double& value = row(x_, i)[k];
        value = volume == 0 ? 0 : value - root_[i] * of[k] / volume;
      }
    }
  }

  Small products(std::vector<double>& a, std::vector<double>& b) {
    const std::int64_t size = columns_ * columns_;
    std::vector<double> partial(static_cast<std::size_t>(kChunks * size), 0.0);
    parallel_for(kChunks, 1, [&](std::int64_t chunk) {
      double* const sums = partial.data() + chunk * size;
      for (std::int64_t i = nodes_ * chunk / kChunks; i < nodes_ * (chunk + 1) / kChunks; ++i) {
        for (std::int64_t p = 0; p < columns_; ++p) {
          const double value = row(a, i)[p];
          for (std::int64_t q = 0; q < columns_; ++q)
            sums[p * columns_ + q] += value * row(b, i)[q];
        }
      }
    });
    Small result(static_cast<std::size_t>(size), 0.0);
    for (std::int64_t chunk = 0; chunk < kChunks; ++chunk) {
      for (std::int64_t k = 0; k < size; ++k) result[k] += partial[chunk * size + k];
    }
    return result;
  }

  // block = block * matrix.
  void combine(std::vector<double>& block, const Small& matrix) {
    parallel_pieces(nodes_, 1024, [&](std::int64_t begin, std::int64_t end, int) {
      std::vector<double> sum(static_cast<std::size_t>(columns_));
      for (std::int64_t i = begin; i < end; ++i) {
        std::ranges::fill(sum, 0.0);
        for (std::int64_t p = 0; p < columns_; ++p) {
          const double value = row(block, i)[p];
          for (std::int64_t q = 0; q < columns_; ++q) sum[q] += value * matrix[p * columns_ + q];
        }
        std::ranges::copy(sum, row(block, i));
      }
    });
  }

  // By the eigenvectors of its own products, twice, so that rounding of the first time goes.
  void orthonormalise() {
    for (int time = 0; time < 2; ++time) {
      Small gram = products(x_, x_);
      Small turned = eigenvectors(gram, columns_);
      for (std::int64_t q = 0; q < columns_; ++q) {
        const double length = std::sqrt(std::max(gram[q * columns_ + q], 1e-300));
        for (std::int64_t p = 0; p < columns_; ++p) turned[p * columns_ + q] /= length;
      }
      combine(x_, turned);
    }
  }

  // x becomes the best approximations in the space that it spans, y what M makes of them; gives
  // their eigenvalues, largest first.
  std::vector<double> turn() {
    project();
    orthonormalise();
    multiply(x_, 1, 0, 0, y_);
    Small matrix = products(x_, y_);
    for (std::int64_t p = 0; p < columns_; ++p) {
      for (std::int64_t q = 0; q < p; ++q) {
        const double mean = (matrix[p * columns_ + q] + matrix[q * columns_ + p]) / 2;
        matrix[p * columns_ + q] = matrix[q * columns_ + p] = mean;
      }
    }
    const Small found = eigenvectors(matrix, columns_);
    std::vector<std::int64_t> order(static_cast<std::size_t>(columns_));
    std::iota(order.begin(), order.end(), 0);
    std::ranges::stable_sort(order, std::ranges::greater(),
                             [&](std::int64_t k) { return matrix[k * columns_ + k]; });
    Small sorted(found.size());
    std::vector<double> values;
    for (std::int64_t q = 0; q < columns_; ++q) {
      values.push_back(matrix[order[q] * columns_ + order[q]]);
      for (std::int64_t p = 0; p < columns_; ++p) {
        sorted[p * columns_ + q] = found[p * columns_ + order[q]];
      }
    }
    combine(x_, sorted);
    combine(y_, sorted);
    return values;
  }

  double largest_residual(const std::vector<double>& values) {
    std::vector<double> squares(static_cast<std::size_t>(wanted_), 0.0);
    for (std::int64_t i = 0; i < nodes_; ++i) {
      for (std::int64_t k = 0; k < wanted_; ++k) {
        const double difference =
            row(y_, i)[k] - values[static_cast<std::size_t>(k)] * row(x_, i)[k];
        squares[k] += difference * difference;
      }
    }
    return std::sqrt(*std::ranges::max_element(squares));
  }

  std::vector<double> result() {
    std::vector<double> made(static_cast<std::size_t>(nodes_ * wanted_));
    for (std::int64_t k = 0; k < wanted_; ++k) {
      double largest = 0;
      for (std::int64_t i = 0; i < nodes_; ++i) {
        // The first of the entries that rounding alone tells apart counts.
        if (std::abs(row(x_, i)[k]) > std::abs(largest) * (1 + 1e-6)) largest = row(x_, i)[k];
      }
      const double scale = std::sqrt(static_cast<double>(nodes_)) * (largest < 0 ? -1 : 1);
      for (std::int64_t i = 0; i < nodes_; ++i) made[i * wanted_ + k] = scale * row(x_, i)[k];
    }
    return made;
  }

  const CsrView& graph_;
  std::int64_t nodes_;
  std::int64_t wanted_;
  std::uint64_t seed_;
  std::int64_t columns_ = 0;
  std::vector<std::int32_t> component_;  // by node
  std::vector<double> volume_;           // by component: the sum of its degrees
  std::vector<double> root_;             // of the degree, by node
  std::vector<double> x_, y_;
};

}  // namespace

std::vector<double> positional_features(const CsrView& neighbours, std::int64_t columns,
                                        std::uint64_t seed) {
  return Eigenvectors(neighbours, columns, seed).run();
}

}  // namespace atl
