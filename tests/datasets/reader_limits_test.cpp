// Input that readers refuse before it costs time or memory, and input that they must still take.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "datasets/import.hpp"
#include "datasets/pickle.hpp"
#include "datasets/text_reader.hpp"
#include "tests/datasets/fixtures.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

namespace fs = std::filesystem;
using fixtures::npy_bytes;
using fixtures::write_file;
using fixtures::write_npz;
using ::testing::AllOf;
using ::testing::HasSubstr;

DatasetInfo import_to(const fs::path& folder, const std::string& format, const fs::path& source,
                      ImportOptions options = {}) {
  options.source = source;
  options.out = folder / "out";
  return import_dataset(format, options).info;
}

TEST(LineReader, RefusesALineThatIsNoText) {
  const TempDir dir;
  const fs::path path = dir.path() / "graph.txt";
  write_file(path, "0 1\n" + std::string(LineReader::kLongestLine + 2, '7') + "\n");
  EXPECT_THAT(thrown_error([&] { import_to(dir.path(), "edges", path); }).what(),
              AllOf(HasSubstr("graph.txt: line 2 goes on after"),
                    HasSubstr(std::to_string(LineReader::kLongestLine))));
}

TEST(LineReader, TakesTheLongestLine) {
  const TempDir dir;
  const fs::path path = dir.path() / "a.txt";
  write_file(path, std::string(LineReader::kLongestLine, '7') + "\n8\n");
  LineReader reader(path);
  std::string_view line;
  ASSERT_TRUE(reader.next(line));
  EXPECT_EQ(line.size(), LineReader::kLongestLine);
  ASSERT_TRUE(reader.next(line));
  EXPECT_EQ(line, "8");
  EXPECT_FALSE(reader.next(line));
}

TEST(ByteOrderMark, OfUtf8IsSkipped) {
  const TempDir dir;
  const fs::path path = dir.path() / "graph.txt";
  write_file(path,
             "\xEF\xBB\xBF"
             "0 1\n1 2\n");
  EXPECT_EQ(import_to(dir.path(), "edges", path).edges_source, 2);
  write_file(dir.path() / "empty.txt", "\xEF\xBB\xBF");
  LineReader reader(dir.path() / "empty.txt");
  std::string_view line;
  EXPECT_FALSE(reader.next(line));
}

TEST(ByteOrderMark, OfOtherEncodingsIsNamed) {
  using namespace std::string_literals;
  const TempDir dir;
  const fs::path path = dir.path() / "graph.txt";
  const std::pair<std::string, const char*> marks[] = {
      {"\xFF\xFE"s + "0\0\n\0"s, "UTF-16LE"},
      {"\xFE\xFF"s + "\0000\0\n"s, "UTF-16BE"},
      {"\xFF\xFE\0\0"s + "0\0\0\0"s, "UTF-32LE"},
      {"\0\0\xFE\xFF"s + "\0\0\0000"s, "UTF-32BE"}};
  for (const auto& [bytes, encoding] : marks) {
    write_file(path, bytes);
    EXPECT_THAT(thrown_error([&] { import_to(dir.path(), "edges", path); }).what(),
                HasSubstr("graph.txt: its byte order mark says "s + encoding));
  }
  const fs::path set = fixtures::make_graphsaint(dir.path() / "in");
  write_file(set / "role.json", marks[0].first);
  EXPECT_THAT(thrown_error([&] { import_to(dir.path(), "graphsaint", set); }).what(),
              HasSubstr("role.json: its byte order mark says UTF-16LE"));
  write_file(dir.path() / "set/dataset.json", marks[1].first);
  EXPECT_THAT(thrown_error([&] { Dataset::open(dir.path() / "set"); }).what(),
              HasSubstr("dataset.json: its byte order mark says UTF-16BE"));
}

// Opened for reading, a FIFO would wait for somebody to write.
TEST(Fifo, IsRefusedWhereverAFileIsRead) {
  struct Case {
    const char* format;
    fs::path (*make)(const fs::path&);
    const char* file;
  };
  for (const Case& bad : {Case{"edges", fixtures::make_edges, "graph.txt"},
                          {"ogb", fixtures::make_ogb_text, "raw/node-feat.csv.gz"},
                          {"graphsaint", fixtures::make_graphsaint, "class_map.json"},
                          {"graphsaint", fixtures::make_graphsaint, "role.json"},
                          {"graphsaint", fixtures::make_graphsaint, "adj_full.npz"},
                          {"npy", fixtures::make_npy, "features.npy"},
                          {"planetoid", fixtures::make_planetoid, "ind.tiny.graph"}}) {
    const TempDir dir;
    const fs::path source = bad.make(dir.path() / "in");
    fs::remove(dir.path() / "in" / bad.file);
    ASSERT_EQ(::mkfifo((dir.path() / "in" / bad.file).c_str(), 0600), 0);
    EXPECT_THAT(thrown_error([&] { import_to(dir.path(), bad.format, source); }).what(),
                HasSubstr(std::string(bad.file) + ": not a regular file"));
  }
}

