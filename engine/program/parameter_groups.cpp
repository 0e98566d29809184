#include "engine/program/parameter_groups.hpp"

#include <fmt/ranges.h>
#include <fnmatch.h>

#include <cmath>
#include <span>
#include <string_view>

#include "base/error.hpp"
#include "base/numbers.hpp"

namespace atl {

namespace {

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\n");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\n") - first + 1);
}

// The part of `text` before `separator`, which is taken off with it.
std::string_view take_until(std::string_view& text, char separator) {
  const std::size_t at = text.find(separator);
  const std::string_view part = text.substr(0, at);
  text = at == std::string_view::npos ? std::string_view() : text.substr(at + 1);
  return trimmed(part);
}

// Sets what "key=value" says; what is wrong with it.
std::string read_setting(std::string_view setting, ParameterGroup& group) {
  std::string_view value = setting;
  const std::string_view key = take_until(value, '=');
  value = trimmed(value);
  const bool is_rate = key == "lr";
  if (!is_rate && key != "weight-decay") {
    return fmt::format("'{}' in the group '{}'; allowed are lr=NUMBER and weight-decay=NUMBER",
                       setting, group.pattern);
  }
  const auto number = parse_number<double>(value, 0);
  if (!number || (is_rate && *number == 0)) {
    return fmt::format("'{}' in the group '{}'; allowed is a number {}", setting, group.pattern,
                       is_rate ? "above 0" : "of at least 0");
  }
  std::optional<double>& setting_of_group = is_rate ? group.learning_rate : group.weight_decay;
  if (setting_of_group) {
    return fmt::format("'{}' in the group '{}', which has {}={} already; allowed is {} once",
                       setting, group.pattern, key, *setting_of_group, key);
  }
  setting_of_group = *number;
  return "";
}

// Reads the groups as far as they are right; what is wrong.
std::string read_groups(std::string_view text, std::vector<ParameterGroup>& groups) {
  while (!trimmed(text).empty()) {
    std::string_view settings = take_until(text, ';');
    const std::string whole(settings);
    ParameterGroup group{std::string(take_until(settings, ':')), {}, {}};
    if (group.pattern.empty() || trimmed(settings).empty()) {
      return fmt::format("'{}'; a group is PATTERN: lr=NUMBER, weight-decay=NUMBER (one or both)",
                         whole);
    }
    while (!trimmed(settings).empty()) {
      const std::string problem = read_setting(take_until(settings, ','), group);
      if (!problem.empty()) return problem;
    }
    groups.push_back(std::move(group));
  }
  return "";
}

// The first names, and how many there are.
std::string names_of(const std::vector<Parameter>& parameters) {
  constexpr std::size_t kShown = 16;
  std::vector<std::string> names;
  for (const Parameter& parameter : parameters) names.push_back(parameter.name);
  const std::span<const std::string> shown = std::span(names).first(std::min(kShown, names.size()));
  return fmt::format("{}{}", fmt::join(shown, ", "),
                     names.size() > kShown ? fmt::format(", ... ({} in all)", names.size()) : "");
}

}  // namespace

std::string parameter_groups_problem(const std::string& text) {
  std::vector<ParameterGroup> groups;
  return read_groups(text, groups);
}

std::vector<ParameterGroup> parameter_groups(const std::string& text) {
  std::vector<ParameterGroup> groups;
  const std::string problem = read_groups(text, groups);
  if (!problem.empty()) fail_option("--parameter-groups: {}", problem);
  return groups;
}

std::vector<int> groups_of(const std::vector<Parameter>& parameters,
                           const std::vector<ParameterGroup>& groups) {
  std::vector<int> found(parameters.size(), -1);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    bool matches = false;
    bool is_first = false;
    for (std::size_t p = 0; p < parameters.size(); ++p) {
      if (fnmatch(groups[g].pattern.c_str(), parameters[p].name.c_str(), 0) != 0) continue;
      matches = true;
      if (found[p] >= 0) continue;
      found[p] = static_cast<int>(g);
      is_first = true;
    }
    if (is_first) continue;
    if (matches) {
      fail_option("--parameter-groups: all that '{}' names belongs to groups before it",
                  groups[g].pattern);
    }
    fail_option("--parameter-groups: '{}' names no parameter; there are {}", groups[g].pattern,
                names_of(parameters));
  }
  return found;
}

}  // namespace atl
