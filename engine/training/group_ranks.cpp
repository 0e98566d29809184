#include "engine/training/group_ranks.hpp"

#include <fmt/ranges.h>

#include <charconv>
#include <vector>

#include "base/error.hpp"
#include "engine/training/host_share.hpp"

namespace atl {

namespace {

constexpr const char* kPerHost = "host";
constexpr const char* kAllRanks = "all";
constexpr int kMostPerGroup = 1000000;

std::vector<int> divisors_of(int number) {
  std::vector<int> divisors;
  for (int d = 1; d <= number; ++d) {
    if (number % d == 0) divisors.push_back(d);
  }
  return divisors;
}

// Ranks of each host, if all hosts have as many and theirs follow one another; else 0.
int ranks_per_host(Transport& transport) {
  const std::vector<std::int64_t> hosts = hosts_of_ranks(transport);
  int each = 1;
  while (each < transport.size() && hosts[static_cast<std::size_t>(each)] == hosts[0]) ++each;
  if (transport.size() % each != 0) return 0;
  for (int rank = 0; rank < transport.size(); ++rank) {
    for (int other = 0; other < rank; ++other) {
      const bool same_host =
          hosts[static_cast<std::size_t>(rank)] == hosts[static_cast<std::size_t>(other)];
      if (same_host != (rank / each == other / each)) return 0;
    }
  }
  return each;
}

}  // namespace

std::string to_string(const GroupRanks& ranks) {
  switch (ranks.by) {
    case GroupRanks::By::kHost:
      return kPerHost;
    case GroupRanks::By::kAll:
      return kAllRanks;
    case GroupRanks::By::kNumber:
      break;
  }
  return std::to_string(ranks.number);
}

GroupRanks parse_group_ranks(const std::string& text) {
  if (text == kPerHost) return {.by = GroupRanks::By::kHost};
  if (text == kAllRanks) return {.by = GroupRanks::By::kAll};
  GroupRanks ranks;
  const char* const end = text.data() + text.size();
  const auto [parsed, error] = std::from_chars(text.data(), end, ranks.number);
  if (error != std::errc() || parsed != end || ranks.number < 1 || ranks.number > kMostPerGroup) {
    fail_option("--group-ranks {}: allowed are whole numbers from 1 to {}, {} and {}", text,
                kMostPerGroup, kPerHost, kAllRanks);
  }
  return ranks;
}

RankMap rank_map(const GroupRanks& wish, Transport& transport) {
  const int ranks = transport.size();
  int each = wish.number;
  if (wish.by == GroupRanks::By::kAll) each = ranks;
  if (wish.by == GroupRanks::By::kHost) {
    each = ranks_per_host(transport);
    if (each == 0) {
      fail_option(
          "--group-ranks host: hosts have different numbers of ranks, or ranks of a host don't "
          "follow one another; allowed are {} and all, or place as many ranks on each host, one "
          "host after the other",
          fmt::join(divisors_of(ranks), ", "));
    }
  }
  if (ranks % each != 0) {
    fail_option("--group-ranks {}: {} ranks can't be divided into groups of {}; allowed are {}",
                to_string(wish), ranks, each, fmt::join(divisors_of(ranks), ", "));
  }
  return RankMap(ranks / each, each);
}

}  // namespace atl
