#include "engine/training/label_spread.hpp"

namespace atl {

LabelSpread label_spread(std::span<const float> labels, std::span<const std::uint8_t> split,
                         std::int64_t columns, Transport& transport) {
  const std::size_t places = 3 * static_cast<std::size_t>(columns);
  std::vector<double> sums(2 * places, 0.0);  // of labels, and how many
  for_labels(labels, split, columns, [&](std::size_t place, std::size_t k) {
    sums[place] += static_cast<double>(labels[k]);
    sums[places + place] += 1;
  });
  transport.all_reduce(std::span(sums), {"means of labels"});
  LabelSpread spread;
  spread.count.assign(sums.begin() + static_cast<std::ptrdiff_t>(places), sums.end());
  spread.squares.assign(places, 0.0);
  for_labels(labels, split, columns, [&](std::size_t place, std::size_t k) {
    const double off = static_cast<double>(labels[k]) - sums[place] / spread.count[place];
    spread.squares[place] += off * off;
  });
  transport.all_reduce(std::span(spread.squares), {"spread of labels"});
  return spread;
}

}  // namespace atl
