// The runs that `atoll launch` starts, when it gives up, and how it understands what ranks say.
#include "launch/supervisor/restart_policy.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <deque>
#include <memory>
#include <thread>

#include "base/descriptor.hpp"
#include "base/file_lock.hpp"
#include "base/files.hpp"
#include "base/host.hpp"
#include "launch/supervisor/child_process.hpp"
#include "launch/supervisor/host_question.hpp"
#include "launch/supervisor/supervisor_port.hpp"
#include "tests/support/temp_dir.hpp"

namespace atl {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Words = std::vector<std::string>;

TEST(RestartPolicy, AllowsSoManyFailures) {
  RestartPolicy policy(2);
  EXPECT_EQ(policy.failed(3), "");
  EXPECT_EQ(policy.failed(4), "");
  EXPECT_THAT(policy.failed(5), HasSubstr("--restarts 2"));
  EXPECT_EQ(policy.failures(), 3);
}

TEST(RestartPolicy, GivesUpWithoutProgress) {
  RestartPolicy policy(100);
  EXPECT_EQ(policy.failed(0), "");
  EXPECT_EQ(policy.failed(0), "");
  EXPECT_EQ(policy.failed(1), "") << "an epoch is done";
  EXPECT_EQ(policy.failed(1), "");
  EXPECT_THAT(policy.failed(1), HasSubstr("3 times in a row without an epoch"));
}

TEST(RestartPolicy, GoesOnFromTheSecondAttemptOn) {
  const Words words = {"train", "data", "--overwrite", "--run-dir", "runs/a"};
  EXPECT_EQ(words_of_attempt(words, 1, RunThere::kOld, 1),
            (Words{"train", "data", "--overwrite", "--run-dir", "runs/a", "--snapshot-every=1"}));
  EXPECT_EQ(words_of_attempt(words, 2, RunThere::kOwn, 0),
            (Words{"train", "data", "--run-dir", "runs/a", "--resume", "--take-over"}));
  // The first attempt has ended before it made the run.
  EXPECT_EQ(words_of_attempt(words, 2, RunThere::kNone, 0),
            (Words{"train", "data", "--overwrite", "--run-dir", "runs/a", "--take-over"}));
  EXPECT_EQ(words_of_attempt({"train", "data"}, 2, RunThere::kNone, 0),
            (Words{"train", "data", "--resume", "--take-over"}));
  const Words own = {"train", "--resume", "--snapshot-every=5"};
  EXPECT_EQ(words_of_attempt(own, 3, RunThere::kOwn, 1),
            (Words{"train", "--resume", "--snapshot-every=5", "--take-over"}));
}

TEST(RestartPolicy, GoesOnWithNoRunOfOthers) {
  EXPECT_EQ(words_of_attempt({"train", "data"}, 2, RunThere::kOld, 0),
            (Words{"train", "data", "--take-over"}));
  EXPECT_EQ(words_of_attempt({"train", "data", "--overwrite"}, 2, RunThere::kOld, 0),
            (Words{"train", "data", "--overwrite", "--take-over"}));
  EXPECT_EQ(words_of_attempt({"train", "data", "--resume"}, 2, RunThere::kOld, 0),
            (Words{"train", "data", "--resume", "--take-over"}))
      << "that run was asked for";
  EXPECT_EQ(words_of_attempt({"train", "data"}, 2, RunThere::kOwn, 0),
            (Words{"train", "data", "--resume", "--take-over"}));
}

TEST(RestartPolicy, StartsRanksOnEveryHost) {
  LauncherWords launcher;
  launcher.mpirun = {"mpirun", "--mca", "btl", "tcp,self"};
  launcher.hosts = {"a", "b"};
  launcher.ranks_per_host = 2;
  launcher.exported = {"KEY"};
  EXPECT_EQ(launcher_command(launcher, "/bin/atoll", {"train", "data"}),
            (Words{"mpirun", "--mca", "btl", "tcp,self", "--host", "a:2,b:2", "-n", "4", "-x",
                   "KEY", "/bin/atoll", "train", "data"}));
  launcher.rsh = "agent --name x";
  const Words command = launcher_command(launcher, "/bin/atoll", {"train"});
  const auto agent = std::ranges::find(command, "plm_rsh_agent");
  ASSERT_NE(agent, command.end());
  EXPECT_EQ(*(agent + 1), "agent --name x");
}

TEST(SupervisorPort, UnderstandsRanks) {
  RankSigns signs;
  EXPECT_TRUE(take_line("hello key 1 4 host-a 4711", signs));
  EXPECT_EQ(signs.rank, 1);
  EXPECT_EQ(signs.size, 4);
  EXPECT_EQ(signs.host, "host-a");
  EXPECT_EQ(signs.process, 4711);
  EXPECT_TRUE(take_line("beat", signs));
  EXPECT_FALSE(signs.ready);
  EXPECT_TRUE(take_line("ready", signs));
  EXPECT_TRUE(signs.ready);
  EXPECT_TRUE(take_line("epoch 17", signs));
  EXPECT_EQ(signs.epoch, 17);
  EXPECT_FALSE(signs.said_goodbye);
  EXPECT_TRUE(take_line("bye", signs));
  EXPECT_TRUE(signs.said_goodbye);
}

TEST(SupervisorPort, PassesOverWhatNoRankSays) {
  for (const char* line :
       {"", " ", "beat beat", "ready 1", "epoch", "epoch x", "epoch -1", "epoch 99999999999",
        "hello key 4 4 a 1", "hello key 1 4 a", "hello key x 4 a 1", "bye 1", "GET / HTTP/1.1"}) {
    RankSigns signs;
    EXPECT_FALSE(take_line(line, signs)) << line;
    EXPECT_EQ(signs.rank, -1);
    EXPECT_EQ(signs.epoch, 0);
  }
}

TEST(SupervisorPort, SaysWhomAStartWaitsFor) {
  const Words hosts = {"a", "b"};
  std::deque<RankSigns> signs;
  EXPECT_EQ(awaited_ranks(signs, 4, hosts, 2), "none of 4 ranks has reported");
  EXPECT_EQ(awaited_ranks(signs, 1, {"a"}, 1), "rank 0 on a has not reported");
  const auto take = [&](const std::string& line) {
    EXPECT_TRUE(take_line(line, signs.emplace_back()));
  };
  take("hello key 0 4 host-a 1");
  take("hello key 2 4 host-b 2");
  EXPECT_EQ(awaited_ranks(signs, 4, hosts, 2), "rank 1 on a, rank 3 on b have not reported");
  EXPECT_EQ(awaited_ranks(signs, 4, {}, 2), "rank 1, rank 3 have not reported");
  take("hello key 1 4 host-a 3");
  EXPECT_EQ(awaited_ranks(signs, 4, hosts, 2), "rank 3 on b has not reported");
  take("hello key 3 4 host-b 4");
  for (std::size_t r : {0, 1, 2}) EXPECT_TRUE(take_line("ready", signs[r]));
  EXPECT_EQ(awaited_ranks(signs, 4, hosts, 2), "rank 3 on b has not met the others");
  EXPECT_THAT(awaited_ranks(signs, 100, hosts, 50),
              HasSubstr("rank 11 on a, 88 others have not reported"));
}

TEST(HostQuestion, TellsWhatTheAgentSays) {
  const auto why = [](const std::string& code) {
    HostQuestion question("b", {"sh", "-c", code});
    for (int k = 0; k < 1000 && question.why_silent() == "sh gets no answer"; ++k) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return question.why_silent();
  };
  EXPECT_EQ(why("echo first; printf 'no route\\033 to b\\n\\n' >&2; exit 255"),
            "sh has ended with exit code 255: no route\\x1b to b");
  EXPECT_EQ(why("exit 3"), "sh has ended with exit code 3");
  HostQuestion silent("b", {"sleep", "100"});
  EXPECT_EQ(silent.why_silent(), "sleep gets no answer");
}

TEST(HostQuestion, FindsOneMachineUnderTwoNames) {
  EXPECT_EQ(names_of_one_machine({{"a", "x/1"}, {"b", "y/1"}}), "");
  EXPECT_EQ(names_of_one_machine({{"a", "x/1"}, {"b", "y/1"}, {"c", "x/1"}}), "a and c");
  EXPECT_EQ(names_of_here(Words{"localhost", "elsewhere"}), "");
  const Words both = {"elsewhere", "localhost", host_name()};
  EXPECT_EQ(names_of_here(both).empty(), host_name() == "localhost");
  EXPECT_THAT(machine_word(), Not(HasSubstr(" ")));
}

TEST(ChildProcess, EndsWithTheCodeOfItsProgram) {
  const auto code_of = [](const Words& words, const Words& environment = {}) {
    ChildProcess child(words, {.environment = environment, .quiet = true});
    while (!child.exit_code()) {
    }
    return *child.exit_code();
  };
  EXPECT_EQ(code_of({"true"}), 0);
  EXPECT_EQ(code_of({"sh", "-c", "exit 3"}), 3);
  EXPECT_EQ(code_of({"sh", "-c", "kill -9 $$"}), 137);
  EXPECT_EQ(code_of({"no such program"}), 127);
  EXPECT_EQ(code_of({"sh", "-c", "test \"$ATOLL_TEST\" = 5"}, {"ATOLL_TEST=5"}), 0);
}

TEST(ChildProcess, PrintsToAFileAndReadsNothing) {
  const TempDir folder;
  const std::string file = (folder.path() / "output").string();
  const Descriptor output(::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666));
  ChildProcess child({"sh", "-c", "cat; echo out; echo error >&2"}, {.output = output.get()});
  while (!child.exit_code()) {
  }
  EXPECT_EQ(read_text(file), "out\nerror\n");
}

