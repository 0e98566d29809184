// Importers of relations, features of edges and types of nodes, with hand-checked results.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>
#include <tuple>

#include "base/files.hpp"
#include "datasets/partition_folder.hpp"
#include "tests/datasets/fixtures.hpp"
#include "tests/datasets/import_fixture.hpp"
#include "tests/support/typed_edges.hpp"

namespace atl {
namespace {

namespace fs = std::filesystem;
using fixtures::npy_bytes;
using fixtures::write_file;
using fixtures::write_gz;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class TypedImport : public ImportFixture {};

TEST_F(TypedImport, DirectedArrays) {
  options_.directed = true;
  const Dataset dataset = import("npy", fixtures::make_npy_typed(in()));
  const GraphView graph = dataset.graph();
  EXPECT_THAT(graph.in_edges.row_ptr, ElementsAre(0, 1, 4, 4, 4));
  EXPECT_THAT(graph.in_edges.col_idx, ElementsAre(1, 0, 0, 2));
  EXPECT_THAT(graph.edge_types, ElementsAre(0, 0, 1, 0));
  EXPECT_THAT(graph.edge_features, ElementsAre(6, 1, 2, 3));
  EXPECT_THAT(graph.node_types, ElementsAre(0, 0, 2, 1));
  EXPECT_EQ(dataset.info().relations, 2);
  EXPECT_EQ(dataset.info().edge_features, 1);
  EXPECT_EQ(dataset.info().node_types, 3);
  EXPECT_EQ(report_.duplicates, 1);
  EXPECT_EQ(report_.self_loops, 1);
  EXPECT_EQ(dataset.info().provenance["edge_features_dropped"], 1);
  EXPECT_FALSE(fs::exists(dir_.path() / "out/edge_features.source.npy"));
}

// The edge back has the same type, and the features of the first edge of either direction.
TEST_F(TypedImport, UndirectedArrays) {
  const Dataset dataset = import("npy", fixtures::make_npy_typed(in()));
  const GraphView graph = dataset.graph();
  EXPECT_THAT(graph.in_edges.row_ptr, ElementsAre(0, 2, 5, 6, 6));
  EXPECT_THAT(graph.in_edges.col_idx, ElementsAre(1, 1, 0, 0, 2, 1));
  EXPECT_THAT(graph.edge_types, ElementsAre(0, 1, 0, 1, 0, 0));
  EXPECT_THAT(graph.edge_features, ElementsAre(1, 2, 1, 2, 3, 3));
  EXPECT_FALSE(dataset.info().directed);
  EXPECT_EQ(report_.duplicates, 1);
  EXPECT_EQ(dataset.info().provenance["edge_features_dropped"], 2);
}

TEST_F(TypedImport, ReverseRelations) {
  options_.reverse_relations = true;
  const Dataset dataset = import("npy", fixtures::make_npy_typed(in()));
  const GraphView graph = dataset.graph();
  EXPECT_THAT(graph.in_edges.row_ptr, ElementsAre(0, 3, 7, 8, 8));
  EXPECT_THAT(graph.in_edges.col_idx, ElementsAre(1, 1, 1, 0, 0, 0, 2, 1));
  EXPECT_THAT(graph.edge_types, ElementsAre(0, 2, 3, 0, 1, 2, 0, 2));
  EXPECT_THAT(graph.edge_features, ElementsAre(6, 1, 2, 1, 2, 6, 3, 3));
  EXPECT_TRUE(dataset.info().directed);
  EXPECT_EQ(dataset.info().relations, 4);
  EXPECT_EQ(dataset.info().edges_source, 6);
  EXPECT_EQ(report_.duplicates, 1);
  EXPECT_EQ(dataset.info().provenance["edge_features_dropped"], 1);
  EXPECT_EQ(dataset.info().provenance["options"]["reverse_relations"], true);
}

// A self-loop's reverse is a self-loop of the other relation, as its matrix is the transpose.
TEST_F(TypedImport, ReverseRelationsOfSelfLoops) {
  options_.reverse_relations = true;
  options_.keep_self_loops = true;
  const Dataset dataset = import("npy", fixtures::make_npy_typed(in()));
  EXPECT_THAT(dataset.graph().in_edges.row(3), ElementsAre(3, 3));
  EXPECT_THAT(dataset.graph().edge_types.subspan(8), ElementsAre(1, 3));
  EXPECT_THAT(dataset.graph().edge_features.subspan(8), ElementsAre(5, 5));
}

TEST_F(TypedImport, RowsWithWeightsAndFlatFeatures) {
  options_.directed = true;
  fixtures::make_npy_rows(in());  // 2 -> 0, 2 -> 1, 0 -> 1 twice, 1 -> 2
  write_file(in() / "edge_types.npy", npy_bytes<std::uint8_t>({3, 0, 1, 1, 2}));
  write_file(in() / "edge_features.npy", npy_bytes<float>({1, 2, 3, 4, 5}));
  write_file(in() / "edge_weights.npy", npy_bytes<float>({1, 2, 4, 8, 16}));
  const Dataset dataset = import("npy", in());
  const GraphView graph = dataset.graph();
  EXPECT_THAT(graph.in_edges.col_idx, ElementsAre(2, 0, 2, 1));
  EXPECT_THAT(graph.in_edges.values, ElementsAre(1, 12, 2, 16));
  EXPECT_THAT(graph.edge_types, ElementsAre(3, 1, 0, 2));
  EXPECT_THAT(graph.edge_features, ElementsAre(1, 3, 2, 5));
  EXPECT_EQ(dataset.info().relations, 4);
}

TEST_F(TypedImport, WeightsOfEachTypeAreSummedAlone) {
  options_.directed = true;
  fixtures::make_npy_typed(in());
  write_file(in() / "edge_weights.npy", npy_bytes<float>({1, 2, 4, 8, 16, 32}));
  EXPECT_THAT(import("npy", in()).graph().in_edges.values, ElementsAre(32, 9, 2, 4));
  options_.directed = false;  // 0 - 1 of type 0: 9 one way, 32 the other
  EXPECT_THAT(import("npy", in()).graph().in_edges.values, ElementsAre(32, 2, 32, 2, 4, 4));
}

TEST_F(TypedImport, FeaturesWithoutTypes) {
  options_.directed = true;
  fixtures::make_npy_typed(in());
  fs::remove(in() / "edge_type.npy");
  const Dataset dataset = import("npy", in());
  EXPECT_EQ(dataset.info().relations, 0);
  EXPECT_THAT(dataset.graph().edge_types, IsEmpty());
  EXPECT_THAT(dataset.graph().in_edges.col_idx, ElementsAre(1, 0, 2));
  EXPECT_THAT(dataset.graph().edge_features, ElementsAre(6, 1, 3));
}

TEST_F(TypedImport, EdgeListWithTheRelationInAnyColumn) {
  options_.directed = true;
  options_.relation_column = "2";
  {
    const Dataset dataset = import("edges", fixtures::make_edges_typed(in()));
    EXPECT_THAT(dataset.graph().in_edges.row_ptr, ElementsAre(0, 1, 3, 3, 3));
    EXPECT_THAT(dataset.graph().in_edges.col_idx, ElementsAre(1, 0, 3));
    EXPECT_THAT(dataset.graph().edge_types, ElementsAre(1, 2, 0));
    EXPECT_THAT(dataset.graph().in_edges.values, ElementsAre(4, 1.5F, 2));
    EXPECT_EQ(dataset.info().relations, 3);
  }
  const std::pair<int, const char*> cases[] = {{1, "5 0 1\n0 1 0\n"},
                                               {3, "0 1 5\n1 0 0\n"},
                                               {3, "0 1 5 2\n1 0 0 3\n"},
                                               {4, "0 1 2 5\n1 0 3 0\n"}};
  for (const auto& [column, text] : cases) {
    options_.relation_column = std::to_string(column);
    write_file(in() / "list.txt", text);
    const Dataset dataset = import("edges", in() / "list.txt");
    EXPECT_THAT(dataset.graph().in_edges.col_idx, ElementsAre(1, 0)) << text;
    EXPECT_THAT(dataset.graph().edge_types, ElementsAre(0, 5)) << text;
    EXPECT_EQ(dataset.info().relations, 6);
    if (dataset.info().weighted) {
      EXPECT_THAT(dataset.graph().in_edges.values, ElementsAre(3, 2)) << text;
    }
    EXPECT_EQ(dataset.info().weighted, std::string_view(text).size() > 12);
  }
}

TEST_F(TypedImport, EdgeListInAFolderWithArrays) {
  options_.directed = true;
  write_gz(in() / "edges.csv.gz", "0,1\n2,0\n");
  write_file(in() / "edge_features.npy", npy_bytes<float>({1, 2, 3, 4}, {2, 2}));
  write_file(in() / "node_types.npy", npy_bytes<std::uint16_t>({1, 0, 1}));
  const Dataset dataset = import("edges", in());
  EXPECT_THAT(dataset.graph().in_edges.col_idx, ElementsAre(2, 0));
  EXPECT_THAT(dataset.graph().edge_features, ElementsAre(3, 4, 1, 2));
  EXPECT_THAT(dataset.graph().node_types, ElementsAre(1, 0, 1));
}

TEST_F(TypedImport, OgbWithTypes) {
  options_.directed = true;
  const Dataset dataset = import("ogb", fixtures::make_ogb_heterogeneous(in()));
  const GraphView graph = dataset.graph();
  EXPECT_THAT(graph.in_edges.row_ptr, ElementsAre(0, 0, 0, 1, 3, 5, 6));
  EXPECT_THAT(graph.in_edges.col_idx, ElementsAre(3, 0, 1, 3, 5, 1));
  EXPECT_THAT(graph.edge_types, ElementsAre(2, 0, 0, 1, 1, 0));
  EXPECT_THAT(graph.node_types, ElementsAre(0, 0, 1, 2, 2, 2));
  EXPECT_THAT(dataset.features(), ElementsAre(0, 0, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6));
  EXPECT_THAT(dataset.labels(), ElementsAre(-1, -1, -1, 1, -1, 0));
  EXPECT_THAT(dataset.split(0), ElementsAre(255, 255, 255, 0, 1, 2));
  EXPECT_EQ(dataset.info().relations, 3);
  EXPECT_EQ(dataset.info().node_types, 3);
  EXPECT_EQ(dataset.info().classes, 2);
  const Json& provenance = dataset.info().provenance;
  EXPECT_EQ(provenance["relations"], Json::array({"author___writes___paper",
                                                  "paper___cites___paper", "paper___in___venue"}));
  EXPECT_EQ(provenance["node_types"], Json::array({"author", "venue", "paper"}));
}

TEST_F(TypedImport, OgbTypesWithTheirOwnFeatures) {
  fixtures::make_ogb_heterogeneous(in());
  EXPECT_THAT(import("ogb", in()).info().features_by_type, ElementsAre(0, 0, 2));
  write_gz(in() / "raw/node-feat/author/node-feat.csv.gz", "7,8,9\n-1,-2,-3\n");
  const Dataset dataset = import("ogb", in());
  EXPECT_THAT(dataset.info().features_by_type, ElementsAre(3, 0, 2));
  EXPECT_THAT(dataset.features(),
              ElementsAre(7, 8, 9, -1, -2, -3, 0, 0, 0, 1, 2, 0, 3, 4, 0, 5, 6, 0));
}

TEST_F(TypedImport, OgbWithTypesAndReverses) {
  options_.reverse_relations = true;
  const Dataset dataset = import("ogb", fixtures::make_ogb_heterogeneous(in()));
  EXPECT_EQ(dataset.info().relations, 6);
  EXPECT_THAT(dataset.graph().in_edges.row_ptr, ElementsAre(0, 1, 3, 4, 8, 10, 12));
  EXPECT_THAT(dataset.graph().in_edges.col_idx, ElementsAre(3, 3, 5, 3, 0, 1, 2, 4, 3, 5, 1, 4));
  EXPECT_THAT(dataset.graph().edge_types, ElementsAre(3, 3, 3, 2, 0, 0, 5, 4, 1, 1, 0, 4));
}

// A relation that no edge has keeps its number.
TEST_F(TypedImport, OgbRelationWithoutEdges) {
  fixtures::make_ogb_heterogeneous(in());
  write_gz(in() / "raw/relations/venue___near___venue/edge.csv.gz", "");
  EXPECT_EQ(import("ogb", in()).info().relations, 4);
}

TEST_F(TypedImport, RefusesBadTypesAndFeatures) {
  const auto with = [&](const char* file, const std::string& bytes) {
    fs::remove_all(in());
    fixtures::make_npy_typed(in());
    write_file(in() / file, bytes);
    return refused("npy", in());
  };
  EXPECT_THAT(with("edge_type.npy", npy_bytes<std::int64_t>({0, 1, 0, -1, 1, 0})),
              HasSubstr("edge_type.npy: element 3 is -1; allowed are types 0 to 65535"));
  EXPECT_THAT(with("edge_type.npy", npy_bytes<std::int64_t>({0, 1, 0, 65536, 1, 0})),
              HasSubstr("element 3 is 65536"));
  EXPECT_THAT(with("edge_type.npy", npy_bytes<std::int64_t>({0, 1, 0})),
              HasSubstr("edge_type.npy: shape (3) found, (6) expected"));
  EXPECT_THAT(with("edge_type.npy", npy_bytes<float>({0, 1, 0, 0.5F, 1, 0})),
              HasSubstr("element 3 is 0.5; an integer is expected"));
  EXPECT_THAT(with("edge_types.npy", npy_bytes<std::int64_t>({0, 1, 0, 0, 1, 0})),
              HasSubstr("edge_types.npy and edge_type.npy are there; keep one"));
  EXPECT_THAT(with("edge_attr.npy", npy_bytes<float>({1, 2, 3, 4, 5, __builtin_nanf("")}, {6, 1})),
              HasSubstr("edge_attr.npy: feature 0 of edge 5 is nan; allowed are finite numbers"));
  EXPECT_THAT(with("edge_attr.npy", npy_bytes<float>({1, 2, 3, 4, 5}, {5, 1})),
              HasSubstr("edge_attr.npy: shape (5, 1) found, (6, any) expected"));
  EXPECT_THAT(with("node_type.npy", npy_bytes<std::int32_t>({0, 0, -3, 0})),
              HasSubstr("node_type.npy: entry 2 is -3; allowed are types 0 to 65535"));
  EXPECT_THAT(with("node_type.npy", npy_bytes<std::int32_t>({0, 0, 2, 1}, {4, 1})),
              HasSubstr("node_type.npy: shape (4, 1) found, (4) expected"));
}

TEST_F(TypedImport, RefusesOptionsWithoutUse) {
  options_.reverse_relations = true;
  EXPECT_THAT(refused("npy", fixtures::make_npy(in())),
              HasSubstr("--reverse-relations: the edges of 'in' have no relations"));
  options_.reverse_relations = false;
  options_.relation_column = "3";
  EXPECT_THAT(refused("npy", in()), HasSubstr("--relation-column: only the lines of format edges"));
  write_file(in() / "list.txt", "0 1\n");
  EXPECT_THAT(refused("edges", in() / "list.txt"), HasSubstr("line 1"));
  write_file(in() / "list.txt", "0 1 3\n1 0 -2\n");
  EXPECT_THAT(refused("edges", in() / "list.txt"), HasSubstr("line 2, column 5: relation"));
}

TEST_F(TypedImport, RefusesBadOgbSetsWithTypes) {
  const auto with = [&](const char* file, const std::string& text) {
    fs::remove_all(in());
    fixtures::make_ogb_heterogeneous(in());
    write_gz(in() / file, text);
    return refused("ogb", in());
  };
  EXPECT_THAT(with("raw/num-node-dict.csv.gz", "author,venue\n2,1\n"),
              HasSubstr("not called SOURCE___RELATION___TARGET; types of nodes are author, venue"));
  EXPECT_THAT(with("raw/num-node-dict.csv.gz", "author,venue,author\n2,1,3\n"),
              HasSubstr("type of nodes 'author' found"));
  EXPECT_THAT(with("raw/num-node-dict.csv.gz", "author,venue,../paper\n2,1,3\n"),
              HasSubstr("type of nodes '../paper' found"));
  EXPECT_THAT(with("raw/num-node-dict.csv.gz", "author,venue,paper\n"), HasSubstr("no line with"));
  EXPECT_THAT(with("raw/num-node-dict.csv.gz", "author,venue,paper\n2,1\n"), HasSubstr("line 2"));
  EXPECT_THAT(with("raw/relations/authorpaper/edge.csv.gz", "0,0\n"),
              HasSubstr("authorpaper: not called"));
  EXPECT_THAT(with("raw/relations/paper___cites___paper/edge.csv.gz", "0,1\n0,3\n"),
              HasSubstr("line 2"));
  EXPECT_THAT(with("raw/relations/author___writes___paper/num-edge-list.csv.gz", "4\n"),
              HasSubstr("3 edges found, 4 expected"));
  EXPECT_THAT(with("raw/node-feat/venue/node-feat.csv.gz", "1\n2\n"),
              HasSubstr("2 lines found, 1 expected (one per node)"));
  EXPECT_THAT(with("raw/node-label/venue/node-label.csv.gz", "1\n"),
              HasSubstr("labels of venue and of paper; only one type"));
  EXPECT_THAT(with("split/time/paper/test.csv.gz", "3\n"), HasSubstr("test.csv.gz"));
}

// Source edges -> import -> three parts: every local edge has the type and features that a plain
// loop over the source gives it.
TEST_F(TypedImport, EveryLocalEdgeHasWhatTheSourceSays) {
  constexpr std::int64_t kNodes = 50;
  constexpr std::size_t kEdgeCount = 400;
  std::mt19937 random(5);
  std::vector<std::int64_t> ends(2 * kEdgeCount);
  std::vector<std::int64_t> types(kEdgeCount);
  std::vector<float> features(2 * kEdgeCount);
  for (auto& end : ends) end = static_cast<std::int64_t>(random() % kNodes * (random() % 3) / 2);
  for (auto& type : types) type = static_cast<std::int64_t>(random() % 3);
  for (std::size_t i = 0; i < features.size(); ++i) features[i] = static_cast<float>(i);
  const std::vector<std::uint8_t> node_types(kNodes, 1);
  write_file(in() / "edge_index.npy", npy_bytes(ends, {2, kEdgeCount}));
  write_file(in() / "edge_types.npy", npy_bytes(types));
  write_file(in() / "edge_features.npy", npy_bytes(features, {kEdgeCount, 2}));
  write_file(in() / "node_types.npy", npy_bytes(node_types));

  using Key = std::tuple<std::int64_t, std::int64_t, std::int64_t>;  // target, source, type
  for (const char* way : {"directed", "undirected", "reverse"}) {
    options_.directed = way == std::string_view("directed");
    options_.reverse_relations = way == std::string_view("reverse");
    std::map<Key, float> expected;  // the first feature of the first such edge
    for (std::size_t k = 0; k < kEdgeCount; ++k) {
      const std::int64_t source = ends[k];
      const std::int64_t target = ends[kEdgeCount + k];
      if (source == target) continue;
      expected.try_emplace({target, source, types[k]}, features[2 * k]);
      if (options_.directed) continue;
      const std::int64_t back = types[k] + (options_.reverse_relations ? 3 : 0);
      expected.try_emplace({source, target, back}, features[2 * k]);
    }
    const Dataset dataset = import("npy", in());
    std::map<Key, float> found;
    const Partition partition = ensure_partition(dataset, 3, {});
    for (int part = 0; part < 3; ++part) {
      const Shard shard = open_shard(partition.folder, part, partition.checksum());
      const LocalGraphView& local = shard.graph();
      const LocalMatrixView& matrix = local.forward;
      expect_edge_arrays(local, dataset.graph());
      for (std::int64_t i = 0; i < local.inner(); ++i) {
        for (std::int64_t e = matrix.csr.row_ptr[i]; e < matrix.csr.row_ptr[i + 1]; ++e) {
          const std::int32_t column = matrix.csr.col_idx[e];
          const GlobalId source = column < local.inner() ? local.inner_ids[column]
                                                         : matrix.halo_ids[column - local.inner()];
          const Key key{to_index(local.inner_ids[i]), to_index(source), matrix.edge_types[e]};
          EXPECT_TRUE(found.emplace(key, matrix.edge_features[2 * e]).second);
        }
      }
    }
    EXPECT_EQ(found, expected) << way;
  }
}

}  // namespace
}  // namespace atl
