#include "launch/config_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <functional>

#include "base/error.hpp"
#include "base/files.hpp"
#include "tests/support/temp_dir.hpp"
#include "tests/support/thrown_error.hpp"

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

// The message with which `train --config FILE` ends.
std::string refusal_of_file(const std::string& file) {
  Program program;
  const Error error = thrown_error([&] { program.parse({"train", "data", "--config", file}); });
  EXPECT_EQ(error.kind(), ErrorKind::kOption);
  return error.what();
}

TEST_F(ConfigFileTest, OnlyFilesAreRead) {
  EXPECT_THAT(refusal_of_file("no-such-file.toml"), HasSubstr("no-such-file.toml: no such file"));
  EXPECT_THAT(refusal_of_file(folder_.path().string()), HasSubstr("not a regular file"));
  EXPECT_THAT(refusal_of_file("/dev/zero"), HasSubstr("/dev/zero: not a regular file"));
  const std::string pipe = (folder_.path() / "pipe.toml").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THAT(refusal_of_file(pipe), HasSubstr("pipe.toml: not a regular file"));
}

TEST_F(ConfigFileTest, LargeFilesAreRefusedUnread) {
  const std::string path = write("name = ''\n");
  std::filesystem::resize_file(path, std::uintmax_t{1} << 40);  // sparse
  EXPECT_THAT(refusal_of_file(path), HasSubstr("1099511627776 bytes; a configuration has at most"));
}

// Each of these overflows the stack of the TOML library, or nests more than it can undo.
TEST_F(ConfigFileTest, DeepNestingIsRefused) {
  const auto times = [](int count, const std::string& text) {
    std::string all;
    for (int i = 0; i < count; ++i) all += text;
    return all;
  };
  const std::string expected = "nested more than 100 deep";
  const std::string parts = times(100000, "a.") + "a";
  EXPECT_THAT(refusal("lr = 1\n" + parts + " = 1\n"), HasSubstr(":2: keys, arrays"));
  EXPECT_THAT(refusal("[" + parts + "]\n"), HasSubstr(expected));
  EXPECT_THAT(refusal("[[" + parts + "]]\n"), HasSubstr(expected));
  EXPECT_THAT(refusal("x = " + times(100000, "[")), HasSubstr(expected));
  EXPECT_THAT(refusal("x = " + times(100000, "{a=")), HasSubstr(expected));
  EXPECT_THAT(refusal("x = " + times(50, "{a.a.a.a=")), HasSubstr(expected));
  EXPECT_THAT(refusal(times(60000, "\"a\" . ") + "a = 1\n"), HasSubstr(expected));
  // Behind strings of every kind.
  for (const char* text : {"'''a'''''", R"("""a""""")", R"("\"")", R"('\')", R"("")", "''",
                           R"("#")", R"("""\"""""")", "'''\n'''"}) {
    EXPECT_THAT(refusal(std::string("x = [") + text + ", " + times(100000, "[")),
                HasSubstr(expected))
        << text;
  }
}

TEST_F(ConfigFileTest, LongListsAndTextsAreNotDeep) {
  std::string weights = "1.5";
  for (int i = 0; i < 500; ++i) weights += ", 2.25";
  const std::string path =
      write("dataset = \"[[[[" + std::string(300, '.') + "\" # " + std::string(300, '[') +
            "\nweights = [" + weights + "]\nname = '''\n" + std::string(300, '{') + "'''\n");
  Program program;
  program.parse({"train", "--config", path});
  EXPECT_EQ(program.weights.size(), 501U);
  EXPECT_EQ(program.name, std::string(300, '{'));
}

TEST_F(ConfigFileTest, ValuesInTheirOrder) {
  const std::vector<ConfigValue> values =
      read_config_values(write("zeta = 'a'\nbeta = 0.5\nalpha = true\nweights = [2, 1]\n"));
  std::string text;
  for (const ConfigValue& value : values) text += value.key + "=" + value.value + ";";
  EXPECT_EQ(text, "zeta=a;beta=0.5;alpha=true;weights=2,1;");
}

TEST_F(ConfigFileTest, EffectiveConfigurationText) {
  Program program;
  program.parse({"train", "da\"ta", "--lr", "1e-3", "--name", "007", "--weights", "2,1"});
  EXPECT_EQ(effective_config(*program.train, ConfigExtent::kAll),
            "# atoll train --config THIS_FILE\n"
            "dataset = 'da\"ta'\n"
            "layers = 3\n"
            "lr = 0.001\n"
            "model = 'gcn'\n"
            "name = '007'\n"
            "seed = 1\n"
            "weights = [2, 1]\n"
            "split = '0.6,0.2,0.2'\n");
  EXPECT_EQ(effective_config(*program.train, ConfigExtent::kGiven),
            "# atoll train --config THIS_FILE\n"
            "dataset = 'da\"ta'\n"
            "lr = 0.001\n"
            "name = '007'\n"
            "weights = [2, 1]\n");
}

TEST_F(ConfigFileTest, PathsAreAbsolute) {
  Program program;
  program.train->get_option("dataset")->type_name("DIR");
  program.parse({"train", "some/../data", "--name", "a/b"});
  EXPECT_EQ(effective_config(*program.train, ConfigExtent::kGiven),
            "# atoll train --config THIS_FILE\ndataset = '" +
                (std::filesystem::current_path() / "data").string() + "'\nname = 'a/b'\n");
}

TEST_F(ConfigFileTest, EffectiveConfigurationRoundTrips) {
  Program first;
  first.parse({"train", "a \\ 'b'\n\"c\"", "--lr", ".30000000000000004", "--layers", "7",
               "--resume", "--seed", "18446744073709551615", "--weights", "1e-300,0.1"});
  const std::string config = effective_config(*first.train, ConfigExtent::kAll);
  Program second;
  second.parse({"train", "--config", write(config)});
  EXPECT_EQ(second.dataset, first.dataset);
  EXPECT_EQ(second.lr, 0.30000000000000004);
  EXPECT_EQ(second.layers, 7);
  EXPECT_TRUE(second.resume);
  EXPECT_EQ(second.seed, 18446744073709551615U);
  EXPECT_EQ(second.weights, (std::vector<double>{1e-300, 0.1}));
  EXPECT_EQ(effective_config(*second.train, ConfigExtent::kAll), config);
}

}  // namespace
}  // namespace atl
