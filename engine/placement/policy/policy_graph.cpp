#include "engine/placement/policy/policy_graph.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "base/error.hpp"

namespace atl {

// Columns of nodes: the kind, then a block of each kind.
enum PolicyNodeColumn : std::uint8_t {
  kIsGroup,
  kIsDevice,
  kIsCandidate,
  kGroup,
  kDevice = kGroup + 15,
  kCandidate = kDevice + 10,
};
static_assert(kPolicyNodeColumns == kCandidate + 9);
// Columns of edges: the kind, then what each kind says.
enum PolicyEdgeKind : std::uint8_t {
  kNextLayer,
  kPreviousLayer,
  kMessage,
  kLink,
  kPlacedOn,
  kHolds,
  kOffers,
  kBears,
  kEdgeKinds,
};
enum PolicyEdgeColumn : std::uint8_t {
  kMessageSeconds = kEdgeKinds,
  kLinkValues,
  kPlacedShare = kLinkValues + 3,
  kOfferedChange,
  kBorneChange = kOfferedChange + 3,
};
static_assert(kPolicyEdgeColumns == kBorneChange + 3);

// Edges in any order, then sorted by destination.
class PolicyEdgeList {
 public:
  // The features of the new edge, 0 but for its kind; valid until the next call.
  std::vector<float>& add(PolicyEdgeKind kind, int source, int destination) {
    std::vector<float> features(kPolicyEdgeColumns, 0.0F);
    features[kind] = 1;
    edges_.push_back({{destination, source}, std::move(features)});
    return edges_.back().second;
  }
  // Fills edge_begin, edge_source and edge_features; graph.nodes is set.
  void write(PolicyGraph& graph) {
    std::ranges::stable_sort(edges_, {}, &Edge::first);
    graph.edge_begin.assign(static_cast<std::size_t>(graph.nodes) + 1, 0);
    for (const Edge& edge : edges_) {
      ++graph.edge_begin[static_cast<std::size_t>(edge.first.first) + 1];
      graph.edge_source.push_back(LocalId{edge.first.second});
      graph.edge_features.insert(graph.edge_features.end(), edge.second.begin(), edge.second.end());
    }
    std::partial_sum(graph.edge_begin.begin(), graph.edge_begin.end(), graph.edge_begin.begin());
  }

