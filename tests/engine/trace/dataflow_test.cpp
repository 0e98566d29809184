// The graph of an epoch that was drawn by hand (two_ranks.hpp).
#include "engine/trace/dataflow.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "tests/engine/trace/two_ranks.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

using testing::HasSubstr;

// "rank 0 post" and the like.
std::string label(const FlowNode& node) {
  std::string text = node.name + " " + std::to_string(node.rank);
  if (node.destination >= 0) text += ">" + std::to_string(node.destination);
  return text;
}

TEST(Dataflow, HasEverySpanAndWhatItWaitedFor) {
  const DataflowGraph graph = make_dataflow(TwoRanks{}.merged(), 1);
  EXPECT_EQ(graph.nodes.size(), 14U + 4U + 1U);
  std::map<FlowEdgeKind, std::set<std::string>> edges;
  for (const FlowEdge& edge : graph.edges) {
    edges[edge.kind].insert(label(graph.nodes[static_cast<std::size_t>(edge.from)]) + " -> " +
                            label(graph.nodes[static_cast<std::size_t>(edge.to)]));
  }
  EXPECT_THAT(
      edges[FlowEdgeKind::kPost],
      testing::ElementsAre("post 0 -> packet 0>1", "post 0 -> packet 1>0", "post 0 -> send 0>1",
                           "post 1 -> packet 0>1", "post 1 -> packet 1>0", "post 1 -> send 1>0"));
  EXPECT_THAT(edges[FlowEdgeKind::kArrival],
              testing::ElementsAre("packet 0>1 -> wait 1", "packet 1>0 -> wait 0",
                                   "send 0>1 -> wait 0", "send 1>0 -> wait 1"));
  EXPECT_THAT(edges[FlowEdgeKind::kJoin], testing::ElementsAre("all-reduce 0 -> all-reduce -1",
                                                               "all-reduce 1 -> all-reduce -1"));
  EXPECT_THAT(edges[FlowEdgeKind::kRelease], testing::ElementsAre("all-reduce -1 -> all-reduce 0",
                                                                  "all-reduce -1 -> all-reduce 1"));
  EXPECT_EQ(edges[FlowEdgeKind::kOrder].size(), 12U);
  EXPECT_TRUE(edges[FlowEdgeKind::kOrder].contains("wait 1 -> spmm marginal 1"));
  EXPECT_EQ(graph.begin_us(), 0);
  EXPECT_EQ(graph.end_us(), 105);
}

TEST(Dataflow, WritesTimesFromTheBeginOfTheEpoch) {
  MadeTrace made({"a", "a"});
  TwoRanks{}.add_to(made);
  TwoRanks{.epoch = 2, .begin = 1000}.add_to(made);
  const Json json = to_json(make_dataflow(merge_trace(made.trace()), 2));
  EXPECT_EQ(json.at("epoch"), 2);
  EXPECT_EQ(json.at("duration_us"), 105);
  EXPECT_EQ(json.at("ranks")[1].at("begin_us"), 5);
  int packets = 0;
  for (const Json& node : json.at("nodes")) {
    if (node.at("kind") != "packet") continue;
    ++packets;
    if (node.at("rank") != 1) continue;
    EXPECT_EQ(node.at("begin_us"), 33);
    EXPECT_EQ(node.at("end_us"), 58);
    EXPECT_EQ(node.at("bytes"), 400);
    EXPECT_EQ(node.at("direction"), "forward");
  }
  EXPECT_EQ(packets, 2);
  for (const Json& edge : json.at("edges")) {
    EXPECT_EQ(edge.contains("at_us"), edge.at("kind") == "post");
  }
}

// An evaluation has the epoch's number and the same names, but is none of its business.
TEST(Dataflow, LeavesEvaluationsOut) {
  MadeTrace made({"a", "a"});
  TwoRanks{}.add_to(made);
  made.epoch(0, 110, 150, 1, "evaluation").epoch(1, 110, 150, 1, "evaluation");
  for (const int rank : {0, 1}) {
    made.work(rank, "post", 112, 114, 1, 0, "forward")
        .work(rank, "wait", 120, 140, 1, 0, "forward");
  }
  made.packet(0, 1, 113, 114, 113, 130).packet(1, 0, 113, 114, 113, 130);
  const MergedTrace merged = merge_trace(made.trace());
  EXPECT_EQ(merged.packets.size(), 4U);
  EXPECT_EQ(make_dataflow(merged, 1).nodes.size(), 19U);
  EXPECT_THAT(traced_epochs(merged.trace), testing::ElementsAre(1));
}

TEST(Dataflow, TakesTheMedianEpoch) {
  MadeTrace made({"a", "a"});
  // Slowest ranks: 90, 40, 70, 50; the faster of the two in the middle is epoch 4.
  const double times[][2] = {{10, 90}, {40, 30}, {70, 5}, {50, 50}};
  for (int e = 0; e < 4; ++e) {
    for (const int rank : {0, 1}) made.epoch(rank, 1000 * e, 1000 * e + times[e][rank], e + 1);
  }
  made.epoch(0, 9000, 9001, 9);  // rank 1 has no such epoch
  const Trace trace = made.trace();
  EXPECT_THAT(traced_epochs(trace), testing::ElementsAre(1, 2, 3, 4));
  EXPECT_EQ(median_epoch(trace), 4);
}

TEST(Dataflow, SaysWhichEpochsThereAre) {
  const MergedTrace merged = TwoRanks{.epoch = 3}.merged();
  EXPECT_STREQ(thrown_error([&] { make_dataflow(merged, 4); }).what(),
               "made.json: rank 0 has no epoch 4; there are 3 to 3");
  EXPECT_STREQ(
      thrown_error([] { median_epoch(MadeTrace({"a"}).work(0, "loss", 1, 2).trace()); }).what(),
      "made.json: has no epoch that every rank ran");
}

TEST(Dataflow, APacketThatNobodyWaitsForIsDamage) {
  MadeTrace made({"a", "a"});
  made.epoch(0, 0, 100).epoch(1, 0, 100).work(0, "post", 1, 9, 1, 0, "forward");
  made.packet(0, 1, 5, 6, 7, 8);
  EXPECT_THAT(
      thrown_error([&] { make_dataflow(merge_trace(made.trace()), 1); }).what(),
      HasSubstr("made.json: epoch 1, layer 0, forward: the packet from rank 0 to rank 1 has "
                "no span 'post' on rank 1"));
}

}  // namespace
}  // namespace atl
