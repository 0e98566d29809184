// Checks of option values whose messages name the value found and the values allowed.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "base/numbers.hpp"
#include "base/option.hpp"

namespace atl {

// The number that all of `text` spells; false if it spells none.
template <typename T>
bool parse_all(const std::string& text, T& value) {
  const auto number = parse_number<T>(std::string_view(text).substr(text.starts_with("+") ? 1 : 0));
  if (number) value = *number;
  return number.has_value();
}

// A number that `limits` allow. --help shows a range that has two ends.
template <typename T>
CLI::Validator number_within(const Limits<T>& limits) {
  using Numbers = std::numeric_limits<T>;
  const bool closed = limits.least != Numbers::lowest() && limits.most != Numbers::max();
  return CLI::Validator(
      [=](const std::string& text) {
        T value = 0;
        if (parse_all(text, value) && limits.allow(value)) return std::string();
        return "value " + text + "; allowed is " + limits.in_words();
      },
      closed
          ? fmt::format("{} in [{} - {}]", CLI::detail::type_name<T>(), limits.least, limits.most)
          : "");
}

// One of `words`; of one that looks like a slip the message says which was meant. --help shows all.
CLI::Validator one_of(const std::vector<std::string>& words);
CLI::Validator positive_number();      // a finite number above 0
CLI::Validator non_negative_number();  // a finite number of at least 0
CLI::Validator seed_number();          // a whole number from 0 to 2^64 - 1
CLI::Validator duration();             // "45s", "90m", "1h30m"
// A number of seconds, or a duration, which it turns into one: for transform().
CLI::Validator seconds(const Limits<double>& limits);
CLI::Validator epochs_or_duration();  // a whole number, or a duration
CLI::Validator backend_list();        // names of backends separated by commas

}  // namespace atl
