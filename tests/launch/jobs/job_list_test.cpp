#include "launch/jobs/job_list.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "tests/support/temp_dir.hpp"

namespace atl {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

class JobListTest : public testing::Test {
 protected:
  fs::path write(const std::string& text, const std::string& name = "list.toml") const {
    const fs::path path = folder_.path() / name;
    std::ofstream(path) << text;
    return path;
  }
  std::vector<ListedJob> read(const std::string& text, const Words& groups = {}) const {
    return read_job_list(write(text), groups);
  }
  std::string refusal(const std::string& text, const std::string& name = "list.toml") const {
    try {
      read_job_list(write(text, name));
    } catch (const Error& error) {
      EXPECT_EQ(error.exit_code(), 2);
      return error.what();
    }
    return "was accepted";
  }

  TempDir folder_;
};

constexpr const char* kGroup = "[[group]]\nname = \"a\"\ndataset = \"data\"\nseeds = 1\n";
constexpr const char* kModes = "modes = { exact = {} }\n";

std::string with(const std::string& line) { return std::string(kGroup) + kModes + line + "\n"; }

// The group with `old` replaced.
std::string instead(const std::string& old, const std::string& now) {
  std::string text = with("");
  return text.replace(text.find(old), old.size(), now);
}

TEST_F(JobListTest, MultipliesSeedsWithModesInTheOrderOfTheFile) {
  const auto jobs = read(
      "[options]\nlr = 0.1\nhidden = 8\ntrace = true\n"
      "[[group]]\nname = \"second name\"\ndataset = \"d/e\"\nseeds = \"7, 1-2\"\n"
      "launcher = \"mpirun -n 2 --host 'a b'\"\n"
      "[group.options]\nlr = 0.2\n"
      "[group.modes]\nzeta = { hidden = 16 }\n\"1 bit\" = { trace = false, lr = 5e-4, bits = \"1\" "
      "}\n"
      "[[group]]\nname = \"a\"\ndataset = \"f\"\nseeds = [3]\nmodes = { m = {} }\n");
  Words titles;
  for (const ListedJob& job : jobs) titles.push_back(job.title());
  EXPECT_EQ(titles,
            (Words{"second name, zeta, seed 7", "second name, 1 bit, seed 7",
                   "second name, zeta, seed 1", "second name, 1 bit, seed 1",
                   "second name, zeta, seed 2", "second name, 1 bit, seed 2", "a, m, seed 3"}));
  EXPECT_EQ(jobs[0].train_words(),
            (Words{"train", "d/e", "--hidden", "16", "--lr", "0.2", "--trace", "--seed", "7"}));
  EXPECT_EQ(jobs[3].train_words(), (Words{"train", "d/e", "--bits", "1", "--hidden", "8", "--lr",
                                          "0.0005", "--seed", "1"}));
  EXPECT_EQ(jobs[0].launcher, (Words{"mpirun", "-n", "2", "--host", "a b"}));
  EXPECT_TRUE(jobs[6].launcher.empty());
  EXPECT_EQ(jobs[3].folder("out"), "out/second-name/1-bit/seed-1");
  EXPECT_EQ(jobs[6].train_words(),
            (Words{"train", "f", "--hidden", "8", "--lr", "0.1", "--trace", "--seed", "3"}));
}

// As run folders of lists that were begun with earlier versions have it.
TEST_F(JobListTest, IdentitiesStayAsTheyWere) {
  const auto jobs = read(with(
      "options = { lr = 0.01, decay = 5e-4, small = 1e-5, whole = 2.0, n = 3, t = true, f = false, "
      "s = \"x y\" }"));
  EXPECT_EQ(jobs[0].identity(),
            Json::parse(R"({"launcher": [], "dataset": "data", "options": {"decay": "0.0005",
                        "lr": "0.01", "n": "3", "s": "x y", "small": "1e-05", "t": true,
                        "whole": "2.0"}, "seed": 1})"));
}

TEST_F(JobListTest, JsonIsReadAsToml) {
  const fs::path path = write(R"({"seeds": [5], "options": {"lr": 0.1, "trace": true},
      "modes": {"on": {"trace": true}, "off": {"trace": false, "lr": 5e-4}},
      "group": [{"name": "g", "dataset": "d", "launcher": "mpirun -n 2", "options": {"lr": 0.2}}]})",
                              "list.json");
  const auto jobs = read_job_list(path);
  ASSERT_EQ(jobs.size(), 2U);
  EXPECT_EQ(jobs[0].launcher, (Words{"mpirun", "-n", "2"}));
  EXPECT_EQ(jobs[0].train_words(), (Words{"train", "d", "--lr", "0.2", "--trace", "--seed", "5"}));
  EXPECT_EQ(jobs[1].train_words(), (Words{"train", "d", "--lr", "0.0005", "--seed", "5"}));
}

