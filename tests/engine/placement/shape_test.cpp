#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/placement/graph_shape.hpp"
#include "engine/placement/plan_space.hpp"
#include "tests/engine/placement/made_parts.hpp"
#include "tests/engine/placement/small_topology.hpp"
#include "tests/support/temp_dir.hpp"

namespace atl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Two parts with 3 and 4 halo rows.
Json two_parts_json() {
  return Json::parse(R"({
    "format": 1, "name": "small", "nodes": 17, "edges": 80, "features": 8, "classes": 4,
    "parts": [
      {"nodes": 10, "central": 4, "edges": 50, "marginal_edges": 20, "training_nodes": 6},
      {"nodes": 7, "central": 1, "edges": 30, "marginal_edges": 25, "training_nodes": 0}],
    "forward_rows": [[0, 3], [5, 0]],
    "backward_rows": [[0, 4], [2, 0]],
    "forward_messages": [[0, 2], [4, 0]], "forward_sums": [[0, 1], [4, 0]]})");
}

// 10 nodes and 101 edges in 4 equal parts on 2 hosts.
Json equal_parts() {
  return Json::parse(R"({
    "format": 1, "name": "equal", "nodes": 10, "edges": 101, "features": 8, "classes": 4,
    "parts": {"count": 4, "per_host": 2, "central_share": 0.34, "marginal_edges_share": 0.5,
              "training_nodes": 5, "halo_rows": {"within_host": 2, "between_hosts": 1}}})");
}

std::string refusal(const Json& json) {
  try {
    parse_shape(json, "shape.json");
  } catch (const Error& error) {
    EXPECT_EQ(error.exit_code(), 2);
    return error.what();
  }
  return "accepted";
}

TEST(GraphShape, HoldsWhatTheFileSays) {
  const GraphShape shape = parse_shape(two_parts_json(), "shape.json");
  EXPECT_EQ(shape.name, "small");
  EXPECT_EQ(shape.features, 8);
  EXPECT_EQ(shape.classes, 4);
  const PartitionQuality& quality = shape.quality;
  ASSERT_EQ(quality.parts.size(), 2U);
  EXPECT_EQ(quality.parts[1].nodes, 7);
  EXPECT_EQ(quality.parts[1].central, 1);
  EXPECT_EQ(quality.parts[1].edges, 30);
  EXPECT_EQ(quality.parts[1].marginal_edges, 25);
  EXPECT_EQ(quality.parts[0].training_nodes, 6);
  EXPECT_EQ(quality.parts[0].halo_forward, 3);
  EXPECT_EQ(quality.parts[0].halo_backward, 4);
  EXPECT_THAT(quality.forward_rows, ElementsAre(0, 3, 5, 0));
  EXPECT_THAT(quality.backward_rows, ElementsAre(0, 4, 2, 0));
  EXPECT_THAT(quality.forward_cover.messages, ElementsAre(0, 2, 4, 0));
  EXPECT_THAT(quality.forward_cover.sums, ElementsAre(0, 1, 4, 0));
  EXPECT_TRUE(quality.backward_cover.messages.empty());
  Json undirected = two_parts_json();
  undirected.erase("backward_rows");
  const PartitionQuality both = parse_shape(undirected, "shape.json").quality;
  EXPECT_THAT(both.backward_rows, ElementsAre(0, 3, 5, 0));
  EXPECT_EQ(both.backward_cover, both.forward_cover);
}

