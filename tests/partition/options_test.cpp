// Tests of the partition options and of the problem made from them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "partition/partitioner.hpp"
#include "tests/partition/example_graphs.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

using Weights = std::vector<std::int32_t>;
using testing::HasSubstr;

TEST(PartitionOptions, NamesRoundTrip) {
  for (const char* name : {"cost", "nodes", "edges", "edges,train"}) {
    EXPECT_EQ(to_string(parse_partition_balance(name)), name);
  }
  for (const char* name : {"volume", "cut"}) {
    EXPECT_EQ(to_string(parse_partition_objective(name)), name);
  }
  const Error error = thrown_error([] { parse_partition_balance("node"); });
  EXPECT_EQ(error.kind(), ErrorKind::kOption);
  EXPECT_STREQ(error.what(),
               "--balance: 'node' is unknown; allowed are cost, nodes, edges, edges,train");
}

TEST(PartitionOptions, NodeWeightsOfEveryBalance) {
  const DirectedExample example;
  PartitionOptions options;
  const auto weights = [&](PartitionBalance balance, std::span<const std::uint8_t> split = {}) {
    options.balance = balance;
    return make_partition_problem(example.graph(), 2, options, split);
  };
  // In-degrees 0 5 1 2 1 0, out-degrees 1 2 2 1 2 1; the mean is rounded up.
  EXPECT_EQ(weights(PartitionBalance::kNodes).node_weights, (Weights{1, 1, 1, 1, 1, 1}));
  EXPECT_EQ(weights(PartitionBalance::kEdges).node_weights, (Weights{1, 4, 2, 2, 2, 1}));
  EXPECT_EQ(weights(PartitionBalance::kCost).node_weights, (Weights{49, 52, 50, 50, 50, 49}));
  const std::vector<std::uint8_t> split{0, 1, 2, 255, 0, 0};
  const PartitionProblem both = weights(PartitionBalance::kEdgesTrain, split);
  EXPECT_EQ(both.constraints, 2);
  EXPECT_EQ(both.node_weights, (Weights{1, 1, 4, 0, 2, 0, 2, 0, 2, 1, 1, 1}));
}

TEST(PartitionOptions, SharesAreNormalised) {
  EXPECT_EQ(normalised_shares({2, 1, 1}, 3), (std::vector<double>{0.5, 0.25, 0.25}));
  EXPECT_EQ(normalised_shares({}, 4), (std::vector<double>{0.25, 0.25, 0.25, 0.25}));
}

TEST(PartitionOptions, WeightsAreOfOneScale) {
  PartitionOptions options;
  options.weights = {1e6, 1};
  check_partition_options(10, 2, options);
  options.weights = {1, 1e300};
  EXPECT_THAT(thrown_error([&] { check_partition_options(10, 2, options); }).what(),
              HasSubstr("--weights: 1 and 1e+300 found"));
  EXPECT_THAT(thrown_error([] {
                normalised_shares({1e308, 1e308}, 2);
              }).what(),
              HasSubstr("--weights: 1e+308,1e+308 found, whose sum"));
}

TEST(PartitionOptions, EqualOptionsHaveEqualText) {
  PartitionOptions options;
  const std::string text = to_json(options).dump();
  options.split_index = 3;  // means nothing unless training nodes are balanced
  EXPECT_EQ(to_json(options).dump(), text);
  options.weights = {2, 1, 1};
  const std::string weighted = to_json(options).dump();
  EXPECT_NE(weighted, text);
  options.weights = {4, 2, 2};
  EXPECT_EQ(to_json(options).dump(), weighted);
  options.balance = PartitionBalance::kEdgesTrain;
  EXPECT_THAT(to_json(options).dump(), HasSubstr("\"split_index\":3"));
}

// The text decides the name of the folder: partitions made before these options stay valid.
TEST(PartitionOptions, UnusedOptionsLeaveTheTextAlone) {
  PartitionOptions options;
  options.method = "metis";
  options.refine = Refinement::kOff;
  const std::string text =
      R"({"method":"metis","objective":"volume","balance":"cost","shares":"equal","seed":1,)"
      R"("cuts":0,"imbalance":0.03,"node_order":"communities"})";
  EXPECT_EQ(to_json(options).dump(), text);
  options.islands = {1, 1, 1};  // a flat cut, too
  options.part_order = {0, 1, 2};
  EXPECT_EQ(to_json(options).dump(), text);
  options.islands = {3};
  EXPECT_EQ(to_json(options).dump(), text);
}