TEST_F(JobListTest, AnOptionMayTakeTheNumberOfTheSeed) {
  const auto jobs = read(instead("= 1", "= \"3-4\"\nper-seed = \"split-index\""));
  ASSERT_EQ(jobs.size(), 2U);
  EXPECT_EQ(jobs[0].train_words(), (Words{"train", "data", "--split-index", "3", "--seed", "3"}));
  EXPECT_EQ(jobs[1].train_words(), (Words{"train", "data", "--split-index", "4", "--seed", "4"}));
}

TEST_F(JobListTest, TheGreatestSeed) {
  const auto jobs = read(instead("= 1", "= \"9223372036854775806-9223372036854775807\""));
  ASSERT_EQ(jobs.size(), 2U);
  EXPECT_EQ(jobs[1].train_words().back(), "9223372036854775807");
}

TEST_F(JobListTest, GroupsAreChosen) {
  const std::string text = with("") + instead("\"a\"", "\"b\"") + instead("\"a\"", "\"c\"");
  EXPECT_EQ(read(text).size(), 3U);
  const auto jobs = read(text, {"c", "a"});
  ASSERT_EQ(jobs.size(), 2U);
  EXPECT_EQ(jobs[0].group + jobs[1].group, "ac");
  try {
    read(text, {"d"});
    FAIL();
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("its groups are a, b, c"), std::string::npos);
  }
}

TEST_F(JobListTest, NeedsOfASchedule) {
  const JobNeeds usual = read(with(""))[0].needs;
  EXPECT_EQ(usual.arrival_s, 0);
  EXPECT_EQ(usual.least_ranks, 1);
  EXPECT_FALSE(usual.most_ranks);
  EXPECT_EQ(usual.priority, 1);
  const auto jobs = read(instead(
      "= 1",
      "= \"1-3\"\narrival = \"1m30s\"\narrival-every = 2.5\nleast-ranks = 2\nmost-ranks = 4\n"
      "priority = 0.5"));
  ASSERT_EQ(jobs.size(), 3U);
  EXPECT_EQ(jobs[0].needs.arrival_s, 90);
  EXPECT_EQ(jobs[1].needs.arrival_s, 92.5);
  EXPECT_EQ(jobs[2].needs.arrival_s, 95);
  EXPECT_EQ(jobs[2].needs.least_ranks, 2);
  EXPECT_EQ(jobs[2].needs.most_ranks, 4);
  EXPECT_EQ(jobs[2].needs.priority, 0.5);
  EXPECT_EQ(jobs[2].identity(), read(instead("= 1", "= 3"))[0].identity());
}

struct BadList {
  std::string text;
  std::string message;
};

