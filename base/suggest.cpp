#include "base/suggest.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string>
#include <vector>

namespace atl {

int edit_distance(std::string_view a, std::string_view b) {
  // Three rolling rows of the table: the swap case looks two rows back.
  std::vector<int> before(b.size() + 1);
  std::vector<int> previous(b.size() + 1);
  std::vector<int> current(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) previous[j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    current[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int substitution = previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, substitution});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        current[j] = std::min(current[j], before[j - 2] + 1);
      }
    }
    std::swap(before, previous);
    std::swap(previous, current);
  }
  return previous[b.size()];
}

namespace {

std::string lower_case(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

}  // namespace

std::string did_you_mean(std::string_view wrong, std::span<const std::string> names) {
  const std::string* closest = nullptr;
  int smallest = 0;
  for (const std::string& name : names) {
    const int distance = edit_distance(lower_case(wrong), lower_case(name));
    if (closest == nullptr || distance < smallest) {
      closest = &name;
      smallest = distance;
    }
  }
  // A third of the letters wrong is still a slip; more is another word.
  const int bound = std::max(1, static_cast<int>(wrong.size()) / 3);
  if (closest == nullptr || smallest > bound) return "";
  return fmt::format(" (did you mean '{}'?)", *closest);
}

}  // namespace atl
