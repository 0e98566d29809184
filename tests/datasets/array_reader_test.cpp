// Arrays in any layout that NumPy writes, in rows; what a list of nodes is taken for.
#include "datasets/array_reader.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

#include "datasets/transposed_source.hpp"
#include "tests/datasets/fixtures.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

namespace fs = std::filesystem;
using fixtures::npy_bytes;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Element (i, j) is i * columns + j, stored column by column.
template <typename T>
std::string by_columns(std::uint64_t rows, std::uint64_t columns) {
  std::vector<T> values;
  for (std::uint64_t j = 0; j < columns; ++j) {
    for (std::uint64_t i = 0; i < rows; ++i) values.push_back(static_cast<T>(i * columns + j));
  }
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

template <typename T>
void expect_rows(std::uint64_t rows, std::uint64_t columns, std::uint64_t block) {
  SCOPED_TRACE(fmt::format("{} x {} of {} bytes, blocks of {}", rows, columns, sizeof(T), block));
  const TempDir dir;
  fixtures::write_file(dir.path() / "matrix", "head" + by_columns<T>(rows, columns));
  const auto file = std::make_shared<RandomFile>(dir.path() / "matrix", "matrix");
  TransposedSource source(file, 4, rows, columns, sizeof(T), block);
  std::vector<T> found(rows * columns);
  std::span<std::byte> rest = std::as_writable_bytes(std::span(found));
  std::size_t step = 1;  // of uneven length, so that pieces begin within elements
  while (!rest.empty()) {
    const std::size_t got = source.read(rest.first(std::min(rest.size(), step)));
    ASSERT_GT(got, 0U);
    rest = rest.subspan(got);
    step = step % 13 + 3;
  }
  std::byte more{};
  EXPECT_EQ(source.read({&more, 1}), 0U);
  std::vector<T> expected(found.size());
  std::iota(expected.begin(), expected.end(), T{0});
  EXPECT_EQ(found, expected);
}

TEST(TransposedSource, ReadsRowsInBlocksOfAnySize) {
  for (const std::uint64_t block : {1, 7, 64, 1000, 4096, 1 << 20}) {
    for (const auto& [rows, columns] : {std::pair<std::uint64_t, std::uint64_t>{2, 500},
                                        {500, 2},
                                        {37, 41},
                                        {600, 19},
                                        {19, 600},
                                        {1, 9},
                                        {9, 1}}) {
      expect_rows<std::uint8_t>(rows, columns, block);
      expect_rows<std::uint16_t>(rows, columns, block);
      expect_rows<float>(rows, columns, block);
      expect_rows<double>(rows, columns, block);
    }
  }
}

TEST(TransposedSource, SkipsWithoutReading) {
  const TempDir dir;
  fixtures::write_file(dir.path() / "matrix", by_columns<std::int64_t>(2, 50));
  const auto file = std::make_shared<RandomFile>(dir.path() / "matrix", "matrix");
  TransposedSource source(file, 0, 2, 50, 8, 80);
  EXPECT_EQ(source.skip(50 * 8), 400U);
  std::int64_t value = 0;
  EXPECT_EQ(source.read(std::as_writable_bytes(std::span(&value, 1))), 8U);
  EXPECT_EQ(value, 50);
  EXPECT_EQ(source.skip(1000), 392U);
}

TEST(TransposedSource, AFileThatEndsIsNamed) {
  const TempDir dir;
  fixtures::write_file(dir.path() / "matrix", by_columns<float>(3, 4).substr(1));
  const auto file = std::make_shared<RandomFile>(dir.path() / "matrix", "matrix");
  TransposedSource source(file, 0, 3, 4, 4);
  std::byte byte{};
  EXPECT_THAT(thrown_error([&] {
                source.read({&byte, 1});
              }).what(),
              HasSubstr("matrix: ends before its last element"));
}

TEST(ArrayReader, FortranOrderInFilesAndArchives) {
  const TempDir dir;
  const std::string bytes = npy_bytes("<i4", {3, 4}, by_columns<std::int32_t>(3, 4), true);
  fixtures::write_file(dir.path() / "x.npy", bytes);
  fixtures::write_npz(dir.path() / "x.npz", {{"x", bytes}});
  const auto expect = [](ArrayReader reader) {
    std::vector<std::int64_t> first(5);
    std::vector<std::int64_t> rest(6);
    reader.read(first);
    reader.skip(1);
    reader.read(rest);
    reader.finish();
    EXPECT_THAT(first, ElementsAre(0, 1, 2, 3, 4));
    EXPECT_THAT(rest, ElementsAre(6, 7, 8, 9, 10, 11));
  };
  expect(ArrayReader::open_npy(dir.path() / "x.npy"));
  fs::create_directories(dir.path() / "scratch");
  const NpzArchive archive(dir.path() / "x.npz", dir.path() / "scratch");
  ArrayReader one = archive.open("x");
  expect(archive.open("x"));
  expect(std::move(one));
  EXPECT_TRUE(fs::is_empty(dir.path() / "scratch"));  // the copy has no name
  EXPECT_THAT(thrown_error([&] {
                NpzArchive(dir.path() / "x.npz", dir.path() / "nowhere").open("x");
              }).what(),
              HasSubstr("x.npz[x]: can't make a temporary file in"));
}

TEST(ArrayReader, BigEndianElements) {
  const TempDir dir;
  const auto values = [&](const std::string& descr, const std::string& data) {
    fixtures::write_file(dir.path() / "x.npy", npy_bytes(descr, {2}, data));
    ArrayReader reader = ArrayReader::open_npy(dir.path() / "x.npy");
    std::vector<double> found(2);
    reader.read(found);
    reader.finish();
    return found;
  };
  EXPECT_THAT(values(">i2", std::string("\1\2\xFF\xFE", 4)), ElementsAre(258, -2));
  EXPECT_THAT(values(">u4", std::string("\0\0\1\0\xFF\xFF\xFF\xFF", 8)),
              ElementsAre(256, 4294967295.0));
  EXPECT_THAT(values(">f4", std::string("\x3F\x80\0\0\xC0\x20\0\0", 8)), ElementsAre(1, -2.5));
  EXPECT_THAT(values(">f2", std::string("\x3C\0\xC1\0", 4)), ElementsAre(1, -2.5));
}

TEST(ArrayReader, TypesThatAreNoNumbersAreRefused) {
  const TempDir dir;
  fixtures::write_file(dir.path() / "x.npy",
                       npy_bytes("<f16", {2, 2}, std::string(64, '\0'), true));
  EXPECT_THAT(thrown_error([&] { ArrayReader::open_npy(dir.path() / "x.npy"); }).what(),
              HasSubstr("x.npy: element type '<f16' is not a number; allowed are f2 f4 f8"));
}

}  // namespace
}  // namespace atl
