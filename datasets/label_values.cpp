#include "datasets/label_values.hpp"

#include <algorithm>
#include <cmath>

#include "base/log.hpp"

namespace atl {

void LabelTally::add(double value) {
  if (std::isnan(value)) {
    ++missing_;
    return;
  }
  smallest_ = std::min(smallest_, value);
  largest_ = std::max(largest_, value);
  if (value == -1) {
    ++minus_;
  } else if (value == 0) {
    ++zeros_;
  } else if (value == 1) {
    ++ones_;
  } else {
    ++others_;
  }
  if (std::isinf(value) || value != std::floor(value)) ++fractions_;
}

void say_two_signs(const std::string& place) {
  log::warn(
      "{}: the labels are -1 and +1; they are read as two classes, 0 and 1, and -1 is not taken "
      "for \"no label\"",
      place);
}

OneHot one_hot(std::span<const std::uint8_t> labels, std::int64_t columns) {
  OneHot result;
  const auto rows = static_cast<std::int64_t>(labels.size()) / columns;
  result.classes.assign(static_cast<std::size_t>(rows), -1);
  for (std::int64_t i = 0; i < rows; ++i) {
    const auto row =
        labels.subspan(static_cast<std::size_t>(i * columns), static_cast<std::size_t>(columns));
    const auto first = std::ranges::find(row, 1);
    if (first == row.end()) continue;
    ++result.with_one;
    result.classes[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(first - row.begin());
    const bool several = std::find(first + 1, row.end(), 1) != row.end();
    if (several && result.bad_row < 0) result.bad_row = i;
  }
  return result;
}

}  // namespace atl
