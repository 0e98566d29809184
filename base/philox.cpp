#include "base/philox.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"

namespace atl {

DropoutThreshold dropout_threshold(double drop_probability) {
  ATOLL_ASSERT(drop_probability >= 0 && drop_probability < 1, "dropout {}", drop_probability);
  const double kept = std::round((1 - drop_probability) * 65536);
  const auto threshold = static_cast<std::uint32_t>(std::clamp(kept, 1.0, 65536.0));
  return {threshold, 65536.0F / static_cast<float>(threshold)};
}

}  // namespace atl
