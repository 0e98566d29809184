// Files of events on disks that are full, and in folders that come later.
#include "launch/supervisor/event_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "base/files.hpp"
#include "tests/support/temp_dir.hpp"

namespace atl {
namespace {

using ::testing::HasSubstr;

// All that is logged meanwhile, wherever that goes.
template <typename Work>
std::string said_by(const Work& work) {
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  work();
  return ::testing::internal::GetCapturedStdout() + ::testing::internal::GetCapturedStderr();
}

TEST(EventFile, GrowsByWhatIsAdded) {
  const TempDir dir;
  for (const char* line : {"one\n", "two\n"}) {
    EventFile file(dir.path() / "events.jsonl");
    file.add(line);
    file.write();
    EXPECT_FALSE(file.is_waiting());
  }
  EXPECT_EQ(read_text(dir.path() / "events.jsonl"), "one\ntwo\n");
}

TEST(EventFile, SaysOnceThatADiskIsFull) {
  EventFile file("/dev/full");
  const std::string said = said_by([&] {
    for (const char* line : {"one\n", "two\n", "three\n"}) {
      file.add(line);
      file.write();
    }
  });
  EXPECT_THAT(said, HasSubstr("/dev/full: can't be written: No space left on device"));
  EXPECT_EQ(said.find("can't"), said.rfind("can't")) << said;
  EXPECT_TRUE(file.is_waiting());
}

TEST(EventFile, WritesWhatHasWaitedOnceItCan) {
  const TempDir dir;
  EventFile file(dir.path() / "run" / "events.jsonl");
  file.add("one\n");
  EXPECT_THAT(said_by([&] { file.write(); }), HasSubstr("No such file or directory"));
  std::filesystem::create_directory(dir.path() / "run");
  file.add("two\n");
  file.write();
  EXPECT_EQ(read_text(dir.path() / "run" / "events.jsonl"), "one\ntwo\n");
}

}  // namespace
}  // namespace atl