std::vector<BadList> bad_lists() {
  return {
      {"[[group]\n", "list.toml:1:9: not valid TOML: "},
      {"", "list.toml: group: found nothing; at least one [[group]] is expected"},
      {"group = 3\n", "group: found 3; at least one [[group]]"},
      {"group = []\n", "group: found []; at least one [[group]]"},
      {"group = [3]\n", "group 1: found 3; a table is expected"},
      {"speed = 1\n", "list.toml: unknown key 'speed'; known are group, options, modes, seeds"},
      {kGroup, "group 'a': modes are missing, in the group and at the top of the file"},
      {with("mode = 1"), "group 1: unknown key 'mode' (did you mean 'modes'?); known are name, "},
      {with("arival = 1"), "unknown key 'arival' (did you mean 'arrival'?)"},
      {"modes = { m = {} }\n[[group]]\nname = \"a\"\ndataset = \"d\"\n", "'a': seeds are missing"},
      {instead("\"a\"", "\"../a\""),
       "group 1: name: found \"../a\"; a text of up to 100 letters, "},
      {instead("\"a\"", "3"), "group 1: name: found 3; "},
      {instead("name = \"a\"", ""), "group 1: name: found nothing; "},
      {instead("\"data\"", "3"), "group 'a': dataset: found 3; the path of a dataset folder"},
      {instead("\"data\"", "\"\""), "group 'a': dataset: found \"\"; "},
      {instead("= 1", "= \"3-1\""), "group 'a': seeds: the range '3-1' is empty; allowed are "},
      {instead("= 1", "= \"1-x\""), "seeds: found '1-x'; allowed are numbers and ranges"},
      {instead("= 1", "= \"\""), "seeds: found ''; "},
      {instead("= 1", "= -1"), "seeds: found '-1'; "},
      {instead("= 1", "= 1.5"), "seeds: found 1.5; "},
      {instead("= 1", "= true"), "seeds: found true; "},
      {instead("= 1", "= []"), "seeds: there is none; "},
      {instead("= 1", "= [[1]]"), "seeds: found [1]; "},
      {instead("= 1", "= [1, \"1-2\"]"), "seeds: 1 stands there twice"},
      {instead("= 1", "= \"1-99999999999\""), "makes more than 100000 seeds"},
      {instead("= 1", "= \"99999999999999999999\""), "seeds: found '99999999999999999999'"},
      {instead("= 1", "= \"9223372036854775808\""),
       "seeds: found '9223372036854775808'; allowed are numbers and ranges such as \"1-100\", "
       "\"1,3,7-9\" or [1, 2], of seeds from 0 to 9223372036854775807"},
      {instead("= 1", "= \"1-60000\"") + instead("\"a\"", "\"b\"") +
           "[[group]]\nname = \"c\"\ndataset = \"data\"\nseeds = \"1-60000\"\n" + kModes,
       "group 'c': with it the list has more than 100000 jobs"},
      {std::string(kGroup) + "modes = {}\n", "group 'a': modes: there is none"},
      {std::string(kGroup) + "modes = 1\n", "group 'a': modes: found 1; a table is expected"},
      {std::string(kGroup) + "modes = { m = 1 }\n", "mode 'm': found 1; a table is expected"},
      {std::string(kGroup) + "modes = { \"a/b\" = {} }\n", "modes: the name 'a/b' must consist of"},
      {std::string(kGroup) + "modes = { \"a b\" = {}, a-b = {} }\n",
       "'a, a b, seed 1' and 'a, a-b, seed 1' would share the folder a/a-b/seed-1"},
      {with("options = { \"--lr\" = 1 }"), "group 'a': option '--lr': must be the name"},
      {with("options = { seed = 1 }"), "option 'seed': is set by the list itself"},
      {with("options = { run-dir = \"x\" }"), "option 'run-dir': is set by the list itself"},
      {with("options = { lr = [1] }"), "option 'lr': found [1]; it must be a number, a text, "},
      {with("options = { lr = inf }"), "list.toml:6:18: found a number that is not finite"},
      {with("options = { lr = 1979-05-27 }"), "list.toml:6:18: found a date or time"},
      {"options = 1\n" + with(""), "list.toml: options: found 1; a table is expected"},
      {with("launcher = 1"), "group 'a': launcher: found 1; a text such as \"mpirun -n 2\""},
      {with("launcher = \"mpirun 'x\""), "launcher: found \"mpirun 'x\"; "},
      {with("per-seed = \"seed\""), "per-seed: found \"seed\"; the name of an option"},
      {with("per-seed = 1"), "per-seed: found 1; "},
      {std::string(kGroup) + "per-seed = \"epochs\"\nmodes = { m = { epochs = 5 } }\n",
       "group 'a': per-seed: found \"epochs\", which mode 'm' sets too, to 5; allowed is an option "
       "that neither a mode, "},
      {with("per-seed = \"epochs\"\noptions = { epochs = 5 }"),
       "the options of the group or of all "},
      {"[options]\nepochs = 5\n" + with("per-seed = \"epochs\""),
       "or of all groups set too, to 5;"},
      {with("arrival = \"soon\""), "group 'a': arrival: found \"soon\"; allowed are seconds, such"},
      {with("arrival = -1"), "arrival: found -1; "},
      {with("arrival-every = true"), "arrival-every: found true; "},
      {with("least-ranks = 0"), "least-ranks: found 0; allowed is a whole number from 1 to "},
      {with("least-ranks = 1.5"), "least-ranks: found 1.5; "},
      {with("least-ranks = 4\nmost-ranks = 3"),
       "most-ranks: found 3; allowed is a whole number "
       "from 4 to "},
      {with("most-ranks = 99999999999"), "most-ranks: found 99999999999; "},
      {instead("\"a\"", '"' + std::string(101, 'a') + '"'), "a text of up to 100 letters, digits"},
      {with("arrival = 1e300"), "arrival: found 1e+300; allowed are seconds"},
      {with("arrival = \"99999999d\""), "arrival: found \"99999999d\"; "},
      {instead("= 1", "= \"1-3\"\narrival-every = 6e8"),
       "arrival-every: with 600000000.0 its last jobs arrive after more than 1000000000 s"},
      {with("priority = 0"), "priority: found 0; allowed is a number from 1e-06 to 1000000"},
      {with("priority = 1e300"), "priority: found 1e+300; "},
      {with("priority = \"high\""), "priority: found \"high\"; "},
  };
}

TEST_F(JobListTest, RefusesBadListsAndNamesThePlace) {
  for (const BadList& bad : bad_lists()) {
    const std::string message = refusal(bad.text);
    EXPECT_NE(message.find(bad.message), std::string::npos) << bad.text << "\n" << message;
  }
  EXPECT_NE(refusal("{\n,", "list.json").find("list.json: not valid JSON"), std::string::npos);
  EXPECT_NE(refusal("[]", "list.json").find("found []; a table is expected"), std::string::npos);
  EXPECT_THROW(read_job_list(folder_.path() / "none.toml"), Error);
}

}  // namespace
}  // namespace atl
