// Limits of control groups as the kernel writes them, of both versions, in a made file system.
#include "base/control_groups.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>

#include "tests/support/temp_dir.hpp"

namespace atl {
namespace {

class ControlGroups : public ::testing::Test {
 protected:
  void write(const std::string& file, const std::string& text) {
    const std::filesystem::path path = dir_.path() / file;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  double quota() { return processor_quota(dir_.path()); }

  TempDir dir_;
};

TEST_F(ControlGroups, WithoutALimitAllProcessorsMayBeUsed) {
  EXPECT_TRUE(std::isinf(quota()));
  write("proc/self/cgroup", "0::/\n");
  write("sys/fs/cgroup/cpu.max", "max 100000\n");
  EXPECT_TRUE(std::isinf(quota()));
}

TEST_F(ControlGroups, TheLeastLimitOfVersion2OnTheWayUpCounts) {
  write("proc/self/cgroup", "0::/jobs/one\n");
  write("sys/fs/cgroup/jobs/one/cpu.max", "max 100000\n");
  write("sys/fs/cgroup/jobs/cpu.max", "150000 100000\n");
  EXPECT_DOUBLE_EQ(quota(), 1.5);
  write("sys/fs/cgroup/jobs/one/cpu.max", "40000 10000\n");
  EXPECT_DOUBLE_EQ(quota(), 1.5);
  write("sys/fs/cgroup/jobs/one/cpu.max", "5000 10000\n");
  EXPECT_DOUBLE_EQ(quota(), 0.5);
}

TEST_F(ControlGroups, Version1NamesItsControllers) {
  write("proc/self/cgroup", "5:memory:/jobs\n3:cpu,cpuacct:/jobs\n0::/\n");
  write("sys/fs/cgroup/cpu,cpuacct/jobs/cpu.cfs_quota_us", "-1\n");
  write("sys/fs/cgroup/cpu,cpuacct/jobs/cpu.cfs_period_us", "100000\n");
  write("sys/fs/cgroup/memory/jobs/cpu.cfs_quota_us", "1000\n");
  EXPECT_TRUE(std::isinf(quota()));
  write("sys/fs/cgroup/cpu,cpuacct/jobs/cpu.cfs_quota_us", "200000\n");
  EXPECT_DOUBLE_EQ(quota(), 2);
}

// A container sees its group as the top one, but may read the host's path of it.
TEST_F(ControlGroups, AMissingFolderIsPassedOver) {
  write("proc/self/cgroup", "0::/system.slice/container-1\n");
  write("sys/fs/cgroup/cpu.max", "300000 100000\n");
  EXPECT_DOUBLE_EQ(quota(), 3);
}

}  // namespace
}  // namespace atl
