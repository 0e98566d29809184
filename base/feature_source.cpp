#include "base/feature_source.hpp"

#include "base/error.hpp"
#include "base/numbers.hpp"

namespace atl {

namespace {

struct Name {
  const char* text;
  FeatureKind kind;
  bool has_columns;
};

constexpr Name kNames[] = {
    {"degree", FeatureKind::kDegree, false},  {"constant", FeatureKind::kConstant, false},
    {"random", FeatureKind::kRandom, true},   {"positional", FeatureKind::kPositional, true},
    {"trained", FeatureKind::kTrained, true}, {"edges", FeatureKind::kEdges, false},
};

std::string allowed_sources() {
  std::string all;
  for (const Name& name : kNames) {
    all += fmt::format("{}{}{}", all.empty() ? "" : ", ", name.text, name.has_columns ? ":D" : "");
  }
  return fmt::format("{}, where D is a number of columns from 1 to {}", all, kMostSourceColumns);
}

}  // namespace

FeatureSource parse_feature_source(const std::string& text, std::string& problem) {
  const std::size_t colon = text.find(':');
  problem.clear();
  for (const Name& name : kNames) {
    if (text.substr(0, colon) != name.text || name.has_columns != (colon != std::string::npos)) {
      continue;
    }
    FeatureSource source{name.kind, 0};
    if (!name.has_columns) return source;
    const auto columns = parse_number<decltype(source.columns)>(
        std::string_view(text).substr(colon + 1), 1, kMostSourceColumns);
    if (!columns) continue;
    source.columns = *columns;
    return source;
  }
  problem = fmt::format("'{}'; allowed are {}", text, allowed_sources());
  return {};
}

FeatureSource parse_feature_source(const std::string& text) {
  std::string problem;
  const FeatureSource source = parse_feature_source(text, problem);
  if (!problem.empty()) fail_option("--features: {}", problem);
  return source;
}

std::string to_string(const FeatureSource& source) {
  for (const Name& name : kNames) {
    if (name.kind != source.kind) continue;
    return name.has_columns ? fmt::format("{}:{}", name.text, source.columns) : name.text;
  }
  return "";
}

}  // namespace atl
