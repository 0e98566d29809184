#include "datasets/degree_tail.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>

namespace atl {

namespace {

struct Ranked {
  double rank;
  double degree;
};

// ogbn-arxiv, made undirected: 160 nodes of more than 512 neighbours, which have 9 % of all ends.
constexpr Ranked kArxiv[] = {{1, 13161}, {2, 12546}, {3, 9257},  {4, 4784},  {5, 4255},
                             {10, 3427}, {20, 2034}, {50, 1055}, {100, 731}, {161, 512}};
constexpr std::string_view kArxivName = "ogbn-arxiv";

double degree_at(double rank) {
  const auto* const above =
      std::upper_bound(std::begin(kArxiv), std::end(kArxiv), rank,
                       [](double wanted, const Ranked& known) { return wanted < known.rank; });
  if (above == std::begin(kArxiv)) return kArxiv[0].degree;
  if (above == std::end(kArxiv)) return kHubDegree;
  const Ranked& low = above[-1];
  const double share = std::log(rank / low.rank) / std::log(above->rank / low.rank);
  return low.degree * std::pow(above->degree / low.degree, share);
}

}  // namespace

std::vector<std::int64_t> hub_degrees(std::string_view name, double scale) {
  std::vector<std::int64_t> degrees;
  if (name != kArxivName) return degrees;
  for (double k = 1;; ++k) {
    const auto degree = std::llround(degree_at(k / scale));
    if (degree <= kHubDegree) return degrees;
    degrees.push_back(degree);
  }
}

std::vector<std::string_view> sets_with_hub_degrees() { return {kArxivName}; }

}  // namespace atl
