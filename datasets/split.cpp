#include "datasets/split.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.hpp"
#include "base/philox.hpp"

namespace atl {

namespace {

constexpr std::string_view kPerClass = "per-class:";

// Labelled nodes in a random order: sorted by 64 random bits of their id.
std::vector<std::int32_t> shuffled(std::span<const std::uint8_t> labelled, std::uint64_t seed) {
  std::vector<std::pair<std::uint64_t, std::int32_t>> keyed;
  for (std::size_t i = 0; i < labelled.size(); ++i) {
    if (labelled[i] == 0) continue;
    const PhiloxBlock bits = random_block({seed, RandomStream::kSplit}, i, 0);
    keyed.emplace_back(std::uint64_t{bits[0]} << 32U | bits[1], static_cast<std::int32_t>(i));
  }
  std::sort(keyed.begin(), keyed.end());
  std::vector<std::int32_t> nodes(keyed.size());
  std::transform(keyed.begin(), keyed.end(), nodes.begin(), [](const auto& k) { return k.second; });
  return nodes;
}

}  // namespace

SplitSpec parse_split(const std::string& text) {
  SplitSpec spec;
  std::string_view rest = text;
  spec.per_class = rest.starts_with(kPerClass);
  if (spec.per_class) rest.remove_prefix(kPerClass.size());
  const auto bad = [&](const char* why) {
    fail_option(
        "split '{}': {}; allowed are three shares such as 0.6,0.2,0.2 or counts such as "
        "per-class:20,500,1000",
        text, why);
  };
  for (std::size_t i = 0; i < 3; ++i) {
    const auto [stop, error] =
        std::from_chars(rest.data(), rest.data() + rest.size(), spec.amount[i]);
    if (error != std::errc() || !std::isfinite(spec.amount[i]) || spec.amount[i] < 0) {
      bad("not three numbers that are 0 or more");
    }
    rest.remove_prefix(static_cast<std::size_t>(stop - rest.data()));
    if (i < 2 && !rest.starts_with(',')) bad("not three numbers");
    if (i < 2) rest.remove_prefix(1);
    if (spec.per_class && (spec.amount[i] != std::floor(spec.amount[i]) || spec.amount[i] > 2e9)) {
      bad("counts must be whole numbers");
    }
  }
  if (!rest.empty()) bad("something follows the third number");
  if (spec.amount[0] == 0) bad("the training part is empty");
  if (!spec.per_class && spec.amount[0] + spec.amount[1] + spec.amount[2] > 1 + 1e-9) {
    bad("the shares sum to more than 1");
  }
  return spec;
}

std::vector<std::uint8_t> make_split(const std::array<std::int64_t, 3>& counts,
                                     std::span<const std::uint8_t> labelled, std::uint64_t seed) {
  const std::vector<std::int32_t> nodes = shuffled(labelled, seed);
  const std::int64_t wanted = counts[0] + counts[1] + counts[2];
  if (wanted > static_cast<std::int64_t>(nodes.size())) {
    fail_option("split of {} + {} + {} nodes: only {} nodes have labels", counts[0], counts[1],
                counts[2], nodes.size());
  }
  std::vector<std::uint8_t> split(labelled.size(), 255);
  auto next = nodes.begin();
  for (std::uint8_t part = 0; part < 3; ++part) {
    for (std::int64_t i = 0; i < counts[part]; ++i) split[*next++] = part;
  }
  return split;
}

namespace {

std::vector<std::uint8_t> make_per_class_split(const SplitSpec& spec,
                                               std::span<const std::uint8_t> labelled,
                                               std::span<const std::int32_t> labels,
                                               std::uint64_t seed) {
  if (labels.empty()) {
    fail_option(
        "a split per class needs one label per node, a class; this set has numbers to predict, "
        "several labels per node or none");
  }
  const std::int64_t classes = std::int64_t{*std::max_element(labels.begin(), labels.end())} + 1;
  std::vector<std::int64_t> missing(static_cast<std::size_t>(std::max<std::int64_t>(classes, 0)),
                                    static_cast<std::int64_t>(spec.amount[0]));
  std::vector<std::uint8_t> split(labels.size(), 255);
  std::vector<std::int32_t> others;
  for (const std::int32_t node : shuffled(labelled, seed)) {
    std::int64_t& left = missing[labels[node]];
    if (left > 0) {
      split[node] = 0;
      --left;
    } else {
      others.push_back(node);
    }
  }
  const auto valid = static_cast<std::size_t>(spec.amount[1]);
  const auto test = static_cast<std::size_t>(spec.amount[2]);
  if (valid + test > others.size()) {
    fail_option(
        "split per class: {} validation and {} test nodes wanted, but only {} labelled nodes "
        "are left after the training nodes",
        valid, test, others.size());
  }
  for (std::size_t i = 0; i < valid + test; ++i) split[others[i]] = i < valid ? 1 : 2;
  return split;
}

}  // namespace

std::vector<std::uint8_t> make_split(const SplitSpec& spec, std::span<const std::uint8_t> labelled,
                                     std::span<const std::int32_t> labels, std::uint64_t seed) {
  if (spec.per_class) return make_per_class_split(spec, labelled, labels, seed);
  const auto total = static_cast<double>(
      std::count_if(labelled.begin(), labelled.end(), [](std::uint8_t yes) { return yes != 0; }));
  std::array<std::int64_t, 3> counts{};
  std::int64_t before = 0;
  double share = 0;
  for (std::size_t part = 0; part < 3; ++part) {
    share += spec.amount[part];
    const auto upto = std::min(std::llround(share * total), std::llround(total));
    counts[part] = upto - before;
    before = upto;
  }
  return make_split(counts, labelled, seed);
}

}  // namespace atl
