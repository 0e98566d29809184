// The load of every part in each quantity that is balanced, and its bound, while nodes move.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace atl {

class PartLoads {
 public:
  // node_weights [nodes, constraints] outlive this; limits [parts, constraints].
  PartLoads(std::int64_t constraints, std::span<const std::int32_t> node_weights,
            std::vector<double> limits, std::span<const std::int32_t> part_of)
      : constraints_(constraints),
        node_weights_(node_weights),
        limits_(std::move(limits)),
        loads_(limits_.size(), 0),
        sizes_(limits_.size() / static_cast<std::size_t>(constraints), 0) {
    for (std::size_t v = 0; v < part_of.size(); ++v) {
      add(static_cast<std::int32_t>(v), part_of[v], 1);
    }
  }

  int parts() const { return static_cast<int>(sizes_.size()); }
  bool is_last(int part) const { return sizes_[part] == 1; }
  bool fits(std::int32_t node, int part) const {
    for (std::int64_t c = 0; c < constraints_; ++c) {
      const std::int64_t w = weight(node, c);
      if (w > 0 && static_cast<double>(load(part, c) + w) > limit(part, c)) return false;
    }
    return true;
  }
  // Load against limit of the quantity that the part has most of; above 1 is too much.
  double fullness(int part) const { return fullness(part, fullest(part)); }
  // That quantity.
  std::int64_t fullest(int part) const {
    std::int64_t most = 0;
    for (std::int64_t c = 1; c < constraints_; ++c) {
      if (fullness(part, c) > fullness(part, most)) most = c;
    }
    return most;
  }
  bool too_heavy(int part) const { return fullness(part) > 1; }
  // Whether the node carries some of what its part has too much of.
  bool relieves(std::int32_t node, int part) const {
    for (std::int64_t c = 0; c < constraints_; ++c) {
      if (static_cast<double>(load(part, c)) > limit(part, c) && weight(node, c) > 0) return true;
    }
    return false;
  }
  // The node's largest share of what its part may hold.
  double share_of_limit(std::int32_t node, int part) const {
    double most = 0;
    for (std::int64_t c = 0; c < constraints_; ++c) {
      most = std::max(most, static_cast<double>(weight(node, c)) / limit(part, c));
    }
    return most;
  }
  void move(std::int32_t node, int from, int to) {
    add(node, from, -1);
    add(node, to, 1);
  }

  std::int64_t weight(std::int32_t node, std::int64_t c) const {
    return node_weights_[static_cast<std::int64_t>(node) * constraints_ + c];
  }
  std::int64_t load(int part, std::int64_t c) const { return loads_[part * constraints_ + c]; }

 private:
  double limit(int part, std::int64_t c) const { return limits_[part * constraints_ + c]; }
  double fullness(int part, std::int64_t c) const {
    return load(part, c) == 0 ? 0 : static_cast<double>(load(part, c)) / limit(part, c);
  }
  void add(std::int32_t node, int part, int sign) {
    for (std::int64_t c = 0; c < constraints_; ++c) {
      loads_[part * constraints_ + c] += sign * weight(node, c);
    }
    sizes_[part] += sign;
  }

  std::int64_t constraints_;
  std::span<const std::int32_t> node_weights_;
  std::vector<double> limits_;
  std::vector<std::int64_t> loads_;
  std::vector<std::int64_t> sizes_;
};

}  // namespace atl
