#include "base/npy.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/temp_dir.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {

namespace {

using ::testing::HasSubstr;

void write_file(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

NpyHeader parse(const std::string& bytes) {
  return parse_npy_header(std::as_bytes(std::span(bytes)), "array.npy");
}

// A version 1 file around the given dict.
std::string header_with(const std::string& dict) {
  std::string bytes("\x93NUMPY\x01\0", 8);
  bytes += static_cast<char>(dict.size() & 0xFFU);
  bytes += static_cast<char>(dict.size() >> 8U);
  return bytes + dict;
}

// The bytes of numpy.save for numpy.array([[1, 2, 3], [4, 5, 6]], dtype='<i4').
TEST(NpyHeader, ReadsWhatNumPyWrites) {
  std::string dict = "{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }";
  dict.resize(117, ' ');
  dict += '\n';
  const NpyHeader header = parse(header_with(dict));
  EXPECT_EQ(header.descr, "<i4");
  EXPECT_FALSE(header.fortran_order);
  EXPECT_EQ(header.shape, (std::vector<std::int64_t>{2, 3}));
  EXPECT_EQ(header.data_offset, 128U);
  EXPECT_EQ(header.elements(), 6);
  EXPECT_EQ(header.item_bytes(), 4U);
}

TEST(NpyHeader, IsWrittenAsNumPyWritesIt) {
  const std::int64_t shape[] = {7, 2};
  const std::string bytes = make_npy_header("<f4", shape);
  EXPECT_EQ(bytes.size() % 64, 0U);
  EXPECT_EQ(bytes.substr(0, 10), std::string("\x93NUMPY\x01\0\x76\0", 10));
  EXPECT_THAT(bytes, HasSubstr("{'descr': '<f4', 'fortran_order': False, 'shape': (7, 2), }"));
  EXPECT_EQ(bytes.back(), '\n');
}

TEST(NpyHeader, RoundTripsEveryRank) {
  const std::vector<std::vector<std::int64_t>> shapes{{},     {0},       {5},
                                                      {3, 4}, {2, 3, 4}, {1'000'000'000'000, 1}};
  for (const auto& shape : shapes) {
    const NpyHeader header = parse(make_npy_header("|u1", shape));
    EXPECT_EQ(header.shape, shape);
    EXPECT_EQ(header.descr, "|u1");
  }
  EXPECT_THAT(make_npy_header("|u1", std::vector<std::int64_t>{5}), HasSubstr("(5,)"));
}

TEST(NpyHeader, ReadsVersionTwo) {
  const std::string dict = "{'descr': \"<f8\", 'fortran_order': True, 'shape': (4,), }\n";
  std::string bytes("\x93NUMPY\x02\0", 8);
  bytes += std::string({static_cast<char>(dict.size()), '\0', '\0', '\0'}) + dict;
  const NpyHeader header = parse(bytes);
  EXPECT_EQ(header.descr, "<f8");
  EXPECT_TRUE(header.fortran_order);
  EXPECT_EQ(header.data_offset, 12 + dict.size());
}

struct Malformed {
  std::string bytes;
  std::string says;
};

TEST(NpyHeader, MalformedOnesAreRefusedWithTheReason) {
  const std::vector<Malformed> cases{
      {"", "not a .npy file"},
      {"\x93NUMP", "not a .npy file"},
      {"PK\x03\x04 an archive instead", "not a .npy file"},
      {std::string("\x93NUMPY\x04\0\x02\0{}", 12), "version 4"},
      {std::string("\x93NUMPY\x02\0\x02\0", 10), "cut off"},
      {std::string("\x93NUMPY\x01\0\xff\xff{'descr'", 18), "cut off: 65535 bytes announced, 8"},
      {header_with("[1, 2]"), "lacks '{'"},
      {header_with("{'descr': '<f4'}"), "lacks one of"},
      {header_with("{'descr': '<f4', 'fortran_order': 1, 'shape': ()}"), "neither True nor False"},
      {header_with("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}"), "tuple of lengths"},
      {header_with("{'descr': '<f4', 'fortran_order': False, 'shape': (1, x)}"), "tuple of"},
      {header_with("{'descr': '<f4', 'fortran_order': False, 'shape': (3"), "lacks ')'"},
      {header_with("{'descr': '<f4"), "unterminated"},
      {header_with("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}"), "lacks '''"},
      {header_with("{'colour': 'red'}"), "unknown key 'colour'"},
      {header_with("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}"), "'|O'"},
      {header_with("{'descr': '<m8[ns]', 'fortran_order': False, 'shape': (1,)}"), "'<m8[ns]'"},
      {header_with("{'descr': '<f99999999999999999999', 'fortran_order': False, 'shape': ()}"),
       "is not supported"},
      {header_with("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}"),
       "huge shape"},
      {header_with("{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296)}"),
       "larger than any memory"},
      {header_with(
           "{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296, 0)}"),
       "larger than any memory"},
  };
  for (const Malformed& item : cases) {
    const Error error = thrown_error([&] { parse(item.bytes); });
    EXPECT_EQ(error.kind(), ErrorKind::kInput);
    EXPECT_THAT(error.what(), HasSubstr("array.npy"));
    EXPECT_THAT(error.what(), HasSubstr(item.says));
  }
}

// Every truncation and every changed byte of a good file: an error or a header, never a crash.
TEST(NpyHeader, SurvivesMutations) {
  const std::int64_t shape[] = {3, 2};
  const std::string good = make_npy_header("<f4", shape);
  int refused = 0;
  const auto attempt = [&](const std::string& bytes) {
    try {
      EXPECT_LE(parse(bytes).data_offset, bytes.size());
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kInput);
      ++refused;
    }
  };
  for (std::size_t length = 0; length < good.size(); ++length) attempt(good.substr(0, length));
  EXPECT_EQ(refused, static_cast<int>(good.size()));
  for (std::size_t at = 0; at < good.size(); ++at) {
    for (const char byte : {'\0', '\xFF', '\'', '(', ')', '{', '9', ','}) {
      std::string changed = good;
      changed[at] = byte;
      attempt(changed);
    }
  }
  EXPECT_GT(refused, 2 * static_cast<int>(good.size()));
}

TEST(NpyFile, RoundTrips) {
  const TempDir dir;
  const auto path = dir.path() / "x.npy";
  const std::vector<float> values{1, -2.5F, 3e30F, 0, 5, 6};
  write_npy<float>(path, values, {3, 2});
  const NpyFile file(path);
  EXPECT_EQ(file.rows(), 3);
  EXPECT_EQ(file.columns(), 2);
  const auto found = file.values<float>();
  EXPECT_EQ(std::vector<float>(found.begin(), found.end()), values);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(found.data()) % 64, 0U);
}

