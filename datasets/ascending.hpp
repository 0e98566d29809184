// Offsets into arrays never fall. Internal to datasets/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/error.hpp"

namespace atl {

// Throws Error{kInput} that names the first value which is less than the one before it; `place`: of
// the values.
inline void require_ascending(std::span<const std::int64_t> values, const std::string& place) {
  for (std::size_t i = 1; i < values.size(); ++i) {
    if (values[i] < values[i - 1]) {
      fail_input("{}: entry {} is {}, less than the {} before it", place, i, values[i],
                 values[i - 1]);
    }
  }
}

}  // namespace atl
