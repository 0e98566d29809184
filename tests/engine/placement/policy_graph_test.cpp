#include "engine/placement/policy/policy_graph.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <set>
#include <string_view>

#include "engine/placement/policy/random_instance.hpp"
#include "tests/engine/placement/small_topology.hpp"

namespace atl {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

// Names of the columns, in order.
constexpr std::array<std::string_view, kPolicyNodeColumns> kNodeNames = {
    "is group", "is device", "is candidate",
    //
    "group compute", "group collective", "group sent inside", "group sent outside",
    "group received inside", "group received outside", "group arrival", "group window",
    "group exposed", "group busy", "group waits", "group decided", "group current",
    "group position", "group outside of layers",
    //
    "device spmm speed", "device gemm speed", "device elementwise speed", "device quantize speed",
    "device memory used", "device utilisation", "device computing", "device card", "device count",
    "device progress",
    //
    "candidate lower bound", "candidate slowest rank", "candidate slowest steps",
    "candidate computing", "candidate cards", "candidate missing memory", "candidate is start",
    "candidate is inherited", "candidate count"};

constexpr std::array<std::string_view, kPolicyEdgeColumns> kEdgeNames = {
    "next layer", "previous layer", "message", "link", "placed on", "holds", "offers", "bears",
    //
    "message seconds", "link seconds", "link bandwidth", "link inside a host", "placed share",
    "offered compute", "offered waits", "offered arrival", "borne computing", "borne card",
    "borne memory"};

// Two hosts of one rank: 100 bytes/s between them.
TEST(Workload, CountsWhatRanksComputeSendAndWaitFor) {
  const Topology topology = small_topology(2, 1, 100);
  TaskGraph graph(2);
  const auto compute = [&](int rank, double seconds, std::span<const TaskId> after = {}) {
    return graph.add({.kind = TaskKind::kCompute,
                      .name = "x",
                      .direction = "forward",
                      .layer = 0,
                      .rank = rank,
                      .seconds = seconds},
                     after);
  };
  const TaskId packed = compute(0, 1);
  const TaskId packet = graph.add({.kind = TaskKind::kTransfer,
                                   .name = "packet",
                                   .direction = "forward",
                                   .layer = 0,
                                   .rank = 0,
                                   .destination = 1,
                                   .bytes = 500},
                                  std::span(&packed, 1));
  compute(0, 4);
  compute(1, 2);  // hides two of five seconds
  const TaskId last = compute(1, 3, std::span(&packet, 1));
  graph.add({.kind = TaskKind::kDelay, .name = "all-reduce", .layer = -1, .seconds = 7},
            std::span(&last, 1));
  const Workload load = count_workload(topology, graph, 1);
  ASSERT_EQ(load.slots, 2);
  EXPECT_EQ(load.group(0, 0).compute, 5);
  EXPECT_EQ(load.group(1, 0).compute, 5);
  EXPECT_EQ(load.group(0, 0).sent_outside, 5);
  EXPECT_EQ(load.group(0, 0).received_outside, 0);
  EXPECT_EQ(load.group(1, 0).received_outside, 5);
  EXPECT_EQ(load.group(1, 0).sent_inside, 0);
  EXPECT_EQ(load.group(0, 0).arrival, 0);
  EXPECT_EQ(load.group(1, 0).arrival, 5);
  EXPECT_EQ(load.group(1, 0).window, 2);
  EXPECT_EQ(load.group(1, 0).exposed, 3);
  EXPECT_EQ(load.group(0, 1).collective, 7);
  EXPECT_EQ(load.group(1, 1).compute, 0);
  EXPECT_THAT(load.computing, ElementsAre(5, 5));
  EXPECT_THAT(load.card_seconds, ElementsAre(5, 5));
  EXPECT_THAT(load.pair_seconds, ElementsAre(0, 5, 0, 0, 0, 0, 0, 0));
  EXPECT_EQ(load.slowest_rank, 5 + 3 + 7);
  EXPECT_EQ(load.slowest_steps, 8 + 7);
}

// Ranks of one host share its card: 300 and 100 bytes take 4 s, whoever gets them.
TEST(Workload, RanksOfAHostShareItsCard) {
  const Topology topology = small_topology(2, 2, 100);
  TaskGraph graph(4);
  for (const auto& [to, bytes] : {std::pair(2, 300.0), {3, 100.0}, {1, 5e9}}) {
    graph.add({.kind = TaskKind::kTransfer,
               .direction = "backward",
               .layer = 1,
               .rank = 0,
               .destination = to,
               .bytes = bytes});
  }
  const Workload load = count_workload(topology, graph, 2);
  EXPECT_EQ(load.group(2, 1).arrival, 4);
  EXPECT_EQ(load.group(3, 1).arrival, 4);
  EXPECT_EQ(load.group(1, 1).arrival, 5);  // inside the host, at 1e9 bytes/s
  EXPECT_EQ(load.group(0, 1).sent_inside, 5);
  EXPECT_EQ(load.group(0, 1).sent_outside, 4);
  EXPECT_THAT(load.card_seconds, ElementsAre(4, 4));
}

PolicyGraph graph_of(PolicyInstance& instance, int decision) {
  instance.space->evaluate(instance.space->start());
  const std::vector<int> start = instance.space->start();
  return PolicyGraphMaker(*instance.space)
      .make({start.data(), static_cast<std::size_t>(decision)}, decision);
}

TEST(PolicyGraph, HasGroupsDevicesAndOneCandidatePerOption) {
  const auto instance = random_instance(InstanceRanges{}, 7);
  const int ranks = instance->topology.ranks(), slots = instance->model.layers + 1;
  for (int d = 0; d < instance->space->decisions(); ++d) {
    const PolicyGraph graph = graph_of(*instance, d);
    EXPECT_EQ(graph.options, instance->space->options(d));
    ASSERT_EQ(graph.nodes, ranks * slots + ranks + graph.options);
    ASSERT_EQ(graph.node_features.size(), graph.nodes * kPolicyNodeColumns);
    ASSERT_EQ(graph.edge_features.size(), graph.edges() * kPolicyEdgeColumns);
    ASSERT_EQ(graph.edge_begin.size(), static_cast<std::size_t>(graph.nodes + 1));
    EXPECT_EQ(graph.edge_begin.front(), 0);
    EXPECT_EQ(graph.edge_begin.back(), graph.edges());
    for (int i = 0; i < graph.nodes; ++i) {
      EXPECT_LT(graph.edge_begin[i], graph.edge_begin[i + 1]) << "node " << i << " hears nothing";
      for (std::int64_t e = graph.edge_begin[i]; e < graph.edge_begin[i + 1]; ++e) {
        EXPECT_GE(to_index(graph.edge_source[e]), 0);
        EXPECT_LT(to_index(graph.edge_source[e]), graph.nodes - graph.options)
            << "candidates are only asked";
      }
    }
  }
}

float node_feature(const PolicyGraph& graph, int node, std::string_view name) {
  const auto column = std::ranges::find(kNodeNames, name) - kNodeNames.begin();
  EXPECT_LT(column, std::ssize(kNodeNames)) << name;
  return graph.node_features[node * kPolicyNodeColumns + column];
}

TEST(PolicyGraph, SaysWhatIsDecidedAndWhatAnOptionChanges) {
  const auto instance = random_instance(InstanceRanges{}, 7);
  PlanSpace& space = *instance->space;
  const int slots = instance->model.layers + 1;
  const int bits = 1 + instance->model.layers;  // the first layer's
  ASSERT_EQ(space.decision_name(bits), "layer 0 bits");
  const PolicyGraph first = graph_of(*instance, 0), later = graph_of(*instance, bits);
  for (int slot = 0; slot < slots; ++slot) {
    EXPECT_EQ(node_feature(first, slot, "group decided"), 0) << "slot " << slot;
    EXPECT_EQ(node_feature(later, slot, "group current"), slot == 0 ? 1 : 0) << "slot " << slot;
  }
  EXPECT_GT(node_feature(later, 0, "group decided"), 0);
  EXPECT_LT(node_feature(later, 0, "group decided"), 1);
  const int candidates = later.nodes - later.options;
  // Exact messages are the start, and change nothing; with fewer bits cards are idle for longer.
  EXPECT_EQ(space.option_name(bits, 0), "32 bits");
  EXPECT_EQ(node_feature(later, candidates, "candidate is start"), 1);
  EXPECT_EQ(node_feature(later, candidates, "candidate cards"), 0);
  for (int option = 1; option < later.options; ++option) {
    EXPECT_EQ(node_feature(later, candidates + option, "candidate is start"), 0);
    EXPECT_LT(node_feature(later, candidates + option, "candidate cards"),
              node_feature(later, candidates + option - 1, "candidate cards"));
  }
}

// A machine that is a thousand times slower in everything asks the same question.
TEST(PolicyGraph, HasNoUnits) {
  const auto instance = random_instance(InstanceRanges{}, 7),
             slow = random_instance(InstanceRanges{}, 7);
  for (const auto& [made, factor] : {std::pair(&*instance, 1e-3), {&*slow, 1e-6}}) {
    for (Device& device : made->topology.devices) {
      for (auto* rates : {&device.spmm_bytes_per_s, &device.gemm_flop_per_s}) {
        for (RateAtColumns& rate : *rates) rate.per_s *= factor;
      }
      device.elementwise_bytes_per_s *= factor;
      device.quantize_bytes_per_s *= factor;
      device.progress_s_per_byte /= factor;
    }
    for (Host& host : made->topology.hosts) {
      host.send_bytes_per_s *= factor;
      host.receive_bytes_per_s *= factor;
    }
    for (Link& link : made->topology.links)
      link = {link.latency_s / factor, link.bytes_per_s * factor};
    made->space = std::make_unique<PlanSpace>(made->topology, made->model, made->cuts, made->bits);
  }
  for (int d = 0; d < instance->space->decisions(); ++d) {
    const PolicyGraph a = graph_of(*instance, d), b = graph_of(*slow, d);
    ASSERT_EQ(a.edges(), b.edges());
    // But for the calls of MPI, which take microseconds on either.
    for (std::size_t k = 0; k < a.node_features.size(); ++k) {
      ASSERT_NEAR(a.node_features[k], b.node_features[k], 2e-3)
          << kNodeNames[k % kPolicyNodeColumns];
    }
    for (std::size_t k = 0; k < a.edge_features.size(); ++k) {
      ASSERT_NEAR(a.edge_features[k], b.edge_features[k], 2e-3)
          << kEdgeNames[k % kPolicyEdgeColumns];
    }
  }
}

TEST(PolicyGraph, NoFeatureIsConstantOverInstances) {
  std::vector<std::set<float>> nodes(kPolicyNodeColumns);
  std::vector<std::set<float>> edges(kPolicyEdgeColumns);
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    const auto instance = random_instance(InstanceRanges{}, seed);
    for (int d = 0; d < instance->space->decisions(); ++d) {
      const PolicyGraph graph = graph_of(*instance, d);
      for (std::size_t k = 0; k < graph.node_features.size(); ++k) {
        nodes[k % nodes.size()].insert(graph.node_features[k]);
      }
      for (std::size_t k = 0; k < graph.edge_features.size(); ++k) {
        edges[k % edges.size()].insert(graph.edge_features[k]);
      }
    }
  }
  const auto check = [](const std::set<float>& values, std::string_view name) {
    const bool flag = name.find("is ") != std::string_view::npos ||
                      name.find("current") != std::string_view::npos ||
                      name.find("outside of") != std::string_view::npos ||
                      name.find("inside a host") != std::string_view::npos;
    EXPECT_GE(values.size(), flag ? 2U : 4U) << name;
    for (const float value : values) {
      EXPECT_TRUE(std::isfinite(value) && std::abs(value) < 20) << name << " " << value;
    }
  };
  for (std::size_t k = 0; k < nodes.size(); ++k) check(nodes[k], kNodeNames[k]);
  for (std::size_t k = 0; k < edges.size(); ++k) {
    if (k < 8) {
      EXPECT_THAT(edges[k], ElementsAre(0, 1)) << kEdgeNames[k];
    } else {
      check(edges[k], kEdgeNames[k]);
    }
  }
}

TEST(RandomInstance, IsTheSameForASeedAndFollowsItsRanges) {
  std::set<double> epochs;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const auto a = random_instance(InstanceRanges{}, seed);
    const auto b = random_instance(InstanceRanges{}, seed);
    const PlanCost cost = a->space->evaluate(a->space->start());
    EXPECT_EQ(cost.seconds, b->space->evaluate(b->space->start()).seconds);
    epochs.insert(cost.seconds);
    EXPECT_GE(a->topology.hosts.size(), 2U);
    EXPECT_LE(a->topology.hosts.size(), 4U);
    EXPECT_LE(a->topology.ranks(), 16);
    EXPECT_EQ(a->cuts.front().name, "as without a plan");
    for (const CutCandidate& cut : a->cuts) {
      for (const PartQuality& part : cut.quality.parts) {
        EXPECT_GE(part.central, 0);
        EXPECT_LE(part.central, part.nodes);
        EXPECT_LE(part.marginal_edges, part.edges);
      }
    }
  }
  EXPECT_EQ(epochs.size(), 20U);
}

}  // namespace
}  // namespace atl
