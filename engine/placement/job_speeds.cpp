#include "engine/placement/job_speeds.hpp"

#include <algorithm>
#include <limits>
#include <map>

#include "base/error.hpp"

namespace atl {

namespace {

// Progressive filling: all jobs fill their fullest cards more and more, each as much as the others,
// until it has the rate that it has alone or one of its cards is full.
class CardFilling {
 public:
  CardFilling(std::span<const CardUse> uses, int hosts)
      : uses_(uses), left_(static_cast<std::size_t>(hosts), 1), rates_(uses.size(), -1) {
    for (const CardUse& use : uses) {
      most_.push_back(use.shares.empty() ? 0 : *std::ranges::max_element(use.shares));
    }
  }

  std::vector<double> rates() && {
    for (std::size_t k = 0; k < uses_.size(); ++k) {
      if (most_[k] == 0) settle(k, 1);
    }
    while (std::ranges::any_of(rates_, is_open)) raise();
    return std::move(rates_);
  }

 private:
  static bool is_open(double rate) { return rate < 0; }

  void settle(std::size_t k, double rate) {
    rates_[k] = rate;
    for (std::size_t i = 0; i < uses_[k].hosts.size(); ++i) {
      double& left = left_[uses_[k].hosts[i]];
      left = std::max(0.0, left - rate * uses_[k].shares[i]);
    }
  }

  // Settles those that stop next: all at the same filling of their fullest cards.
  void raise() {
    std::vector<double> load(left_.size(), 0);  // per unit of that filling
    double level = std::numeric_limits<double>::infinity();
    for (std::size_t k = 0; k < uses_.size(); ++k) {
      if (!is_open(rates_[k])) continue;
      level = std::min(level, most_[k]);
      for (std::size_t i = 0; i < uses_[k].hosts.size(); ++i) {
        load[uses_[k].hosts[i]] += uses_[k].shares[i] / most_[k];
      }
    }
    const auto fills_at = [&](std::size_t h) {
      return load[h] == 0 ? std::numeric_limits<double>::infinity() : left_[h] / load[h];
    };
    for (std::size_t h = 0; h < left_.size(); ++h) level = std::min(level, fills_at(h));
    std::vector<std::size_t> settled;
    for (std::size_t k = 0; k < uses_.size(); ++k) {
      if (!is_open(rates_[k])) continue;
      bool stops = most_[k] <= level;
      for (std::size_t i = 0; i < uses_[k].hosts.size(); ++i) {
        // Equal up to rounding, so that each round settles at least one.
        stops |= uses_[k].shares[i] > 0 && fills_at(uses_[k].hosts[i]) <= level * (1 + 1e-12);
      }
      if (stops) settled.push_back(k);
    }
    for (const std::size_t k : settled) settle(k, std::min(1.0, level / most_[k]));
  }

  std::span<const CardUse> uses_;
  std::vector<double> left_;   // of each host's card
  std::vector<double> rates_;  // negative: not settled yet
  std::vector<double> most_;   // the share of the card that a job fills most
};

bool has_full_card(std::span<const CardUse> uses, int hosts) {
  std::vector<double> load(static_cast<std::size_t>(hosts), 0);
  for (const CardUse& use : uses) {
    for (std::size_t i = 0; i < use.hosts.size(); ++i) load[use.hosts[i]] += use.shares[i];
  }
  return std::ranges::any_of(load, [](double share) { return share > 1; });
}

}  // namespace

KnownSpeeds::KnownSpeeds(JobSpeeds& speeds, std::span<const ScheduledHost> hosts)
    : speeds_(speeds) {
  std::map<int, int> numbers;
  for (const ScheduledHost& host : hosts) {
    kinds_.push_back(numbers.emplace(host.kind, static_cast<int>(numbers.size())).first->second);
    most_slots_ = std::max(most_slots_, host.slots);
  }
  kind_count_ = static_cast<int>(numbers.size());
  longer_.assign(static_cast<std::size_t>(kind_count_), -1);
}

KnownSpeeds::Known& KnownSpeeds::known(int job, const JobPlacement& placement) {
  int sequence = 0;
  for (const int host : placement.hosts) {
    const int place = sequence * kind_count_ + kinds_[host];
    if (longer_[place] < 0) {
      longer_[place] = static_cast<int>(longer_.size()) / kind_count_;
      longer_.resize(longer_.size() + static_cast<std::size_t>(kind_count_), -1);
    }
    sequence = longer_[place];
  }
  if (job >= std::ssize(known_)) known_.resize(static_cast<std::size_t>(job) + 1);
  std::vector<Known>& of_job = known_[job];
  const int place = sequence * (most_slots_ + 1) + placement.ranks_per_host;
  if (place >= std::ssize(of_job)) {
    of_job.resize(static_cast<std::size_t>((sequence + 1) * (most_slots_ + 1)));
  }
  return of_job[place];
}

double KnownSpeeds::epoch_s(int job, const JobPlacement& placement) {
  Known& answer = known(job, placement);
  if (answer.epoch_s < 0) answer.epoch_s = speeds_.epoch_s(job, placement);
  return answer.epoch_s;
}

std::vector<double> KnownSpeeds::card_shares(int job, const JobPlacement& placement) {
  Known& answer = known(job, placement);
  if (!answer.has_shares) {
    answer.shares = speeds_.card_shares(job, placement);
    answer.has_shares = true;
    ATOLL_ASSERT(answer.shares.size() == placement.hosts.size(), "{} shares of cards of {} hosts",
                 answer.shares.size(), placement.hosts.size());
  }
  return answer.shares;
}

std::vector<double> fair_rates(std::span<const CardUse> uses, int hosts) {
  if (!has_full_card(uses, hosts)) return std::vector<double>(uses.size(), 1);
  return CardFilling(uses, hosts).rates();
}

}  // namespace atl
