// The substitute for features of nodes where a graph has none: the option --features.
#pragma once

#include <cstdint>
#include <string>

namespace atl {

enum class FeatureKind : std::uint8_t {
  kNone,        // no --features
  kDegree,      // log(1 + neighbours)
  kConstant,    // one column of 1
  kRandom,      // standard normal numbers
  kPositional,  // where a node is in the graph
  kEdges,       // the mean of the features of its edges
  kTrained,     // parameters: of a model, not of a dataset
};

struct FeatureSource {
  FeatureKind kind = FeatureKind::kNone;
  std::int64_t columns = 0;  // of random, positional and trained; else 0

  bool present() const { return kind != FeatureKind::kNone; }
  // Computed from the graph, or drawn, before training: columns of a dataset like any others.
  bool is_data() const { return present() && kind != FeatureKind::kTrained; }
  bool operator==(const FeatureSource&) const = default;
};

inline constexpr std::int64_t kMostSourceColumns = 4096;

// "degree", "random:32", ...; what is wrong with `text` goes to `problem`, which is empty
// otherwise.
FeatureSource parse_feature_source(const std::string& text, std::string& problem);
// Throws Error{kOption} naming --features and what is allowed.
FeatureSource parse_feature_source(const std::string& text);
std::string to_string(const FeatureSource& source);

}  // namespace atl
