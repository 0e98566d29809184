#include "partition/vertex_cover.hpp"

namespace atl {

namespace {

constexpr std::int32_t kNobody = -1;

// A largest set of edges without a common end.
class Matching {
 public:
  Matching(const CsrView& edges, std::int64_t targets)
      : edges_(edges),
        target_of_(static_cast<std::size_t>(edges.rows()), kNobody),
        source_of_(static_cast<std::size_t>(targets), kNobody) {
    take_free_targets();
    while (find_levels()) {
      next_.assign(edges_.row_ptr.begin(), edges_.row_ptr.end() - 1);
      for (std::int32_t s = 0; s < edges_.rows(); ++s) {
        if (target_of_[s] == kNobody) augment(s);
      }
    }
  }

  // Koenig: all that alternating paths from unmatched sources reach; sources that they do not
  // reach and targets that they do.
  VertexCover cover() {
    VertexCover cover{std::vector<std::uint8_t>(target_of_.size(), 1),
                      std::vector<std::uint8_t>(source_of_.size(), 0)};
    path_.clear();
    const auto reach = [&](std::int32_t source) {
      cover.sources[source] = 0;
      path_.push_back(source);
    };
    for (std::int32_t s = 0; s < edges_.rows(); ++s) {
      if (target_of_[s] == kNobody) reach(s);
    }
    while (!path_.empty()) {
      const std::int32_t s = path_.back();
      path_.pop_back();
      for (const std::int32_t t : edges_.row(s)) {
        if (cover.targets[t] != 0) continue;
        cover.targets[t] = 1;
        if (cover.sources[source_of_[t]] != 0) reach(source_of_[t]);
      }
    }
    return cover;
  }

 private:
  void match(std::int32_t source, std::int32_t target) {
    target_of_[source] = target;
    source_of_[target] = source;
  }

  // Most of the matching, so that few rounds are left.
  void take_free_targets() {
    for (std::int32_t s = 0; s < edges_.rows(); ++s) {
      for (const std::int32_t t : edges_.row(s)) {
        if (source_of_[t] != kNobody) continue;
        match(s, t);
        break;
      }
    }
  }

  // How many matched edges lie before each source on a shortest alternating path from an unmatched
  // one. False: none of the paths ends at an unmatched target.
  bool find_levels() {
    level_.assign(target_of_.size(), kNobody);
    path_.clear();
    for (std::int32_t s = 0; s < edges_.rows(); ++s) {
      if (target_of_[s] != kNobody) continue;
      level_[s] = 0;
      path_.push_back(s);
    }
    bool ends = false;
    for (std::size_t k = 0; k < path_.size(); ++k) {
      for (const std::int32_t t : edges_.row(path_[k])) {
        const std::int32_t s = source_of_[t];
        if (s == kNobody) {
          ends = true;
        } else if (level_[s] == kNobody) {
          level_[s] = level_[path_[k]] + 1;
          path_.push_back(s);
        }
      }
    }
    return ends;
  }

  // Matches `first` along a path from level to level, if one leads to an unmatched target.
  void augment(std::int32_t first) {
    path_ = {first};
    while (!path_.empty()) {
      const std::int32_t s = path_.back();
      if (next_[s] == edges_.row_ptr[s + 1]) {
        path_.pop_back();
        if (!path_.empty()) ++next_[path_.back()];
        continue;
      }
      const std::int32_t beyond = source_of_[edges_.col_idx[next_[s]]];
      if (beyond == kNobody) break;
      if (level_[beyond] == level_[s] + 1) {
        path_.push_back(beyond);
      } else {
        ++next_[s];
      }
    }
    for (const std::int32_t s : path_) match(s, edges_.col_idx[next_[s]]);
  }

  const CsrView& edges_;
  std::vector<std::int32_t> target_of_;
  std::vector<std::int32_t> source_of_;
  std::vector<std::int32_t> level_;  // by source
  std::vector<std::int64_t> next_;   // by source: the edge to try
  std::vector<std::int32_t> path_;   // of sources
};

}  // namespace

VertexCover minimum_vertex_cover(const CsrView& edges, std::int64_t targets) {
  return Matching(edges, targets).cover();
}

}  // namespace atl