// Also by what it has started itself, once it has ended.
TEST(ChildProcess, HoldsALockThatItWasGiven) {
  const TempDir folder;
  const std::string file = (folder.path() / "lock").string();
  const auto open = [&] {
    return Descriptor(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666));
  };
  Descriptor lock = open();
  ASSERT_EQ(try_lock(lock.get()), LockResult::kTaken);
  ChildProcess other({"sleep", "100"}, {.quiet = true});
  auto child = std::make_unique<ChildProcess>(Words{"sh", "-c", "sleep 100 & exit"},
                                              ChildSetting{.quiet = true, .kept = {lock.get()}});
  const pid_t group = child->pid();
  while (!child->exit_code()) {
  }
  lock = Descriptor();
  const Descriptor next = open();
  EXPECT_EQ(try_lock(next.get()), LockResult::kHeld);
  ::kill(-group, SIGKILL);
  while (try_lock(next.get()) != LockResult::kTaken) {
  }
}

TEST(ChildProcess, TakesItsGroupWithIt) {
  ChildProcess child({"sh", "-c", "sleep 100 & wait"}, {.quiet = true});
  EXPECT_FALSE(child.exit_code());
  child.signal_group(SIGKILL);
  while (!child.exit_code()) {
  }
  EXPECT_EQ(*child.exit_code(), 137);
}

}  // namespace
}  // namespace atl
