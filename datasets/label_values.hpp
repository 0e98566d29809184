// Which values the labels of a source have, and what they can mean. Internal to datasets/.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace atl {

class LabelTally {
 public:
  void add(double value);  // NaN: none

  // Whether no value has a fraction (infinity counts as one); also if there is none at all.
  bool whole() const { return fractions_ == 0; }
  // -1 and +1 are all that occurs, and both do: then they are two classes, and -1 is not "none".
  bool two_signs() const { return minus_ > 0 && ones_ > 0 && zeros_ == 0 && others_ == 0; }
  // 0 and 1 are all that occurs beside -1.
  bool only_bits() const { return others_ == 0; }
  std::int64_t missing() const { return missing_; }
  double smallest() const { return smallest_; }
  double largest() const { return largest_; }

 private:
  std::int64_t missing_ = 0, minus_ = 0, zeros_ = 0, ones_ = 0, others_ = 0, fractions_ = 0;
  double smallest_ = std::numeric_limits<double>::infinity();
  double largest_ = -std::numeric_limits<double>::infinity();
};

// Says that -1 and +1 of `place` are read as 0 and 1.
void say_two_signs(const std::string& place);

// The only label 1 of each row of [rows, columns], 255 being none: one class per node. -1 where a
// row has no 1.
struct OneHot {
  std::vector<std::int32_t> classes;
  std::int64_t bad_row = -1;  // the first with several
  std::int64_t with_one = 0;  // rows
};
OneHot one_hot(std::span<const std::uint8_t> labels, std::int64_t columns);

}  // namespace atl
