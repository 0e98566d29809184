// main() of the test binaries: that of googletest, and samples of its tests.
//
// ATOLL_TEST_SAMPLE=n: of the values that a parametrised test runs with, only every n-th. It's the
// same ones in every run: those whose names have the least hashes, so that a new value changes
// nothing for the others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace {

constexpr std::size_t kLeastValues = 3;  // of a test; if it has fewer, all of them

std::uint64_t hash_of(const std::string& name) {  // FNV-1a
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char letter : name)
    hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001b3U;
  return hash;
}

// The values of a test are sampled together, but those of each backend by themselves.
std::string group_of(const std::string& name) {
  const std::size_t value = name.rfind('/') + 1;
  for (const char* const backend : {"cpu", "cuda", "reference"}) {
    if (name.compare(value, std::strlen(backend), backend) == 0)
      return name.substr(0, value) + backend;
  }
  return name.substr(0, value);
}

// ":NAME:NAME" of all tests that are no part of the sample.
std::string left_out(std::size_t every) {
  std::map<std::string, std::vector<std::pair<std::uint64_t, std::string>>> groups;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int s = 0; s < all.total_test_suite_count(); ++s) {
    const testing::TestSuite& suite = *all.GetTestSuite(s);
    for (int t = 0; t < suite.total_test_count(); ++t) {
      const testing::TestInfo& test = *suite.GetTestInfo(t);
      if (test.value_param() == nullptr) continue;
      const std::string name = std::string(suite.name()) + "." + test.name();
      groups[group_of(name)].emplace_back(hash_of(name), name);
    }
  }
  std::string names;
  for (auto& [group, tests] : groups) {
    std::sort(tests.begin(), tests.end());
    const std::size_t kept = std::max(kLeastValues, (tests.size() + every - 1) / every);
    for (std::size_t i = kept; i < tests.size(); ++i) names += ":" + tests[i].second;
  }
  return names;
}

void take_sample(std::size_t every) {
  const std::string names = left_out(every);
  if (names.empty()) return;
  const std::string filter = GTEST_FLAG_GET(filter);
  const bool excludes = filter.find('-') != std::string::npos;
  GTEST_FLAG_SET(filter, filter + (excludes ? names : "-" + names.substr(1)));
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);
  if (const char* const text = std::getenv("ATOLL_TEST_SAMPLE"); text != nullptr) {
    const int every = std::atoi(text);
    if (every < 1) {
      std::fprintf(stderr, "ATOLL_TEST_SAMPLE=%s: 1 or more, for every n-th value\n", text);
      return 2;
    }
    take_sample(static_cast<std::size_t>(every));
  }
  return RUN_ALL_TESTS();
}
