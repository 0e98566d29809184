// Prices of halo rows that rise with what the sending and the receiving part have of them already:
// an epoch waits for the part with most.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace atl {

class PeakPrices {
 public:
  PeakPrices(std::size_t directions, int parts)
      : parts_(static_cast<std::size_t>(parts)),
        traffic_(2 * directions * parts_),
        highest_(directions, 1) {}

  // From here on a row costs 1 and, for each of its ends, up to `pressure` more: all of it where
  // that part has as many rows as the fullest one has now, next to nothing where it has half.
  void set_pressure(double pressure) {
    pressure_ = pressure;
    for (std::size_t d = 0; d < highest_.size(); ++d) {
      highest_[d] = std::max<std::int64_t>(1, peak(d));
      for (Traffic& traffic : of_direction(d)) add(traffic, d, 0);
    }
  }

  std::int64_t of(std::size_t d, int owner, int part) const {
    return kRow + sent(d, owner).price + received(d, part).price;
  }
  bool matters(int, int) const { return true; }
  void count(std::size_t d, int owner, int part, int by) {
    add(sent(d, owner), d, by);
    add(received(d, part), d, by);
  }

  std::int64_t total() const {
    std::int64_t rows = 0;
    for (const Traffic& traffic : traffic_) rows += traffic.rows;
    return rows / 2;  // each is sent and received
  }
  // Traffic of the part that sends or receives most; directions follow each other and add up.
  std::int64_t peak() const {
    std::int64_t rows = 0;
    for (std::size_t d = 0; d < highest_.size(); ++d) rows += peak(d);
    return rows;
  }

 private:
  static constexpr std::int64_t kRow = 1000;  // prices are whole numbers

  struct Traffic {
    std::int64_t rows = 0;
    std::int64_t price = 0;
  };

  std::size_t place(std::size_t d, int part) const {
    return 2 * (d * parts_ + static_cast<std::size_t>(part));
  }
  Traffic& sent(std::size_t d, int part) { return traffic_[place(d, part)]; }
  Traffic& received(std::size_t d, int part) { return traffic_[place(d, part) + 1]; }
  const Traffic& sent(std::size_t d, int part) const { return traffic_[place(d, part)]; }
  const Traffic& received(std::size_t d, int part) const { return traffic_[place(d, part) + 1]; }
  std::span<Traffic> of_direction(std::size_t d) {
    return std::span(traffic_).subspan(place(d, 0), 2 * parts_);
  }
  std::int64_t peak(std::size_t d) const {
    std::int64_t most = 0;
    for (const Traffic& traffic : std::span(traffic_).subspan(place(d, 0), 2 * parts_)) {
      most = std::max(most, traffic.rows);
    }
    return most;
  }
  // The eighth power: only parts near the peak are to feel it.
  void add(Traffic& traffic, std::size_t d, int by) {
    constexpr double kMost = 1e9;  // so that sums of prices fit into 64 bits
    traffic.rows += by;
    double x = static_cast<double>(traffic.rows) / static_cast<double>(highest_[d]);
    for (int i = 0; i < 3; ++i) x *= x;
    traffic.price =
        static_cast<std::int64_t>(std::min(kMost, static_cast<double>(kRow) * pressure_ * x));
  }

  std::size_t parts_;
  std::vector<Traffic> traffic_;       // by direction and part: sent, received
  std::vector<std::int64_t> highest_;  // by direction, as it was when the pressure was set
  double pressure_ = 0;
};

}  // namespace atl
