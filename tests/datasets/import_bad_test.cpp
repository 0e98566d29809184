// Bad input to every importer: a clear error, and nothing left at --out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <fstream>

#include "base/error.hpp"
#include "base/files.hpp"
#include "datasets/import.hpp"
#include "tests/datasets/fixtures.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

namespace fs = std::filesystem;
using fixtures::npy_bytes;
using fixtures::write_file;
using fixtures::write_gz;
using fixtures::write_npz;
using ::testing::HasSubstr;

// Makes a good set in a folder, spoils it, and returns SOURCE.
struct BadCase {
  const char* name;
  const char* format;
  fs::path (*make)(const fs::path&);
  void (*spoil)(const fs::path&, ImportOptions&);
  const char* message;
  ErrorKind kind = ErrorKind::kInput;
};

void PrintTo(const BadCase& bad, std::ostream* out) { *out << bad.name; }

void truncate(const fs::path& path, std::uintmax_t less) {
  fs::resize_file(path, fs::file_size(path) - less);
}

// Incompressible text, so that the damage lies in the data and not in the trailer.
std::string random_edges() {
  std::string text;
  std::uint32_t state = 1;
  for (int i = 0; i < 20000; ++i) {
    state = state * 1664525U + 1013904223U;
    text += std::to_string(state >> 30U) + "," + std::to_string((state >> 20U) % 4) + "\n";
  }
  return text;
}

using fixtures::make_edges;
using fixtures::make_gnn_benchmark;
using fixtures::make_graphsaint;
using fixtures::make_heterophilous;
using fixtures::make_metis;
using fixtures::make_npy;
using fixtures::make_npy_rows;
using fixtures::make_ogb_binary;
using fixtures::make_ogb_text;
using fixtures::make_planetoid;

