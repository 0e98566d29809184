#include "engine/trace/clock_line.hpp"

#include <algorithm>
#include <limits>

namespace atl {

namespace {

// The points that no line can touch from above without passing through: the upper hull, by x.
std::vector<ClockPoint> upper_hull(std::vector<ClockPoint> points) {
  std::ranges::sort(points, [](const ClockPoint& a, const ClockPoint& b) {
    return a.x != b.x ? a.x < b.x : a.y < b.y;
  });
  const auto below = [](const ClockPoint& a, const ClockPoint& b, const ClockPoint& c) {
    return (b.x - a.x) * (c.y - a.y) - (b.y - a.y) * (c.x - a.x) >= 0;
  };
  std::vector<ClockPoint> hull;
  for (const ClockPoint& point : points) {
    while (hull.size() > 1 && below(hull[hull.size() - 2], hull.back(), point)) hull.pop_back();
    hull.push_back(point);
  }
  return hull;
}

std::vector<ClockPoint> mirrored(std::vector<ClockPoint> points) {
  for (ClockPoint& point : points) point.y = -point.y;
  return points;
}

// The room that lines of one slope have.
struct Room {
  std::vector<ClockPoint> above_these, below_these;  // their hulls

  double highest(double slope) const {
    double value = std::numeric_limits<double>::infinity();
    for (const ClockPoint& p : below_these) value = std::min(value, p.y - slope * p.x);
    return value;
  }
  double lowest(double slope) const {
    double value = -std::numeric_limits<double>::infinity();
    for (const ClockPoint& p : above_these) value = std::max(value, p.y - slope * p.x);
    return value;
  }
  double operator()(double slope) const { return highest(slope) - lowest(slope); }
};

// More halvings than a double has bits.
constexpr int kHalvings = 80;

// The room is a concave function of the slope.
double roomiest_slope(const Room& room, double steepest) {
  double low = -steepest;
  double high = steepest;
  for (int i = 0; i < 2 * kHalvings; ++i) {
    const double left = low + (high - low) / 3;
    const double right = high - (high - low) / 3;
    (room(left) < room(right) ? low : high) = room(left) < room(right) ? left : right;
  }
  return (low + high) / 2;
}

// The last slope from `inside`, where there is room, towards `outside` that has some.
double last_slope_with_room(const Room& room, double inside, double outside) {
  if (room(outside) >= 0) return outside;
  for (int i = 0; i < kHalvings; ++i) {
    const double middle = (inside + outside) / 2;
    (room(middle) >= 0 ? inside : outside) = middle;
  }
  return inside;
}

}  // namespace

ClockLine fit_clock_line(const std::vector<ClockPoint>& above_these,
                         const std::vector<ClockPoint>& below_these, double steepest) {
  const Room room{upper_hull(above_these), mirrored(upper_hull(mirrored(below_these)))};
  ClockLine line;
  line.slope = line.least_slope = line.most_slope = roomiest_slope(room, steepest);
  line.room = room(line.slope);
  line.at_zero = (room.highest(line.slope) + room.lowest(line.slope)) / 2;
  if (line.room < 0) return line;
  line.least_slope = last_slope_with_room(room, line.slope, -steepest);
  line.most_slope = last_slope_with_room(room, line.slope, steepest);
  return line;
}

}  // namespace atl
