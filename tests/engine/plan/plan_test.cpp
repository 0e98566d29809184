#include "engine/plan/plan.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "engine/plan/planned_job.hpp"
#include "tests/support/temp_dir.hpp"

namespace atl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Plan example() {
  Plan plan;
  plan.dataset = "arxiv";
  plan.dataset_checksum = "4476f0f9a88eacf8";
  plan.ranks = 4;
  plan.model = {{"model", "gcn"}, {"layers", 2}, {"hidden", 256}};
  plan.partition.weights = {0.3, 0.3, 0.25, 0.15};
  plan.partition.islands = {2, 2};
  plan.partition.part_order = {1, 0, 2, 3};
  plan.partition.marginal_cost = 0.5;
  plan.partition.imbalance = 0.05;
  plan.partition.balance = PartitionBalance::kEdges;
  Recomputation recomputation(4);
  recomputation.set(0, 2);
  recomputation.set(3, 0);
  recomputation.set(3, 1);
  plan.layers = {{{MultiplyOrder::kAggregateFirst, true}, 32},
                 {{MultiplyOrder::kMultiplyFirst, false},
                  8,
                  std::make_shared<const Recomputation>(recomputation)}};
  plan.gradient_sum.groups = {{0, 1}, {2, 3}};
  plan.predicted_ms = 812.5;
  plan.default_ms = 1300.25;
  plan.lower_bound_ms = 790;
  plan.search = {{"strategy", "mcts"}};
  return plan;
}

class PlanFile : public ::testing::Test {
 protected:
  std::filesystem::path write(const Json& json) {
    write_json(dir_.path() / "plan.json", json);
    return dir_.path() / "plan.json";
  }
  std::string refusal(const std::function<void(Json&)>& damage) {
    Json json = to_json(example());
    damage(json);
    try {
      read_plan(write(json));
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 2);
      return error.what();
    }
    return "accepted";
  }
  TempDir dir_;
};

TEST_F(PlanFile, ReadsWhatItWrites) {
  const Json json = to_json(example());
  const Plan plan = read_plan(write(json));
  EXPECT_EQ(to_json(plan), json);
  EXPECT_EQ(plan.partition.islands, (std::vector<int>{2, 2}));
  EXPECT_EQ(plan.partition.part_order, (std::vector<int>{1, 0, 2, 3}));
  EXPECT_EQ(plan.partition.marginal_cost, 0.5);
  EXPECT_EQ(plan.layers[0], example().layers[0]);
  EXPECT_EQ(plan.layers[1].algebra, example().layers[1].algebra);
  EXPECT_EQ(plan.layers[1].bits, 8);
  EXPECT_EQ(json.at("recomputation"), Json::parse("[[2], [], [], [0, 1]]"));
  EXPECT_EQ(*plan.layers[1].recomputation, *example().layers[1].recomputation);
  EXPECT_EQ(plan.gradient_sum, example().gradient_sum);
  EXPECT_EQ(json.at("gradient_sum").at("by"), "hierarchical");
  Json server = json;
  server["gradient_sum"] = {{"by", "parameter-server"}, {"rank", 3}};
  EXPECT_EQ(read_plan(write(server)).gradient_sum.server, 3);
  Json none = json;
  none["gradient_sum"] = {{"by", "all-reduce"}};
  EXPECT_TRUE(read_plan(write(none)).gradient_sum.is_all_reduce());
  none["recomputation"] = nullptr;
  EXPECT_EQ(read_plan(write(none)).layers[1].recomputation, nullptr);
}