const BadCase kCases[] = {
    {"OgbTruncatedGzip", "ogb", make_ogb_text,
     [](const fs::path& d, ImportOptions&) {
       write_gz(d / "raw/edge.csv.gz", random_edges());
       truncate(d / "raw/edge.csv.gz", 1000);
     },
     "edge.csv.gz: damaged or truncated gzip data"},
    {"OgbTruncatedGzipTrailer", "ogb", make_ogb_text,
     [](const fs::path& d, ImportOptions&) { truncate(d / "raw/node-feat.csv.gz", 6); },
     "node-feat.csv.gz: damaged or truncated gzip data"},
    {"OgbNotGzip", "ogb", make_ogb_text,
     [](const fs::path& d, ImportOptions&) { write_file(d / "raw/node-label.csv.gz", "0\n1\n"); },
     "not gzip data"},
    {"OgbWrongEdgeCount", "ogb", make_ogb_text,
     [](const fs::path& d, ImportOptions&) { write_gz(d / "raw/num-edge-list.csv.gz", "6\n"); },
     "5 edges found, 6 expected"},
    {"OgbIdOutOfRange", "ogb", make_ogb_text,
     [](const fs::path& d, ImportOptions&) { write_gz(d / "raw/edge.csv.gz", "0,1\n1,4\n"); },
     "line 2, column 3: node id '4' is out of range; allowed are 0 to 3"},
    {"OgbNegativeId", "ogb", make_ogb_text,
     [](const fs::path& d, ImportOptions&) { write_gz(d / "raw/edge.csv.gz", "0,-1\n"); },
     "node id '-1' is out of range"},
    {"OgbMissingColumn", "ogb", make_ogb_text,
     [](const fs::path& d, ImportOptions&) { write_gz(d / "raw/edge.csv.gz", "0\n"); },
     "line 1, column 2: node id expected"},
    {"OgbThirdColumn", "ogb", make_ogb_text,
     [](const fs::path& d, ImportOptions&) { write_gz(d / "raw/edge.csv.gz", "0,1,2\n"); },
     "line 1, column 5: end of line expected, '2' found"},
    {"OgbNanFeature", "ogb", make_ogb_text,
     [](const fs::path& d, ImportOptions&) {
       write_gz(d / "raw/node-feat.csv.gz", "1,2\n3,nan\n5,6\n7,8\n");
     },
     "line 2, column 3: feature is 'nan'; allowed are finite numbers"},
    {"OgbInfiniteFeature", "ogb", make_ogb_text,
     [](const fs::path& d, ImportOptions&) {
       write_gz(d / "raw/node-feat.csv.gz", "1,2\n3,1e39\n5,6\n7,8\n");
     },
     "line 2, column 3: feature is '1e39'; allowed are finite numbers that fit f32, up to 3.4e38"},
    {"OgbTooFewFeatureRows", "ogb", make_ogb_text,
     [](const fs::path& d, ImportOptions&) { write_gz(d / "raw/node-feat.csv.gz", "1\n2\n3\n"); },
     "3 lines found, 4 expected"},
    {"OgbRaggedFeatures", "ogb", make_ogb_text,
     [](const fs::path& d, ImportOptions&) {
       write_gz(d / "raw/node-feat.csv.gz", "1,2\n3\n5,6\n7,8\n");
     },
     "1 features found, 2 expected"},
    {"OgbTooManyLabels", "ogb", make_ogb_text,
     [](const fs::path& d, ImportOptions&) {
       write_gz(d / "raw/node-label.csv.gz", "0\n0\n0\n0\n0\n");
     },
     "5 lines found, 4 expected"},
    {"OgbFractionalLabel", "ogb", make_ogb_text,
     [](const fs::path& d, ImportOptions&) {
       write_gz(d / "raw/node-label.csv.gz", "0\n0.5\n0\n0\n");
     },
     "label 0.5 found"},
    {"OgbEmptyTrainingSplit", "ogb", make_ogb_text,
     [](const fs::path& d, ImportOptions&) { write_gz(d / "split/time/train.csv.gz", ""); },
     "split 0 of 'in' has no training node"},
    {"OgbOverlappingSplit", "ogb", make_ogb_text,
     [](const fs::path& d, ImportOptions&) { write_gz(d / "split/time/test.csv.gz", "3\n1\n"); },
     "line 2, column 1: node 1 is in train already"},
    {"OgbSplitSavedByPyTorch", "ogb", make_ogb_text,
     [](const fs::path& d, ImportOptions&) { write_file(d / "split/time/split_dict.pt", "x"); },
     "splits saved by PyTorch can't be read"},
    {"OgbTwoSplitSchemes", "ogb", make_ogb_text,
     [](const fs::path& d, ImportOptions&) { fs::create_directories(d / "split/random"); },
     "2 splits (folders) found; name one of them with --split-name: random, time"},
    {"OgbSplitOfAnotherName", "ogb", make_ogb_text,
     [](const fs::path&, ImportOptions& options) { options.split_name = "random"; },
     "--split-name random: ", ErrorKind::kOption},
    {"OgbZeroNodes", "ogb", make_ogb_text,
     [](const fs::path& d, ImportOptions&) { write_gz(d / "raw/num-node-list.csv.gz", "0\n"); },
     "number '0' is out of range; allowed are 1 to 2147483647"},
    {"OgbLyingNodeCount", "ogb", make_ogb_text,
     [](const fs::path& d, ImportOptions&) {
       write_gz(d / "raw/num-node-list.csv.gz", "2000000000\n");
     },
     "2000000000 nodes, but only 5 edges"},
    {"OgbSeveralGraphs", "ogb", make_ogb_text,
     [](const fs::path& d, ImportOptions&) { write_gz(d / "raw/num-node-list.csv.gz", "4\n4\n"); },
     "more than one graph"},
    {"OgbNothingThere", "ogb", make_ogb_text,
     [](const fs::path& d, ImportOptions&) { fs::remove_all(d / "raw"); },
     "neither raw/edge.csv.gz nor raw/data.npz nor raw/relations is there"},
    {"OgbBinaryDamagedMember", "ogb", make_ogb_binary,
     [](const fs::path& d, ImportOptions&) {
       std::string bytes = read_text(d / "raw/node-label.npz");
       bytes[60] = static_cast<char>(bytes[60] ^ 0x55);
       write_file(d / "raw/node-label.npz", bytes);
     },
     "node-label.npz"},
    {"OgbBinaryWrongEdgeShape", "ogb", make_ogb_binary,
     [](const fs::path& d, ImportOptions&) {
       write_npz(d / "raw/data.npz", {{"edge_index", npy_bytes<std::int64_t>({0, 1, 2}, {3, 1})},
                                      {"num_nodes_list", npy_bytes<std::int64_t>({4})}});
     },
     "data.npz[edge_index]: shape (3, 1) found, (2, any) expected"},
    {"OgbBinaryMissingArray", "ogb", make_ogb_binary,
     [](const fs::path& d, ImportOptions&) {
       write_npz(d / "raw/data.npz", {{"num_nodes_list", npy_bytes<std::int64_t>({4})}});
     },
     "there is no array 'edge_index'; the archive holds: num_nodes_list"},
    {"PlanetoidTestIndexOutOfRange", "planetoid", make_planetoid,
     [](const fs::path& d, ImportOptions&) {
       write_file(d / "ind.tiny.test.index", "5\n999999\n");
     },
     "node id 999999"},
    {"PlanetoidTestIndexTwice", "planetoid", make_planetoid,
     [](const fs::path& d, ImportOptions&) { write_file(d / "ind.tiny.test.index", "5\n5\n"); },
     "node 5 is listed twice"},
    {"PlanetoidWrongCounts", "planetoid", make_planetoid,
     [](const fs::path& d, ImportOptions&) { write_file(d / "ind.tiny.test.index", "5\n"); },
     "ind.tiny.tx: 2 x 2 found, 1 x 2 expected"},
    {"PlanetoidTruncated", "planetoid", make_planetoid,
     [](const fs::path& d, ImportOptions&) { truncate(d / "ind.tiny.allx", 10); },
     "not a pickle of plain data: the file ends too early"},
    {"PlanetoidMaliciousPickle", "planetoid", make_planetoid,
     [](const fs::path& d, ImportOptions&) {
       write_file(d / "ind.tiny.graph", "cos\nsystem\n(S'true'\ntR.");
     },
     "operation 0x53 is not supported"},
    {"PlanetoidCallsSystem", "planetoid", make_planetoid,
     [](const fs::path& d, ImportOptions&) {
       write_file(d / "ind.tiny.graph", "cos\nsystem\nU\x04true\x85R.");
     },
     "calls 'os.system'"},
    {"PlanetoidUnknownNode", "planetoid", make_planetoid,
     [](const fs::path& d, ImportOptions&) {
       write_file(d / "ind.tiny.graph", fixtures::pickle_graph({{0, {6}}}));
     },
     "node id 6; allowed are 0 to 5"},
    {"GraphsaintBadJson", "graphsaint", make_graphsaint,
     [](const fs::path& d, ImportOptions&) { write_file(d / "role.json", "{\"tr\": [0, 1"); },
     "role.json: not valid JSON at byte"},
    {"GraphsaintNodeTwice", "graphsaint", make_graphsaint,
     [](const fs::path& d, ImportOptions&) {
       write_file(d / "role.json", R"({"tr": [0], "va": [1], "te": [0]})");
     },
     "node 0 is listed twice"},
    {"GraphsaintUnknownRole", "graphsaint", make_graphsaint,
     [](const fs::path& d, ImportOptions&) { write_file(d / "role.json", R"({"train": [0]})"); },
     "key 'train'; allowed are tr, va, te"},
    {"GraphsaintUnknownNode", "graphsaint", make_graphsaint,
     [](const fs::path& d, ImportOptions&) { write_file(d / "class_map.json", R"({"4": 0})"); },
     "key '4'; allowed are node ids 0 to 3"},
    {"GraphsaintWrongFeatureRows", "graphsaint", make_graphsaint,
     [](const fs::path& d, ImportOptions&) {
       write_file(d / "feats.npy", npy_bytes<double>({1, 2, 3}, {3, 1}));
     },
     "feats.npy: shape (3, 1) found, (4, any) expected"},
    {"GnnBenchmarkDescendingIndptr", "gnn-benchmark", make_gnn_benchmark,
     [](const fs::path& d, ImportOptions&) {
       write_npz(d / "tiny.npz", {{"adj_indptr", npy_bytes<std::int32_t>({0, 2, 1})},
                                  {"adj_shape", npy_bytes<std::int64_t>({2, 2})}});
     },
     "entry 2 is 1, less than the 2 before it"},
    {"GnnBenchmarkLyingColumns", "gnn-benchmark", make_gnn_benchmark,
     [](const fs::path& d, ImportOptions&) {
       write_npz(d / "tiny.npz", {{"adj_indptr", npy_bytes<std::int32_t>({0, 1, 1})},
                                  {"adj_indices", npy_bytes<std::int32_t>({1})},
                                  {"adj_shape", npy_bytes<std::int64_t>({2, 2})},
                                  {"attr_indptr", npy_bytes<std::int32_t>({0, 0, 0})},
                                  {"attr_indices", npy_bytes<std::int32_t>({})},
                                  {"attr_data", npy_bytes<float>({})},
                                  {"attr_shape", npy_bytes<std::int64_t>({2, 1 << 30})}});
     },
     "too sparse to write as a matrix"},
    {"GnnBenchmarkNotAnArchive", "gnn-benchmark", make_gnn_benchmark,
     [](const fs::path& d, ImportOptions&) { write_file(d / "tiny.npz", "garbage"); },
     "not a readable .npz archive"},
    {"GnnBenchmarkPickledObjects", "gnn-benchmark", make_gnn_benchmark,
     [](const fs::path& d, ImportOptions&) {
       write_npz(d / "tiny.npz", {{"adj_shape", npy_bytes("|O", {1}, "12345678")}});
     },
     "m = a.pop('adj_shape').item().tocsr()"},
    {"HeterophilousOverlappingMasks", "heterophilous", make_heterophilous,
     [](const fs::path& d, ImportOptions&) {
       const auto mask = npy_bytes("|b1", {1, 2}, std::string("\1\1", 2));
       write_npz(d / "tiny.npz", {{"edges", npy_bytes<std::int64_t>({0, 1}, {1, 2})},
                                  {"node_features", npy_bytes<float>({1, 2}, {2, 1})},
                                  {"node_labels", npy_bytes<std::int64_t>({0, 1})},
                                  {"train_masks", mask},
                                  {"val_masks", mask},
                                  {"test_masks", mask}});
     },
     "node 0 is in two parts"},
    {"NpyWrongType", "npy", make_npy,
     [](const fs::path& d, ImportOptions&) {
       write_file(d / "edge_index.npy",
                  npy_bytes<float>({0.5F, 1, 0, 0, 0, 0, 0, 0, 0, 0}, {2, 5}));
     },
     "edge_index.npy: element 0 is 0.5; an integer is expected"},
    {"NpyTextElements", "npy", make_npy,
     [](const fs::path& d, ImportOptions&) {
       write_file(d / "labels.npy", npy_bytes("<U1", {4}, std::string(16, 'a')));
     },
     "element type '<U1' is not a number"},
    {"NpyThreeDimensionsInFortranOrder", "npy", make_npy,
     [](const fs::path& d, ImportOptions&) {
       write_file(d / "features.npy", npy_bytes("<f4", {4, 2, 2}, std::string(64, '\0'), true));
     },
     "3 dimensions in Fortran order; allowed are at most 2"},
    {"NpyShortFortranOrder", "npy", make_npy,
     [](const fs::path& d, ImportOptions&) {
       write_file(d / "features.npy", npy_bytes("<f4", {4, 2}, std::string(31, '\0'), true));
     },
     "31 bytes of elements found, 32 expected"},
    {"NpyWholeFloatsAsLabels", "npy", make_npy,
     [](const fs::path& d, ImportOptions&) {
       write_file(d / "labels.npy", npy_bytes<float>({0, 2, __builtin_nanf(""), 2}));
     },
     "all of them whole (0 to 2; 1 are NaN): they can be classes or numbers to predict. Say which: "
     "--task single-label (classes 0 to 2, NaN: none), --task regression"},
    {"NpyShortFile", "npy", make_npy,
     [](const fs::path& d, ImportOptions&) { truncate(d / "features.npy", 1); },
     "31 bytes of elements found, 32 expected"},
    {"NpyLyingShape", "npy", make_npy,
     [](const fs::path& d, ImportOptions&) {
       write_file(d / "features.npy", npy_bytes("<f4", {4, 1LL << 40}, std::string(32, '\0')));
     },
     "32 bytes of elements found, 17592186044416 expected"},
    {"NpyNanFeature", "npy", make_npy,
     [](const fs::path& d, ImportOptions&) {
       write_file(d / "features.npy", npy_bytes<float>({1, 2, 3, __builtin_nanf("")}, {4, 1}));
     },
     "feature 0 of node 3 is nan"},
    {"NpyIdOutOfRange", "npy", make_npy,
     [](const fs::path& d, ImportOptions&) {
       write_file(d / "edge_index.npy",
                  npy_bytes<std::int64_t>({0, 4, 1, 1, 1, 1, 1, 1, 1, 1}, {2, 5}));
     },
     "node id 4 at element 1; allowed are 0 to 3"},
    {"NpyWrongWeightCount", "npy", make_npy,
     [](const fs::path& d, ImportOptions&) {
       write_file(d / "edge_weights.npy", npy_bytes<float>({1, 2}));
     },
     "edge_weights.npy: shape (2) found, (5) expected"},
    {"NpyInfiniteWeight", "npy", make_npy,
     [](const fs::path& d, ImportOptions&) {
       write_file(d / "edge_weights.npy", npy_bytes<float>({1, 2, 3, __builtin_inff(), 5}));
     },
     "element 3 is inf; allowed are finite weights"},
    {"NpyWeightBeyondFloats", "npy", make_npy,
     [](const fs::path& d, ImportOptions&) {
       write_file(d / "edge_weights.npy", npy_bytes<double>({1, 2, 3, -1e300, 5}));
     },
     "element 3 is -1e+300; allowed are finite numbers that fit f32, up to 3.4e38"},
    {"NpyUnknownSplitValue", "npy", make_npy,
     [](const fs::path& d, ImportOptions&) {
       write_file(d / "split.npy", npy_bytes<std::uint8_t>({0, 3, 1, 2}));
     },
     "split 0, node 1 is 3"},
    {"NpyZeroNodes", "npy", make_npy_rows,
     [](const fs::path& d, ImportOptions&) {
       write_file(d / "row_ptr.npy", npy_bytes<std::int64_t>({0}));
       write_file(d / "col_idx.npy", npy_bytes<std::int32_t>({}));
     },
     "the graph has 0 nodes"},
    {"NpyRowPtrBeyondColumns", "npy", make_npy_rows,
     [](const fs::path& d, ImportOptions&) {
       write_file(d / "row_ptr.npy", npy_bytes<std::int64_t>({0, 1, 4, 5, 1LL << 40}));
     },
     "col_idx.npy: shape (5) found, (1099511627776) expected"},
    {"EdgesGarbage", "edges", make_edges,
     [](const fs::path& d, ImportOptions&) {
       write_file(d / "graph.txt", "0 1\n\xFF\xFE\x01 2\n");
     },
     "line 2, column 1: node id expected (an integer), '\\xff\\xfe\\x01' found"},
    {"EdgesHeaderLine", "edges", make_edges,
     [](const fs::path& d, ImportOptions&) { write_file(d / "graph.txt", "source,goal\n0,1\n"); },
     "graph.txt:1: no column is the target of an edge; columns: 'source', 'goal'; "},
    {"EdgesMissingWeight", "edges", make_edges,
     [](const fs::path& d, ImportOptions&) { write_file(d / "graph.txt", "0 1 2\n1 2\n"); },
     "line 2, column 4: weight expected"},
    {"EdgesHugeId", "edges", make_edges,
     [](const fs::path& d, ImportOptions&) { write_file(d / "graph.txt", "0 99999999999\n"); },
     "'99999999999' is out of range"},
    {"EdgesSparseIds", "edges", make_edges,
     [](const fs::path& d, ImportOptions&) { write_file(d / "graph.txt", "0 2000000000\n"); },
     "number the nodes densely (--renumber) or give --nodes"},
    {"EdgesBeyondNodes", "edges", make_edges,
     [](const fs::path&, ImportOptions& options) { options.nodes = 2; }, "allowed are 0 to 1"},
    {"EdgesEmpty", "edges", make_edges,
     [](const fs::path& d, ImportOptions&) { write_file(d / "graph.txt", "# nothing\n"); },
     "the graph has 0 nodes"},
    {"EdgesMatrixMarket", "edges", make_edges,
     [](const fs::path& d, ImportOptions&) {
       write_file(d / "graph.txt", "%%MatrixMarket matrix coordinate\n4 4 2\n1 2\n");
     },
     "a Matrix Market file"},
    {"EdgesSplitWithoutLabels", "edges", make_edges,
     [](const fs::path&, ImportOptions& options) { options.split = parse_split("0.5,0.5,0"); },
     "has no labels", ErrorKind::kOption},
    {"EdgesNoSuchFile", "edges", make_edges,
     [](const fs::path& d, ImportOptions&) { fs::remove(d / "graph.txt"); },
     "can't open: No such file"},
    {"MetisAsymmetric", "metis", make_metis,
     [](const fs::path& d, ImportOptions&) { write_file(d / "tiny.graph", "3 2\n2 3\n3\n2\n"); },
     "doesn't list"},
    {"MetisWrongEdgeCount", "metis", make_metis,
     [](const fs::path& d, ImportOptions&) { write_file(d / "tiny.graph", "2 5\n2\n1\n"); },
     "2 neighbours listed, 10 expected"},
    {"MetisTooFewLines", "metis", make_metis,
     [](const fs::path& d, ImportOptions&) { write_file(d / "tiny.graph", "3 1\n2\n1\n"); },
     "3 nodes announced, but only 2 lines follow"},
    {"MetisLyingHeader", "metis", make_metis,
     [](const fs::path& d, ImportOptions&) { write_file(d / "tiny.graph", "2000000000 0\n\n"); },
     "2000000000 nodes announced, but only 1 lines follow"},
    {"MetisUnknownFormat", "metis", make_metis,
     [](const fs::path& d, ImportOptions&) { write_file(d / "tiny.graph", "2 1 20\n2\n1\n"); },
     "fmt 20; allowed are three digits 0 or 1"},
    {"MetisNodeZero", "metis", make_metis,
     [](const fs::path& d, ImportOptions&) { write_file(d / "tiny.graph", "2 1\n0\n1\n"); },
     "node number '0' is out of range; allowed are 1 to 2"},
    {"NpyInfiniteNumber", "npy", make_npy,
     [](const fs::path& d, ImportOptions&) {
       write_file(d / "labels.npy", npy_bytes<double>({0, 1e39, 1, 2}));
     },
     "labels.npy: element 1 is 1e+39; allowed are finite numbers that fit f32, up to 3.4e38"},
    {"NpyNumbersForOtherNodes", "npy", make_npy,
     [](const fs::path& d, ImportOptions&) {
       write_file(d / "labels.npy", npy_bytes<float>({0, 1, 2}, {3, 1}));
     },
     "shape (3, 1) found"},
    {"NpyClassesOfNumbers", "npy", make_npy,
     [](const fs::path& d, ImportOptions& options) {
       write_file(d / "labels.npy", npy_bytes<float>({0, 1, 2, 3.5F}));
       options.classes = 4;
     },
     "has numbers to predict, not classes", ErrorKind::kOption},
    {"NpyPerClassSplitOfNumbers", "npy", make_npy,
     [](const fs::path& d, ImportOptions& options) {
       write_file(d / "labels.npy", npy_bytes<float>({0, 1, 2, 3.5F}));
       options.split = parse_split("per-class:1,1,1");
     },
     "needs one label per node, a class", ErrorKind::kOption},
    {"TextLabelsAsNumbers", "ogb", make_ogb_text,
     [](const fs::path&, ImportOptions& options) { options.task = Task::kRegression; },
     "has classes that are not read as numbers", ErrorKind::kOption},
    {"TaskThatDoesNotFit", "npy", make_npy,
     [](const fs::path&, ImportOptions& options) { options.task = Task::kBinary; },
     "'in' has 3 classes; 2 are needed", ErrorKind::kOption},
};

