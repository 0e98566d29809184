// Configuration files: every option of every subcommand can stand in a TOML file given by --config,
// and the effective configuration of a run can be written as such a file. CLI11's own reader takes
// files only for the whole program and loses the line of a key.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <string>
#include <vector>

namespace atl {

// Gives every subcommand of `program` the option --config FILE; call after all are declared.
//
// Keys of the file are option names without dashes (positional arguments: their name) and stand at
// the top level or in a table named after the subcommand; tables of other subcommands are checked
// but not used. Values on the command line win over those of the file. Unknown keys and bad values
// throw Error{kOption} naming file, line, column and what is allowed.
//
// A run's own file says how its ranks were started (transport, ranks). That doesn't count where a
// launcher has started this process, or the command line says one of the two.
void add_config_option(CLI::App& program);

// The folder of the run that `command` goes on with by --resume; empty: it begins one of its own.
std::filesystem::path resumed_run(const CLI::App& command);

// With --resume: options that neither the command line nor --config gives become those that the run
// in --run-dir was given. What is wrong with its config.toml is an error as in --config; that there
// is none, unless --config gives a file.
void take_options_of_run(CLI::App& command);

// Whether the value of an option of `command` comes from such a file, not from the command line.
bool is_said_by_file(const CLI::App& command, const CLI::Option& option);

// The subcommand that the command line asks for, the innermost of several ("merge" of "trace
// merge"); null if there is none.
CLI::App* selected_command(CLI::App& program);

// As it is typed after the program's name: "train", "trace merge"; "" for the program.
std::string full_name(const CLI::App& command);

struct ConfigValue {
  std::string key;
  std::string value;  // as it would be typed on the command line
};

// Reads a file of options without tables, such as RUN/config.toml, in its order. Throws
// Error{kOption} naming file, line and column.
std::vector<ConfigValue> read_config_values(const std::filesystem::path& path);

// One option that has a value or a default.
struct EffectiveOption {
  std::string key;     // its name without dashes
  std::string text;    // its value as on a command line; equal for equal numbers
  std::string toml;    // paths absolute
  bool given = false;  // on the command line or in a file, or implied by what is there
  bool positional = false;
  bool configurable = true;  // may stand in a file
};
// The options that `command` runs with, defaults included, without --help.
std::vector<EffectiveOption> effective_options(const CLI::App& command);

enum class ConfigExtent { kGiven, kAll };  // what was given; and all defaults

// The configuration `command` runs with, as TOML that --config reads back to the same values from
// any folder: paths are absolute. Options without value and default are left out.
std::string effective_config(const CLI::App& command, ConfigExtent extent);

}  // namespace atl
