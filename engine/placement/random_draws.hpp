// Random numbers that are the same on every machine, by one seed.
#pragma once

#include <cmath>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace atl {

class RandomDraws {
 public:
  explicit RandomDraws(std::uint64_t seed) : random_(seed) {}

  double unit() { return static_cast<double>(random_() >> 11U) * 0x1p-53; }  // [0, 1)
  double uniform(double low, double high) { return low + (high - low) * unit(); }
  double log_uniform(double low, double high) { return low * std::pow(high / low, unit()); }
  int below(int n) { return static_cast<int>(unit() * n); }
  int between(double low, double high) {  // both included
    return static_cast<int>(low) + below(static_cast<int>(high) - static_cast<int>(low) + 1);
  }
  // An index, each as often as its share; they sum to 1.
  int by_share(const std::vector<double>& shares) {
    double left = unit();
    const int last = static_cast<int>(shares.size()) - 1;
    for (int k = 0; k < last; ++k) {
      left -= shares[static_cast<std::size_t>(k)];
      if (left < 0) return k;
    }
    return last;
  }
  template <typename T>
  void shuffle(std::vector<T>& values) {
    for (std::size_t k = values.size(); k > 1; --k) {
      std::swap(values[k - 1], values[static_cast<std::size_t>(below(static_cast<int>(k)))]);
    }
  }
  bool chance(double probability) { return unit() < probability; }
  // About normal, mean 0 and variance 1: a sum of twelve.
  double normal() {
    double sum = -6;
    for (int k = 0; k < 12; ++k) sum += unit();
    return sum;
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace atl