class BadImport : public ::testing::TestWithParam<BadCase> {};

TEST_P(BadImport, GivesAClearErrorAndLeavesNothing) {
  const BadCase& bad = GetParam();
  const TempDir dir;
  ImportOptions options;
  options.source = bad.make(dir.path() / "in");
  options.out = dir.path() / "results/out";
  bad.spoil(dir.path() / "in", options);
  const Error error = thrown_error([&] { import_dataset(bad.format, options); });
  EXPECT_THAT(error.what(), HasSubstr(bad.message));
  EXPECT_EQ(error.kind(), bad.kind);
  EXPECT_TRUE(fs::is_empty(dir.path() / "results"));
}

INSTANTIATE_TEST_SUITE_P(All, BadImport, ::testing::ValuesIn(kCases),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(ImportOutput, RefusesAnExistingFolder) {
  const TempDir dir;
  ImportOptions options;
  options.source = make_edges(dir.path() / "in");
  options.out = dir.path() / "in";
  const Error error = thrown_error([&] { import_dataset("edges", options); });
  EXPECT_EQ(error.kind(), ErrorKind::kOption);
  EXPECT_THAT(error.what(), HasSubstr("exists already"));
}

TEST(ImportOutput, RefusesAPlaceThatCannotBeAFolder) {
  const TempDir dir;
  ImportOptions options;
  options.source = make_edges(dir.path() / "in");
  options.out = options.source / "out";  // below a file
  EXPECT_THAT(thrown_error([&] { import_dataset("edges", options); }).what(),
              HasSubstr("can't create"));
}

// A limit on the size of files stands in for a full disk.
TEST(ImportOutput, LeavesNothingOnAFullDisk) {
  const TempDir dir;
  ImportOptions options;
  options.source = dir.path() / "in/big.txt";
  std::string text;
  for (int i = 0; i < 20000; ++i) text += std::to_string(i) + " " + std::to_string(i + 1) + "\n";
  write_file(options.source, text);
  options.out = dir.path() / "results/out";
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{30000, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  const Error error = thrown_error([&] { import_dataset("edges", options); });
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_THAT(error.what(), HasSubstr("row_ptr.npy: can't write"));
  EXPECT_TRUE(fs::is_empty(dir.path() / "results"));
}

}  // namespace
}  // namespace atl
