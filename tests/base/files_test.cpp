#include "base/files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "base/lost_pages.hpp"
#include "base/memory.hpp"
#include "tests/support/resident_pages.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {

namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

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
  fetch_mapped_pages(file.bytes());
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

TEST(MappedFile, RefusesAFifoAtOnce) {
  const TempDir dir;
  const fs::path path = dir.path() / "fifo";
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  EXPECT_THAT(thrown_error([&] { MappedFile{path}; }).what(),
              HasSubstr("fifo: not a regular file"));
}

// A file cut off by somebody else while it is read is an error, not a death by SIGBUS.
TEST(MappedFileDeathTest, NamesAFileThatBecameShorter) {
  const TempDir dir;
  const fs::path path = dir.path() / "cut-off";
  write_atomically(path, std::string(100'000, 'x'));
  const auto read_after_cut = [&] {
    report_lost_pages();
    const MappedFile file(path);
    fs::resize_file(path, 10);
    volatile char sum = 0;
    for (const std::byte byte : file.bytes())
      sum = static_cast<char>(sum + static_cast<char>(byte));
  };
  EXPECT_EXIT(read_after_cut(), ::testing::ExitedWithCode(2),
              "cut-off: a part of it can't be read");
}

TEST(IsThere, SeesLinksThatLeadNowhere) {
  const TempDir dir;
  EXPECT_FALSE(is_there(dir.path() / "link"));
  fs::create_symlink("nowhere", dir.path() / "link");
  EXPECT_TRUE(is_there(dir.path() / "link"));
  EXPECT_FALSE(is_there(dir.path() / "link" / "below"));
}

TEST(AtomicFile, LeavesDevicesAndPipesAlone) {
  const TempDir dir;
  const fs::path fifo = dir.path() / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  EXPECT_THAT(thrown_error([&] { write_atomically(fifo, ""); }).what(),
              HasSubstr("fifo: is a device or a pipe"));
  EXPECT_THAT(thrown_error([&] { check_output_file(fifo, "--out"); }).what(),
              HasSubstr("--out " + fifo.string() + ": is a device or a pipe"));
  EXPECT_TRUE(fs::is_fifo(fifo));
  for (const char* open : {"/dev/stdout", "/proc/self/fd/1", "/dev/../dev/stderr"}) {
    EXPECT_THAT(thrown_error([&] { check_output_file(open, "--out"); }).what(),
                HasSubstr("is a device or a pipe"));
  }
  EXPECT_THAT(thrown_error([&] { check_output_file("/process/page.html", "--out"); }).what(),
              HasSubstr("folder /process is not there"));
}

TEST(CheckOutputFile, RefusesWhatLiesInADataset) {
  const TempDir dir;
  fs::create_directories(dir.path() / "set" / "parts");
  write_atomically(dir.path() / "set" / "dataset.json", "{}");
  check_output_file(dir.path() / "set" / "labels.npy", "--out");  // some other program's
  write_atomically(dir.path() / "set" / "row_ptr.npy", "");
  for (const char* name : {"labels.npy", "parts/labels.npy", "../set/labels.npy"}) {
    const Error error =
        thrown_error([&] { check_output_file(dir.path() / "set" / name, "--out"); });
    EXPECT_EQ(error.kind(), ErrorKind::kOption);
    EXPECT_THAT(error.what(), HasSubstr("inside the dataset folder"));
  }
  check_output_file(dir.path() / "labels.npy", "--out");
}

}  // namespace

}  // namespace atl
