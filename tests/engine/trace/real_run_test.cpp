// Trainings that were traced: the graph of each epoch is complete, and its bytes are those that the
// run counted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "base/files.hpp"
#include "engine/trace/critical_path.hpp"
#include "engine/training/training_run.hpp"
#include "tests/engine/training/example_runs.hpp"

namespace atl {
namespace {

constexpr int kRanks = 3;
constexpr int kEpochs = 4;

std::filesystem::path traced_run(const TempDir& dir, TrainOptions options) {
  const std::filesystem::path dataset = make_sbm(dir, true);
  options.trace = true;
  options.run_dir = dir.path() / "run";
  options.optimizer.epochs = kEpochs;
  PartitionOptions partition;
  partition.method = "random";
  train_in_folder(kRanks, dataset, options, partition);
  return options.run_dir;
}

int count_nodes(const DataflowGraph& graph, FlowKind kind, const std::string& name) {
  return static_cast<int>(std::ranges::count_if(graph.nodes, [&](const FlowNode& node) {
    return node.kind == kind && (name.empty() || node.name == name);
  }));
}

// How many edges of each kind end in the node.
std::map<FlowEdgeKind, int> edges_into(const DataflowGraph& graph, int node) {
  std::map<FlowEdgeKind, int> counts;
  for (const FlowEdge& edge : graph.edges) {
    if (edge.to == node) ++counts[edge.kind];
  }
  return counts;
}

void expect_edges_in_time(const DataflowGraph& graph) {
  constexpr double kRounding = 0.01;
  for (const FlowEdge& edge : graph.edges) {
    const FlowNode& from = graph.nodes[static_cast<std::size_t>(edge.from)];
    const FlowNode& to = graph.nodes[static_cast<std::size_t>(edge.to)];
    const std::string label = from.name + " -> " + to.name;
    if (edge.kind == FlowEdgeKind::kOrder) {
      EXPECT_LE(from.end_us, to.begin_us + kRounding) << label;
    } else if (edge.kind == FlowEdgeKind::kPost) {
      EXPECT_GE(edge.at_us, from.begin_us - kRounding) << label;
      EXPECT_LE(edge.at_us, from.end_us + kRounding) << label;
      EXPECT_LE(edge.at_us, to.begin_us + kRounding) << label;
    } else {
      EXPECT_LE(from.begin_us, to.end_us + kRounding) << label;
    }
    if (edge.kind == FlowEdgeKind::kArrival) {
      EXPECT_EQ(to.name, "wait");
      EXPECT_EQ(to.rank, from.kind == FlowKind::kPacket ? from.destination : from.rank);
      EXPECT_EQ(to.layer, from.layer);
      EXPECT_EQ(to.direction, from.direction);
      EXPECT_LE(from.end_us, to.end_us + kRounding) << label;
    }
  }
}

void expect_complete(const DataflowGraph& graph) {
  // Every rank talks to every other in every exchange, as the cut is random.
  const int waits = count_nodes(graph, FlowKind::kWork, "wait");
  EXPECT_GT(waits, 0);
  EXPECT_EQ(count_nodes(graph, FlowKind::kPacket, ""), waits * (kRanks - 1));
  EXPECT_EQ(count_nodes(graph, FlowKind::kSend, ""), waits * (kRanks - 1));
  EXPECT_EQ(count_nodes(graph, FlowKind::kMeeting, "all-reduce") * kRanks,
            count_nodes(graph, FlowKind::kWork, "all-reduce"));
  for (int i = 0; i < static_cast<int>(graph.nodes.size()); ++i) {
    const FlowNode& node = graph.nodes[static_cast<std::size_t>(i)];
    std::map<FlowEdgeKind, int> in = edges_into(graph, i);
    if (node.kind == FlowKind::kPacket) {
      EXPECT_EQ(in[FlowEdgeKind::kPost], 2);
      EXPECT_GT(node.bytes, 0);
    } else if (node.kind == FlowKind::kSend) {
      EXPECT_EQ(in[FlowEdgeKind::kPost], 1);
    } else if (node.kind == FlowKind::kMeeting) {
      EXPECT_EQ(in[FlowEdgeKind::kJoin], kRanks);
    } else if (node.name == "wait") {
      EXPECT_EQ(in[FlowEdgeKind::kArrival], 2 * (kRanks - 1));
    } else if (node.name == "all-reduce") {
      EXPECT_EQ(in[FlowEdgeKind::kRelease], 1);
      EXPECT_GT(node.bytes, 0);
    }
  }
  expect_edges_in_time(graph);
}

double sent_bytes(const DataflowGraph& graph) {
  double bytes = 0;
  for (const FlowNode& node : graph.nodes) {
    const bool sum = node.kind == FlowKind::kWork && node.name == "all-reduce";
    if (sum || node.kind == FlowKind::kPacket) bytes += static_cast<double>(node.bytes);
  }
  return bytes;
}

class TracedRun : public ::testing::TestWithParam<std::pair<std::string, bool>> {};

TEST_P(TracedRun, GivesACompleteGraphOfEveryEpoch) {
  const TempDir dir;
  TrainOptions options = small_options();
  options.exchange = GetParam().first;
  options.message_bits.bits = parse_bits("4");
  options.overlap = GetParam().second;
  const std::filesystem::path run = traced_run(dir, options);
  const std::vector<Json> metrics = metrics_of(run);
  ASSERT_EQ(metrics.size(), static_cast<std::size_t>(kEpochs));

  const MergedTrace merged = merge_trace(read_trace(run / "trace.json"));
  ASSERT_EQ(merged.clocks.hosts.size(), 1U);
  EXPECT_EQ(merged.clocks.hosts[0].offset_us(), 0);
  EXPECT_EQ(traced_epochs(merged.trace).size(), static_cast<std::size_t>(kEpochs));
  for (int epoch = 1; epoch <= kEpochs; ++epoch) {
    const DataflowGraph graph = make_dataflow(merged, epoch);
    expect_complete(graph);
    const Json& line = metrics[static_cast<std::size_t>(epoch - 1)];
    // The first epoch of widths tells the receivers about them, too, in no span.
    if (options.exchange == "exact" || epoch > 1) {
      EXPECT_EQ(sent_bytes(graph), line.at("bytes_sent").get<double>()) << "epoch " << epoch;
    }
    const CriticalPath path = critical_path(graph);
    EXPECT_GT(path.duration_us(), 0);
    EXPECT_LE(path.duration_us(), graph.end_us() - graph.begin_us() + 0.01);
    for (std::size_t i = 1; i < path.steps.size(); ++i) {
      EXPECT_EQ(path.steps[i].begin_us, path.steps[i - 1].end_us);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, TracedRun,
                         ::testing::Values(std::pair("exact", true), std::pair("exact", false),
                                           std::pair("quantized", true)));

// Spans beside a rank's own time are no phase of it.
TEST(TracedRunPhases, AreThoseOfTheRank) {
  const TempDir dir;
  const std::filesystem::path run = traced_run(dir, small_options());
  for (const Json& line : metrics_of(run)) {
    const Json& phases = line.at("phases");
    EXPECT_TRUE(phases.contains("wait"));
    for (const char* name : {"packet", "send", "epoch", "evaluation"}) {
      EXPECT_FALSE(phases.contains(name)) << name;
    }
    double sum = 0;
    for (const auto& [name, ms] : phases.items()) sum += ms.get<double>();
    EXPECT_LE(sum, line.at("epoch_ms").get<double>());
  }
}

}  // namespace
}  // namespace atl
