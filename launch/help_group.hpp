// A group of a command's options in --help, named once for all of them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <utility>

namespace atl {

class HelpGroup {
 public:
  // The options are those of `command`, which must outlive this.
  HelpGroup(CLI::App& command, std::string name) : command_(command), name_(std::move(name)) {}

  // `value` and `flag` must live until the command's callback has run.
  template <typename T>
  CLI::Option* add_option(const char* option, T& value, const char* text) const {
    return command_.add_option(option, value, text)->group(name_);
  }
  CLI::Option* add_flag(const char* option, bool& flag, const char* text) const {
    return command_.add_flag(option, flag, text)->group(name_);
  }

 private:
  CLI::App& command_;
  std::string name_;
};

}  // namespace atl
