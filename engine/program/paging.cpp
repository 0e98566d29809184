#include "engine/program/paging.hpp"

#include <algorithm>
#include <limits>
#include <map>

#include "base/error.hpp"
#include "engine/program/operations/rules.hpp"

namespace atl {

namespace {

constexpr int kNever = std::numeric_limits<int>::max();

// The instants of a pass's calls never fall.
int instant_of(const Schedule& schedule, const Call& call) {
  const auto v = static_cast<std::size_t>(call.value);
  return (call.rows == Rows::kComputed ? schedule.computed_instants : schedule.instants)[v];
}

class Planner {
 public:
  Planner(const PagingProblem& problem, std::int64_t budget)
      : problem_(problem), budget_(budget), units_(to_unit_end(problem.bytes)) {
    plan_.leaving.resize(problem.steps.size());
    plan_.coming.resize(problem.steps.size());
    for (const PagingStep& step : problem.steps) {
      plan_.reads_features.push_back(step.reads_features);
    }
    for (int s = 0; s < steps(); ++s) note_touches(s);
    for (const LiveBytes& live : problem.live) {
      for_each_unit(live.bytes, [&](Unit& unit) {
        unit.live.push_back({live.first, live.last});
        if (live.first < 0) unit.is_away = true;
      });
    }
  }

  PagingPlan run() {
    for (int s = 0; s < steps(); ++s) {
      begin(s);
      for_each_touched(s, [&](Unit& unit) { bring(unit, s, s); });
      if (s + 1 < steps()) {
        bool has_room = true;
        for_each_touched(s + 1, [&](Unit& unit) { has_room = has_room && bring(unit, s + 1, s); });
      }
      for_each_written(s, [&](Unit& unit) { unit.is_changed = true; });
      plan_.most_bytes = std::max(plan_.most_bytes, here_bytes_);
    }
    finish();
    return std::move(plan_);
  }

 private:
  struct Unit {
    std::vector<int> touches;  // steps
    std::size_t next = 0;      // in them: behind `now_`
    std::vector<std::pair<int, int>> live;
    bool is_here = false;
    bool is_away = false;     // its content lies in the file
    bool is_changed = false;  // since it came
  };

  int steps() const { return static_cast<int>(problem_.steps.size()); }
  std::size_t to_unit(std::int64_t byte) const {
    return static_cast<std::size_t>(byte / problem_.unit);
  }
  std::size_t to_unit_end(std::int64_t byte) const { return to_unit(byte + problem_.unit - 1); }
  ByteRange bytes_of(const Unit& unit) const {
    const std::int64_t begin = (&unit - units_.data()) * problem_.unit;
    return {begin, std::min(begin + problem_.unit, problem_.bytes)};
  }

  template <typename Visit>
  void for_each_unit(ByteRange bytes, const Visit& visit) {
    for (std::size_t u = to_unit(bytes.begin); u < to_unit_end(bytes.end); ++u) visit(units_[u]);
  }
  template <typename Visit>
  void for_each_touched(int step, const Visit& visit) {
    for (const auto& touched : problem_.steps[static_cast<std::size_t>(step)].touched) {
      for_each_unit(touched.bytes, visit);
    }
  }
  template <typename Visit>
  void for_each_written(int step, const Visit& visit) {
    for (const auto& touched : problem_.steps[static_cast<std::size_t>(step)].touched) {
      if (touched.written) for_each_unit(touched.bytes, visit);
    }
  }

  void note_touches(int step) {
    for_each_touched(step, [&](Unit& unit) {
      if (unit.touches.empty() || unit.touches.back() != step) unit.touches.push_back(step);
    });
  }

  int next_touch(Unit& unit) const {
    while (unit.next < unit.touches.size() && unit.touches[unit.next] <= now_) ++unit.next;
    return unit.next < unit.touches.size() ? unit.touches[unit.next] : kNever;
  }
  int last_touch(Unit& unit) const {
    next_touch(unit);
    return unit.next == 0 ? -1 : unit.touches[unit.next - 1];
  }
  static bool is_needed_behind(const Unit& unit, int step) {
    return std::ranges::any_of(unit.live, [&](const std::pair<int, int>& live) {
      return live.first <= step && step < live.second;
    });
  }

  void begin(int step) {
    for (Unit* unit : busy_) here_.insert({next_touch(*unit), unit});
    busy_.clear();
    now_ = step;
    while (!here_.empty() && here_.begin()->first <= now_) {
      busy_.push_back(here_.begin()->second);
      here_.erase(here_.begin());
    }
  }

  // Makes the unit be there for step `by`; false: there is no room for it beside what this step
  // and the next one touch.
  bool bring(Unit& unit, int by, int from) {
    if (unit.is_here) return true;
    const ByteRange bytes = bytes_of(unit);
    while (here_bytes_ + bytes.size() > budget_) {
      if (!send_away(by)) {
        ATOLL_ASSERT(by > now_, "step {} needs more than {} bytes", by, budget_);
        return false;
      }
    }
    unit.is_here = true;
    unit.is_changed = false;
    here_bytes_ += bytes.size();
    if (by == now_) {
      busy_.push_back(&unit);
    } else {
      here_.insert({by, &unit});
    }
    if (!unit.is_away) return true;
    add(plan_.coming[static_cast<std::size_t>(from)], bytes);
    plan_.read_bytes += bytes.size();
    return true;
  }

  bool send_away(int by) {
    if (here_.empty()) return false;
    const auto last = std::prev(here_.end());
    if (last->first <= by) return false;
    Unit& unit = *last->second;
    here_.erase(last);
    leave(unit, by);
    return true;
  }

