// The commands of the program and their options as plain data: what the reference, shell completion
// and the Python package read.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "base/json.hpp"

namespace atl {

// One option of a command.
struct OptionDescription {
  std::string name;  // without dashes
  std::string group;
  std::string help;
  std::string initial;  // its default, as on a command line; "": none
  bool is_flag = false;
  std::string letter = "";              // without dash; "": none
  std::vector<std::string> words = {};  // the only values, if not empty
  bool required = false;
  std::string alone = {};  // its value where no word follows it; "": one must follow
};

// One command, without those nested in it.
struct ListedCommand {
  std::string name;    // as it is typed after the program's name: "train", "trace merge"
  std::string does;    // one line
  std::string footer;  // what --help says at its end, examples among it
  std::vector<OptionDescription> positionals = {};
  std::vector<OptionDescription> options = {};  // in the order of their groups, without --help
  std::vector<std::string> nested = {};         // last words of the commands inside of it
};

// All commands of `program`, which is the first and has no name, each before those nested in it.
// Hidden ones are left out.
std::vector<ListedCommand> list_commands(const CLI::App& program);

// The part that other programs read (docs/formats.md#commands-and-options), with the metrics of
// results.
Json commands_json(const CLI::App& program);

// The options that every command has; each but the program itself has more.
std::vector<OptionDescription> common_options(const std::vector<ListedCommand>& commands);

}  // namespace atl
