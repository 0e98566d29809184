#include "base/memory.hpp"

#include <gtest/gtest.h>

#include <fstream>

#include "tests/support/temp_dir.hpp"

namespace atl {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMiB = 1 << 20;

// Files as the kernel shows them: a machine with 1,000 MiB available.
class Groups : public testing::Test {
 protected:
  Groups() {
    write(
        temp_.path() / "proc/meminfo",
        "MemTotal:        2048000 kB\nMemFree:          100000 kB\nMemAvailable:    1024000 kB\n");
  }
  static void write(const fs::path& path, const std::string& text) {
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  void member(const std::string& lines) const { write(temp_.path() / "proc/self/cgroup", lines); }
  // A group of either version with its limit ("max", or bytes), use and file cache in MiB.
  void version1(const std::string& group, std::int64_t limit, int used, int cached,
                const char* mount = "memory") const {
    const fs::path folder = groups_ / mount / group;
    write(folder / "memory.limit_in_bytes", std::to_string(limit) + "\n");
    write(folder / "memory.usage_in_bytes", std::to_string(used * kMiB) + "\n");
    // The group's own figures, which leave out the groups inside, and the totals.
    write(folder / "memory.stat", "cache 1\ninactive_file 7\nactive_file 7\ntotal_inactive_file " +
                                      std::to_string(cached * kMiB) + "\ntotal_active_file 0\n");
  }
  void version2(const std::string& group, const std::string& limit, int used, int cached) const {
    const fs::path folder = groups_ / group;
    write(folder / "memory.max", limit + "\n");
    write(folder / "memory.current", std::to_string(used * kMiB) + "\n");
    write(folder / "memory.stat",
          "anon 5\nactive_file 0\ninactive_file " + std::to_string(cached * kMiB) + "\n");
  }
  std::int64_t available() const { return available_memory_bytes(temp_.path()) / kMiB; }
  static std::string mib(int count) { return std::to_string(count * kMiB); }

  TempDir temp_;
  fs::path groups_ = temp_.path() / "sys/fs/cgroup";
};

TEST_F(Groups, WithoutAnyTheMachineCounts) {
  EXPECT_EQ(available(), 1000);
  member("0::/\n");
  EXPECT_EQ(available(), 1000);
}

TEST_F(Groups, Version2NestedAndRoot) {
  member("0::/job/step\n");
  version2("job/step", "max", 100, 0);
  EXPECT_EQ(available(), 1000);
  version2("job", mib(500), 300, 50);  // 500 - (300 - 50)
  EXPECT_EQ(available(), 250);
  version2("job/step", mib(100), 40, 30);
  EXPECT_EQ(available(), 90);
  version2("", mib(60), 0, 0);  // a container's own root
  EXPECT_EQ(available(), 60);
  version2("other", mib(1), 1, 0);
  EXPECT_EQ(available(), 60);
}

TEST_F(Groups, Version1NestedAndRoot) {
  member("5:cpu,cpuacct:/slurm\n4:memory:/slurm/job_7\n1:name=systemd:/slurm/job_7\n");
  constexpr std::int64_t kUnlimited = 9223372036854771712;
  version1("", kUnlimited, 900, 0);
  version1("slurm", 400 * kMiB, 350, 100);  // 400 - (350 - 100)
  version1("slurm/job_7", kUnlimited, 10, 0);
  EXPECT_EQ(available(), 150);
  version1("slurm/job_7", 50 * kMiB, 30, 10);
  EXPECT_EQ(available(), 30);
}

TEST_F(Groups, Version1MountedTogether) {
  member("3:cpuset,memory,pids:/\n");
  version1("", 80 * kMiB, 0, 0, "cpuset,memory,pids");
  EXPECT_EQ(available(), 80);
}

// In a container of version 1 the path is that of the host, the mount shows the container's group.
TEST_F(Groups, PathOfTheHost) {
  member("4:memory:/docker/0123abcd\n0::/../outside\n");
  version1("", 70 * kMiB, 20, 0);
  EXPECT_EQ(available(), 50);
}

TEST_F(Groups, BothVersionsCount) {
  member("4:memory:/a\n0::/b\n");
  version1("a", 300 * kMiB, 0, 0);
  EXPECT_EQ(available(), 300);
  version2("b", mib(200), 0, 0);
  EXPECT_EQ(available(), 200);
}

TEST_F(Groups, FullGroupHasNoRoom) {
  member("0::/a\n");
  version2("a", mib(100), 130, 10);
  EXPECT_EQ(available(), 0);
}

TEST_F(Groups, UnreadableFilesLimitNothing) {
  member("nonsense\n0::\n4:memory\n7:memory:/x\n");
  write(groups_ / "memory/x/memory.limit_in_bytes", "garbage\n");
  EXPECT_EQ(available(), 1000);
}

TEST(ParseBytes, TakesANumberAndAUnit) {
  EXPECT_EQ(parse_bytes("4096B"), 4096);
  EXPECT_EQ(parse_bytes("8GiB"), std::int64_t{8} << 30);
  EXPECT_EQ(parse_bytes("1.5 GB"), 1500000000);
  EXPECT_EQ(parse_bytes("500MB"), 500000000);
  for (const char* text :
       {"", "8", "GiB", "0B", "-1GiB", "8gib", "8GiBs", "1e30TiB", "nanGB", "0.5B"}) {
    EXPECT_EQ(parse_bytes(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace atl