TEST_F(PlanFile, NamesTheFieldThatIsWrong) {
  const auto says = [&](const std::function<void(Json&)>& damage, const char* field,
                        const char* found) {
    EXPECT_THAT(refusal(damage), AllOf(HasSubstr("plan.json"), HasSubstr(field), HasSubstr(found)));
  };
  says([](Json& j) { j["format"] = 7; }, "'format'", "7");
  says([](Json& j) { j.erase("layers"); }, "'layers'", "missing");
  says([](Json& j) { j["layers"] = Json::array(); }, "'layers'", "[]");
  says([](Json& j) { j["layers"][1]["order"] = "sideways"; }, "layer 1", "multiply-first");
  says([](Json& j) { j["layers"][0]["bits"] = 3; }, "layer 0", "1, 2, 4, 8, 16, 32");
  says([](Json& j) { j["layers"][0]["bits"] = 8.5; }, "layer 0", "8.5");
  says([](Json& j) { j["layers"][0]["cache_aggregate"] = "yes"; }, "cache_aggregate", "yes");
  says([](Json& j) { j["recomputation"] = 3; }, "'recomputation'", "3");
  says([](Json& j) { j["recomputation"].erase(0); }, "'recomputation'", "4 arrays");
  says([](Json& j) { j["recomputation"][1] = "all"; }, "'recomputation': entry 1", "all");
  for (const Json& owner : {Json(4), Json(-1), Json(1), Json(0.5), Json("2")}) {
    says([&](Json& j) { j["recomputation"][1] = Json::array({owner}); },
         "'recomputation': entry 1 has", "0 to 3");
  }
  says([](Json& j) { j["layers"][0]["cache_aggregate"] = false; }, "'recomputation'",
       "'cache_aggregate' true");
  const auto sum = [&](const Json& route, const char* field, const char* found) {
    says([&](Json& j) { j["gradient_sum"] = route; }, field, found);
  };
  sum({{"by", "luck"}}, "'by' is 'luck'", "hierarchical");
  sum({{"by", "parameter-server"}, {"rank", 4}}, "'rank' is 4", "0 to 3");
  sum({{"by", "parameter-server"}}, "'rank'", "missing");
  sum({{"by", "hierarchical"}, {"groups", {{0, 1}, {2}}}}, "'groups'", "2 and of 1");
  sum({{"by", "hierarchical"}, {"groups", {{0, 1}, {1, 2}}}}, "'groups'", "rank 1");
  sum({{"by", "hierarchical"}, {"groups", {{0, 1}, {2, 4}}}}, "'groups'", "rank 4");
  sum({{"by", "hierarchical"}, {"groups", {{0}, {1}, {2}}}}, "'groups'", "lacks rank 3");
  says([](Json& j) { j["ranks"] = "four"; }, "'ranks'", "four");
  says([](Json& j) { j["dataset"].erase("checksum"); }, "'checksum'", "missing");
  says([](Json& j) { j["partition"]["method"] = "scissors"; }, "scissors", "metis");
  says([](Json& j) { j["partition"]["balance"] = "luck"; }, "luck", "cost");
  says([](Json& j) { j["partition"]["shares"] = {0.5, 0.5}; }, "2 numbers", "4 parts");
  says([](Json& j) { j["partition"]["shares"] = {0.5, 0.5, 0.5, -1}; }, "-1", "positive");
  says([](Json& j) { j["partition"]["islands"] = {2, 3}; }, "2,3", "4 parts");
  says([](Json& j) { j["partition"]["part_order"] = {0, 0, 1, 2}; }, "--part-order", "0");
  says([](Json& j) { j["ranks"] = 0; }, "'ranks'", "0");
  says([](Json& j) { j["predicted_ms"] = -1; }, "'predicted_ms'", "-1");
}

TEST_F(PlanFile, FitsOneGraphOneNumberOfRanksAndOneModel) {
  const Plan plan = example();
  const auto refused = [&](const std::string& checksum, int ranks, const Json& model,
                           int layers = 2) {
    try {
      require_plan_fits(plan, "p/plan.json", checksum, ranks, model, layers);
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 2);
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  const Json model = plan.model;
  EXPECT_EQ(refused("4476f0f9a88eacf8", 4, model), "accepted");
  EXPECT_THAT(refused("0000", 4, model),
              AllOf(HasSubstr("p/plan.json"), HasSubstr("4476f0f9a88eacf8"), HasSubstr("0000")));
  EXPECT_THAT(refused("4476f0f9a88eacf8", 3, model),
              AllOf(HasSubstr("4 ranks"), HasSubstr("has 3")));
  Json other = model;
  other["hidden"] = 64;
  EXPECT_THAT(refused("4476f0f9a88eacf8", 4, other),
              AllOf(HasSubstr("--hidden 256"), HasSubstr("64")));
  other = model;
  other["norm"] = "batch";
  EXPECT_THAT(refused("4476f0f9a88eacf8", 4, other), HasSubstr("'norm'"));
  other = model;
  other["layers"] = 3;
  EXPECT_THAT(refused("4476f0f9a88eacf8", 4, other), HasSubstr("--layers 2"));
  EXPECT_THAT(refused("4476f0f9a88eacf8", 4, model, 12),
              HasSubstr("plans 2 layers of a model of 12"));
}

TEST(FollowPlan, PutsEveryDecisionIntoTheJob) {
  const Plan plan = example();
  TrainJob job;
  job.options.model.hidden = 64;
  job.options.message_bits.lambda = 0.25;
  job.partition.method = "random";
  job.partition.parts_dir = "elsewhere";
  follow_plan(plan, {.file = "plan.json", .dataset = "data", .parts_file = "parts.npy"}, job);
  EXPECT_EQ(job.options.model.algebra,
            (std::vector{plan.layers[0].algebra, plan.layers[1].algebra}));
  EXPECT_EQ(job.options.model.recomputation, *plan.layers[1].recomputation);
  EXPECT_EQ(job.options.model.hidden, 64);
  EXPECT_EQ(job.options.gradient_sum, plan.gradient_sum);
  EXPECT_EQ(job.options.exchange, "quantized");
  EXPECT_EQ(job.options.message_bits.bits.by, BitChoice::By::kFixed);
  EXPECT_EQ(job.options.message_bits.bits.widths, (std::vector{32, 8}));
  EXPECT_EQ(job.options.message_bits.lambda, 0.25);
  EXPECT_EQ(job.partition.islands, plan.partition.islands);
  EXPECT_EQ(job.partition.method, plan.partition.method);
  EXPECT_EQ(job.partition.parts_dir, "elsewhere");
  EXPECT_EQ(job.partition.parts_file, "parts.npy");
}

TEST(FollowPlan, LeavesExactMessagesExact) {
  Plan plan = example();
  plan.layers[1].bits = 32;
  plan.layers[1].recomputation = nullptr;
  TrainJob job;
  follow_plan(plan, {}, job);
  EXPECT_EQ(job.options.exchange, "exact");
  EXPECT_EQ(to_string(job.options.message_bits.bits), "adaptive");
  EXPECT_FALSE(job.options.model.recomputation.any());
}

}  // namespace
}  // namespace atl