TEST(PartitionOptions, UsedOptionsAreInTheText) {
  PartitionOptions options;
  std::vector<std::string> texts{to_json(options).dump()};
  EXPECT_THAT(texts.back(), HasSubstr(R"({"method":"auto","refine":true,)"));
  options.refine = Refinement::kStrong;
  texts.push_back(to_json(options).dump());
  EXPECT_THAT(texts.back(), HasSubstr(R"({"method":"auto","refine":"strong",)"));
  options.refine = Refinement::kOff;
  texts.push_back(to_json(options).dump());
  options.islands = {2, 2};
  texts.push_back(to_json(options).dump());
  EXPECT_THAT(texts.back(), HasSubstr("\"islands\":[2,2]"));
  options.islands = {1, 3};
  texts.push_back(to_json(options).dump());
  options.part_order = {2, 0, 1, 3};
  texts.push_back(to_json(options).dump());
  EXPECT_THAT(texts.back(), HasSubstr("\"part_order\":[2,0,1,3]"));
  options.marginal_cost = 0.5;
  texts.push_back(to_json(options).dump());
  EXPECT_THAT(texts.back(), HasSubstr("\"marginal_cost\":0.5"));
  for (std::size_t i = 1; i < texts.size(); ++i) EXPECT_NE(texts[i], texts[i - 1]);
}

// A cut without halo rows to save is one cut, whatever --refine says; that of a file may be mended.
TEST(PartitionOptions, RefinementWithoutAnEffectIsNotInTheText) {
  const PathExample example;
  PartitionOptions options;
  options.objective = PartitionObjective::kCut;
  options.refine = Refinement::kOn;
  const std::string text = to_json(options).dump();
  EXPECT_EQ(make_partition_problem(example.graph(), 2, options, {}).refine, Refinement::kOff);
  options.refine = Refinement::kStrong;
  EXPECT_EQ(to_json(options).dump(), text);
  options.refine = Refinement::kOff;
  EXPECT_EQ(to_json(options).dump(), text);
  options.method = "file";
  options.parts_checksum = "12";
  const std::string as_it_is = to_json(options).dump();
  options.refine = Refinement::kOn;
  EXPECT_NE(to_json(options).dump(), as_it_is);
  EXPECT_EQ(make_partition_problem(example.graph(), 2, options, {}).refine, Refinement::kOn);
  const std::string mended = to_json(options).dump();
  options.refine = Refinement::kStrong;
  EXPECT_EQ(to_json(options).dump(), mended);
}

TEST(PartitionOptions, RefinementIsReadAsItIsWritten) {
  const Json written = to_json(PartitionOptions{});
  for (const std::string& name : refinement_names()) {
    PartitionOptions options;
    options.refine = parse_refinement(name);
    EXPECT_EQ(to_string(options.refine), name);
    const Json json = to_json(options);
    EXPECT_EQ(parse_partition_options(json, 2, "plan.json").refine, options.refine);
  }
  for (const Json& wrong : {Json("weak"), Json(3)}) {
    Json json = written;
    json["refine"] = wrong;
    const Error error = thrown_error([&] { parse_partition_options(json, 2, "plan.json"); });
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_THAT(error.what(), AllOf(HasSubstr("plan.json"), HasSubstr("refine")));
  }
  const Error error = thrown_error([] { parse_refinement("weak"); });
  EXPECT_EQ(error.kind(), ErrorKind::kOption);
  EXPECT_THAT(error.what(), HasSubstr("--refine: 'weak' is unknown; allowed are off, on, strong"));
}

