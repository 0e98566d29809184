#include "launch/short_help.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "base/error.hpp"
#include "launch/config_file.hpp"

namespace atl {

namespace {

struct HelpLine {
  const char* option;    // without dashes
  const char* argument;  // what to write behind it
  const char* text;
};
struct HelpSection {
  const char* title;
  std::vector<HelpLine> rows;
};
struct HelpScreen {
  const char* command;
  const char* usage;
  std::vector<HelpSection> sections;
  const char* examples;
};

// Options that most people need, in a line each. Defaults are the options' own.
const std::vector<HelpScreen>& screens() {
  static const std::vector<HelpScreen> kHelpScreens = {
      {.command = "train",
       .usage = "atoll train DATASET [OPTIONS]",
       .sections =
           {{"Model",
             {{"model", "NAME", "gcn, sage, gat, gcnii, ...: see docs/models.md"},
              {"layers", "N", "number of layers"},
              {"hidden", "N", "columns of a hidden layer"},
              {"heads", "N", "gat, gatv2: attention heads"},
              {"norm", "none|layer|batch", "normalisation of hidden layers"},
              {"skip", "none|identity|linear", "what is added to each layer's convolution"},
              {"dropout", "P", "after each hidden layer"},
              {"model-file", "FILE", "a model layer by layer, in TOML"}}},
            {"Training",
             {{"epochs", "N", "passes over the whole graph"},
              {"lr", "RATE", "learning rate of Adam"},
              {"weight-decay", "X", "L2 penalty"},
              {"patience", "N", "stop after so many evaluations without progress; 0: never"},
              {"seed", "N", "of weights and dropout"},
              {"warm-start", "RUN", "start with the model of another run"},
              {"init", "FILE", "start with the weights of another run, or of PyTorch"}}},
            {"Ranks and messages",
             {{"ranks", "N", "ranks as threads of this process; or use mpirun -n N [1]"},
              {"threads", "N", "per rank; 0: an equal share of the cores"},
              {"backend", "NAME", "cpu, cuda, reference or auto"},
              {"dtype", "f32|bf16", "storage of activations and messages"},
              {"bits", "B", "messages of 1 to 32 bits, or adaptive: one for each [exact]"},
              {"memory", "SIZE", "most memory of a rank (8GiB); values are computed again"},
              {"plan", "FILE", "what atoll plan has decided for this machine"}}},
            {"Run",
             {{"run-dir", "DIR", "where everything is kept (runs/DATASET-MODEL-K)"},
              {"resume", "", "go on with the run in --run-dir"},
              {"overwrite", "", "start anew in --run-dir"},
              {"checkpoint-every", "TIME", "a time, or a number of epochs"},
              {"max-time", "TIME", "end after so long (2h), with a checkpoint"},
              {"config", "FILE", "options from a TOML file, such as RUN/config.toml"},
              {"quiet", "", "no progress: results, warnings, errors"},
              {"help-all", "", "every option, also those of the cut, the optimizer and links"}}}},
       .examples = "  atoll train data/arxiv --model sage --norm batch --ranks 2\n"
                   "  mpirun -n 4 atoll train data/arxiv --model gat --heads 4 --bits adaptive\n"
                   "  mpirun -n 4 atoll train --config runs/arxiv-gat-1/config.toml --resume\n"}};
  return kHelpScreens;
}

std::string line_of(const HelpLine& row, const CLI::App& command) {
  const CLI::Option* option = command.get_option_no_throw(std::string("--") + row.option);
  ATOLL_ASSERT(option != nullptr);
  const std::string name = fmt::format("--{} {}", row.option, row.argument);
  const std::string initial = option->get_default_str();
  // A text may say it itself, where the option's own would be read wrongly.
  const bool says_it =
      initial.empty() || *row.argument == '\0' || std::string_view(row.text).ends_with(']');
  return fmt::format("  {:<30} {}{}\n", name, row.text,
                     says_it ? "" : fmt::format(" [{}]", initial));
}

void add_help_all_to(CLI::App& command, bool& all) {
  command
      .add_flag_callback(
          "--help-all",
          [&all] {
            all = true;
            throw CLI::CallForHelp();
          },
          "Print every option and exit")
      ->configurable(false)
      ->trigger_on_parse();
  for (CLI::App* nested : command.get_subcommands({})) add_help_all_to(*nested, all);
}

}  // namespace

void add_help_all(CLI::App& program, bool& all) {
  for (CLI::App* command : program.get_subcommands({})) add_help_all_to(*command, all);
}

std::string short_help(const CLI::App& command) {
  const auto screen = std::ranges::find_if(
      screens(), [&](const HelpScreen& known) { return full_name(command) == known.command; });
  if (screen == screens().end()) return "";
  std::string text = fmt::format("{}\nUsage: {}\n", command.get_description(), screen->usage);
  for (const HelpSection& section : screen->sections) {
    text += fmt::format("\n{}:\n", section.title);
    for (const HelpLine& row : section.rows) text += line_of(row, command);
  }
  return text + "\nExamples:\n" + screen->examples;
}

}  // namespace atl
