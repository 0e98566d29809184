// Jobs and hosts that aren't there, for tests of schedules.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "engine/placement/job_schedule.hpp"
#include "engine/placement/random_draws.hpp"

namespace atl {

// Speeds as functions say.
class MadeSpeeds final : public JobSpeeds {
 public:
  using Seconds = std::function<double(int job, const JobPlacement& placement)>;
  explicit MadeSpeeds(Seconds seconds, Seconds share = {})
      : seconds_(std::move(seconds)), share_(std::move(share)) {}
  // Seconds for each job, by ranks from 1 on, wherever they are; no cards.
  explicit MadeSpeeds(std::vector<std::vector<double>> by_ranks)
      : MadeSpeeds([by_ranks](int job, const JobPlacement& placement) {
          const auto ranks = static_cast<std::size_t>(placement.ranks());
          return ranks > by_ranks[job].size() ? kCantTrain : by_ranks[job][ranks - 1];
        }) {}

  double epoch_s(int job, const JobPlacement& placement) override {
    return seconds_(job, placement);
  }
  std::vector<double> card_shares(int job, const JobPlacement& placement) override {
    return std::vector<double>(placement.hosts.size(), share_ ? share_(job, placement) : 0);
  }

 private:
  Seconds seconds_;
  Seconds share_;  // of the card of each host
};

inline std::vector<ScheduledHost> made_hosts(int count, int slots) {
  std::vector<ScheduledHost> hosts;
  for (int h = 0; h < count; ++h) hosts.push_back({fmt::format("host-{}", h), slots});
  return hosts;
}

// A list drawn at random: epochs scale with ranks more or less well, and cost more on several
// hosts, on slow ones and where one rank lacks memory.
struct MadeList {
  struct Model {
    double seconds = 1, serial = 0, network = 0;
    int least_hosts_ranks = 1;  // fewer ranks can't train it
  };
  std::vector<ScheduledHost> hosts;
  std::vector<SchedulableJob> jobs;
  std::vector<Model> models;

  MadeList(std::uint64_t seed, int job_count, int host_count, int slots, bool kinds = false) {
    RandomDraws draws(seed);
    hosts = made_hosts(host_count, slots);
    if (kinds) {
      for (ScheduledHost& host : hosts) host.kind = draws.below(2);
    }
    double arrival_s = 0;
    for (int j = 0; j < job_count; ++j) {
      const int least =
          draws.chance(0.7) ? 1 : draws.between(1, host_count) * draws.between(1, slots);
      const int most = draws.between(least, host_count * slots);
      jobs.push_back({fmt::format("job-{}", j), arrival_s, draws.between(1, 40), least, most,
                      draws.chance(0.3) ? draws.uniform(0.5, 4) : 1,
                      draws.chance(0.3) ? 0 : draws.uniform(0.5, 8)});
      if (draws.chance(0.7)) arrival_s += draws.uniform(0, 40);
      models.push_back({draws.log_uniform(0.5, 8), draws.uniform(0, 0.4), draws.uniform(0, 0.3),
                        draws.chance(0.8) ? 1 : least});
    }
  }

  MadeSpeeds speeds() const {
    return MadeSpeeds(
        [this](int job, const JobPlacement& placement) {
          const Model& model = models[job];
          const int ranks = placement.ranks();
          if (ranks < model.least_hosts_ranks) return kCantTrain;
          double slowest = 1;
          for (const int h : placement.hosts) slowest = std::max(slowest, 1 + 0.7 * hosts[h].kind);
          const bool sends = placement.hosts.size() > 1;
          return model.seconds * (slowest * (model.serial + (1 - model.serial) / ranks) +
                                  (sends ? model.network : 0));
        },
        [this](int job, const JobPlacement& placement) {
          return placement.hosts.size() > 1 ? std::min(1.0, 4 * models[job].network) : 0;
        });
  }
};

}  // namespace atl
