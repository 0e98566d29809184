#include "datasets/community_graph.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "base/error.hpp"
#include "base/parallel.hpp"
#include "datasets/normals.hpp"

namespace atl {

CommunityGraph::CommunityGraph(const CommunitySpec& spec)
    : first_{0}, first_hub_edge_{0}, key_(generator_key(spec.seed, GeneratorPurpose::kEdges)) {
  for (const std::int64_t size : spec.class_sizes) {
    ATOLL_ASSERT(size >= 1);
    first_.push_back(first_.back() + size);
  }
  order_ = random_order(first_.back(), spec.seed);
  draw_hubs(spec.hubs, spec.seed);
  double same_by_chance = 0;
  for (const std::int64_t size : spec.class_sizes) {
    const double share = static_cast<double>(size) / static_cast<double>(nodes());
    same_by_chance += share * share;
  }
  same_class_ = same_by_chance < 1
                    ? std::clamp((spec.homophily - same_by_chance) / (1 - same_by_chance), 0.0, 1.0)
                    : 1.0;
  // With density proportional to (x + offset)^-skew on [0, 1], the ratio of the density at 0 to the
  // mean is about (1 - skew) * offset^-skew.
  offset_ = std::pow((1 - spec.skew) / spec.busiest, 1 / spec.skew);
  power_ = 1 / (1 - spec.skew);
  span_ = std::pow(1 + 1 / offset_, 1 - spec.skew) - 1;
}

std::int64_t CommunityGraph::class_at(double position) const {
  const auto above = std::upper_bound(first_.begin(), first_.end(), position);
  const auto last = static_cast<std::int64_t>(first_.size()) - 2;
  return std::min<std::int64_t>(above - first_.begin() - 1, last);
}

// The inverse of the distribution function of (x + offset)^-skew.
std::int32_t CommunityGraph::draw(std::int64_t class_index, double uniform) const {
  const std::int64_t size = first_[class_index + 1] - first_[class_index];
  const double x = offset_ * (std::pow(uniform * span_ + 1, power_) - 1);
  const auto rank = static_cast<std::int64_t>(x * static_cast<double>(size));
  return order_[first_[class_index] + std::clamp<std::int64_t>(rank, 0, size - 1)];
}

void CommunityGraph::draw_hubs(std::span<const std::int64_t> degrees, std::uint64_t seed) {
  const RandomKey key = generator_key(seed, GeneratorPurpose::kHubs);
  std::set<std::int64_t> taken;
  for (std::size_t hub = 0; hub < degrees.size() && std::ssize(taken) < nodes(); ++hub) {
    const PhiloxBlock bits = random_block(key, hub, 0);
    auto position =
        static_cast<std::int64_t>(uniform53(bits[0], bits[1]) * static_cast<double>(nodes()));
    while (!taken.insert(position).second) position = (position + 1) % nodes();
    hubs_.push_back(position);
    first_hub_edge_.push_back(first_hub_edge_.back() + std::min(degrees[hub], nodes() - 1));
  }
}

// Neighbours are spread evenly over the class of the hub, and those beyond homophily, or beyond its
// size, over all nodes: drawn independently, many would be drawn twice.
Edge CommunityGraph::hub_edge(std::int64_t index) const {
  const auto above = std::ranges::upper_bound(first_hub_edge_, index);
  const std::int64_t hub = above - first_hub_edge_.begin() - 1;
  const std::int64_t position = hubs_[hub];
  const std::int64_t of_class = class_at(static_cast<double>(position));
  const std::int64_t degree = first_hub_edge_[hub + 1] - first_hub_edge_[hub];
  const std::int64_t members = first_[of_class + 1] - first_[of_class];
  const std::int64_t same = std::min(std::llround(same_class_ * static_cast<double>(degree)),
                                     static_cast<long long>(members));
  const std::int64_t k = index - first_hub_edge_[hub];
  const bool inside = k < same;
  const std::int64_t first = inside ? first_[of_class] : 0;
  const std::int64_t count = inside ? members : nodes();
  const std::int64_t draws = inside ? same : degree - same;
  const std::int64_t draw = inside ? k : k - same;
  const PhiloxBlock bits = random_block(key_, static_cast<std::uint64_t>(index), 2);
  const double within = static_cast<double>(draw) + uniform53(bits[0], bits[1]);
  const auto chosen =
      static_cast<std::int64_t>(within / static_cast<double>(draws) * static_cast<double>(count));
  return {order_[first + std::min(chosen, count - 1)], order_[position]};
}

Edge CommunityGraph::edge(std::uint64_t index) const {
  if (index < static_cast<std::uint64_t>(hub_edges())) {
    return hub_edge(static_cast<std::int64_t>(index));
  }
  const PhiloxBlock ends = random_block(key_, index, 0);
  const PhiloxBlock choice = random_block(key_, index, 1);
  const auto total = static_cast<double>(nodes());
  const auto draw_anywhere = [&](double uniform, std::int64_t& chosen) {
    const double position = uniform * total;
    chosen = class_at(position);
    const auto begin = static_cast<double>(first_[chosen]);
    const auto size = static_cast<double>(first_[chosen + 1]) - begin;
    return draw(chosen, std::clamp((position - begin) / size, 0.0, 1.0));
  };
  std::int64_t source_class = 0;
  std::int64_t target_class = 0;
  const std::int32_t source = draw_anywhere(uniform53(ends[0], ends[1]), source_class);
  const double uniform = uniform53(ends[2], ends[3]);
  const bool same = uniform53(choice[0], choice[1]) < same_class_;
  const std::int32_t target =
      same ? draw(source_class, uniform) : draw_anywhere(uniform, target_class);
  return {source, target};
}

std::vector<std::int32_t> CommunityGraph::labels() const {
  std::vector<std::int32_t> labels(order_.size());
  for (std::size_t c = 0; c + 1 < first_.size(); ++c) {
    for (std::int64_t position = first_[c]; position < first_[c + 1]; ++position) {
      labels[order_[position]] = static_cast<std::int32_t>(c);
    }
  }
  return labels;
}

std::vector<float> class_centres(std::int64_t classes, std::int64_t columns, std::uint64_t seed) {
  std::vector<float> centres(static_cast<std::size_t>(classes * columns));
  const std::vector<std::int32_t> labels(static_cast<std::size_t>(classes));
  const RandomKey key = generator_key(seed, GeneratorPurpose::kCentres);
  const float length = 1 / std::sqrt(static_cast<float>(std::max<std::int64_t>(1, columns)));
  for (std::int64_t c = 0; c < classes; ++c) {
    for (std::int64_t j = 0; j < columns; ++j) {
      const auto block =
          random_block(key, static_cast<std::uint64_t>(c), static_cast<std::uint32_t>(j / 4));
      centres[c * columns + j] = length * normals(block)[j % 4];
    }
  }
  return centres;
}

void noisy_features(std::span<const std::int32_t> labels, std::int64_t begin, std::int64_t columns,
                    std::span<const float> centres, double signal, std::uint64_t seed,
                    std::span<float> rows) {
  const RandomKey key = generator_key(seed, GeneratorPurpose::kNoise);
  const auto strength = static_cast<float>(signal);
  const auto count = static_cast<std::int64_t>(labels.size());
  parallel_for(count, 256, [&](std::int64_t i) {
    float* const row = rows.data() + i * columns;
    for (std::int64_t j = 0; j < columns; j += 4) {
      const auto block = random_block(key, static_cast<std::uint64_t>(begin + i),
                                      static_cast<std::uint32_t>(j / 4));
      const std::array<float, 4> noise = normals(block);
      for (std::int64_t k = 0; k < std::min<std::int64_t>(4, columns - j); ++k) {
        row[j + k] = noise[k];
        if (!centres.empty()) row[j + k] += strength * centres[labels[i] * columns + j + k];
      }
    }
  });
}

}  // namespace atl