TEST(GraphShape, EqualPartsAreEqualUpToRounding) {
  const GraphShape shape = parse_shape(equal_parts(), "shape.json");
  std::vector<std::int64_t> nodes, central, edges, marginal, training;
  for (const PartQuality& part : shape.quality.parts) {
    nodes.push_back(part.nodes);
    central.push_back(part.central);
    edges.push_back(part.edges);
    marginal.push_back(part.marginal_edges);
    training.push_back(part.training_nodes);
  }
  EXPECT_THAT(nodes, ElementsAre(3, 3, 2, 2));
  EXPECT_THAT(central, ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(edges, ElementsAre(26, 25, 25, 25));
  EXPECT_THAT(marginal, ElementsAre(13, 13, 13, 13));
  EXPECT_THAT(training, ElementsAre(2, 1, 1, 1));
  EXPECT_THAT(shape.quality.forward_rows,
              ElementsAre(0, 2, 1, 1, 2, 0, 1, 1, 1, 1, 0, 2, 1, 1, 2, 0));
  EXPECT_EQ(shape.quality.backward_rows, shape.quality.forward_rows);
  // Written part by part, it is the same.
  EXPECT_EQ(to_json(parse_shape(to_json(shape), "again")), to_json(shape));
}

TEST(GraphShape, ReadsBackAsWritten) {
  GraphShape shape{.name = "made",
                   .features = 100,
                   .classes = 7,
                   .relations = 3,
                   .edge_features = 6,
                   .node_types = 4,
                   .quality = make_parts(5)};
  for (const PartQuality& part : shape.quality.parts) {
    shape.nodes += part.nodes;
    shape.edges += part.edges;
  }
  shape.quality.shares.assign(5, 0.2);
  shape.quality.backward_rows[1] = 5;
  shape.quality.forward_cover = {shape.quality.forward_rows, shape.quality.forward_rows};
  shape.partition.weights = {1, 2, 3, 4, 5};
  shape.partition.method = "random";
  const TempDir dir;
  write_json(dir.path() / "shape.json", to_json(shape));
  const GraphShape back = read_shape(dir.path() / "shape.json");
  EXPECT_EQ(to_json(back), to_json(shape));
  EXPECT_EQ(back.relations, 3);
  EXPECT_EQ(back.edge_features, 6);
  EXPECT_EQ(back.node_types, 4);
  EXPECT_EQ(back.quality.forward_rows, shape.quality.forward_rows);
  EXPECT_EQ(back.quality.backward_rows, shape.quality.backward_rows);
  EXPECT_EQ(back.quality.forward_cover, shape.quality.forward_cover);
  EXPECT_EQ(back.quality.backward_cover, shape.quality.backward_cover);
  EXPECT_EQ(to_json(back.partition), to_json(shape.partition));
  // Every choice costs the same, with what was measured and with what was read.
  const Topology topology = small_topology(5, 1, 1e6);
  ModelConfig model;
  model.features = 100;
  model.outputs = 7;
  const std::vector<CutCandidate> measured = {{"cut", {}, shape.quality}};
  const std::vector<CutCandidate> read = {{"cut", {}, back.quality}};
  PlanSpace a(topology, model, measured, {32, 4});
  PlanSpace b(topology, model, read, {32, 4});
  std::vector<int> choice = a.start();
  for (int d = 0; d < a.decisions(); ++d) {
    for (int option = 0; option < a.options(d); ++option) {
      choice[static_cast<std::size_t>(d)] = option;
      EXPECT_EQ(a.evaluate(choice).seconds, b.evaluate(choice).seconds);
      EXPECT_EQ(a.evaluate(choice).missing_bytes, b.evaluate(choice).missing_bytes);
    }
  }
}

struct BadShape {
  const char* name;
  bool equal;         // of the compact form
  const char* field;  // JSON pointer
  const char* value;
  const char* message;
};
std::ostream& operator<<(std::ostream& out, const BadShape& bad) { return out << bad.name; }

class BadShapes : public ::testing::TestWithParam<BadShape> {};

TEST_P(BadShapes, AreRefusedWithFieldAndValues) {
  Json json = GetParam().equal ? equal_parts() : two_parts_json();
  json[Json::json_pointer(GetParam().field)] = Json::parse(GetParam().value);
  EXPECT_THAT(refusal(json), HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    GraphShape, BadShapes,
    ::testing::Values(
        BadShape{"Format", false, "/format", "2", "shape.json: 'format' is 2; allowed are 1"},
        BadShape{"Name", false, "/name", "7", "'name' is 7; allowed are names"},
        BadShape{"Nodes", false, "/nodes", "-1", "'nodes' is -1; allowed are whole numbers from 1"},
        BadShape{"Huge", false, "/nodes", "18446744073709551615",
                 "'nodes' is 18446744073709551615"},
        BadShape{"Fraction", false, "/features", "1.5", "'features' is 1.5; allowed are whole"},
        BadShape{"NoClasses", false, "/classes", "0", "'classes' is 0"},
        BadShape{"Unknown", false, "/edge", "0", "unknown field 'edge'; allowed are format"},
        BadShape{"NoParts", false, "/parts", "[]", "'parts' is []; allowed are lists of 1 to 4096"},
        BadShape{"TextParts", false, "/parts", "\"2\"", "'parts' is \"2\"; allowed are lists"},
        BadShape{"PartText", false, "/parts/1", "3", "parts[1]: found 3; allowed is an object"},
        BadShape{"PartUnknown", false, "/parts/1/cost", "3", "parts[1]: unknown field 'cost'"},
        BadShape{"Sum", false, "/nodes", "18", "'nodes' is 18, but those of its parts sum to 17"},
        BadShape{"EdgeSum", false, "/edges", "81", "'edges' is 81, but those of its parts sum to"},
        BadShape{"Empty", false, "/parts/0/nodes", "0", "part 0: 'nodes' is 0; allowed are 1 to"},
        BadShape{"Central", false, "/parts/0/central", "11",
                 "'central' is 11; allowed are 0 to 10"},
        BadShape{"Training", false, "/parts/1/training_nodes", "8", "is 8; allowed are 0 to 7"},
        BadShape{"Marginal", false, "/parts/1/marginal_edges", "31", "is 31; allowed are 0 to 30"},
        BadShape{"AllCentral", false, "/parts/1/central", "7", "is 25; allowed are 0 to 0"},
        BadShape{"Rows", false, "/forward_rows", "[[0, 1]]", "allowed are lists of 2 lists of 2"},
        BadShape{"Row", false, "/forward_rows/1", "[1]", "'forward_rows[1]' is [1]; allowed"},
        BadShape{"Entry", false, "/backward_rows/1/0", "-2",
                 "'backward_rows[1][0]' is -2; allowed"},
        BadShape{"Own", false, "/forward_rows/1/1", "1", "part 1 receives 1 halo rows from part 1"},
        BadShape{"TooMany", false, "/forward_rows/0/1", "8",
                 "part 0 receives 8 halo rows from part 1; allowed are 0 to 7, the nodes"},
        BadShape{"Backward", false, "/backward_rows/1/0", "11",
                 "backward_rows: part 1 receives 11"},
        BadShape{"Messages", false, "/forward_messages/0/1", "4",
                 "'forward_messages[0][1]' is 4; allowed are 0 to 3, the rows"},
        BadShape{"Sums", false, "/forward_sums/1/0", "5",
                 "'forward_sums[1][0]' is 5; allowed are 0 to 4, the messages"},
        BadShape{"FewEdges", false, "/parts/1/marginal_edges", "4",
                 "part 1 receives 5 halo rows over 4 marginal edges"},
        BadShape{"Partition", false, "/partition", R"({"method": "luck"})", "shape.json"},
        BadShape{"Count", true, "/parts/count", "0", "parts: 'count' is 0; allowed are whole"},
        BadShape{"TooManyParts", true, "/parts/count", "11",
                 "part 10: 'nodes' is 0; allowed are 1"},
        BadShape{"PerHost", true, "/parts/per_host", "5", "'per_host' is 5; allowed are whole"},
        BadShape{"Share", true, "/parts/central_share", "1.1",
                 "is 1.1; allowed are numbers from 0"},
        BadShape{"ShareText", true, "/parts/marginal_edges_share", "\"x\"", "is \"x\"; allowed"},
        BadShape{"Train", true, "/parts/training_nodes", "11", "is 11; allowed are whole numbers"},
        BadShape{"Within", true, "/parts/halo_rows/within_host", "3", "receives 3 halo rows"},
        BadShape{"Between", true, "/parts/halo_rows/between_hosts", "null", "is null; allowed"},
        BadShape{"Halo", true, "/parts/halo_rows", "4", "parts.halo_rows: found 4; allowed is an"},
        BadShape{"Matrix", true, "/forward_rows", "[]",
                 "'forward_rows' stands beside equal parts"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(GraphShape, EveryFieldIsNeeded) {
  for (const Json& json : {two_parts_json(), equal_parts()}) {
    for (const auto& [name, value] : json.items()) {
      if (name == "backward_rows") continue;
      Json without = json;
      without.erase(name);
      EXPECT_THAT(refusal(without), HasSubstr(fmt::format("field '{}' is missing", name)));
    }
  }
  for (const char* field : {"count", "per_host", "central_share", "marginal_edges_share",
                            "training_nodes", "halo_rows"}) {
    Json without = equal_parts();
    without["parts"].erase(field);
    EXPECT_THAT(refusal(without), HasSubstr(fmt::format("parts: field '{}' is missing", field)));
  }
}

}  // namespace
}  // namespace atl
