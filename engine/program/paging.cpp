#include "engine/program/paging.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <utility>

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

// How much of what a step touches in order is in memory at a time where that passes through.
std::int64_t window_of(const PagingProblem& problem) {
  std::int64_t most = 0;
  for (const PagingStep& step : problem.steps) {
    std::int64_t bytes = 0;
    for (const auto& touched : step.touched) bytes += touched.in_order ? touched.bytes.size() : 0;
    most = std::max(most, bytes);
  }
  const std::int64_t window = std::min(most, kPagingWindow);
  return (window + problem.unit - 1) / problem.unit * problem.unit;
}

class Planner {
 public:
  Planner(const PagingProblem& problem, std::int64_t budget)
      : problem_(problem),
        room_(budget >= problem.bytes ? budget : budget - window_of(problem)),
        units_(to_unit_end(problem.bytes)) {
    plan_.leaving.resize(problem.steps.size());
    plan_.coming.resize(problem.steps.size());
    plan_.passing.resize(problem.steps.size());
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
      bring_all(s);
      if (s + 1 < steps()) bring_all(s + 1);
      for_each_touched(s, [&](Unit& unit, const PagingStep::Touched& touched) {
        if (touched.written && unit.is_here) unit.is_changed = true;
      });
      pass_through(s);
    }
    finish();
    return std::move(plan_);
  }

 private:
  struct Unit {
    std::vector<int> touches;  // steps
    std::size_t next = 0;      // in them: behind `now_`
    int must_be_at = -1;       // the last step that can't do with it passing through
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
      for_each_unit(touched.bytes, [&](Unit& unit) { visit(unit, touched); });
    }
  }

  void note_touches(int step) {
    for_each_touched(step, [&](Unit& unit, const auto&) {
      if (unit.touches.empty() || unit.touches.back() != step) unit.touches.push_back(step);
    });
  }

  int next_touch(Unit& unit) const {
    while (unit.next < unit.touches.size() && unit.touches[unit.next] <= now_) ++unit.next;
    return unit.next < unit.touches.size() ? unit.touches[unit.next] : kNever;
  }
  // The first touch behind a step that is `now_` or the next one.
  int touch_behind(Unit& unit, int step) const {
    next_touch(unit);
    const auto first = unit.touches.begin() + static_cast<std::ptrdiff_t>(unit.next);
    const auto found = std::upper_bound(first, unit.touches.end(), step);
    return found == unit.touches.end() ? kNever : *found;
  }
  static bool is_needed_behind(const Unit& unit, int step) {
    return std::ranges::any_of(unit.live, [&](const std::pair<int, int>& live) {
      return live.first <= step && step < live.second;
    });
  }

  // Units that must be there are busy; those that may pass through are the first to be asked for
  // their room.
  void begin(int step) {
    std::vector<Unit*> touched = std::exchange(busy_, {});
    while (!here_.empty() && here_.begin()->first < step) {
      touched.push_back(here_.begin()->second);
      here_.erase(here_.begin());
    }
    for (Unit* unit : touched) here_.insert({next_touch(*unit), unit});
    now_ = step;
    for_each_touched(step, [&](Unit& unit, const PagingStep::Touched& by) {
      if (!by.in_order) unit.must_be_at = step;
    });
    std::vector<Unit*> passing;
    while (!here_.empty() && here_.begin()->first <= now_) {
      Unit* const unit = here_.begin()->second;
      (unit->must_be_at == step ? busy_ : passing).push_back(unit);
      here_.erase(here_.begin());
    }
    for (Unit* unit : passing) here_.insert({now_, unit});
  }

  // First what must be there, then, if that is, what may pass through.
  void bring_all(int step) {
    bool has_room = true;
    for (const bool in_order : {false, true}) {
      for_each_touched(step, [&](Unit& unit, const PagingStep::Touched& touched) {
        if (touched.in_order != in_order || !has_room) return;
        has_room = bring(unit, step, in_order) || in_order;
      });
    }
  }

  // Makes the unit be there for a step, if there is room beside what this step and the next one
  // touch; for one that may pass through, only that of units which are needed later again.
  bool bring(Unit& unit, int by, bool may_pass) {
    if (unit.is_here) return true;
    const ByteRange bytes = bytes_of(unit);
    const int behind = may_pass     ? std::max(by, touch_behind(unit, by) - 1)
                       : by == now_ ? now_ - 1
                                    : by;
    while (here_bytes_ + bytes.size() > room_) {
      if (send_away(by, behind)) continue;
      ATOLL_ASSERT(may_pass || by > now_, "step {} needs more than {} bytes", by, room_);
      return false;
    }
    unit.is_here = true;
    unit.is_changed = false;
    here_bytes_ += bytes.size();
    if (by == now_ && !may_pass) {
      busy_.push_back(&unit);
    } else {
      here_.insert({by, &unit});
    }
    if (!unit.is_away) return true;
    add(plan_.coming[static_cast<std::size_t>(now_)], bytes);
    plan_.read_bytes += bytes.size();
    return true;
  }

  // The unit that is needed again last, if that is behind a step.
  bool send_away(int by, int behind) {
    if (here_.empty()) return false;
    const auto last = std::prev(here_.end());
    if (last->first <= behind) return false;
    Unit& unit = *last->second;
    leave(unit, by, last->first);
    here_.erase(last);
    return true;
  }

  // Before the step that would have touched it next.
  void leave(Unit& unit, int by, int next) {
    const ByteRange bytes = bytes_of(unit);
    const auto place = std::ranges::lower_bound(unit.touches, next);
    const int behind = *std::prev(place);
    const bool kept = is_needed_behind(unit, behind);
    unit.is_here = false;
    unit.is_away = kept;
    here_bytes_ -= bytes.size();
    if (kept && unit.is_changed) plan_.written_bytes += bytes.size();
    plan_.leaving[static_cast<std::size_t>(behind)].push_back({bytes, kept, by});
  }

  void pass_through(int step) {
    std::map<Unit*, bool> written;  // of what is not here, in order
    for_each_touched(step, [&](Unit& unit, const PagingStep::Touched& touched) {
      if (!unit.is_here) written[&unit] = written[&unit] || touched.written;
    });
    std::vector<PagingPlan::Part>& passing = plan_.passing[static_cast<std::size_t>(step)];
    for (const auto& [unit, is_written] : written) {
      const ByteRange bytes = bytes_of(*unit);
      const bool kept = is_needed_behind(*unit, step);
      if (unit->is_away) plan_.read_bytes += bytes.size();
      if (kept && is_written) plan_.written_bytes += bytes.size();
      unit->is_away = kept;
      add(passing, {bytes, kept});
    }
  }

  static void add(std::vector<PagingPlan::Part>& parts, const PagingPlan::Part& part) {
    if (!parts.empty() && parts.back().kept == part.kept &&
        parts.back().bytes.end == part.bytes.begin) {
      parts.back().bytes.end = part.bytes.end;
    } else {
      parts.push_back(part);
    }
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
      if (unit.is_here) add(plan_.left, {bytes_of(unit), is_needed_behind(unit, steps() - 1)});
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
  std::int64_t room_;
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
                             std::int64_t element_bytes, std::int64_t unit, ByteRange features) {
  PagingProblem problem;
  problem.unit = unit;
  const std::int64_t value_bytes = layout.elements * element_bytes;
  ATOLL_ASSERT(features.size() == 0 || features.begin >= value_bytes);
  const std::int64_t all_bytes = features.size() == 0 ? value_bytes : features.end;
  problem.bytes = (all_bytes + unit - 1) / unit * unit;
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
      const auto touch = [&](Value v, bool written, bool in_order) {
        const ByteRange bytes = is_features(v) ? features : range_of(v);
        last_steps[static_cast<std::size_t>(v)] = static_cast<int>(problem.steps.size());
        if (bytes.size() == 0) return;
        step.touched.push_back({bytes, written && !is_features(v), in_order});
      };
      const Operation& op = program.at(call.value);
      const bool reads_in_order = op.rule->reach == Reach::kRow || op.rule->reach == Reach::kSum ||
                                  op.rule->reach == Reach::kWhole;
      touch(call.value, true, /*in_order=*/true);
      for (const Value read : reads_of(op)) {
        const bool is_added_to = read == op.decided.added_to;
        touch(read, is_added_to, reads_in_order || is_added_to);
      }
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
  // They lie in their file for ever.
  if (features.size() > 0) problem.live.push_back({features, -1, count});
  return problem;
}

std::int64_t least_paged_bytes(const PagingProblem& problem) {
  std::int64_t least = 0;
  for (const PagingStep& step : problem.steps) {
    std::vector<std::pair<std::int64_t, std::int64_t>> units;
    for (const auto& touched : step.touched) {
      if (touched.in_order) continue;
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
  return least + window_of(problem);
}

PagingPlan plan_paging(const PagingProblem& problem, std::int64_t budget) {
  return Planner(problem, budget).run();
}

}  // namespace atl
