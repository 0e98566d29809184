// The words of a command line: what they imply, and what is wrong with them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace atl {

// The words of a command line beside the command's own options.
struct Manner {
  bool help_all = false;
  bool quiet = false;
  bool verbose = false;
};

// Adds -q and -v, which every subcommand has, those inside of `command` too. `manner` must live
// until the words are read.
void add_manner(CLI::App& command, Manner& manner);

// Gives flags that stand alone and may also have a word behind them their value: CLI11 would take
// the next word for it, whatever it is. In the order in which they were typed.
void complete_bare_flags(std::vector<std::string>& words);

// Adds options that follow from those given; once the words are read, before the command runs.
// --bits without --exchange means a mode that takes it, each mode has a width of its own unless
// --bits is there, and --resume takes the options of the run.
void complete_options(CLI::App& program);

// CLI11's message, or a better one where an unknown word is the likely cause: a misspelt option is
// otherwise reported as a missing or surplus argument.
std::string describe(const CLI::ParseError& error, const CLI::App& program);

}  // namespace atl
