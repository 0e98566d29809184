#include "base/file_memory.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

constexpr std::int64_t kPage = FileMemory::kPage;

std::uint8_t pattern(std::int64_t byte) { return static_cast<std::uint8_t>(byte % 251 + 1); }

void fill(const FileMemory& memory) {
  for (std::int64_t i = 0; i < memory.bytes(); ++i) memory.data()[i] = std::byte{pattern(i)};
}

// Pages of [begin, end) that are in the memory of this process.
std::int64_t mapped_pages(const FileMemory& memory, std::int64_t begin, std::int64_t end) {
  const Descriptor map(::open("/proc/self/pagemap", O_RDONLY));
  std::int64_t count = 0;
  for (std::int64_t at = begin; at < end; at += kPage) {
    std::uint64_t entry = 0;
    const auto page = reinterpret_cast<std::uintptr_t>(memory.data() + at) / kPage;
    EXPECT_EQ(::pread(map.get(), &entry, sizeof(entry), static_cast<off_t>(page * sizeof(entry))),
              static_cast<ssize_t>(sizeof(entry)));
    count += static_cast<std::int64_t>(entry >> 63);
  }
  return count;
}

TEST(FileMemory, HasItsBytesWhereverTheyAre) {
  const TempDir dir;
  const FileMemory memory(dir.path(), 64 * kPage);
  EXPECT_TRUE(std::all_of(memory.data(), memory.data() + memory.bytes(),
                          [](std::byte b) { return b == std::byte{0}; }));
  fill(memory);
  EXPECT_EQ(mapped_pages(memory, 0, memory.bytes()), 64);
  memory.release(0, 16 * kPage);
  memory.check();
  EXPECT_EQ(mapped_pages(memory, 0, 16 * kPage), 0);
  EXPECT_EQ(mapped_pages(memory, 16 * kPage, memory.bytes()), 48);
  memory.fetch(0, 8 * kPage);
  for (std::int64_t i = 0; i < memory.bytes(); ++i) {
    ASSERT_EQ(memory.data()[i], std::byte{pattern(i)}) << i;
  }
}

TEST(FileMemory, ForgetsWhatIsDropped) {
  const TempDir dir;
  const FileMemory memory(dir.path(), 8 * kPage);
  fill(memory);
  memory.drop(2 * kPage, 4 * kPage);
  EXPECT_EQ(mapped_pages(memory, 2 * kPage, 4 * kPage), 0);
  for (std::int64_t i = 0; i < memory.bytes(); ++i) {
    const bool dropped = i >= 2 * kPage && i < 4 * kPage;
    ASSERT_EQ(memory.data()[i], std::byte{dropped ? std::uint8_t{0} : pattern(i)}) << i;
  }
}

TEST(FileMemory, LeavesNoFile) {
  const TempDir dir;
  const FileMemory memory(dir.path(), kPage);
  EXPECT_TRUE(std::filesystem::is_empty(dir.path()));
}

TEST(FileMemory, SaysWhyThereIsNone) {
  const TempDir dir;
  const std::string missing = (dir.path() / "nowhere").string();
  const Error none = thrown_error([&] { FileMemory(missing, kPage); });
  EXPECT_EQ(none.kind(), ErrorKind::kInput);
  EXPECT_THAT(none.what(),
              testing::AllOf(testing::HasSubstr(missing), testing::HasSubstr("No such file")));
  const Error full = thrown_error([&] { FileMemory(dir.path(), std::int64_t{1} << 42); });
  EXPECT_EQ(full.kind(), ErrorKind::kInput);
  EXPECT_THAT(full.what(),
              testing::AllOf(testing::HasSubstr(dir.path().string()),
                             testing::HasSubstr("4.00 TiB"), testing::HasSubstr("are free")));
}

TEST(FileMemory, MeasuresItsDisk) {
  const TempDir dir;
  const DiskRates rates = measure_disk(dir.path());
  EXPECT_GT(rates.write, 1e5);
  EXPECT_GT(rates.read, 1e5);
}

}  // namespace
}  // namespace atl
