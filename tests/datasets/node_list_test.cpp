#include "datasets/node_list.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/files.hpp"
#include "base/npy.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::int64_t> numbers_listed(const std::string& text,
                                         std::optional<std::int64_t> first_new = std::nullopt) {
  std::vector<std::int64_t> numbers;
  for (const GlobalId id : read_nodes_or_new(text, 20, first_new, "--nodes")) {
    numbers.push_back(to_index(id));
  }
  return numbers;
}

std::string refusal_of(const std::string& text,
                       std::optional<std::int64_t> first_new = std::nullopt) {
  return thrown_error([&] { numbers_listed(text, first_new); }).what();
}

TEST(NodeList, KeepsOrderAndRepetition) {
  EXPECT_THAT(numbers_listed("7,3,5-8,3,"), ElementsAre(7, 3, 5, 6, 7, 8, 3));
  EXPECT_THAT(numbers_listed("19"), ElementsAre(19));
  EXPECT_THAT(numbers_listed("new", 17), ElementsAre(17, 18, 19));
}

TEST(NodeList, ReadsFiles) {
  const TempDir dir;
  const std::string text = dir.path() / "nodes.txt";
  write_atomically(text, "4\n2, 9\t0-1\r\n");
  EXPECT_THAT(numbers_listed(text), ElementsAre(4, 2, 9, 0, 1));
  write_atomically(text, "# of a table\nnode\n4\n0-1\n");
  EXPECT_THAT(numbers_listed(text), ElementsAre(4, 0, 1));
  const std::string array = dir.path() / "nodes.npy";
  write_npy(array, std::vector<std::int32_t>{6, 6, 1});
  EXPECT_THAT(numbers_listed(array), ElementsAre(6, 6, 1));
  write_npy(array, std::vector<std::int32_t>{});
  EXPECT_THAT(read_node_list(array, 20, "--remove-nodes"), ElementsAre());
  EXPECT_THAT(refusal_of(array), HasSubstr("lists no node; allowed are new, numbers"));
}

TEST(NodeList, RefusesWhatIsNoNode) {
  EXPECT_THAT(refusal_of("3,20"),
              HasSubstr("--nodes 3,20: entry 1 is 20; allowed are nodes 0 to 19"));
  EXPECT_THAT(refusal_of("-4"), HasSubstr("entry 0 is -4"));
  EXPECT_THAT(refusal_of("5-"), HasSubstr("entry 0 is '5-'"));
  EXPECT_THAT(refusal_of("9-5"), HasSubstr("9-5 ends before it begins"));
  EXPECT_THAT(refusal_of("0-99999999999"), HasSubstr("is 99999999999"));
  EXPECT_THAT(refusal_of(","), HasSubstr("lists no node"));
  EXPECT_THAT(refusal_of("old"), HasSubstr("--nodes old: no such file"));
  EXPECT_THAT(thrown_error([] { read_node_list("new", 20, "--remove-nodes"); }).what(),
              HasSubstr("--remove-nodes new: no such file; allowed are numbers and ranges"));
  EXPECT_THAT(refusal_of("new"), HasSubstr("does not say how many"));
  EXPECT_THAT(refusal_of("new", 20), HasSubstr("20 nodes, and the model was trained on one of 20"));
  const TempDir dir;
  const std::string mask = dir.path() / "mask.npy";
  NpyWriter writer(mask, "|b1", {2});
  writer.write(std::span<const std::uint8_t>(std::vector<std::uint8_t>{1, 0}));
  writer.close();
  EXPECT_THAT(refusal_of(mask), HasSubstr("numpy.flatnonzero"));
  const std::string words = dir.path() / "nodes.txt";
  write_atomically(words, "4 paper12\n");
  EXPECT_THAT(refusal_of(words), HasSubstr("entry 1 is 'paper12'"));
}

}  // namespace
}  // namespace atl