 private:
  // (destination, source), features
  using Edge = std::pair<std::pair<int, int>, std::vector<float>>;
  std::vector<Edge> edges_;
};

namespace {

// Shares of an epoch from 0 on: 5 % is 0.23, all of it 1.
float share(double x) { return static_cast<float>(std::log1p(20 * x) / 3); }
// Changes in shares of an epoch: 1 % is 0.24, 10 % 1.2.
float change(double x) { return static_cast<float>(std::asinh(50 * x) / 2); }

// Features of a node: its kind, and that kind's values from column `first` on.
template <std::size_t kValues>
std::vector<float> node_of(PolicyNodeColumn kind, PolicyNodeColumn first,
                           const std::array<float, kValues>& values) {
  std::vector<float> features(kPolicyNodeColumns, 0.0F);
  features[kind] = 1;
  std::ranges::copy(values, features.begin() + first);
  return features;
}

double greatest(const std::vector<double>& values) { return *std::ranges::max_element(values); }

// log2 of a rate against the mean of all ranks.
template <typename Rate>
float relative_speed(const Topology& topology, int rank, const Rate& rate) {
  double mean = 0;
  for (const Device& device : topology.devices) mean += rate(device) / topology.ranks();
  return static_cast<float>(std::log2(rate(topology.device(rank)) / mean));
}

double fastest_link(const Topology& topology) {
  double fastest = 0;
  topology.for_each_pair(
      [&](int a, int b) { fastest = std::max(fastest, topology.link(a, b).bytes_per_s); });
  return fastest;
}

double missing_share(const Topology& topology, std::span<const double> memory) {
  double all = 0;
  for (const Device& device : topology.devices) all += device.memory_bytes;
  return missing_bytes(topology, memory) / all;
}

}  // namespace

struct PolicyGraphMaker::Draft {
  PolicyGraph graph;
  PolicyEdgeList edges;
  std::vector<char> touched;  // by group: some option changes it
};

PolicyGraphMaker::PolicyGraphMaker(const PlanSpace& space)
    : space_(space), topology_(space.topology()), fastest_link_(fastest_link(topology_)) {
  const std::vector<int> start = space.start();
  layers_ = layers_of(space.tasks(start, TaskDetail::kPhases));
  read_simulation();
  find_influences();
}

Workload PolicyGraphMaker::workload(std::span<const int> choice) const {
  return count_workload(topology_, space_.tasks(choice, TaskDetail::kPhases), layers_);
}

void PolicyGraphMaker::read_simulation() {
  const TaskTimes& times = space_.start_times();
  const std::vector<int> start = space_.start();
  const TaskGraph graph = space_.tasks(start, TaskDetail::kMerged);
  ATOLL_ASSERT(times.end_s.size() == static_cast<std::size_t>(graph.size()));
  epoch_s_ = times.makespan_s > 0 ? times.makespan_s : 1;
  simulated_.resize(static_cast<std::size_t>(topology_.ranks() * (layers_ + 1)));
  utilisation_.assign(static_cast<std::size_t>(topology_.ranks()), 0);
  std::vector<double> ended(static_cast<std::size_t>(topology_.ranks()), 0);
  for (TaskId id = 0; id < graph.size(); ++id) {
    const SimTask& task = graph.task(id);
    if (task.kind != TaskKind::kCompute) continue;
    const auto i = static_cast<std::size_t>(id);
    const auto r = static_cast<std::size_t>(task.rank);
    Simulated& group = simulated_[r * static_cast<std::size_t>(layers_ + 1) +
                                  static_cast<std::size_t>(slot_of(task, layers_))];
    group.busy += per_epoch(times.end_s[i] - times.start_s[i]);
    group.waits += per_epoch(times.start_s[i] - ended[r]);
    utilisation_[r] += per_epoch(times.end_s[i] - times.start_s[i]);
    ended[r] = times.end_s[i];
  }
}

void PolicyGraphMaker::mark_differences(const Workload& a, const Workload& b,
                                        std::vector<char>& touched) {
  // More than the rounding of their sums.
  const auto differ = [](double x, double y) { return std::abs(x - y) > 1e-9 * (x + y); };
  for (std::size_t g = 0; g < a.groups.size(); ++g) {
    const GroupLoad &x = a.groups[g], &y = b.groups[g];
    if (differ(x.compute, y.compute) || differ(x.collective, y.collective) ||
        differ(x.arrival, y.arrival) || differ(x.sent_inside, y.sent_inside) ||
        differ(x.sent_outside, y.sent_outside)) {
      touched[g] = 1;
    }
  }
}

void PolicyGraphMaker::find_influences() {
  const std::vector<int> start = space_.start();
  const Workload base = workload(start);
  for (int d = 0; d < space_.decisions(); ++d) {
    std::vector<char>& touched = influences_.emplace_back(base.groups.size(), 0);
    std::vector<int> choice = start;
    for (int option = 0; option < space_.options(d); ++option) {
      choice[static_cast<std::size_t>(d)] = option;
      if (choice != start) mark_differences(base, workload(choice), touched);
    }
  }
}

void PolicyGraphMaker::add_node(Draft& draft, const std::vector<float>& features) {
  std::vector<float>& all = draft.graph.node_features;
  all.insert(all.end(), features.begin(), features.end());
}

float PolicyGraphMaker::memory_used(std::span<const double> memory, int rank) const {
  const double used = memory[static_cast<std::size_t>(rank)];
  return static_cast<float>(std::min(4.0, used / topology_.device(rank).memory_bytes));
}

std::vector<float> PolicyGraphMaker::group_features(const Workload& base, int rank, int slot,
                                                    int decision) const {
  const GroupLoad& load = base.group(rank, slot);
  const auto g = static_cast<std::size_t>(rank * base.slots + slot);
  int all = 0, decided = 0;
  for (int d = 0; d < space_.decisions(); ++d) {
    if (!influences_[static_cast<std::size_t>(d)][g]) continue;
    ++all;
    if (d < decision) ++decided;
  }
  const std::array<float, kDevice - kGroup> values = {
      share(per_epoch(load.compute)),
      share(per_epoch(load.collective)),
      share(per_epoch(load.sent_inside)),
      share(per_epoch(load.sent_outside)),
      share(per_epoch(load.received_inside)),
      share(per_epoch(load.received_outside)),
      share(per_epoch(load.arrival)),
      share(per_epoch(load.window)),
      share(per_epoch(load.exposed)),
      share(simulated_[g].busy),
      share(simulated_[g].waits),
      all == 0 ? 1.0F : static_cast<float>(decided) / static_cast<float>(all),
      influences_[static_cast<std::size_t>(decision)][g] ? 1.0F : 0.0F,
      static_cast<float>(slot) / static_cast<float>(base.slots),
      slot == layers_ ? 1.0F : 0.0F};
  return node_of(kIsGroup, kGroup, values);
}

std::vector<float> PolicyGraphMaker::device_features(const Workload& base,
                                                     std::span<const double> memory,
                                                     int rank) const {
  constexpr std::int64_t kColumns = 64;
  const auto r = static_cast<std::size_t>(rank);
  const Device& device = topology_.devices[r];
  double bandwidth = 0;
  for (int other = 0; other < topology_.ranks(); ++other) {
    if (other != rank) bandwidth = std::max(bandwidth, topology_.link(rank, other).bytes_per_s);
  }
  const std::array<float, kCandidate - kDevice> values = {
      relative_speed(topology_, rank,
                     [](const Device& d) { return rate_at(d.spmm_bytes_per_s, kColumns); }),
      relative_speed(topology_, rank,
                     [](const Device& d) { return rate_at(d.gemm_flop_per_s, kColumns); }),
      relative_speed(topology_, rank, [](const Device& d) { return d.elementwise_bytes_per_s; }),
      relative_speed(topology_, rank, [](const Device& d) { return d.quantize_bytes_per_s; }),
      memory_used(memory, rank), static_cast<float>(utilisation_[r]),
      share(per_epoch(base.computing[r])),
      share(per_epoch(base.card_seconds[static_cast<std::size_t>(device.host)])),
      static_cast<float>(std::log2(topology_.ranks()) / 4),
      // The share of its time that messages take while its fastest link is full.
      share(device.polling_share + device.progress_s_per_byte * bandwidth)};
  return node_of(kIsDevice, kDevice, values);
}

void PolicyGraphMaker::add_groups(const Workload& base, int decision, Draft& draft) const {
  for (int r = 0; r < base.ranks; ++r) {
    const int device = first_device() + r;
    const double computing = base.computing[static_cast<std::size_t>(r)];
    for (int slot = 0; slot < base.slots; ++slot) {
      const int group = r * base.slots + slot;
      add_node(draft, group_features(base, r, slot, decision));
      if (slot > 0) draft.edges.add(kNextLayer, group - 1, group);
      if (slot + 1 < base.slots) draft.edges.add(kPreviousLayer, group + 1, group);
      const double part = computing > 0 ? base.group(r, slot).compute / computing : 0;
      draft.edges.add(kHolds, device, group)[kPlacedShare] = static_cast<float>(part);
      draft.edges.add(kPlacedOn, group, device)[kPlacedShare] = static_cast<float>(part);
    }
  }
}

void PolicyGraphMaker::add_link(const Workload& base, int from, int to, Draft& draft) const {
  const int ranks = base.ranks;
  double seconds = 0;
  for (int slot = 0; slot < base.slots; ++slot) {
    const double message =
        base.pair_seconds[static_cast<std::size_t>((slot * ranks + from) * ranks + to)];
    seconds += message;
    if (message == 0) continue;
    draft.edges.add(kMessage, from * base.slots + slot, to * base.slots + slot)[kMessageSeconds] =
        share(per_epoch(message));
  }
  const double rate = topology_.link(from, to).bytes_per_s;
  const bool inside = topology_.device(from).host == topology_.device(to).host;
  std::vector<float>& link = draft.edges.add(kLink, first_device() + from, first_device() + to);
  link[kLinkValues] = share(per_epoch(seconds));
  link[kLinkValues + 1] = static_cast<float>(std::log10(rate / fastest_link_) / 3);
  link[kLinkValues + 2] = inside ? 1.0F : 0.0F;
}

void PolicyGraphMaker::add_candidate(const Workload& base, const Option& option, int node,
                                     Draft& draft) const {
  const Workload& load = option.load;
  const auto changed = [&](double after, double before) {
    return change(per_epoch(after - before));
  };
  const std::array<float, kPolicyNodeColumns - kCandidate> values = {
      changed(load.lower_bound, base.lower_bound),
      changed(load.slowest_rank, base.slowest_rank),
      changed(load.slowest_steps, base.slowest_steps),
      changed(greatest(load.computing), greatest(base.computing)),
      changed(greatest(load.card_seconds), greatest(base.card_seconds)),
      share(missing_share(topology_, option.memory)),
      option.is_start ? 1.0F : 0.0F,
      option.is_inherited ? 1.0F : 0.0F,
      1.0F / static_cast<float>(draft.graph.options)};
  add_node(draft, node_of(kIsCandidate, kCandidate, values));
  for (int r = 0; r < base.ranks; ++r) {
    for (int slot = 0; slot < base.slots; ++slot) {
      if (!draft.touched[static_cast<std::size_t>(r * base.slots + slot)]) continue;
      const GroupLoad &after = load.group(r, slot), &before = base.group(r, slot);
      std::vector<float>& offer = draft.edges.add(kOffers, r * base.slots + slot, node);
      offer[kOfferedChange] = changed(after.compute, before.compute);
      offer[kOfferedChange + 1] =
          changed(after.exposed + after.collective, before.exposed + before.collective);
      offer[kOfferedChange + 2] = changed(after.arrival, before.arrival);
    }
    const auto i = static_cast<std::size_t>(r);
    const auto host = static_cast<std::size_t>(topology_.devices[i].host);
    std::vector<float>& borne = draft.edges.add(kBears, first_device() + r, node);
    borne[kBorneChange] = changed(load.computing[i], base.computing[i]);
    borne[kBorneChange + 1] = changed(load.card_seconds[host], base.card_seconds[host]);
    borne[kBorneChange + 2] = memory_used(option.memory, r);
  }
}

PolicyGraph PolicyGraphMaker::make(std::span<const int> chosen, int decision) const {
  ATOLL_ASSERT(static_cast<int>(chosen.size()) == decision && decision < space_.decisions());
  const std::vector<int> start = space_.start();
  const std::vector<int> choice = inherit(space_, start, chosen);
  const Workload base = workload(choice);
  Draft draft;
  draft.graph.options = space_.options(decision);
  draft.graph.nodes = first_device() + base.ranks + draft.graph.options;
  draft.touched.assign(base.groups.size(), 0);
  add_groups(base, decision, draft);
  const std::vector<double> memory = space_.memory_bytes(choice);
  for (int r = 0; r < base.ranks; ++r) {
    add_node(draft, device_features(base, memory, r));
    for (int from = 0; from < base.ranks; ++from) {
      if (from != r) add_link(base, from, r, draft);
    }
  }
  std::vector<Option> options;
  const auto d = static_cast<std::size_t>(decision);
  std::vector<int> prefix(chosen.begin(), chosen.end());
  prefix.push_back(0);
  for (int& option = prefix.back(); option < draft.graph.options; ++option) {
    const std::vector<int> full = inherit(space_, start, prefix);
    Workload load = workload(full);
    mark_differences(base, load, draft.touched);
    options.push_back(
        {space_.memory_bytes(full), std::move(load), option == start[d], option == choice[d]});
  }
  for (int option = 0; option < draft.graph.options; ++option) {
    add_candidate(base, options[static_cast<std::size_t>(option)],
                  first_device() + base.ranks + option, draft);
  }
  draft.edges.write(draft.graph);
  return std::move(draft.graph);
}

}  // namespace atl
