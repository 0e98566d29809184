#include "partition/quality.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/partition/example_graphs.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

using Longs = std::vector<std::int64_t>;
using testing::HasSubstr;

PartitionQuality directed_quality() {
  const DirectedExample example;
  const LocalGraphBuilder builder(example.graph(), example.part_of, 3);
  const std::vector<std::uint8_t> split{0, 0, 1, 2, 0, 255};
  return measure_quality(builder, split, {0.25, 0.25, 0.5});
}

TEST(Quality, LiteralFigures) {
  const PartitionQuality quality = directed_quality();
  EXPECT_EQ(quality.cut_edges, 5);  // 2->1 twice, 4->1, 1->3, 4->3
  EXPECT_EQ(quality.forward_rows, (Longs{0, 1, 1, 1, 0, 1, 0, 0, 0}));
  EXPECT_EQ(quality.backward_rows, (Longs{0, 1, 0, 1, 0, 0, 1, 1, 0}));
  const PartQuality& first = quality.parts[0];
  EXPECT_EQ(first.nodes, 2);
  EXPECT_EQ(first.central, 1);
  EXPECT_EQ(first.edges, 5);
  EXPECT_EQ(first.marginal_edges, 5);
  EXPECT_EQ(first.training_nodes, 2);
  EXPECT_EQ(first.cost, 49 + 52);
  EXPECT_EQ(first.halo_forward, 2);
  EXPECT_EQ(first.halo_backward, 1);
  const PartQuality total = quality.total();
  EXPECT_EQ(total.nodes, 6);
  EXPECT_EQ(total.central, 2);
  EXPECT_EQ(total.edges, 9);
  EXPECT_EQ(total.training_nodes, 3);
  EXPECT_EQ(total.halo_forward, 4);
  EXPECT_EQ(total.halo_backward, 4);
  EXPECT_DOUBLE_EQ(quality.balance(&PartQuality::nodes), 2 / (0.25 * 6));
  EXPECT_DOUBLE_EQ(quality.balance(&PartQuality::edges), 5 / (0.25 * 9));
  EXPECT_DOUBLE_EQ(quality.balance(&PartQuality::training_nodes), 2 / (0.25 * 3));
}

TEST(Quality, SymmetricGraphReceivesTheSameBothWays) {
  const PathExample example;
  const LocalGraphBuilder builder(example.graph(), example.part_of, 2);
  const PartitionQuality quality = measure_quality(builder, {}, {0.5, 0.5});
  EXPECT_EQ(quality.cut_edges, 2);
  EXPECT_EQ(quality.forward_rows, (Longs{0, 1, 1, 0}));
  EXPECT_EQ(quality.forward_rows, quality.backward_rows);
  EXPECT_EQ(quality.total().training_nodes, 0);
  EXPECT_EQ(quality.balance(&PartQuality::training_nodes), 0);
}

TEST(Quality, JsonRoundTrip) {
  const PartitionQuality quality = directed_quality();
  const Json json = to_json(quality);
  EXPECT_EQ(json["total"]["halo_forward"], 4);
  EXPECT_EQ(json["forward_rows"][1][0], 1);
  const PartitionQuality parsed = parse_quality(json, "quality.json");
  EXPECT_EQ(to_json(parsed).dump(), json.dump());
  EXPECT_EQ(to_text(parsed), to_text(quality));
}

TEST(Quality, DamagedJsonIsAnInputError) {
  Json json = to_json(directed_quality());
  json["forward_rows"].erase(2);
  const Error rows = thrown_error([&] { parse_quality(json, "q.json"); });
  EXPECT_EQ(rows.kind(), ErrorKind::kInput);
  EXPECT_THAT(rows.what(), HasSubstr("'forward_rows' has 6 numbers; 3 parts need 9"));
  json = to_json(directed_quality());
  json.erase("cut_edges");
  EXPECT_THAT(thrown_error([&] { parse_quality(json, "q.json"); }).what(),
              HasSubstr("'cut_edges' is missing"));
  json = to_json(directed_quality());
  json["per_part"][1]["nodes"] = "two";
  EXPECT_THAT(thrown_error([&] { parse_quality(json, "q.json"); }).what(),
              HasSubstr("field 'nodes'"));
}

TEST(Quality, TextNamesTheFigures) {
  const std::string text = to_text(directed_quality());
  EXPECT_THAT(text, HasSubstr("cut edges 5 (55.6 %)"));
  EXPECT_THAT(text, HasSubstr("halo rows backward"));
  EXPECT_THAT(text, HasSubstr("nodes 1.333"));
}

}  // namespace
}  // namespace atl
