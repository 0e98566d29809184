#include "base/files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "base/memory.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {

namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

std::vector<std::string> entries(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) names.push_back(entry.path().filename());
  return names;
}

TEST(WriteAtomically, ReplacesAndLeavesNothingBeside) {
  const TempDir dir;
  const fs::path path = dir.path() / "a.txt";
  write_atomically(path, "old");
  write_atomically(path, std::string("new\0text", 8));
  EXPECT_EQ(read_text(path), std::string("new\0text", 8));
  EXPECT_EQ(entries(dir.path()), std::vector<std::string>{"a.txt"});
}

TEST(WriteAtomically, FailureKeepsTheOldState) {
  const TempDir dir;
  const fs::path path = dir.path() / "folder";
  fs::create_directories(path / "not-empty");
  const Error error = thrown_error([&] { write_atomically(path, "text"); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_THAT(error.what(), HasSubstr("folder: can't rename into place"));
  EXPECT_TRUE(fs::is_directory(path / "not-empty"));
  EXPECT_EQ(entries(dir.path()), std::vector<std::string>{"folder"});
  EXPECT_THAT(thrown_error([&] { write_atomically(dir.path() / "no" / "a", "text"); }).what(),
              HasSubstr("can't create: No such file"));
}

// Of `file`, what this process has mapped and in memory.
std::int64_t resident_kilobytes(const fs::path& file) {
  std::ifstream maps("/proc/self/smaps");
  bool inside = false;
  std::int64_t total = 0;
  for (std::string line; std::getline(maps, line);) {
    // A mapping begins with its addresses, in small letters; what is said of it with a capital.
    const bool heading = line[0] <= '9' || line[0] >= 'a';
    if (heading) inside = line.ends_with(file.string());
    if (inside && line.starts_with("Rss:")) total += std::stoll(line.substr(4));
  }
  return total;
}

TEST(MappedFile, PagesCanBeDroppedAndComeBack) {
  const TempDir dir;
  const fs::path path = dir.path() / "pages";
  std::string text(100'000, 'x');
  for (std::size_t k = 0; k < text.size(); ++k) text[k] = static_cast<char>('a' + k % 23);
  write_atomically(path, text);
  const MappedFile file(path);
  const auto same = [&] {
    const auto* found = reinterpret_cast<const char*>(file.bytes().data());
    return std::string_view(found, file.bytes().size()) == text;
  };
  EXPECT_TRUE(same());
  EXPECT_GE(resident_kilobytes(path), 96);
  // From inside a page to inside another: both stay.
  drop_mapped_pages(file.bytes().subspan(10, 90'000));
  EXPECT_LT(resident_kilobytes(path), 96);
  EXPECT_TRUE(same());
}

TEST(MappedFile, ReadsMovesAndRefuses) {
  const TempDir dir;
  const fs::path path = dir.path() / "a";
  write_atomically(path, "12345");
  MappedFile file(path);
  EXPECT_EQ(file.bytes().size(), 5U);
  MappedFile moved(std::move(file));
  EXPECT_EQ(static_cast<char>(moved.bytes()[4]), '5');
  MappedFile assigned;
  assigned = std::move(moved);
  EXPECT_EQ(static_cast<char>(assigned.bytes()[0]), '1');

  write_atomically(path, "");
  EXPECT_TRUE(MappedFile(path).bytes().empty());
  EXPECT_THAT(thrown_error([&] { MappedFile{dir.path()}; }).what(),
              HasSubstr("not a regular file"));
  EXPECT_THAT(thrown_error([&] { read_text(dir.path() / "absent"); }).what(),
              HasSubstr("absent: can't open"));
}

TEST(AtomicFolder, AppearsWholeOnCommit) {
  const TempDir dir;
  const fs::path path = dir.path() / "set";
  AtomicFolder folder(path);
  write_atomically(folder.path() / "a", "1");
  EXPECT_FALSE(fs::exists(path));
  folder.commit();
  EXPECT_EQ(read_text(path / "a"), "1");
  EXPECT_EQ(entries(dir.path()), std::vector<std::string>{"set"});
}

TEST(AtomicFolder, WithoutCommitLeavesNothing) {
  const TempDir dir;
  {
    const AtomicFolder folder(dir.path() / "set");
    write_atomically(folder.path() / "a", "1");
  }
  EXPECT_TRUE(entries(dir.path()).empty());
}

TEST(AtomicFolder, ReplacesOnlyWhenAsked) {
  const TempDir dir;
  const fs::path path = dir.path() / "set";
  fs::create_directories(path);
  write_atomically(path / "old", "1");
  const Error error = thrown_error([&] { AtomicFolder{path}; });
  EXPECT_EQ(error.kind(), ErrorKind::kOption);
  EXPECT_THAT(error.what(), HasSubstr("set: exists already"));
  EXPECT_TRUE(fs::exists(path / "old"));
  {
    const AtomicFolder abandoned(path, true);
    write_atomically(abandoned.path() / "new", "2");
  }
  EXPECT_TRUE(fs::exists(path / "old"));
  AtomicFolder folder(path, true);
  write_atomically(folder.path() / "new", "2");
  folder.commit();
  EXPECT_EQ(entries(path), std::vector<std::string>{"new"});
}

TEST(AtomicFolder, TakesATrailingSlashAndMissingParents) {
  const TempDir dir;
  AtomicFolder folder(dir.path() / "a" / "set/");
  folder.commit();
  EXPECT_TRUE(fs::is_directory(dir.path() / "a" / "set"));
  EXPECT_THAT(thrown_error([] { AtomicFolder{"/proc/atoll/set"}; }).what(),
              HasSubstr("can't create"));
}

}  // namespace

}  // namespace atl
