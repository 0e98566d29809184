#include "engine/trace/clock_alignment.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "engine/trace/clock_line.hpp"

namespace atl {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Rounding of times in the file, which count from the start of the host.
constexpr double kSumRoundingUs = 0.001;
// Beyond this no contradiction is a matter of resolution.
constexpr double kResolutionUs = 1;
// Times of a device's queue are known from the host's time of one event, and so less well.
constexpr double kQueueMarginUs = 100;
// Linux corrects its clock by at most 500 ppm, so two differ by at most twice that.
constexpr double kSteepestDrift = 1e-3;

// `before_us` of one host's clock was not after `after_us` of another's, give or take the margin.
struct Constraint {
  int before = 0;
  int after = 0;
  double before_us = 0;
  double after_us = 0;
  double margin_us = 0;
};

struct Span {
  double low = -kInfinity;
  double high = kInfinity;
};

class Aligner {
 public:
  Aligner(const Trace& trace, const std::vector<MatchedPacket>& packets,
          const std::vector<MatchedReduction>& reductions)
      : trace_(trace) {
    find_hosts();
    for (const MatchedPacket& packet : packets) add(packet);
    for (const MatchedReduction& reduction : reductions) add(reduction);
  }

  ClockAlignment align() {
    std::vector<Span> offsets = bound_offsets(0);
    if (offsets.empty()) {
      fit_drifts();
      offsets = bound_offsets(0);
      if (offsets.empty()) offsets = bound_offsets(kResolutionUs);
      if (offsets.empty()) fail_contradiction();
    }
    for (std::size_t h = 0; h < offsets.size(); ++h) set_offset(h, offsets[h]);
    find_drift_ranges();
    return std::move(result_);
  }

 private:
  std::vector<HostClock>& hosts() { return result_.hosts; }
  std::size_t count() const { return result_.hosts.size(); }
  int host_of(int rank) const { return result_.host_of[static_cast<std::size_t>(rank)]; }

  void find_hosts() {
    std::map<std::string, int> index;
    std::vector<Span> seen;
    for (std::size_t r = 0; r < trace_.ranks.size(); ++r) {
      const RankTrace& rank = trace_.ranks[r];
      const auto [found, is_new] = index.try_emplace(rank.host_key, static_cast<int>(count()));
      if (is_new) {
        hosts().push_back({.name = rank.host, .ranks = {}});
        seen.push_back({kInfinity, -kInfinity});
      }
      const auto host = static_cast<std::size_t>(found->second);
      hosts()[host].ranks.push_back(static_cast<int>(r));
      result_.host_of.push_back(found->second);
      for (const TraceEvent& e : rank.events) {
        seen[host] = {std::min(seen[host].low, e.begin_us), std::max(seen[host].high, e.end_us)};
      }
    }
    for (std::size_t h = 0; h < count(); ++h) {
      if (seen[h].low <= seen[h].high) hosts()[h].pivot_us = (seen[h].low + seen[h].high) / 2;
    }
  }

  void add(const MatchedPacket& packet) {
    constraints_.push_back({host_of(packet.source), host_of(packet.destination),
                            trace_.event(packet.source, packet.send).begin_us,
                            trace_.event(packet.destination, packet.packet).end_us});
  }

  // Only the last rank of a host to begin and the first to end say something.
  void add(const MatchedReduction& reduction) {
    std::vector<Span> seen(count(), {kInfinity, -kInfinity});  // first end, last begin
    bool queued = false;
    for (std::size_t r = 0; r < reduction.size(); ++r) {
      const TraceEvent& e = trace_.event(static_cast<int>(r), reduction[r]);
      Span& host = seen[static_cast<std::size_t>(result_.host_of[r])];
      host = {std::min(host.low, e.end_us), std::max(host.high, e.begin_us)};
      if (e.lane == kQueueLane) queued = true;
    }
    for (std::size_t a = 0; a < count(); ++a) {
      for (std::size_t b = 0; b < count(); ++b) {
        // On one host, it would only tell of its devices.
        if (queued && a == b) continue;
        constraints_.push_back({static_cast<int>(a), static_cast<int>(b), seen[a].high, seen[b].low,
                                queued ? kQueueMarginUs : 0});
      }
    }
  }

  // Time without its offset.
  double drifted(int host, double time_us) const {
    const HostClock& clock = result_.hosts[static_cast<std::size_t>(host)];
    return time_us + clock.drift * (time_us - clock.pivot_us);
  }

  // before + o[a] <= after + o[b] for all constraints is a system of differences, o[a] - o[b] <= w,
  // whose bounds are shortest paths from and to host 0 (Bellman-Ford). Empty if they contradict.
  // slack_us is granted to each constraint.
  std::vector<Span> bound_offsets(double slack_us) const {
    const std::size_t n = count();
    std::vector<double> weight(n * n, kInfinity);
    for (const Constraint& c : constraints_) {
      double& w =
          weight[static_cast<std::size_t>(c.before) * n + static_cast<std::size_t>(c.after)];
      w = std::min(w, drifted(c.after, c.after_us) - drifted(c.before, c.before_us) + c.margin_us +
                          slack_us);
    }
    std::vector<double> high(n, kInfinity);
    std::vector<double> minus_low(n, kInfinity);
    high[0] = minus_low[0] = 0;
    bool changed = true;
    for (std::size_t round = 0; changed; ++round) {
      if (round > n) return {};  // a cycle of negative length
      changed = false;
      for (std::size_t a = 0; a < n; ++a) {
        for (std::size_t b = 0; b < n; ++b) {
          const double w = weight[a * n + b];
          const auto shorten = [&](double& path, double by) {
            if (!(by < path - kSumRoundingUs)) return;
            path = by;
            changed = true;
          };
          shorten(high[a], w + high[b]);
          shorten(minus_low[b], w + minus_low[a]);
        }
      }
    }
    std::vector<Span> offsets;
    for (std::size_t h = 0; h < n; ++h) offsets.push_back({0 - minus_low[h], high[h]});
    return offsets;
  }

