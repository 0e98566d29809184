// Groups of ranks that are threads: who is named when one fails, falls silent or works.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "base/error.hpp"
#include "engine/comm/max_over_ranks.hpp"
#include "tests/support/thrown_error.hpp"

namespace atl {
namespace {

using testing::HasSubstr;
using namespace std::chrono_literals;

constexpr OperationLabel kRows{
    .operation = "halo exchange", .direction = "forward", .layer = 1, .epoch = 4};

// Six ranks in groups of one, two and three.
void run_stages(double timeout_seconds,
                const std::function<void(Transport& job, Transport& stage)>& body) {
  run_local_ranks(6, timeout_seconds, [&](Transport& job) {
    constexpr int kStages[] = {0, 1, 1, 2, 2, 2};
    const int number = kStages[job.rank()];
    const auto stage = job.split(number, "stage " + std::to_string(number));
    body(job, *stage);
  });
}

// Until an error ends the job.
[[noreturn]] void exchange_for_ever(Transport& transport) {
  for (;;) {
    transport.check_peers();
    transport.barrier({.operation = "exchange beside"});
  }
}

TEST(RankGroup, NamesTheOperationAndWhoTakesPart) {
  EXPECT_EQ(RankGroup::whole_job(3)->describe(kRows), "layer 1 forward halo exchange of epoch 4");
  const RankGroup stage{"stage 1", {2, 3, 5}};
  EXPECT_EQ(stage.describe(kRows),
            "layer 1 forward halo exchange of epoch 4 in stage 1 (ranks 2, 3 and 5)");
  EXPECT_EQ(stage.in_job({2, 0}), (std::vector<int>{5, 2}));
}

// Nobody has a deadline: only the failing rank can wake the members of its group and of others.
TEST(LocalGroups, AMemberThatFailsEndsAllGroups) {
  std::atomic<int> exchanging{0};
  std::atomic<int> woken{0};
  const Error error = thrown_error([&] {
    run_stages(0, [&](Transport& job, Transport& stage) {
      if (job.rank() == 4) {
        while (exchanging < 5) std::this_thread::sleep_for(1ms);
        fail_input("part 4 is damaged");
      }
      ++exchanging;
      const Error stopped = thrown_error([&] { exchange_for_ever(stage); });
      EXPECT_EQ(stopped.kind(), ErrorKind::kCommunication);
      EXPECT_THAT(stopped.what(), HasSubstr("because rank 4 failed"));
      ++woken;
      throw Error(stopped);
    });
  });
  EXPECT_STREQ(error.what(), "part 4 is damaged");
  EXPECT_EQ(woken, 5);
}

TEST(LocalGroups, AbortOfAGroupEndsTheJob) {
  const Error error = thrown_error([] {
    run_stages(0, [](Transport& job, Transport& stage) {
      if (job.rank() == 4) return stage.abort(2);
      exchange_for_ever(stage);
    });
  });
  EXPECT_EQ(error.exit_code(), 2);
  EXPECT_STREQ(error.what(), "rank 4 ended the run with exit code 2");
}

TEST(LocalGroups, ASilentMemberIsNamedWithItsGroup) {
  std::atomic<bool> ended{false};
  std::atomic<int> beside{0};
  const Error error = thrown_error([&] {
    run_stages(0.2, [&](Transport& job, Transport& stage) {
      if (job.rank() < 3) {
        for (; !ended; ++beside) {
          stage.barrier({.operation = "exchange beside"});
          std::this_thread::sleep_for(1ms);
        }
      } else if (job.rank() == 5) {
        while (!ended) std::this_thread::sleep_for(1ms);
      } else {
        try {
          std::vector<std::byte> bytes(8);
          stage.broadcast(bytes, 2, kRows);
        } catch (...) {
          ended = true;
          throw;
        }
      }
    });
  });
  EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
  EXPECT_THAT(
      error.what(),
      testing::MatchesRegex(
          "rank [34] heard nothing from rank 5 for 0.2 s while waiting for layer 1 forward "
          "halo exchange of epoch 4 in stage 2 \\(ranks 3, 4 and 5\\); is that rank stopped "
          "or its host unreachable\\?"));
  EXPECT_GT(beside, 10);
}

TEST(LocalGroups, ARankThatIsMissingInASplitIsNamed) {
  std::atomic<bool> ended{false};
  const Error error = thrown_error([&] {
    run_local_ranks(3, 0.1, [&](Transport& job) {
      if (job.rank() == 2) {
        while (!ended) std::this_thread::sleep_for(1ms);
        return;
      }
      const Error found = thrown_error([&] { job.split(0, "stage 0"); });
      ended = true;
      throw Error(found);
    });
  });
  EXPECT_THAT(error.what(), HasSubstr("heard nothing from rank 2 for 0.1 s while waiting for split "
                                      "into groups;"));
}

TEST(LocalGroups, MembersGiveOneName) {
  const Error error = thrown_error([] {
    run_local_ranks(3, 0, [](Transport& job) {
      if (job.rank() == 0) exchange_for_ever(*job.split(0, "stage 0"));
      job.split(1, job.rank() == 1 ? "stage 1" : "stage 2");
    });
  });
  EXPECT_EQ(error.kind(), ErrorKind::kCommunication);
  EXPECT_THAT(error.what(), testing::MatchesRegex(
                                "rank ([12]) calls group 1 of a split \"stage [12]\", rank [12] "
                                "calls it otherwise; the ranks of a group give one name"));
}

TEST(LocalGroups, UnequalLengthsNameRanksOfTheJob) {
  const Error error = thrown_error([] {
    run_stages(0, [](Transport& job, Transport& stage) {
      if (job.rank() != 1 && job.rank() != 2) exchange_for_ever(job);
      std::vector<std::byte> bytes(job.rank() == 1 ? 16 : 12);
      stage.broadcast(bytes, 0, {.operation = "weights"});
      job.barrier({.operation = "barrier"});
    });
  });
  EXPECT_STREQ(error.what(),
               "rank 2 expected 12 bytes from rank 1 in weights in stage 1 (ranks 1 and 2), but "
               "that rank sent 16 in weights");
}

// Only stage 2 has entered the scope: rank 5 works, rank 3 waits for it, and the others wait for
// these two.
TEST(LocalGroups, AMemberThatWorksIsWaitedForByAll) {
  run_stages(0.1, [](Transport& job, Transport& stage) {
    if (job.rank() < 3) return job.barrier({.operation = "all stages"});
    const HeartbeatScope scope(stage, {"the stage"});
    if (job.rank() == 5) std::this_thread::sleep_for(500ms);
    stage.barrier({"the stage"});
    job.barrier({.operation = "all stages"});
  });
}

// The scope of the job stays open when that of the group ends.
TEST(LocalGroups, ScopesOfAGroupAndTheJobAreCounted) {
  run_stages(0.1, [](Transport& job, Transport& stage) {
    const HeartbeatScope of_job(job, {"all stages"});
    {
      const HeartbeatScope of_stage(stage, {"the stage"});
      stage.barrier({"the stage"});
    }
    if (job.rank() == 5) std::this_thread::sleep_for(500ms);
    job.barrier({"all stages"});
  });
}

// Ranks that wait for each other in two groups are not kept alive by their scope.
TEST(LocalGroups, RanksThatWaitForEachOtherAreSilent) {
  const Error error = thrown_error([] {
    run_local_ranks(2, 0.1, [](Transport& job) {
      const auto one = job.split(0, "one");
      const auto other = job.split(0, "other");
      const HeartbeatScope scope(job, {"work of all"});
      (job.rank() == 0 ? *one : *other).barrier({"a barrier"});
    });
  });
  EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
  EXPECT_THAT(error.what(), testing::MatchesRegex(
                                "rank [01] heard nothing from rank [01] for 0.1 s while waiting "
                                "for a barrier in (one|other) \\(ranks 0 and 1\\);.*"));
}

// Functions written once for any transport work in a group.
TEST(LocalGroups, MaximaOfAGroup) {
  run_stages(60, [](Transport& job, Transport& stage) {
    std::vector<double> values{static_cast<double>(job.rank())};
    max_over_ranks(stage, values, {"maximum"});
    EXPECT_EQ(values[0], stage.group()->job_ranks.back());
  });
}

// A world that no launcher started has one group: itself.
TEST(LocalGroupsDeath, AWorldOfOneIsSplit) {
  const auto world = make_mpi_transport(5);
  const auto group = world->split(7, "alone");
  EXPECT_EQ(group->size(), 1);
  group->barrier({.operation = "barrier"});
  EXPECT_EXIT(group->abort(3), testing::ExitedWithCode(3), "");
}

TEST(LocalGroupsDeath, AGroupHasANumberAndAName) {
  const auto world = make_mpi_transport(5);
  EXPECT_DEATH(world->split(-2, "stage"), "group -2");
  EXPECT_DEATH(world->split(1, ""), "group 1 has no name");
}

}  // namespace
}  // namespace atl
