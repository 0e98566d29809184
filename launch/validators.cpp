#include "launch/validators.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <sstream>

#include "base/duration.hpp"
#include "kernels/registry.hpp"

namespace atl {

namespace {

// The number that all of `text` spells; false if it spells none.
template <typename T>
bool parse_all(const std::string& text, T& value) {
  const char* begin = text.data() + (text.starts_with("+") ? 1 : 0);
  const auto [end, error] = std::from_chars(begin, text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

CLI::Validator number_check(const std::string& allowed, bool (*accept)(double)) {
  return CLI::Validator(
      [=](const std::string& text) {
        double value = 0;
        if (parse_all(text, value) && std::isfinite(value) && accept(value)) return std::string();
        return "value " + text + "; allowed is a number " + allowed;
      },
      "");
}

}  // namespace

CLI::Validator positive_number() {
  return number_check("above 0", [](double value) { return value > 0; });
}

CLI::Validator non_negative_number() {
  return number_check("of at least 0", [](double value) { return value >= 0; });
}

CLI::Validator share_number() {
  return number_check("from 0 to 1", [](double value) { return value >= 0 && value <= 1; });
}

CLI::Validator seed_number() {
  return CLI::Validator(
      [](const std::string& text) {
        std::uint64_t value = 0;
        if (parse_all(text, value)) return std::string();
        return "value " + text + "; allowed is a whole number from 0 to 18446744073709551615";
      },
      "");
}

CLI::Validator duration() {
  return CLI::Validator(
      [](const std::string& text) {
        if (parse_duration(text)) return std::string();
        return "value " + text + "; allowed are times such as 45s, 90m, 1h30m";
      },
      "");
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

CLI::Validator backend_list() {
  return CLI::Validator(
      [](const std::string& text) {
        std::vector<std::string> names = backend_names();
        names.insert(names.begin(), "auto");
        std::istringstream words(text);
        for (std::string name; std::getline(words, name, ',');) {
          if (std::find(names.begin(), names.end(), name) != names.end()) continue;
          return fmt::format("value {}; allowed are {}, or one of these per rank as in cuda,cpu",
                             text, fmt::join(names, ", "));
        }
        return text.empty() ? std::string("an empty value") : std::string();
      },
      "");
}

}  // namespace atl