  void set_offset(std::size_t host, const Span& offset) {
    HostClock& clock = hosts()[host];
    if (!std::isfinite(offset.low) || !std::isfinite(offset.high)) {
      fail_input(
          "{}: the clock of host {} can't be aligned with that of host {}: the trace has no "
          "packets "
          "or sums that went from one to the other and back",
          trace_.place, clock.name, hosts()[0].name);
    }
    // Contradictions within the resolution leave an interval turned round.
    clock.low_us = std::min(offset.low, offset.high);
    clock.high_us = std::max(offset.low, offset.high);
  }

  // The bounds of `host` by its constraints with hosts that `counts` accepts, whose offsets are
  // taken as found: lines above and below points (time since the pivot, offset).
  struct Bounds {
    std::vector<ClockPoint> above, below;
    bool both() const { return !above.empty() && !below.empty(); }
  };
  template <typename Counts>
  Bounds bounds_of(int host, const std::vector<double>& offset, const Counts& counts) const {
    Bounds bounds;
    const double pivot = result_.hosts[static_cast<std::size_t>(host)].pivot_us;
    const auto common = [&](int other, double time) {
      return drifted(other, time) + offset[static_cast<std::size_t>(other)];
    };
    for (const Constraint& c : constraints_) {
      if (c.before == c.after) continue;
      if (c.after == host && counts(c.before)) {
        bounds.above.push_back(
            {c.after_us - pivot, common(c.before, c.before_us) - c.margin_us - c.after_us});
      } else if (c.before == host && counts(c.after)) {
        bounds.below.push_back(
            {c.before_us - pivot, common(c.after, c.after_us) + c.margin_us - c.before_us});
      }
    }
    return bounds;
  }

  // Places host after host beside those placed, then corrects each by all others until nothing
  // contradicts. What can't be resolved is found by the caller.
  void fit_drifts() {
    std::vector<double> offset(count(), 0);
    std::vector<bool> placed(count(), false);
    placed[0] = true;
    const auto fit = [&](std::size_t host) {
      const Bounds bounds = bounds_of(static_cast<int>(host), offset, [&](int other) {
        return static_cast<bool>(placed[static_cast<std::size_t>(other)]);
      });
      if (!bounds.both()) return false;
      const ClockLine line = fit_clock_line(bounds.above, bounds.below, kSteepestDrift);
      hosts()[host].drift = line.slope;
      offset[host] = line.at_zero;
      return true;
    };
    for (bool changed = true; changed;) {
      changed = false;
      for (std::size_t h = 1; h < count(); ++h) {
        if (placed[h] || !fit(h)) continue;
        placed[h] = changed = true;
      }
    }
    constexpr int kRounds = 50;
    for (int round = 0; round < kRounds && bound_offsets(0).empty(); ++round) {
      for (std::size_t h = 1; h < count(); ++h) {
        if (placed[h]) fit(h);
      }
    }
  }

  // By the constraints with host 0 alone.
  void find_drift_ranges() {
    const std::vector<double> offset(count(), 0);
    for (std::size_t h = 1; h < count(); ++h) {
      HostClock& clock = hosts()[h];
      clock.least_drift = clock.most_drift = std::numeric_limits<double>::quiet_NaN();
      const Bounds bounds =
          bounds_of(static_cast<int>(h), offset, [](int other) { return other == 0; });
      if (!bounds.both()) continue;
      const ClockLine line = fit_clock_line(bounds.above, bounds.below, kSteepestDrift);
      clock.least_drift = line.least_slope;
      clock.most_drift = line.most_slope;
    }
  }

  // Names the two hosts that contradict each other most.
  [[noreturn]] void fail_contradiction() const {
    std::map<std::pair<int, int>, double> slack;
    for (const Constraint& c : constraints_) {
      const auto [found, is_new] = slack.try_emplace({c.before, c.after}, kInfinity);
      found->second = std::min(found->second, drifted(c.after, c.after_us) -
                                                  drifted(c.before, c.before_us) + c.margin_us);
    }
    double worst = 0;
    std::pair<int, int> hosts{-1, -1};
    for (const auto& [pair, there] : slack) {
      const auto back = slack.find({pair.second, pair.first});
      if (back == slack.end() || there + back->second >= worst) continue;
      worst = there + back->second;
      hosts = pair;
    }
    const auto name = [&](int h) { return result_.hosts[static_cast<std::size_t>(h)].name; };
    const std::string who =
        hosts.first < 0 ? "the clocks of several hosts contradict each other"
        : hosts.first == hosts.second
            ? fmt::format("the clock of host {} contradicts itself by {:.1f} us", name(hosts.first),
                          -worst / 2)
            : fmt::format("the clocks of hosts {} and {} contradict each other by {:.1f} us",
                          name(hosts.first), name(hosts.second), -worst);
    fail_input(
        "{}: {}: packets arrive before they were sent, whatever the offset and a drift of up to {} "
        "ppm; was a clock set during the run, or does the file mix runs?",
        trace_.place, who, kSteepestDrift * 1e6);
  }

  const Trace& trace_;
  std::vector<Constraint> constraints_;
  ClockAlignment result_;
};

}  // namespace

ClockAlignment align_clocks(const Trace& trace, const std::vector<MatchedPacket>& packets,
                            const std::vector<MatchedReduction>& reductions) {
  return Aligner(trace, packets, reductions).align();
}

}  // namespace atl
