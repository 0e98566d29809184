#include "engine/comm/rank_facts.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mutex>

#include "base/error.hpp"

namespace atl {
namespace {

using testing::HasSubstr;

// The text that each rank throws; empty if none. All ranks compare before one of them ends.
std::vector<std::string> compare(const std::vector<RankStart>& starts) {
  std::vector<std::string> said(starts.size());
  run_local_ranks(static_cast<int>(starts.size()), 60, [&](Transport& transport) {
    const auto rank = static_cast<std::size_t>(transport.rank());
    try {
      require_same_start(transport, starts[rank]);
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 2);
      said[rank] = error.what();
    }
    transport.barrier({.operation = "end"});
  });
  return said;
}

// The one message that all ranks say.
std::string verdict(const std::vector<RankStart>& starts) {
  const std::vector<std::string> said = compare(starts);
  for (const std::string& text : said) EXPECT_EQ(text, said.front());
  return said.front();
}

RankStart start(std::vector<RankFact> facts) { return {"atoll 1", std::move(facts)}; }

TEST(RankFacts, EqualOnesPass) {
  const RankStart same = start({{"--seed", "1"}, {"--lr", "0.5", "a note"}});
  EXPECT_EQ(verdict({same}), "");
  EXPECT_EQ(verdict({same, same, same}), "");
  EXPECT_EQ(verdict({same, start({{"--lr", "0.5", "another"}, {"--seed", "1"}})}), "");
}

TEST(RankFacts, FirstThatDiffersIsNamedWithBothValuesAndRanks) {
  const RankStart one = start({{"--seed", "1"}, {"--lr", "0.5"}});
  EXPECT_THAT(verdict({one, one, start({{"--seed", "2"}, {"--lr", "0.7"}})}),
              HasSubstr("--seed is 1 on rank 0 and 2 on rank 2"));
  EXPECT_THAT(verdict({one, start({{"--seed", "1"}})}),
              HasSubstr("--lr is 0.5 on rank 0 and not set on rank 1"));
  EXPECT_THAT(verdict({start({{"--seed", "1"}}), one}),
              HasSubstr("--lr is not set on rank 0 and 0.5 on rank 1"));
  EXPECT_THAT(verdict({start({{"data", "1", "a/x"}}), start({{"data", "2", "b/x"}})}),
              HasSubstr("data is 1 (a/x) on rank 0 and 2 (b/x) on rank 1"));
}

TEST(RankFacts, AnotherVersionIsNamed) {
  EXPECT_THAT(verdict({{"atoll 1", {}}, {"atoll 2", {{"--new", "1"}}}}),
              HasSubstr("the program is atoll 1 on rank 0 and atoll 2 on rank 1"));
}

TEST(RankFacts, FailureOfOneRankEndsAll) {
  const RankStart good = start({{"--seed", "1"}});
  const RankStart bad{"atoll 1", {}, "no such option"};
  EXPECT_EQ(verdict({good, good, bad}), "rank 2 of this job can't start: no such option");
  EXPECT_EQ(verdict({bad, bad}), "no such option");
  EXPECT_EQ(verdict({bad}), "no such option");
}

// A rank of some other program that happens to send something.
TEST(RankFacts, SomethingElseIsRefused) {
  std::string said;
  try {
    run_local_ranks(2, 60, [&](Transport& transport) {
      if (transport.rank() == 0) return require_same_start(transport, start({}));
      std::vector<std::int64_t> values(2);
      transport.all_reduce(std::span(values), {.operation = "agreement"});
    });
  } catch (const Error& error) {
    said = error.what();
  }
  EXPECT_THAT(said, HasSubstr("do all ranks run the same version of this program?"));
}

}  // namespace
}  // namespace atl
