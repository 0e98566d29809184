#include "engine/placement/job_placements.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace atl {

namespace {

// The placements of a job that are looked at.
class Placements {
 public:
  Placements(int job, RankRange ranks, const FreeSlots& free, JobSpeeds& speeds, StartsIn starts)
      : job_(job), ranks_(ranks), free_(free), speeds_(speeds), starts_(starts) {
    const std::span<const ScheduledHost> hosts = free.hosts();
    for (int h = 0; h < std::ssize(hosts); ++h) {
      if (std::ranges::find(kinds_, hosts[h].kind) == kinds_.end()) kinds_.push_back(hosts[h].kind);
      if (free.of(h) == 0) continue;
      hosts_.push_back(h);
      most_free_ = std::max(most_free_, free.of(h));
    }
    std::ranges::stable_sort(hosts_, {}, [&](int h) { return free.of(h); });
  }

  // Calls visit(placement, seconds of an epoch) for those where it can train.
  template <typename Visit>
  void for_each(const Visit& visit) {
    for (int per_host = 1; per_host <= std::min(most_free_, ranks_.most); ++per_host) {
      std::vector<int> order;
      std::ranges::copy_if(hosts_, std::back_inserter(order),
                           [&](int h) { return free_.of(h) >= per_host; });
      std::ranges::stable_sort(order, {}, [&](int h) {
        return (free_.empty(h) >= per_host) != (starts_ == StartsIn::kEmptySlots);
      });
      visit_beginnings(order, per_host, visit);
      if (kinds_.size() > 1) visit_kinds(order, per_host, visit);
    }
  }

 private:
  template <typename Visit>
  void visit_kinds(std::vector<int> order, int per_host, const Visit& visit) {
    for (const int kind : kinds_) {
      std::vector<int> of_kind;
      std::ranges::copy_if(order, std::back_inserter(of_kind),
                           [&](int h) { return free_.hosts()[h].kind == kind; });
      visit_beginnings(of_kind, per_host, visit);
    }
    std::vector<double> alone(free_.hosts().size());
    for (const int h : order) alone[h] = speeds_.epoch_s(job_, {{h}, per_host});
    std::ranges::stable_sort(order, {}, [&](int h) { return alone[h]; });
    visit_beginnings(order, per_host, visit);
  }

  // The first hosts of `order`, as many as ranks allow.
  template <typename Visit>
  void visit_beginnings(const std::vector<int>& order, int per_host, const Visit& visit) {
    const int first = (ranks_.least + per_host - 1) / per_host;
    const int last = std::min(static_cast<int>(order.size()), ranks_.most / per_host);
    for (int count = std::max(first, 1); count <= last; ++count) {
      JobPlacement placement{{order.begin(), order.begin() + count}, per_host};
      std::ranges::sort(placement.hosts);
      const double seconds = speeds_.epoch_s(job_, placement);
      if (std::isfinite(seconds)) visit(std::move(placement), seconds);
    }
  }

  int job_;
  RankRange ranks_;
  const FreeSlots& free_;
  JobSpeeds& speeds_;
  StartsIn starts_;
  std::vector<int> hosts_;  // with free slots, fewest first
  int most_free_ = 0;
  std::vector<int> kinds_;
};

}  // namespace

FreeSlots::FreeSlots(std::span<const ScheduledHost> hosts) : hosts_(hosts) {
  for (const ScheduledHost& host : hosts) {
    slots_.push_back(host.is_lost ? 0 : host.slots);
    total_ += slots_.back();
  }
  empty_ = slots_;
}

FreeSlots::FreeSlots(const ScheduleMoment& moment) : FreeSlots(moment.hosts) {
  for (const JobState& state : moment.states) {
    if (!state.placement) continue;
    for (const int h : state.placement->hosts) empty_[h] -= state.placement->ranks_per_host;
  }
}

void FreeSlots::take(const JobPlacement& placement) {
  change(placement, -placement.ranks_per_host);
  for (const int h : placement.hosts) empty_[h] -= placement.ranks_per_host;
}

bool FreeSlots::has_room(const JobPlacement& placement) const {
  return std::ranges::all_of(placement.hosts,
                             [&](int h) { return slots_[h] >= placement.ranks_per_host; });
}

void FreeSlots::change(const JobPlacement& placement, int slots_of_each) {
  for (const int h : placement.hosts) slots_[h] += slots_of_each;
  total_ += slots_of_each * static_cast<int>(placement.hosts.size());
}

std::optional<JobPlacement> fastest_placement(int job, RankRange ranks, const FreeSlots& free,
                                              JobSpeeds& speeds, StartsIn starts) {
  if (ranks.least > free.total() || ranks.least > ranks.most) return std::nullopt;
  std::optional<JobPlacement> best;
  double best_s = kCantTrain;
  Placements(job, ranks, free, speeds, starts)
      .for_each([&](JobPlacement placement, double seconds) {
        const auto size = [](const JobPlacement& p) {
          return std::pair(p.ranks(), p.hosts.size());
        };
        const bool is_better =
            seconds < best_s || (best && seconds == best_s && size(placement) < size(*best));
        if (!is_better) return;
        best_s = seconds;
        best = std::move(placement);
      });
  return best;
}

std::vector<double> fastest_by_ranks(int job, int most, const FreeSlots& free, JobSpeeds& speeds) {
  std::vector<double> by_ranks(static_cast<std::size_t>(most) + 1, kCantTrain);
  Placements(job, {1, most}, free, speeds, StartsIn::kEmptySlots)
      .for_each([&](const JobPlacement& placement, double seconds) {
        by_ranks[placement.ranks()] = std::min(by_ranks[placement.ranks()], seconds);
      });
  return by_ranks;
}

}  // namespace atl