TEST(PartitionOptions, ImpossibleIslandsAndOrdersAreRefused) {
  const PathExample example;
  const auto message = [&](const PartitionOptions& options) {
    const Error error =
        thrown_error([&] { make_partition_problem(example.graph(), 4, options, {}); });
    EXPECT_EQ(error.kind(), ErrorKind::kOption);
    return std::string(error.what());
  };
  PartitionOptions options;
  options.islands = {2, 3};
  EXPECT_THAT(
      message(options),
      HasSubstr("--islands: 2,3 found for 4 parts; allowed are sizes from 1 on that sum to 4"));
  options.islands = {5, -1};
  EXPECT_THAT(message(options), HasSubstr("--islands: 5,-1 found"));
  options.islands = {4, 0};
  EXPECT_THAT(message(options), HasSubstr("--islands: 4,0 found"));
  options.islands = {};
  options.part_order = {0, 1, 2};
  EXPECT_THAT(message(options), HasSubstr("--part-order: 3 numbers for 4 parts"));
  options.part_order = {0, 1, 2, 4};
  EXPECT_THAT(message(options), HasSubstr("--part-order: 4 found; allowed are 0 to 3"));
  options.part_order = {0, 1, 2, -1};
  EXPECT_THAT(message(options), HasSubstr("--part-order: -1 found"));
  options.part_order = {0, 2, 1, 2};
  EXPECT_THAT(message(options), HasSubstr("--part-order: 2 found twice"));
  options.part_order = {};
  for (const double cost : {-0.1, 100.5, std::nan("")}) {
    options.marginal_cost = cost;
    EXPECT_THAT(message(options), HasSubstr("--marginal-cost: "));
  }
}

TEST(PartitionOptions, ImpossibleOnesAreRefused) {
  const PathExample example;
  const auto message = [&](int parts, const PartitionOptions& options) {
    const Error error =
        thrown_error([&] { make_partition_problem(example.graph(), parts, options, {}); });
    EXPECT_EQ(error.kind(), ErrorKind::kOption);
    EXPECT_EQ(error.exit_code(), 2);
    return std::string(error.what());
  };
  PartitionOptions options;
  EXPECT_THAT(message(7, options), HasSubstr("7 found, but the graph has 6 nodes"));
  EXPECT_THAT(message(0, options), HasSubstr("allowed are 1 to 4096"));
  EXPECT_THAT(message(5000, options), HasSubstr("allowed are 1 to 4096"));
  options.weights = {1, 2};
  EXPECT_THAT(message(3, options), HasSubstr("2 numbers for 3 parts"));
  options.weights = {1, 0, 2};
  EXPECT_THAT(message(3, options), HasSubstr("0 found; allowed are positive numbers"));
  options.weights = {1, std::nan(""), 2};
  EXPECT_THAT(message(3, options), HasSubstr("nan found"));
  options.weights = {};
  options.imbalance = -1;
  EXPECT_THAT(message(3, options), HasSubstr("--imbalance: -1"));
  options.imbalance = std::nan("");
  EXPECT_THAT(message(3, options), HasSubstr("--imbalance: nan"));
  options.imbalance = 0.03;
  options.cuts = -1;
  EXPECT_THAT(message(3, options), HasSubstr("--cuts: -1"));
  options.cuts = 1;
  options.balance = PartitionBalance::kEdgesTrain;
  EXPECT_THAT(message(3, options), HasSubstr("no training nodes"));
}

TEST(PartitionOptions, GraphWithoutEdgesIsBalancedByNodes) {
  const std::vector<std::int64_t> row_ptr(5, 0);
  PartitionOptions options;
  options.balance = PartitionBalance::kEdges;
  const PartitionProblem problem =
      make_partition_problem({{row_ptr, {}, {}}, true}, 2, options, {});
  EXPECT_EQ(problem.node_weights, (Weights{1, 1, 1, 1}));
}

// Four while they are cheap, one of large graphs; or what was asked for.
TEST(PartitionOptions, CutsGoByTheSizeOfTheGraph) {
  const std::vector<std::int32_t> columns(20'000'001, 0);
  PartitionOptions options;
  options.balance = PartitionBalance::kNodes;
  const auto cuts = [&](std::int64_t edges) {
    const std::vector<std::int64_t> row_ptr{0, edges, edges};
    const auto count = static_cast<std::size_t>(edges);
    const CsrView csr{row_ptr, std::span(columns).first(count), {}};
    return make_partition_problem({csr, true}, 2, options, {}).cuts;
  };
  EXPECT_EQ(cuts(500'000), 4);
  EXPECT_EQ(cuts(500'001), 1);  // auto has another cut to compare with
  options.method = "metis";
  EXPECT_EQ(cuts(3), 4);
  EXPECT_EQ(cuts(20'000'000), 4);
  EXPECT_EQ(cuts(20'000'001), 1);
  options.cuts = 7;
  EXPECT_EQ(cuts(20'000'001), 7);
}

}  // namespace
}  // namespace atl
