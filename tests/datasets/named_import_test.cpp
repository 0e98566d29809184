// Arrays by the names of PyTorch Geometric, archives of them, tables with a header, Matrix Market.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/files.hpp"
#include "datasets/import.hpp"
#include "tests/datasets/fixtures.hpp"
#include "tests/datasets/import_fixture.hpp"

namespace atl {
namespace {

namespace fs = std::filesystem;
using fixtures::npy_bytes;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class NamedImport : public ImportFixture {
 protected:
  using Arrays = std::map<std::string, std::string>;

  // Edges 0 -> 1, 1 -> 2, 2 -> 2, 3 -> 0; of each node a feature, a label and its sets.
  static Arrays usual() {
    return {{"edge_index", npy_bytes<std::int64_t>({0, 1, 2, 3, 1, 2, 2, 0}, {2, 4})},
            {"x", npy_bytes<float>({1, 2, 3, 4}, {4, 1})},
            {"y", npy_bytes<std::int64_t>({0, 1, 1, 0}, {4, 1})},
            {"train_mask", npy_bytes<std::uint8_t>({1, 0, 0, 0})},
            {"val_mask", npy_bytes<std::uint8_t>({0, 1, 0, 0})},
            {"test_mask", npy_bytes<std::uint8_t>({0, 0, 1, 0})}};
  }
  fs::path folder_of(const Arrays& arrays) const {
    fs::remove_all(in());
    fs::create_directories(in());
    for (const auto& [name, bytes] : arrays) write_atomically(in() / (name + ".npy"), bytes);
    return in();
  }
  fs::path archive_of(const Arrays& arrays) const {
    const fs::path path = dir_.path() / "arrays.npz";
    fs::remove(path);
    fixtures::write_npz(path, arrays);
    return path;
  }
  void expect_usual(const Dataset& dataset) {
    EXPECT_THAT(dataset.graph().in_edges.row_ptr, ElementsAre(0, 1, 2, 3, 3));
    EXPECT_THAT(dataset.graph().in_edges.col_idx, ElementsAre(3, 0, 1));
    EXPECT_THAT(dataset.features(), ElementsAre(1, 2, 3, 4));
    EXPECT_THAT(dataset.labels(), ElementsAre(0, 1, 1, 0));
    EXPECT_THAT(dataset.split(0), ElementsAre(0, 1, 2, 255));
    EXPECT_EQ(report_.self_loops, 1);
  }
  fs::path text_of(const std::string& name, const std::string& text) const {
    const fs::path path = dir_.path() / name;
    write_atomically(path, text);
    return path;
  }
};

TEST_F(NamedImport, FoldersAndArchivesGiveTheSame) {
  options_.directed = true;
  expect_usual(import("npy", folder_of(usual())));
  expect_usual(import("npy", archive_of(usual())));
}

TEST_F(NamedImport, MasksOfSeveralSplits) {
  Arrays arrays = usual();
  arrays["train_mask"] = npy_bytes<std::uint8_t>({1, 0, 0, 1, 0, 0, 0, 0}, {4, 2});
  arrays["val_mask"] = npy_bytes<std::uint8_t>({0, 1, 1, 0, 0, 0, 0, 0}, {4, 2});
  arrays.erase("test_mask");
  const Dataset dataset = import("npy", archive_of(arrays));
  EXPECT_EQ(dataset.info().splits, 2);
  EXPECT_THAT(dataset.split(0), ElementsAre(0, 1, 255, 255));
  EXPECT_THAT(dataset.split(1), ElementsAre(1, 0, 255, 255));
}

TEST_F(NamedImport, SetsAsListsOfNodes) {
  Arrays arrays = usual();
  for (const char* mask : {"train_mask", "val_mask", "test_mask"}) arrays.erase(mask);
  arrays["train_idx"] = npy_bytes<std::int64_t>({3, 1});
  arrays["valid_idx"] = npy_bytes<std::int64_t>({0});
  EXPECT_THAT(import("npy", folder_of(arrays)).split(0), ElementsAre(1, 0, 255, 0));
}

TEST_F(NamedImport, WrongSetsAreRefused) {
  const auto with = [&](const std::string& name, const std::string& bytes) {
    Arrays arrays = usual();
    arrays[name] = bytes;
    return refused("npy", folder_of(arrays));
  };
  EXPECT_THAT(with("val_mask", npy_bytes<std::uint8_t>({1, 0, 0, 0})),
              HasSubstr("val_mask.npy: node 0 is in it and in the training set"));
  EXPECT_THAT(
      with("val_mask", npy_bytes<std::uint8_t>({2, 0, 0, 0})),
      HasSubstr("val_mask.npy: node 0 is there twice, the second time at element 2; allowed"));
  EXPECT_THAT(with("val_mask", npy_bytes<std::uint8_t>({1, 0, 0, 0, 0, 1, 0, 0}, {4, 2})),
              HasSubstr("val_mask.npy: 2 splits found, and 1 in the sets before it"));
  EXPECT_THAT(with("val_mask", npy_bytes<std::uint8_t>({1, 0})), HasSubstr("val_mask.npy"));
  EXPECT_THAT(with("valid_mask", npy_bytes<std::uint8_t>({0, 0, 0, 1})),
              HasSubstr("val_mask.npy and valid_mask.npy are there; keep one"));
  EXPECT_THAT(with("train_idx", npy_bytes<std::int64_t>({0})),
              HasSubstr("it has several of split, *_mask and *_idx; keep one kind"));
  EXPECT_THAT(with("features", npy_bytes<float>({1, 2, 3, 4}, {4, 1})),
              HasSubstr("features.npy and x.npy are there; keep one"));
}

TEST_F(NamedImport, ArraysThatNobodyReadsAreWarnedOf) {
  Arrays arrays = usual();
  arrays["pos"] = npy_bytes<float>({0, 0, 0, 0});
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  import("npy", archive_of(arrays));
  const std::string said =
      ::testing::internal::GetCapturedStdout() + ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(said, AllOf(HasSubstr("arrays.npz: not read: pos; arrays that are read are called"),
                          HasSubstr("edge_index"), HasSubstr("train_mask")));
}

TEST_F(NamedImport, TablesWithAHeader) {
  options_.directed = true;
  const Dataset dataset = import("edges", text_of("edges.csv",
                                                  "# made by hand\n"
                                                  "Weight,dst,note,src,type\n"
                                                  "0.5,1,a,0,1\n"
                                                  "2,0,b,2,0\n"));
  EXPECT_THAT(dataset.graph().in_edges.row_ptr, ElementsAre(0, 1, 2, 2));
  EXPECT_THAT(dataset.graph().in_edges.col_idx, ElementsAre(2, 0));
  EXPECT_THAT(dataset.graph().in_edges.values, ElementsAre(2, 0.5F));
  EXPECT_THAT(dataset.graph().edge_types, ElementsAre(0, 1));
  EXPECT_EQ(import("edges", text_of("tabs.tsv", "source\ttarget\n0\t1\n")).info().edges, 1);
}

TEST_F(NamedImport, WrongHeadersAreRefused) {
  const auto with = [&](const std::string& text) {
    return refused("edges", text_of("edges.csv", text));
  };
  EXPECT_THAT(with("src,weight\n0,1\n"), HasSubstr("edges.csv:1: no column is the target"));
  EXPECT_THAT(with("src,dst,from\n0,1,2\n"), HasSubstr("edges.csv:1: column 'from': another"));
  EXPECT_THAT(with("src,dst\n0,1\n0\n"), HasSubstr("line 3, column 2: node id expected"));
  EXPECT_THAT(with("src,dst,note\n0,1\n"), HasSubstr("line 2, column 4: another column expected"));
  options_.relation_column = "4";
  EXPECT_THAT(with("src,dst,type\n0,1,0\n"), HasSubstr("--relation-column 4: line 1 of"));
}

TEST_F(NamedImport, MatrixMarket) {
  options_.directed = true;
  const std::string banner = "%%MatrixMarket matrix coordinate ";
  const Dataset general = import(
      "matrix-market", text_of("a.mtx", banner + "real general\n% x\n\n3 3 2\n1 2 0.5\n3 1 2\n"));
  EXPECT_THAT(general.graph().in_edges.row_ptr, ElementsAre(0, 1, 2, 2));
  EXPECT_THAT(general.graph().in_edges.col_idx, ElementsAre(2, 0));
  EXPECT_THAT(general.graph().in_edges.values, ElementsAre(2, 0.5F));
  const Dataset symmetric =
      import("matrix-market", text_of("b.mtx", banner + "pattern symmetric\n3 3 2\n2 1\n3 2\n"));
  EXPECT_THAT(symmetric.graph().in_edges.row_ptr, ElementsAre(0, 1, 3, 4));
  fs::create_directories(in());
  fs::copy(dir_.path() / "b.mtx", in() / "b.mtx");
  write_atomically(in() / "x.npy", npy_bytes<float>({1, 2, 3}, {3, 1}));
  EXPECT_THAT(import("matrix-market", in()).features(), ElementsAre(1, 2, 3));
}

TEST_F(NamedImport, WrongMatricesAreRefused) {
  const auto with = [&](const std::string& text) {
    return refused("matrix-market", text_of("a.mtx", text));
  };
  const std::string banner = "%%MatrixMarket matrix coordinate pattern general\n";
  EXPECT_THAT(with(""), HasSubstr("empty; a banner is expected"));
  EXPECT_THAT(with("1 1 0\n"), HasSubstr("a.mtx:1: word 1 is '1'; allowed are %%MatrixMarket"));
  EXPECT_THAT(with("%%MatrixMarket matrix array real general\n"), HasSubstr("word 3 is 'array'"));
  EXPECT_THAT(with("%%MatrixMarket matrix coordinate complex general\n"),
              HasSubstr("word 4 is 'complex'; allowed are pattern, real, integer"));
  EXPECT_THAT(with("%%MatrixMarket matrix coordinate real hermitian\n"), HasSubstr("word 5"));
  EXPECT_THAT(with(banner), HasSubstr("it ends before the line of sizes"));
  EXPECT_THAT(with(banner + "3 4 1\n1 1\n"), HasSubstr("4 columns and 3 rows"));
  EXPECT_THAT(with(banner + "3 3 2\n1 1\n"), HasSubstr("2 entries announced, 1 found"));
  EXPECT_THAT(with(banner + "3 3 1\n0 1\n"), HasSubstr("row '0' is out of range"));
  EXPECT_THAT(with(banner + "3 3 1\n1 4\n"), HasSubstr("column '4' is out of range"));
  EXPECT_THAT(with(banner + "3 3 1\n1 2 0.5\n"), HasSubstr("end of line expected"));
}

}  // namespace
}  // namespace atl
