#include "launch/config_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <functional>

#include "base/error.hpp"
#include "base/files.hpp"
#include "tests/support/temp_dir.hpp"

namespace atl {
namespace {

using ::testing::HasSubstr;

// A program with two subcommands and every kind of option.
struct Program {
  CLI::App app{"test", "atoll"};
  std::string dataset;
  int layers = 3;
  double lr = 0.01;
  std::string model = "gcn";
  std::string name;
  std::uint64_t seed = 1;
  bool resume = false;
  std::vector<double> weights;
  std::string split = "0.6,0.2,0.2";
  CLI::App* train = nullptr;

  Program() {
    app.require_subcommand(1);
    app.option_defaults()->always_capture_default();
    train = app.add_subcommand("train", "");
    train->add_option("dataset", dataset)->required();
    train->add_option("--layers", layers)->check(CLI::Range(1, 10));
    train->add_option("--lr", lr);
    train->add_option("--model", model)->check(CLI::IsMember({"gcn", "sage"}));
    train->add_option("--name", name);
    train->add_option("--seed", seed);
    train->add_flag("--resume", resume);
    train->add_option("--weights", weights)->delimiter(',');
    train->add_option("--split", split);
    app.add_subcommand("partition", "")->add_option("--parts", parts);
    add_config_option(app);
  }
  int parts = 0;

  void parse(std::vector<std::string> arguments) {
    std::reverse(arguments.begin(), arguments.end());
    app.parse(std::move(arguments));
  }
};

class ConfigFileTest : public ::testing::Test {
 protected:
  std::string write(const std::string& text) {
    const std::filesystem::path path = folder_.path() / "run.toml";
    std::ofstream(path) << text;
    return path.string();
  }
  // The message with which `train --config` refuses a file of this text.
  std::string refusal(const std::string& text) {
    const std::string path = write(text);
    Program program;
    try {
      program.parse({"train", "data", "--config", path});
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kOption);
      const std::string message = error.what();
      EXPECT_EQ(message.substr(0, path.size()), path);
      return message.substr(path.size());
    }
    ADD_FAILURE() << "accepted: " << text;
    return "";
  }

