#include "engine/training/link_ranking.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <ranges>
#include <string_view>
#include <system_error>

#include "base/error.hpp"

namespace atl {

namespace {

constexpr float kHighest = std::numeric_limits<float>::infinity();

constexpr std::size_t kMostMetrics = 33;
constexpr std::int64_t kMostHits = 1000000;
constexpr std::string_view kMrr = "mrr";
constexpr std::string_view kHits = "hits@";

// A whole number of at least 1; 0 for other text.
std::int64_t hits_in(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && number >= 1 && number <= kMostHits ? number : 0;
}

}  // namespace

std::string to_string(LinkMetric metric) {
  return metric.hits_at == 0 ? std::string(kMrr) : fmt::format("{}{}", kHits, metric.hits_at);
}

std::optional<LinkMetric> link_metric_named(const std::string& name) {
  if (name == kMrr) return LinkMetric{};
  if (!name.starts_with(kHits)) return std::nullopt;
  const std::int64_t hits = hits_in(std::string_view(name).substr(kHits.size()));
  if (hits == 0) return std::nullopt;
  return LinkMetric{hits};
}

std::string shown_name(LinkMetric metric) {
  return metric.hits_at == 0 ? "MRR" : fmt::format("Hits@{}", metric.hits_at);
}

std::vector<LinkMetric> link_metrics(const std::string& hits_at) {
  std::vector<LinkMetric> metrics = {LinkMetric{}};
  for (const auto part : std::views::split(hits_at, ',')) {
    const LinkMetric metric{hits_in(std::string_view(part.begin(), part.end()))};
    // That of other text is the MRR, which is there.
    if (std::ranges::find(metrics, metric) != metrics.end()) return {};
    metrics.push_back(metric);
  }
  const bool some = metrics.size() > 1 && metrics.size() <= kMostMetrics;
  return some ? metrics : std::vector<LinkMetric>();
}

float ranked_edge(float score) { return std::isnan(score) ? -kHighest : score; }
float ranked_negative(float score) { return std::isnan(score) ? kHighest : score; }

void LinkScores::add(float edge, std::span<const float> negatives) {
  std::int64_t higher = 0;
  std::int64_t equal = 0;
  for (const float negative : negatives) {
    higher += ranked_negative(negative) > ranked_edge(edge) ? 1 : 0;
    equal += ranked_negative(negative) == ranked_edge(edge) ? 1 : 0;
  }
  const double rank = 1 + static_cast<double>(higher) + static_cast<double>(equal) / 2;
  add_rank(rank, rank);
}

void LinkScores::add_to_shared(float edge, std::span<const float> ascending) {
  const float score = ranked_edge(edge);
  const auto equal = std::ranges::lower_bound(ascending, score);
  const auto higher = std::ranges::upper_bound(ascending, score);
  const auto above = static_cast<double>(ascending.end() - higher);
  const auto at_least = static_cast<double>(ascending.end() - equal);
  add_rank(1 + (above + at_least) / 2, 1 + at_least);
}

void LinkScores::add_rank(double rank, double place) {
  for (std::size_t m = 0; m < metrics.size(); ++m) {
    const bool hit = place <= static_cast<double>(metrics[m].hits_at);
    sums[m] += metrics[m].hits_at == 0 ? 1 / rank : hit ? 1 : 0;
  }
  edges += 1;
}

double LinkScores::mean(LinkMetric metric) const {
  const auto found = std::ranges::find(metrics, metric);
  ATOLL_ASSERT(found != metrics.end(), "{}", to_string(metric));
  return edges > 0 ? sums[static_cast<std::size_t>(found - metrics.begin())] / edges
                   : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace atl