TEST(Labels, BeyondTheNodesMustBeStated) {
  const TempDir dir;
  const fs::path source = fixtures::make_npy(dir.path() / "in");
  write_file(source / "labels.npy", npy_bytes<std::int32_t>({0, 1000, -1, 2}));
  EXPECT_THAT(thrown_error([&] { import_to(dir.path(), "npy", source); }).what(),
              AllOf(HasSubstr("labels.npy: label 1000 of node 1 means 1001 classes for 3 labelled "
                              "nodes; allowed are labels below 1000"),
                    HasSubstr("--classes")));
  ImportOptions options;
  options.classes = 1001;
  EXPECT_EQ(import_to(dir.path(), "npy", source, options).classes, 1001);
  options.classes = 1000;
  EXPECT_THAT(thrown_error([&] { import_to(dir.path() / "b", "npy", source, options); }).what(),
              HasSubstr("label 1000 of node 1; allowed are 0 to 999 (--classes)"));
}

TEST(Labels, BelowTheNumberOfLabelledNodesArePlausible) {
  const TempDir dir;
  fs::create_directories(dir.path() / "in");
  std::vector<std::int32_t> labels(3000, 0);
  labels[7] = 2999;
  write_file(dir.path() / "in/edge_index.npy", npy_bytes<std::int64_t>({0, 1}, {2, 1}));
  write_file(dir.path() / "in/labels.npy", npy_bytes(labels));
  EXPECT_EQ(import_to(dir.path(), "npy", dir.path() / "in").classes, 3000);
  labels[7] = 3000;
  write_file(dir.path() / "in/labels.npy", npy_bytes(labels));
  EXPECT_THAT(thrown_error([&] { import_to(dir.path() / "b", "npy", dir.path() / "in"); }).what(),
              HasSubstr("label 3000 of node 7"));
}

TEST(Labels, OfAHandMadeFolderAreHeldToTheSame) {
  const TempDir dir;
  import_to(dir.path(), "npy", fixtures::make_npy(dir.path() / "in"));
  const fs::path set = dir.path() / "out";
  write_file(set / "labels.npy", npy_bytes<std::int32_t>({0, 1, 2, 1 << 19}));
  write_file(set / "dataset.json", R"({"directed": false})");
  EXPECT_THAT(thrown_error([&] { Dataset::open(set); }).what(),
              AllOf(HasSubstr("labels.npy: label 524288 of node 3"),
                    HasSubstr("field 'classes' of dataset.json")));
  write_file(set / "dataset.json", R"({"directed": false, "classes": 600000})");
  EXPECT_EQ(Dataset::open(set).info().classes, 600000);
}

TEST(Pickle, RefusesWhatTakesFarMoreMemoryThanItsSize) {
  using namespace std::string_literals;
  const TempDir dir;
  const fs::path path = dir.path() / "x.graph";
  for (const std::string& piece : {"]"s, "N"s, ")"s, "}"s, "ca\nb\n"s}) {
    std::string body = "\x80\x02";
    while (body.size() < std::size_t{4} << 20U) body += piece;
    write_file(path, body + ".");
    const Error error = thrown_error([&] { const Pickle pickle(path); });
    EXPECT_THAT(error.what(), HasSubstr("bytes of memory")) << piece;
  }
}

TEST(Pickle, RefusesMemoNumbersOutOfAllOrder) {
  const TempDir dir;
  const fs::path path = dir.path() / "x.graph";
  write_file(path, "\x80\x02Nr\xFF\xFF\xFF\xFF.");
  EXPECT_THAT(thrown_error([&] { const Pickle pickle(path); }).what(),
              HasSubstr("number 4294967295 follows 0"));
}

TEST(Pickle, TakesAGraphOfManyShortLists) {
  const TempDir dir;
  std::map<std::int32_t, std::vector<std::int32_t>> graph;
  constexpr std::int32_t kNodes = 400000;
  for (std::int32_t i = 0; i < kNodes; ++i) graph[i] = {(i + 1) % kNodes};
  write_file(dir.path() / "x.graph", fixtures::pickle_graph(graph));
  const Pickle pickle(dir.path() / "x.graph");
  EXPECT_EQ(read_adjacency(pickle).size(), static_cast<std::size_t>(kNodes));
}

TEST(NpzArchive, SaysHowToSavePickledMatricesAgain) {
  const TempDir dir;
  const fs::path path = dir.path() / "photo.npz";
  const std::string object = npy_bytes("|O", {}, "pickled");
  for (const char* name : {"adj", "adj_matrix"}) {
    write_npz(path, {{name, object}, {"labels", npy_bytes<std::int64_t>({0, 1})}});
    EXPECT_THAT(
        thrown_error([&] { import_to(dir.path(), "gnn-benchmark", path); }).what(),
        AllOf(HasSubstr("photo.npz[" + std::string(name) + "]: a pickled Python object"),
              HasSubstr("numpy.load('photo.npz', allow_pickle=True)"),
              HasSubstr("numpy.savez('plain.npz', adj_data=m.data, adj_indices=m.indices")));
  }
  const fs::path source = fixtures::make_npy(dir.path() / "in");
  write_file(source / "labels.npy", npy_bytes("|O", {4}, "pickled"));
  EXPECT_THAT(thrown_error([&] { import_to(dir.path(), "npy", source); }).what(),
              HasSubstr("labels.npy: holds pickled Python objects"));
}

}  // namespace
}  // namespace atl
