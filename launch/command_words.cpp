#include "launch/command_words.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/suggest.hpp"
#include "engine/exchange/halo_exchange.hpp"
#include "engine/training/option_table.hpp"
#include "launch/config_file.hpp"

namespace atl {

namespace {

std::vector<std::string> subcommand_names(const CLI::App& program) {
  std::vector<std::string> names;
  for (const CLI::App* command : program.get_subcommands({})) {
    if (!command->get_group().empty()) names.push_back(command->get_name());  // those for users
  }
  return names;
}

std::vector<std::string> option_names(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
  return names;
}

// Says which words the given flags take that may stand alone: any other word is an argument.
std::string values_of_bare_flags(const CLI::App& command) {
  std::string text;
  for (const Option<TrainOptions>& row : train_options()) {
    const CLI::Option* flag = command.get_option_no_throw("--" + row.name);
    if (row.bare.empty() || flag == nullptr || flag->empty()) continue;
    const auto& allowed = std::get<Option<TrainOptions>::Word>(row.value).words;
    text += fmt::format("; --{} takes one of {}, or stands alone for {}", row.name,
                        fmt::join(allowed, ", "), row.bare);
  }
  return text;
}

}  // namespace

void add_manner(CLI::App& command, Manner& manner) {
  CLI::Option* quiet = command.add_flag("-q,--quiet", manner.quiet,
                                        "Show results, warnings and errors, no progress");
  CLI::Option* verbose =
      command.add_flag("-v,--verbose", manner.verbose, "Show what happens, on every rank");
  quiet->configurable(false)->excludes(verbose);
  verbose->configurable(false);
  for (CLI::App* nested : command.get_subcommands({})) add_manner(*nested, manner);
}

void complete_bare_flags(std::vector<std::string>& words) {
  for (const Option<TrainOptions>& row : train_options()) {
    if (row.bare.empty()) continue;
    const std::string flag = "--" + row.name;
    const auto& allowed = std::get<Option<TrainOptions>::Word>(row.value).words;
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (words[i] != flag) continue;
      const bool alone = i + 1 == words.size() || std::ranges::count(allowed, words[i + 1]) == 0;
      if (alone) words[i] += "=" + row.bare;
    }
  }
}

void complete_options(CLI::App& program) {
  CLI::App* command = selected_command(program);
  if (command == nullptr) return;
  take_options_of_run(*command);
  CLI::Option* bits = command->get_option_no_throw("--bits");
  CLI::Option* exchange = command->get_option_no_throw("--exchange");
  if (bits == nullptr || exchange == nullptr) return;
  if (!exchange->empty() && bits->empty()) {
    const ExchangeMode* mode = find_exchange_mode(exchange->results().back());
    if (mode == nullptr || !mode->takes_bits()) return;
    bits->add_result(mode->usual_bits);
    bits->run_callback();
  }
  if (bits->empty() || !exchange->empty()) return;
  exchange->add_result(kModeOfBits);
  exchange->run_callback();
}

std::string describe(const CLI::ParseError& error, const CLI::App& program) {
  const CLI::App* selected = selected_command(const_cast<CLI::App&>(program));
  const CLI::App& command = selected == nullptr ? program : *selected;
  for (const std::string& word : command.remaining()) {
    if (word == "--") break;  // behind it stands what is no option
    if (word.starts_with("-")) {
      const std::string option = word.substr(0, word.find('='));
      return fmt::format("unknown option '{}'{}", option,
                         did_you_mean(option, option_names(command)));
    }
    const std::vector<std::string> names = subcommand_names(command);
    if (!names.empty()) {
      return fmt::format("unknown subcommand '{}'{}; use one of {}", word,
                         did_you_mean(word, names), fmt::join(names, ", "));
    }
    return fmt::format("unexpected argument '{}'{}", word, values_of_bare_flags(command));
  }
  return error.what();
}

}  // namespace atl