  TempDir folder_;
};

TEST_F(ConfigFileTest, EveryKindOfValue) {
  const std::string path = write(
      "dataset = \"data/x\"\nlayers = 4\nlr = 1e-3\nmodel = 'sage'\nresume = true\n"
      "weights = [2, 1, 0.5]\nsplit = [0.5, 0.25, 0.25]\nseed = 12345678901234\n");
  Program program;
  program.parse({"train", "--config", path});
  EXPECT_EQ(program.dataset, "data/x");
  EXPECT_EQ(program.layers, 4);
  EXPECT_EQ(program.lr, 1e-3);
  EXPECT_EQ(program.model, "sage");
  EXPECT_TRUE(program.resume);
  EXPECT_EQ(program.weights, (std::vector<double>{2, 1, 0.5}));
  EXPECT_EQ(program.split, "0.5,0.25,0.25");  // an array for an option of one word
  EXPECT_EQ(program.seed, 12345678901234U);
  EXPECT_EQ(program.name, "");
}

TEST_F(ConfigFileTest, CommandLineWins) {
  const std::string path =
      write("dataset = \"from-file\"\nlayers = 4\nlr = 0.5\nweights = [1, 2]\n");
  Program program;
  program.parse({"train", "typed", "--layers", "2", "--config=" + path, "--weights", "7,8,9"});
  EXPECT_EQ(program.dataset, "typed");
  EXPECT_EQ(program.layers, 2);
  EXPECT_EQ(program.lr, 0.5);
  EXPECT_EQ(program.weights, (std::vector<double>{7, 8, 9}));
}

TEST_F(ConfigFileTest, TablesOfSubcommands) {
  const std::string path = write("[partition]\nparts = 4\n[train]\nlayers = 5\n");
  Program train;
  train.parse({"train", "data", "--config", path});
  EXPECT_EQ(train.layers, 5);
  EXPECT_EQ(train.parts, 0);
  Program partition;
  partition.parse({"partition", "--config", path});
  EXPECT_EQ(partition.parts, 4);
}

TEST_F(ConfigFileTest, NamesThePlaceOfAnUnknownKey) {
  const std::string message = refusal("layers = 2\n\n  laers = 3\n");
  EXPECT_THAT(message, HasSubstr(":3:3: unknown key 'laers'"));
  EXPECT_THAT(message, HasSubstr("(did you mean 'layers'?)"));
  EXPECT_THAT(message, HasSubstr("use one of dataset, layers, lr, model"));
  EXPECT_THAT(refusal("[partition]\npart = 4\n"), HasSubstr(":2:1: unknown key 'part'"));
  EXPECT_THAT(refusal("[optimizer]\nlr = 4\n"), HasSubstr(":1:2: unknown key 'optimizer'"));
  EXPECT_THAT(refusal("config = 'other.toml'\n"), HasSubstr(":1:1: unknown key 'config'"));
}

TEST_F(ConfigFileTest, NamesThePlaceOfABadValue) {
  EXPECT_THAT(refusal("lr = 0.1\nlayers = 11\n"), HasSubstr(":2:10: --layers: Value 11"));
  EXPECT_THAT(refusal("layers = 'two'\n"), HasSubstr(":1:10: "));
  EXPECT_THAT(refusal("model = 'gat'\n"), AllOf(HasSubstr(":1:9:"), HasSubstr("{gcn,sage}")));
  EXPECT_THAT(refusal("layers = 1979-05-27\n"), HasSubstr(":1:10: 'layers' is of type date"));
  EXPECT_THAT(refusal("resume = 'yes'\n"), HasSubstr("switched by true or false"));
  EXPECT_THAT(refusal("model = {a = 1}\n"), HasSubstr("'model' is of type table"));
  EXPECT_THAT(refusal("layers = [1, 2]\n"), HasSubstr(":1:10: "));
}

TEST_F(ConfigFileTest, NamesThePlaceOfBadSyntax) {
  EXPECT_THAT(refusal("layers = 2\nlr = = 3\n"), HasSubstr(":2:6: not valid TOML"));
  EXPECT_THAT(refusal("layers = 2\nlayers = 3\n"), HasSubstr(":2:"));
  EXPECT_THAT(refusal("name = \"\xff\xfe\"\n"), HasSubstr("not valid TOML"));
}

TEST_F(ConfigFileTest, MissingFileIsReported) {
  Program program;
  EXPECT_THROW(program.parse({"train", "data", "--config", "no-such-file.toml"}), CLI::ParseError);
  Program folder;
  EXPECT_THROW(folder.parse({"train", "data", "--config", folder_.path().string()}),
               CLI::ParseError);
}

TEST_F(ConfigFileTest, EffectiveConfigurationText) {
  Program program;
  program.parse({"train", "da\"ta", "--lr", "1e-3", "--name", "007", "--weights", "2,1"});
  EXPECT_EQ(effective_config(*program.train),
            "# atoll train --config THIS_FILE\n"
            "dataset = 'da\"ta'\n"
            "layers = 3\n"
            "lr = 0.001\n"
            "model = 'gcn'\n"
            "name = '007'\n"
            "seed = 1\n"
            "weights = [2, 1]\n"
            "split = '0.6,0.2,0.2'\n");
}

TEST_F(ConfigFileTest, EffectiveConfigurationRoundTrips) {
  Program first;
  first.parse({"train", "a \\ 'b'\n\"c\"", "--lr", ".30000000000000004", "--layers", "7",
               "--resume", "--seed", "18446744073709551615", "--weights", "1e-300,0.1"});
  const std::string config = effective_config(*first.train);
  Program second;
  second.parse({"train", "--config", write(config)});
  EXPECT_EQ(second.dataset, first.dataset);
  EXPECT_EQ(second.lr, 0.30000000000000004);
  EXPECT_EQ(second.layers, 7);
  EXPECT_TRUE(second.resume);
  EXPECT_EQ(second.seed, 18446744073709551615U);
  EXPECT_EQ(second.weights, (std::vector<double>{1e-300, 0.1}));
  EXPECT_EQ(effective_config(*second.train), config);
}

}  // namespace
}  // namespace atl