TEST(NpyFile, AnEmptyArrayIsValid) {
  const TempDir dir;
  write_npy(dir.path() / "x.npy", std::vector<std::int64_t>());
  EXPECT_TRUE(NpyFile(dir.path() / "x.npy").values<std::int64_t>().empty());
}

TEST(NpyFile, RefusesOtherTypesShapesAndLengths) {
  const TempDir dir;
  const auto path = dir.path() / "x.npy";
  write_npy<std::int32_t>(path, std::vector<std::int32_t>{1, 2, 3, 4}, {2, 2});
  const NpyFile file(path);
  EXPECT_THAT(thrown_error([&] { file.values<float>(); }).what(),
              HasSubstr("x.npy: element type '<i4' found, '<f4' expected"));
  const std::int64_t any_rows[] = {-1, 2};
  file.require_shape(any_rows);
  const std::int64_t three_columns[] = {-1, 3};
  EXPECT_THAT(thrown_error([&] { file.require_shape(three_columns); }).what(),
              HasSubstr("shape (2, 2) found, (any, 3) expected"));

  const std::string good = make_npy_header("<i4", std::vector<std::int64_t>{2}) + "12345678";
  write_file(path, good.substr(0, good.size() - 1));
  EXPECT_THAT(thrown_error([&] { NpyFile{path}; }).what(),
              HasSubstr("135 bytes found, 136 expected"));
  write_file(path, good + "9");
  EXPECT_THAT(thrown_error([&] { NpyFile{path}; }).what(), HasSubstr("bytes found"));
}

TEST(NpyFile, RefusesFortranOrder) {
  const TempDir dir;
  const auto path = dir.path() / "x.npy";
  std::string bytes = make_npy_header("|u1", std::vector<std::int64_t>{2, 2});
  bytes.replace(bytes.find("False"), 5, "True ");
  write_file(path, bytes + "1234");
  EXPECT_THAT(thrown_error([&] { NpyFile{path}; }).what(), HasSubstr("Fortran order"));
}

TEST(NpyFile, RefusesBigEndianElements) {
  const TempDir dir;
  const auto path = dir.path() / "x.npy";
  write_file(path, make_npy_header(">f4", std::vector<std::int64_t>{1}) + "1234");
  EXPECT_THAT(thrown_error([&] { NpyFile{path}; }).what(), HasSubstr("'>f4' is big-endian"));
}

TEST(NpyFile, AMissingFileIsNamed) {
  const Error error = thrown_error([] { NpyFile{"/nonexistent/x.npy"}; });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_THAT(error.what(), HasSubstr("/nonexistent/x.npy: can't open: No such file"));
}

TEST(NpyWriter, WritesInPieces) {
  const TempDir dir;
  const auto path = dir.path() / "x.npy";
  NpyWriter writer(path, "<f8", {4});
  const std::vector<double> first{1, 2, 3};
  const std::vector<double> second{4};
  writer.write<double>(first);
  writer.write<double>(second);
  writer.close();
  const NpyFile file(path);
  const auto found = file.values<double>();
  EXPECT_EQ(std::vector<double>(found.begin(), found.end()), (std::vector<double>{1, 2, 3, 4}));
}

TEST(NpyWriterDeathTest, ShapeAndBytesMustAgree) {
  const TempDir dir;
  const auto write_too_little = [&] {
    NpyWriter writer(dir.path() / "x.npy", "<f8", {4});
    writer.close();
  };
  EXPECT_DEATH(write_too_little(), "0 bytes written");
}

TEST(NpyWriter, AFullOrMissingFolderIsAnError) {
  EXPECT_THAT(thrown_error([] { NpyWriter("/nonexistent/x.npy", "<f8", {4}); }).what(),
              HasSubstr("/nonexistent/x.npy: can't create"));
}

}  // namespace

}  // namespace atl
