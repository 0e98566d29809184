#include "engine/comm/max_over_ranks.hpp"

#include <algorithm>
#include <vector>

namespace atl {

void max_over_ranks(Transport& transport, std::span<double> values, const OperationLabel& label) {
  const auto size = static_cast<std::size_t>(transport.size());
  const auto rank = static_cast<std::size_t>(transport.rank());
  std::vector<double> slots(values.size() * size, 0.0);
  for (std::size_t i = 0; i < values.size(); ++i) slots[i * size + rank] = values[i];
  transport.all_reduce(std::span(slots), label);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = std::ranges::max(std::span(slots).subspan(i * size, size));
  }
}

}  // namespace atl
