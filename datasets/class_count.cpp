#include "datasets/class_count.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "datasets/dataset.hpp"

namespace atl {

std::int64_t class_count(std::span<const std::int32_t> labels, std::optional<std::int64_t> stated,
                         const std::string& place, const char* option) {
  constexpr std::int64_t kAlwaysAllowed = 1000;
  if (stated && (*stated < 0 || *stated > kMaxClasses)) {
    fail_input("{}: {} classes ({}); allowed are 0 to {}", place, *stated, option, kMaxClasses);
  }
  if (labels.empty()) return stated.value_or(0);
  const auto largest = std::max_element(labels.begin(), labels.end());
  const std::int64_t classes = std::int64_t{*largest} + 1;
  const auto labelled = std::count_if(labels.begin(), labels.end(), [](auto l) { return l >= 0; });
  const std::int64_t allowed =
      stated.value_or(std::min(std::max<std::int64_t>(kAlwaysAllowed, labelled), kMaxClasses));
  if (classes <= allowed) return stated.value_or(classes);
  const auto node = largest - labels.begin();
  if (stated) {
    fail_input("{}: label {} of node {}; allowed are 0 to {} ({}) and -1", place, *largest, node,
               allowed - 1, option);
  }
  fail_input(
      "{}: label {} of node {} means {} classes for {} labelled nodes; allowed are labels below "
      "{}: "
      "number the classes from 0 without gaps, or state how many there are ({})",
      place, *largest, node, classes, labelled, allowed, option);
}

}  // namespace atl
