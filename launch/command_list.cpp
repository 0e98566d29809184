#include "launch/command_list.hpp"

#include <algorithm>

#include "engine/training/metric_names.hpp"
#include "engine/training/option_table.hpp"
#include "launch/config_file.hpp"

namespace atl {

namespace {

// The words of "TEXT:{gcn,sage}", which is all that CLI11 tells of a set of words. Where a word has
// a comma in it, the declaration separates them by blanks.
std::vector<std::string> allowed_words(const std::string& type) {
  const std::size_t begin = type.find('{');
  const std::size_t end = type.find('}', begin);
  if (begin == std::string::npos || end == std::string::npos) return {};
  const std::string words = type.substr(begin + 1, end - begin - 1);
  return CLI::detail::split(words, words.find(' ') == std::string::npos ? ',' : ' ');
}

OptionDescription describe_option(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const bool positional = option.get_lnames().empty();
  return {.name = positional ? option.get_single_name() : option.get_lnames().front(),
          .group = option.get_group(),
          .help = option.get_description(),
          .initial = option.get_default_str(),
          .is_flag = option.get_expected_min() == 0 && !positional,
          .letter = option.get_snames().empty() ? "" : option.get_snames().front(),
          .words = allowed_words(type),
          .required = option.get_required()};
}

ListedCommand describe_command(const CLI::App& command) {
  ListedCommand listed{.name = full_name(command),
                       .does = command.get_description(),
                       .footer = command.get_footer()};
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_positional()) {
      listed.positionals.push_back(describe_option(*option));
    } else if (!option->get_group().empty() && option != command.get_help_ptr()) {
      listed.options.push_back(describe_option(*option));
    }
  }
  const std::vector<std::string> groups = command.get_groups();
  const auto group_of = [&](const OptionDescription& option) {
    return std::ranges::find(groups, option.group) - groups.begin();
  };
  std::ranges::stable_sort(listed.options, {}, group_of);
  return listed;
}

void append_commands(const CLI::App& command, std::vector<ListedCommand>& list) {
  const std::size_t at = list.size();
  list.push_back(describe_command(command));
  for (const CLI::App* nested : command.get_subcommands({})) {
    if (nested->get_group().empty()) continue;
    list[at].nested.push_back(nested->get_name());
    append_commands(*nested, list);
  }
}

Json to_json(const std::vector<OptionDescription>& options) {
  Json list = Json::array();
  for (const OptionDescription& option : options) {
    Json& row = list.emplace_back(Json{{"name", option.name},
                                       {"letter", option.letter},
                                       {"group", option.group},
                                       {"help", option.help},
                                       {"default", option.initial},
                                       {"is_flag", option.is_flag},
                                       {"words", option.words},
                                       {"required", option.required}});
    if (!option.alone.empty()) row["alone"] = option.alone;
  }
  return list;
}

}  // namespace

std::vector<ListedCommand> list_commands(const CLI::App& program) {
  std::vector<ListedCommand> list;
  append_commands(program, list);
  for (const Option<TrainOptions>& row : train_options()) {
    if (row.bare.empty()) continue;
    for (ListedCommand& command : list) {
      const auto found = std::ranges::find(command.options, row.name, &OptionDescription::name);
      if (found != command.options.end()) found->alone = row.bare;
    }
  }
  return list;
}

Json commands_json(const CLI::App& program) {
  Json commands = Json::array();
  for (const ListedCommand& command : list_commands(program)) {
    if (command.name.empty()) continue;
    commands.push_back({{"name", command.name},
                        {"does", command.does},
                        {"arguments", to_json(command.positionals)},
                        {"options", to_json(command.options)},
                        {"nested", command.nested}});
  }
  Json metrics = Json::array();
  for (const auto& [name, lower_is_better] : metric_directions()) {
    metrics.push_back({{"name", name}, {"lower_is_better", lower_is_better}});
  }
  return {{"commands", commands}, {"metrics", metrics}};
}

std::vector<OptionDescription> common_options(const std::vector<ListedCommand>& commands) {
  std::vector<OptionDescription> common;
  for (const OptionDescription& option : commands.back().options) {
    const auto has_it = [&](const ListedCommand& command) {
      const auto same = [&](const OptionDescription& other) {
        return other.name == option.name && other.help == option.help;
      };
      return command.name.empty() || std::ranges::any_of(command.options, same);
    };
    if (std::ranges::all_of(commands, has_it)) common.push_back(option);
  }
  return common;
}

}  // namespace atl
