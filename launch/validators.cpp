#include "launch/validators.hpp"

#include <fmt/ranges.h>

#include <algorithm>

#include "base/duration.hpp"
#include "base/suggest.hpp"
#include "kernels/registry.hpp"

namespace atl {

CLI::Validator one_of(const std::vector<std::string>& words) {
  const std::string all = fmt::format("{{{}}}", fmt::join(words, ","));
  return CLI::Validator(
      [=](const std::string& text) {
        if (std::ranges::find(words, text) != words.end()) return std::string();
        return fmt::format("{} not in {}{}", text, all, did_you_mean(text, words));
      },
      all);
}

CLI::Validator positive_number() {
  return number_within(Limits<double>{.least = 0, .above = true});
}

CLI::Validator non_negative_number() { return number_within(Limits<double>{.least = 0}); }

CLI::Validator seed_number() { return number_within(Limits<std::uint64_t>()); }

CLI::Validator duration() {
  return CLI::Validator(
      [](const std::string& text) {
        if (parse_duration(text)) return std::string();
        return "value " + text + "; allowed are times such as 45s, 90m, 1h30m";
      },
      "");
}

CLI::Validator seconds(const Limits<double>& limits) {
  return CLI::Validator(
      [=](std::string& text) {
        const std::optional<double> time = parse_duration(text);
        double value = time.value_or(0);
        if ((time || parse_all(text, value)) && limits.allow(value)) {
          if (time) text = fmt::format("{}", value);
          return std::string();
        }
        return fmt::format("value {}; allowed are seconds ({}), or a time such as 45s, 10m, 1h30m",
                           text, limits.in_words());
      },
      "TIME");
}

CLI::Validator epochs_or_duration() {
  return CLI::Validator(
      [](const std::string& text) {
        int epochs = 0;
        if ((parse_all(text, epochs) && epochs >= 0) || parse_duration(text)) return std::string();
        return "value " + text +
               "; allowed are a number of epochs, or a time such as 45s, 10m, 1h30m";
      },
      "");
}

CLI::Validator backend_list() { return CLI::Validator(backend_list_problem, ""); }

}  // namespace atl
