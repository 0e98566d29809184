// Flags from tables of options (base/option.hpp). What a flag may be in a configuration file, its
// value in RUN/config.toml and its line in --help follow from it.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "base/option.hpp"
#include "launch/validators.hpp"

namespace atl {

// Declares the flag of one row. `config` must live until the command's callback has run; its value
// at the time of the call is the default.
template <typename Config>
CLI::Option* add_option_flag(CLI::App& command, const Option<Config>& option, Config& config) {
  using Row = Option<Config>;
  const std::string flag = "--" + option.name;
  CLI::Option* declared = std::visit(
      [&]<typename V>(const V& value) -> CLI::Option* {
        if constexpr (std::is_same_v<V, typename Row::Word>) {
          return command
              .add_option_function<std::string>(
                  flag,
                  [&config, value](const std::string& word) {
                    const auto found = std::find(value.words.begin(), value.words.end(), word);
                    value.edit(config, static_cast<std::size_t>(found - value.words.begin()));
                  },
                  option.help)
              ->default_str(value.words.at(value.read(config)))
              ->check(one_of(value.words));
        } else if constexpr (std::is_same_v<V, typename Row::Switch>) {
          return command
              .add_option_function<std::string>(
                  flag,
                  [&config, value](const std::string& word) {
                    value.place.edit(config) = word == "on";
                  },
                  option.help)
              ->default_str(value.place.read(config) ? "on" : "off")
              ->check(one_of({"on", "off"}));
        } else if constexpr (std::is_same_v<V, typename Row::Written>) {
          return command
              .add_option_function<std::string>(
                  flag, [&config, value](const std::string& text) { value.edit(config, text); },
                  option.help)
              ->default_str(value.read(config));
        } else if constexpr (std::is_same_v<V, typename Row::Document>) {
          return command
              .add_option_function<std::string>(
                  flag,
                  [&config, value](const std::string& path) {
                    value.place.edit(config) = value.read(path);
                  },
                  option.help)
              ->check(CLI::ExistingFile);
        } else if constexpr (std::is_same_v<V, typename Row::File>) {
          return command.add_option(flag, value.place.edit(config), option.help)
              ->check(CLI::ExistingFile);
        } else if constexpr (std::is_same_v<V, typename Row::Text>) {
          CLI::Option* text = command.add_option(flag, value.place.edit(config), option.help);
          if (!value.words.empty()) text->check(one_of(value.words));
          if (value.problem) text->check(CLI::Validator(value.problem, ""));
          return text;
        } else {
          return command.add_option(flag, value.place.edit(config), option.help)
              ->check(number_within(value.limits));
        }
      },
      option.value);
  return declared->group(option.group);
}

}  // namespace atl