  void leave(Unit& unit, int by) {
    const ByteRange bytes = bytes_of(unit);
    const int behind = last_touch(unit);
    const bool kept = is_needed_behind(unit, behind);
    unit.is_here = false;
    unit.is_away = kept;
    here_bytes_ -= bytes.size();
    if (kept && unit.is_changed) plan_.written_bytes += bytes.size();
    plan_.leaving[static_cast<std::size_t>(behind)].push_back({bytes, kept, by});
  }

  static void add(std::vector<ByteRange>& ranges, ByteRange bytes) {
    if (!ranges.empty() && ranges.back().end == bytes.begin) {
      ranges.back().end = bytes.end;
    } else {
      ranges.push_back(bytes);
    }
  }

  void finish() {
    for (Unit& unit : units_) {
      if (unit.is_here) add(plan_.left, bytes_of(unit));
    }
    for (auto& leaving : plan_.leaving) {
      std::ranges::sort(leaving, [](const auto& a, const auto& b) {
        return std::pair(a.by, a.bytes.begin) < std::pair(b.by, b.bytes.begin);
      });
      // Neighbours leave together.
      std::vector<PagingPlan::Leaving> joined;
      for (const auto& part : leaving) {
        if (!joined.empty() && joined.back().by == part.by && joined.back().kept == part.kept &&
            joined.back().bytes.end == part.bytes.begin) {
          joined.back().bytes.end = part.bytes.end;
        } else {
          joined.push_back(part);
        }
      }
      leaving = std::move(joined);
    }
  }

  const PagingProblem& problem_;
  std::int64_t budget_;
  std::vector<Unit> units_;
  std::multimap<int, Unit*> here_;  // what no running step touches, by next touch
  std::vector<Unit*> busy_;         // what it touches
  std::int64_t here_bytes_ = 0;
  int now_ = 0;
  PagingPlan plan_;
};

}  // namespace

PagingProblem paging_problem(const Program& program, std::span<const Block> blocks,
                             const Schedule& schedule, const Layout& layout,
                             std::int64_t element_bytes, std::int64_t unit) {
  PagingProblem problem;
  problem.unit = unit;
  problem.bytes = (layout.elements * element_bytes + unit - 1) / unit * unit;
  const auto place_of = [&](Value v) -> const Place& {
    return layout.places[static_cast<std::size_t>(v)];
  };
  const auto range_of = [&](Value v) -> ByteRange {
    const Place& place = place_of(v);
    if (place.is_nowhere()) return {};
    const std::int64_t begin = place.offset * element_bytes;
    return {begin, begin + place.elements(program, v) * element_bytes};
  };
  // A copy without a place is the features themselves.
  const auto is_features = [&](Value v) {
    return program.at(v).is(rules::kFeatures) ||
           (program.at(v).is(rules::kCopy) && place_of(v).is_nowhere());
  };
  std::vector<int> instants;
  std::vector<int> last_steps(program.operations.size(), -1);
  for (const Block& block : blocks) {
    for (const Call& call : block.calls) {
      PagingStep step;
      const auto touch = [&](Value v, bool written) {
        const ByteRange bytes = range_of(v);
        last_steps[static_cast<std::size_t>(v)] = static_cast<int>(problem.steps.size());
        if (bytes.size() > 0) step.touched.push_back({bytes, written});
        step.reads_features = step.reads_features || is_features(v);
      };
      const Operation& op = program.at(call.value);
      touch(call.value, true);
      for (const Value read : reads_of(op)) touch(read, read == op.decided.added_to);
      problem.steps.push_back(std::move(step));
      const int before = instants.empty() ? -1 : instants.back();
      instants.push_back(std::max(before, instant_of(schedule, call)));
    }
  }
  const int count = static_cast<int>(instants.size());
  const auto first_at = [&](int instant) {
    return static_cast<int>(std::ranges::lower_bound(instants, instant) - instants.begin());
  };
  const std::vector<int> ends = last_instants(program, schedule);
  for (Value v = 0; v < program.size(); ++v) {
    if (place_of(v).is_nowhere()) continue;
    const int begin = schedule.instants[static_cast<std::size_t>(v)];
    const int end = ends[static_cast<std::size_t>(v)];
    // Made before these blocks: it lies there already.
    const bool is_older = begin < 0 || (!instants.empty() && begin < instants.front());
    const int last = end == kNever
                         ? count
                         : std::max(first_at(end + 1) - 1, last_steps[static_cast<std::size_t>(v)]);
    problem.live.push_back({range_of(v), is_older ? -1 : first_at(begin), last});
  }
  return problem;
}

std::int64_t least_paged_bytes(const PagingProblem& problem) {
  std::int64_t least = 0;
  for (const PagingStep& step : problem.steps) {
    std::vector<std::pair<std::int64_t, std::int64_t>> units;
    for (const auto& touched : step.touched) {
      units.emplace_back(touched.bytes.begin / problem.unit,
                         (touched.bytes.end + problem.unit - 1) / problem.unit);
    }
    std::ranges::sort(units);
    std::int64_t bytes = 0;
    std::int64_t end = 0;
    for (const auto& [first, last] : units) {
      bytes += std::max<std::int64_t>(0, last - std::max(first, end)) * problem.unit;
      end = std::max(end, last);
    }
    least = std::max(least, bytes);
  }
  return least;
}

PagingPlan plan_paging(const PagingProblem& problem, std::int64_t budget) {
  return Planner(problem, budget).run();
}

}  // namespace atl
