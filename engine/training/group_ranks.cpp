#include "engine/training/group_ranks.hpp"

#include <fmt/ranges.h>

#include <vector>

#include "base/error.hpp"
#include "base/numbers.hpp"
#include "engine/training/host_share.hpp"

namespace atl {

namespace {

constexpr const char* kPerHost = "host";
constexpr const char* kAllRanks = "all";
constexpr const char* kByPlan = "auto";
constexpr int kMostPerGroup = 1000000;

std::vector<int> divisors_of(int number) {
  std::vector<int> divisors;
  for (int d = 1; d <= number; ++d) {
    if (number % d == 0) divisors.push_back(d);
  }
  return divisors;
}

}  // namespace

std::string to_string(const GroupRanks& ranks) {
  switch (ranks.by) {
    case GroupRanks::By::kHost:
      return kPerHost;
    case GroupRanks::By::kAll:
      return kAllRanks;
    case GroupRanks::By::kAuto:
      return kByPlan;
    case GroupRanks::By::kNumber:
      break;
  }
  return std::to_string(ranks.number);
}

GroupRanks parse_group_ranks(const std::string& text) {
  if (text == kPerHost) return {.by = GroupRanks::By::kHost};
  if (text == kAllRanks) return {.by = GroupRanks::By::kAll};
  if (text == kByPlan) return {.by = GroupRanks::By::kAuto};
  const auto number = parse_number<int>(text, 1, kMostPerGroup);
  if (!number) {
    fail_option("--group-ranks {}: allowed are whole numbers from 1 to {}, {}, {} and {}", text,
                kMostPerGroup, kPerHost, kAllRanks, kByPlan);
  }
  return {.number = *number};
}

RankMap rank_map(const GroupRanks& wish, Transport& transport) {
  if (wish.by == GroupRanks::By::kHost) return rank_map(wish, hosts_of_ranks(transport));
  return rank_map(wish, std::vector<std::int64_t>(static_cast<std::size_t>(transport.size()), 0));
}

RankMap rank_map(const GroupRanks& wish, std::span<const std::int64_t> hosts) {
  if (wish.by == GroupRanks::By::kAuto) {
    fail_option(
        "--group-ranks auto: it is decided by the rates of a machine, which a plan knows; allowed "
        "here are whole numbers, host and all, or --plan with a plan of atoll plan");
  }
  const int ranks = static_cast<int>(hosts.size());
  int each = wish.number;
  if (wish.by == GroupRanks::By::kAll) each = ranks;
  if (wish.by == GroupRanks::By::kHost) {
    each = ranks_of_each(hosts);
    if (each == 0) {
      fail_option(
          "--group-ranks host: hosts have different numbers of ranks, or ranks of a host don't "
          "follow one another; allowed are {} and all, or place as many ranks on each host, one "
          "host after the other",
          fmt::join(divisors_of(ranks), ", "));
    }
  }
  if (ranks % each != 0) {
    fail_option("--group-ranks {}: {} rank{} can't be divided into groups of {}; allowed {} {}",
                to_string(wish), ranks, ranks == 1 ? "" : "s", each, ranks == 1 ? "is" : "are",
                fmt::join(divisors_of(ranks), ", "));
  }
  return RankMap(ranks / each, each);
}

}  // namespace atl
