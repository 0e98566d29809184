#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "base/files.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {

namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

TEST(WriteAtomically, ReplacesAndLeavesNothingBeside) {
  const TempDir dir;
  const fs::path path = dir.path() / "a.txt";
  write_atomically(path, "old");
  write_atomically(path, std::string("new\0text", 8));
  EXPECT_EQ(read_text(path), std::string("new\0text", 8));
  EXPECT_EQ(names_in(dir.path()), std::vector<std::string>{"a.txt"});
}

TEST(WriteAtomically, FailureKeepsTheOldState) {
  const TempDir dir;
  const fs::path path = dir.path() / "folder";
  fs::create_directories(path / "not-empty");
  const Error error = thrown_error([&] { write_atomically(path, "text"); });
  EXPECT_EQ(error.kind(), ErrorKind::kInput);
  EXPECT_THAT(error.what(), HasSubstr("folder: can't rename into place"));
  EXPECT_TRUE(fs::is_directory(path / "not-empty"));
  EXPECT_EQ(names_in(dir.path()), std::vector<std::string>{"folder"});
  EXPECT_THAT(thrown_error([&] { write_atomically(dir.path() / "no" / "a", "text"); }).what(),
              HasSubstr("can't create: No such file"));
}

TEST(AtomicFolder, AppearsWholeOnCommit) {
  const TempDir dir;
  const fs::path path = dir.path() / "set";
  AtomicFolder folder(path);
  write_atomically(folder.path() / "a", "1");
  EXPECT_FALSE(fs::exists(path));
  folder.commit();
  EXPECT_EQ(read_text(path / "a"), "1");
  EXPECT_EQ(names_in(dir.path()), std::vector<std::string>{"set"});
}

TEST(AtomicFolder, WithoutCommitLeavesNothing) {
  const TempDir dir;
  {
    const AtomicFolder folder(dir.path() / "set");
    write_atomically(folder.path() / "a", "1");
  }
  EXPECT_TRUE(names_in(dir.path()).empty());
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
  EXPECT_EQ(names_in(path), std::vector<std::string>{"new"});
}

TEST(AtomicFolder, TakesATrailingSlashAndMissingParents) {
  const TempDir dir;
  AtomicFolder folder(dir.path() / "a" / "set/");
  folder.commit();
  EXPECT_TRUE(fs::is_directory(dir.path() / "a" / "set"));
  EXPECT_THAT(thrown_error([] { AtomicFolder{"/proc/atoll/set"}; }).what(),
              HasSubstr("can't create"));
}

// Two containers may have the same process ids: names and staleness must not depend on them.
TEST(AtomicFolder, LeavesThoseOfOthersWithTheSameProcessId) {
  const TempDir dir;
  const fs::path path = dir.path() / "set";
  AtomicFolder first(path);
  write_atomically(first.path() / "a", "1");
  AtomicFolder second(path);
  EXPECT_NE(first.path(), second.path());
  EXPECT_EQ(remove_stale_temporaries(path), 0);
  EXPECT_EQ(read_text(first.path() / "a"), "1");
  first.commit();
  EXPECT_THAT(thrown_error([&] { second.commit(); }).what(), HasSubstr("can't rename into place"));
  EXPECT_EQ(read_text(path / "a"), "1");
}

TEST(AtomicFile, AFolderIsSweptOfWhatNobodyHolds) {
  const TempDir dir;
  AtomicFile held(dir.path() / "held.txt");
  write_atomically(dir.path() / "epoch-59.safetensors.tmp-0123456789abcdef", "half of it");
  write_atomically(dir.path() / "notes.tmp-mine", "precious");
  fs::create_directory(dir.path() / "set.tmp-00112233445566aa");
  write_atomically(dir.path() / "set.tmp-00112233445566aa.lock", "");
  EXPECT_EQ(remove_all_stale_temporaries(dir.path()), 2);
  held.commit();
  EXPECT_EQ(names_in(dir.path()), (std::vector<std::string>{"held.txt", "notes.tmp-mine"}));
}

TEST(AtomicFile, LeavesThoseOfOthers) {
  const TempDir dir;
  const fs::path path = dir.path() / "a.txt";
  AtomicFile first(path);
  first.write("first");
  {
    AtomicFile second(path);
    second.write("second");
    second.commit();
  }
  EXPECT_EQ(read_text(path), "second");
  first.commit();
  EXPECT_EQ(read_text(path), "first");
  EXPECT_EQ(names_in(dir.path()), std::vector<std::string>{"a.txt"});
}

TEST(AtomicFile, MayBeRefusedAtTheLastMoment) {
  const TempDir dir;
  const fs::path path = dir.path() / "a.txt";
  write_atomically(path, "old");
  const auto refuse = [] { fail_input("no"); };
  EXPECT_THAT(thrown_error([&] { write_atomically(path, "new", refuse); }).what(), HasSubstr("no"));
  EXPECT_EQ(read_text(path), "old");
  EXPECT_EQ(names_in(dir.path()), std::vector<std::string>{"a.txt"});
}

// Runs `work` in a process of its own, which is killed when it has done it.
template <typename Work>
void in_killed_process(const Work& work) {
  const pid_t child = ::fork();
  if (child == 0) {
    work();
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
}

TEST(AtomicFolder, TheNextOneRemovesWhatAKilledProcessLeft) {
  const TempDir dir;
  const fs::path path = dir.path() / "set";
  in_killed_process([&] {
    const AtomicFolder folder(path);
    write_atomically(folder.path() / "a", "1");
    ::raise(SIGKILL);
  });
  EXPECT_EQ(names_in(dir.path()).size(), 2U);  // the folder and its lock
  AtomicFolder(path).commit();
  EXPECT_EQ(names_in(dir.path()), std::vector<std::string>{"set"});
}

TEST(AtomicFile, TheNextOneRemovesWhatAKilledProcessLeft) {
  const TempDir dir;
  const fs::path path = dir.path() / "a.txt";
  in_killed_process([&] {
    AtomicFile file(path);
    file.write("half");
    ::raise(SIGKILL);
  });
  EXPECT_EQ(names_in(dir.path()).size(), 1U);
  write_atomically(path, "whole");
  EXPECT_EQ(names_in(dir.path()), std::vector<std::string>{"a.txt"});
}

// A link at the temporary name must not be followed, and a link at the final name is replaced.
TEST(AtomicFile, ReplacesALinkAndNotItsTarget) {
  const TempDir dir;
  write_atomically(dir.path() / "target", "target");
  fs::create_symlink(dir.path() / "target", dir.path() / "link");
  write_atomically(dir.path() / "link", "new");
  EXPECT_EQ(read_text(dir.path() / "target"), "target");
  EXPECT_FALSE(fs::is_symlink(dir.path() / "link"));
}

}  // namespace

}  // namespace atl
