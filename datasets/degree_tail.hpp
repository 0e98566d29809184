// The largest degrees of published graphs, as they were counted there: what a power law fitted to
// the mean and the maximum misses. Internal to datasets/ and the benchmarks.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace atl {

// Nodes of more neighbours than this count as hubs.
inline constexpr std::int64_t kHubDegree = 512;

// Degrees of the hubs of set `name` ("ogbn-arxiv", both directions of each edge), falling; empty
// where they are not known. Between the ranks that were read off, log(degree) is linear in
// log(rank). scale: of a graph of so many times as many nodes, whose hub k has the degree of
// hub k / scale of the set.
std::vector<std::int64_t> hub_degrees(std::string_view name, double scale);
std::vector<std::string_view> sets_with_hub_degrees();

}  // namespace atl
