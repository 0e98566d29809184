// `atoll reference`: docs/reference.md, made from the options themselves.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>

#include "base/text.hpp"
#include "launch/command.hpp"
#include "launch/command_list.hpp"

namespace atl {

namespace {

// As a cell of a table in Markdown.
std::string cell_of(const std::string& text) {
  std::string cell;
  for (const char c : text) {
    if (c == '|') cell += '\\';
    cell += c == '\n' ? ' ' : c;
  }
  return cell;
}

std::string code_of(const std::string& text) {
  return text.empty() ? "" : fmt::format("`{}`", cell_of(text));
}

std::string row_of(const OptionDescription& option, const std::string& dashes) {
  std::string names = option.letter.empty() ? "" : fmt::format("`-{}`, ", option.letter);
  names += fmt::format("`{}{}`", dashes, option.name);
  std::string text = cell_of(option.help);
  const auto says_it = [&](const std::string& word) {
    return option.help.find(word) != std::string::npos;
  };
  if (!std::ranges::all_of(option.words, says_it)) {
    std::vector<std::string> words;
    for (const std::string& word : option.words) words.push_back(code_of(word));
    text += fmt::format("{}{}", text.empty() ? "" : ": ", fmt::join(words, " "));
  }
  const bool has_default = !option.is_flag && option.initial != "[]";
  const std::string initial = has_default ? code_of(option.initial) : "";
  return fmt::format("| {} | {} | {} |\n", names, option.required ? "required" : initial, text);
}

std::string table_of(const std::string& title, const std::vector<OptionDescription>& options,
                     const std::string& dashes = "--") {
  if (options.empty()) return "";
  std::string text = fmt::format("\n| {} | default | |\n|---|---|---|\n", title);
  for (const OptionDescription& option : options) text += row_of(option, dashes);
  return text;
}

// The end of --help, with its examples as a block of code.
std::string footer_of(const std::string& footer) {
  std::string text = "\n";
  bool in_code = false;
  for (const std::string& line : CLI::detail::split(footer, '\n')) {
    const bool code = line.starts_with("  ");
    if (code != in_code) text += '\n';
    in_code = code;
    text += fmt::format("{}{}\n", code ? "  " : "", line);
  }
  return footer.empty() ? "" : text;
}

std::string usage_of(const ListedCommand& command) {
  std::string words = "atoll " + command.name;
  for (const OptionDescription& positional : command.positionals) {
    const std::string& name = positional.name;
    words += positional.required ? " " + name : " [" + name + "]";
  }
  return words + (command.nested.empty() ? " [OPTIONS]" : " COMMAND");
}

using OptionGroups = std::map<std::string, std::vector<OptionDescription>>;

// Options of every group on which all commands that have the group agree, if that is worth a table
// of its own.
OptionGroups shared_options(const std::vector<ListedCommand>& commands) {
  OptionGroups shared;
  std::map<std::string, int> users;
  for (const ListedCommand& command : commands) {
    OptionGroups groups;
    for (const OptionDescription& option : command.options) groups[option.group].push_back(option);
    for (const auto& [group, options] : groups) {
      if (group != "Options" && users[group]++ == 0) shared[group] = options;
      std::erase_if(shared[group], [&options = options](const OptionDescription& option) {
        return std::ranges::count(options, row_of(option, "--"),
                                  [](const auto& other) { return row_of(other, "--"); }) == 0;
      });
    }
  }
  std::erase_if(
      shared, [&](const auto& entry) { return users[entry.first] < 2 || entry.second.size() < 3; });
  return shared;
}

// Its own options group by group, and links to those that it shares with others.
std::string options_of(const ListedCommand& command, const std::vector<OptionDescription>& common,
                       const OptionGroups& shared) {
  const auto holds = [](const std::vector<OptionDescription>& options, const std::string& name) {
    return std::ranges::count(options, name, &OptionDescription::name) > 0;
  };
  std::string text;
  std::vector<std::string> links;
  std::vector<OptionDescription> group;
  const auto end_group = [&] {
    const bool named = !group.empty() && group.front().group != "Options";
    text += table_of(named ? group.front().group : "option", group);
    group.clear();
  };
  for (const OptionDescription& option : command.options) {
    if (holds(common, option.name)) continue;
    const auto found = shared.find(option.group);
    if (found != shared.end() && holds(found->second, option.name)) {
      const std::string link =
          fmt::format("[{}](#{})", option.group, CLI::detail::to_lower(option.group));
      if (std::ranges::count(links, link) == 0) links.push_back(link);
      continue;
    }
    if (!group.empty() && group.front().group != option.group) end_group();
    group.push_back(option);
  }
  end_group();
  if (!links.empty()) text += fmt::format("\nShared options: {}.\n", fmt::join(links, ", "));
  return text;
}

std::string section_of(const ListedCommand& command, const std::string& options) {
  std::string text = fmt::format("\n## atoll {}\n\n{}.\n\n    {}\n", command.name, command.does,
                                 usage_of(command));
  text += table_of("argument", command.positionals, "");
  return text + options + footer_of(command.footer);
}

std::string reference_page(const CLI::App& program) {
  const std::vector<ListedCommand> commands = list_commands(program);
  const std::vector<OptionDescription> common = common_options(commands);
  std::string text =
      "# Commands and options\n\n"
      "<!-- Made by `atoll reference > docs/reference.md`; a test compares. -->\n\n"
      "Every option may also stand in a TOML file given by `--config`, by its name without "
      "dashes.\n"
      "Lengths of time are `45s`, `90m`, `1h30m`, or a number of seconds where the default is "
      "one.\n"
      "Sizes are bytes, or `512MiB`, `8GiB`.\n\n"
      "Every command has:\n";
  text += table_of("option", common);
  const OptionGroups shared = shared_options(commands);
  for (const ListedCommand& command : commands) {
    if (command.name.empty()) continue;
    text += section_of(command, options_of(command, common, shared));
  }
  text += "\n## Options that several commands share\n";
  for (const auto& [group, options] : shared) {
    text += fmt::format("\n### {}\n", group) + table_of("option", options);
  }
  return text;
}

}  // namespace

void add_reference_command(CLI::App& app) {
  const auto as_json = std::make_shared<bool>(false);
  CLI::App* command =
      app.add_subcommand("reference", "Print every command and option as Markdown")->group("");
  command->add_flag("--json", *as_json, "For programs: as JSON (docs/formats.md)");
  command->footer("Example:\n  atoll reference > docs/reference.md");
  command->callback([&app, as_json] {
    print_lines(*as_json ? commands_json(app).dump(2) + '\n' : reference_page(app));
  });
}

}  // namespace atl
