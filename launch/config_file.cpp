#include "launch/config_file.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <set>
#include <sstream>
#include <vector>

#include "base/config_text.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/suggest.hpp"
#include "engine/comm/transport.hpp"
#include "engine/training/run_folder.hpp"

namespace atl {
namespace {

// "run.toml:3:7", the place of `node` in the file.
std::string place_of(const toml::node& node, const std::string& file) {
  const toml::source_position begin = node.source().begin;
  return fmt::format("{}:{}:{}", file, begin.line, begin.column);
}

std::string place_of(const toml::key& key, const std::string& file) {
  return fmt::format("{}:{}:{}", file, key.source().begin.line, key.source().begin.column);
}

bool is_flag(const CLI::Option& option) { return option.get_expected_min() == 0; }

// The names under which an option may stand in a file: long names, or the name of a positional.
std::vector<std::string> keys_of(const CLI::Option& option) {
  std::vector<std::string> keys = option.get_lnames();
  if (keys.empty() && option.get_positional()) keys.push_back(option.get_single_name());
  return keys;
}

std::vector<CLI::Option*> configurable_options(CLI::App& command) {
  return command.get_options([](CLI::Option* option) { return option->get_configurable(); });
}

std::vector<std::string> valid_keys(CLI::App& command) {
  std::vector<std::string> keys;
  for (const CLI::Option* option : configurable_options(command)) {
    for (std::string& key : keys_of(*option)) keys.push_back(std::move(key));
  }
  return keys;
}

CLI::Option* find_option(CLI::App& command, std::string_view key) {
  for (CLI::Option* option : configurable_options(command)) {
    const std::vector<std::string> keys = keys_of(*option);
    if (std::find(keys.begin(), keys.end(), key) != keys.end()) return option;
  }
  return nullptr;
}

// A scalar as it would be typed on the command line.
std::string to_argument(const toml::node& node, std::string_view key, const std::string& file) {
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* number = node.as_integer()) return std::to_string(number->get());
  if (const auto* number = node.as_floating_point()) return fmt::format("{}", number->get());
  if (const auto* flag = node.as_boolean()) return flag->get() ? "true" : "false";
  std::ostringstream kind;
  kind << node.type();
  fail_option("{}: '{}' is of type {}; use a string, a number, true, false or an array of these",
              place_of(node, file), key, kind.str());
}

std::vector<std::string> to_arguments(const toml::node& node, const CLI::Option& option,
                                      std::string_view key, const std::string& file) {
  const toml::array* array = node.as_array();
  if (array == nullptr) return {to_argument(node, key, file)};
  std::vector<std::string> items;
  for (const toml::node& item : *array) items.push_back(to_argument(item, key, file));
  // Options such as --weights 2,1,1 are one word on the command line.
  if (option.get_items_expected_max() == 1) return {fmt::format("{}", fmt::join(items, ","))};
  return items;
}

void apply(CLI::Option& option, const toml::key& key, const toml::node& node,
           const std::string& file) {
  try {
    if (is_flag(option)) {
      if (!node.is_boolean()) {
        fail_option("{}: '{}' is switched by true or false", place_of(node, file), key.str());
      }
      option.add_result(
          option.get_flag_value(std::string(key.str()), to_argument(node, key.str(), file)));
    } else {
      option.add_result(to_arguments(node, option, key.str(), file));
    }
    option.run_callback();
  } catch (const CLI::ParseError& error) {
    fail_option("{}: {}", place_of(node, file), error.what());
  }
}

[[noreturn]] void fail_unknown(const toml::key& key, CLI::App& command, const std::string& file) {
  const std::vector<std::string> keys = valid_keys(command);
  fail_option("{}: unknown key '{}' for 'atoll {}'{}; use one of {}", place_of(key, file),
              key.str(), full_name(command), did_you_mean(key.str(), keys), fmt::join(keys, ", "));
}

// The options whose values files have said, of `command` and its relatives.
std::set<const CLI::Option*>& said_by_files(const CLI::App& command);

// Checks one key against `command`; sets the option if `use` and the command line left it open.
void read_option(const toml::key& key, const toml::node& node, CLI::App& command, bool use,
                 const std::string& file) {
  CLI::Option* option = find_option(command, key.str());
  if (option == nullptr) fail_unknown(key, command, file);
  if (!use || !option->empty()) return;
  apply(*option, key, node, file);
  said_by_files(command).insert(option);
}

// How ranks are started: a run may go on with others than those that it began with.
constexpr std::array<std::string_view, 2> kStartKeys = {"transport", "ranks"};

bool is_start_key(std::string_view key) { return std::ranges::count(kStartKeys, key) > 0; }

bool is_given(CLI::App& command, std::string_view key) {
  const CLI::Option* option = find_option(command, key);
  return option != nullptr && !option->empty();
}

// Whether this process says by itself how its ranks are started.
bool has_start_of_its_own(CLI::App& command) {
  return launched_by_mpi() ||
         std::ranges::any_of(kStartKeys, [&](auto key) { return is_given(command, key); });
}

bool is_of_run(const std::filesystem::path& file) {
  const std::string name = file.filename().string();
  return (name == kConfigName || name == kResolvedConfigName) &&
         holds_run(std::filesystem::absolute(file).parent_path());
}

// Reads TOML for CLI11. It fills the options itself rather than returning items, because CLI11
// forgets the place of an item.
class ConfigFile : public CLI::Config {
 public:
  explicit ConfigFile(CLI::App& program) : program_(program) {}

  std::set<const CLI::Option*> said;

  std::string to_config(const CLI::App* command, bool defaults, bool /*descriptions*/,
                        std::string /*prefix*/) const override {
    return effective_config(*command, defaults ? ConfigExtent::kAll : ConfigExtent::kGiven);
  }

  // CLI11 has opened the file; it is read by what knows which files to refuse.
  std::vector<CLI::ConfigItem> from_config(std::istream& /*input*/) const override {
    const auto file = program_.get_config_ptr()->as<std::string>();
    CLI::App* selected = selected_command(program_);
    if (selected == nullptr) return {};  // CLI11 reports the missing subcommand
    read(parse_config(read_config_text(file), file), *selected, file);
    return {};
  }

 private:
  void read(const toml::table& root, CLI::App& selected, const std::string& file) const {
    const bool keeps_start = is_of_run(file) && has_start_of_its_own(selected);
    for (const auto& [key, node] : root) {
      if (keeps_start && is_start_key(key.str())) continue;
      CLI::App* section = node.is_table() ? find_command(key.str()) : nullptr;
      if (section != nullptr && section == selected.get_parent()) section = &selected;
      if (section == nullptr) {
        read_option(key, node, selected, true, file);
        continue;
      }
      for (const auto& [inner_key, inner_node] : *node.as_table()) {
        read_option(inner_key, inner_node, *section, section == &selected, file);
      }
    }
  }

  CLI::App* find_command(std::string_view name) const {
    for (CLI::App* command : program_.get_subcommands({})) {
      if (command->get_name() == name) return command;
    }
    return nullptr;
  }

  CLI::App& program_;
};

std::set<const CLI::Option*>& said_by_files(const CLI::App& command) {
  const CLI::App* program = &command;
  while (program->get_parent() != nullptr) program = program->get_parent();
  return dynamic_cast<ConfigFile&>(*program->get_config_formatter()).said;
}

std::string quoted(const std::string& text) {
  std::ostringstream out;
  out << toml::value<std::string>(text);
  return out.str();
}

bool names_a_path(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  return type.ends_with("FILE") || type.ends_with("DIR") || type.ends_with("PATH(existing)");
}

// Numbers stay bare where the option takes a number, in the shortest form that reads back to the
// same value.
std::string to_toml(const std::string& text, const CLI::Option& option) {
  const std::string type = option.get_type_name();
  if (!type.starts_with("INT") && !type.starts_with("UINT") && !type.starts_with("FLOAT")) {
    return quoted(text);
  }
  try {
    const toml::table table = toml::parse("x = " + text);
    if (const auto* number = table.get_as<std::int64_t>("x")) return fmt::format("{}", **number);
    if (const auto* number = table.get_as<double>("x")) return fmt::format("{}", **number);
  } catch (const toml::parse_error&) {  // ".5" is a number on the command line only
  }
  return quoted(text);
}

// The values given, or the default as CLI11 keeps it: one string, "[a,b]" for several values.
std::vector<std::string> effective_values(const CLI::Option& option) {
  if (!option.empty()) return option.results();
  std::string text = option.get_default_str();
  if (text.empty()) return {};
  if (option.get_items_expected_max() > 1 && text.starts_with("[") && text.ends_with("]")) {
    text = text.substr(1, text.size() - 2);
    return text.empty() ? std::vector<std::string>{} : CLI::detail::split(text, ',');
  }
  return {text};
}

}  // namespace

std::string full_name(const CLI::App& command) {
  const CLI::App* parent = command.get_parent();
  if (parent == nullptr) return "";
  const std::string before = full_name(*parent);
  return before.empty() ? command.get_name() : before + ' ' + command.get_name();
}

CLI::App* selected_command(CLI::App& program) {
  CLI::App* selected = nullptr;
  for (CLI::App* level = &program; !level->get_subcommands().empty(); level = selected) {
    selected = level->get_subcommands().front();
  }
  return selected;
}

bool is_said_by_file(const CLI::App& command, const CLI::Option& option) {
  return said_by_files(command).contains(&option);
}

namespace {

void add_config_option(CLI::App& command, CLI::Option* chosen) {
  // CLI11 reads files of the program only; the subcommand's option hands its file on while the
  // command line is still being read.
  command
      .add_option_function<std::string>(
          "--config",
          [chosen](const std::string& file) {
            if (!chosen->empty()) {
              fail_option("--config: given twice, as {} and {}; allowed is one file",
                          chosen->results().front(), file);
            }
            read_config_text(file);  // before CLI11 opens it, which would wait for a pipe
            chosen->add_result(file);
          },
          "Read options from a TOML file; the command line wins")
      ->configurable(false)
      ->trigger_on_parse();
  for (CLI::App* nested : command.get_subcommands({})) add_config_option(*nested, chosen);
}

}  // namespace

void add_config_option(CLI::App& program) {
  CLI::Option* chosen = program.set_config("--config")->group("");
  program.config_formatter(std::make_shared<ConfigFile>(program));
  for (CLI::App* command : program.get_subcommands({})) add_config_option(*command, chosen);
}

std::filesystem::path resumed_run(const CLI::App& command) {
  const CLI::Option* resume = command.get_option_no_throw("--resume");
  const CLI::Option* run_dir = command.get_option_no_throw("--run-dir");
  if (resume == nullptr || resume->empty() || !resume->as<bool>() || run_dir->empty()) return {};
  std::filesystem::path folder = run_dir->as<std::filesystem::path>();
  if (!is_of_run(folder / kConfigName)) return {};
  return folder;
}

void take_options_of_run(CLI::App& command) {
  const std::filesystem::path folder = resumed_run(command);
  if (folder.empty()) return;
  const std::filesystem::path path = folder / kConfigName;
  const std::string file = path.string();
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    if (!command.get_option("--config")->empty()) return;
    const std::filesystem::path whole = path.parent_path() / kResolvedConfigName;
    fail_input("{}: missing, so the options of the run are not known; give them by --config{}",
               file, std::filesystem::exists(whole, ignored) ? " " + whole.string() : " FILE");
  }
  const toml::table root = parse_config(read_config_text(file), file);
  std::set<const CLI::Option*> given;
  for (const CLI::Option* option : command.get_options()) {
    if (!option->empty()) given.insert(option);
  }
  const bool keeps_start = has_start_of_its_own(command);
  bool takes_any = false;
  for (const auto& [key, node] : root) {
    const CLI::Option* option = find_option(command, key.str());
    if (option == nullptr) fail_unknown(key, command, file);
    if (given.contains(option) || (keeps_start && is_start_key(key.str()))) continue;
    // --plan, given anew, fixes what the run was given.
    const auto& excluded = option->get_excludes();
    if (std::ranges::any_of(excluded, [&](auto* other) { return given.contains(other); })) continue;
    read_option(key, node, command, true, file);
    takes_any = true;
  }
  if (takes_any) log::info("options that were not given are those of the run: --config {}", file);
}

std::vector<ConfigValue> read_config_values(const std::filesystem::path& path) {
  const std::string file = path.string();
  const toml::table root = parse_config(read_config_text(path), file);
  std::vector<std::pair<toml::source_position, ConfigValue>> found;
  for (const auto& [key, node] : root) {
    std::string value;
    if (const toml::array* array = node.as_array()) {
      std::vector<std::string> items;
      for (const toml::node& item : *array) items.push_back(to_argument(item, key.str(), file));
      value = fmt::format("{}", fmt::join(items, ","));
    } else {
      value = to_argument(node, key.str(), file);
    }
    found.push_back({key.source().begin, {std::string(key.str()), value}});
  }
  std::ranges::sort(found, {}, [](const auto& entry) { return entry.first.line; });
  std::vector<ConfigValue> values;
  for (auto& [position, value] : found) values.push_back(std::move(value));
  return values;
}

std::vector<EffectiveOption> effective_options(const CLI::App& command) {
  std::vector<EffectiveOption> options;
  for (const CLI::Option* option : command.get_options()) {
    const std::vector<std::string> values = effective_values(*option);
    const std::vector<std::string> keys = keys_of(*option);
    if (values.empty() || keys.empty() || option == command.get_help_ptr()) continue;
    std::vector<std::string> toml;
    std::vector<std::string> words;
    if (is_flag(*option)) {
      toml = words = {fmt::format("{}", option->as<bool>())};
    } else {
      for (const std::string& value : values) {
        const std::string number = to_toml(value, *option);
        words.push_back(number == quoted(value) ? value : number);
        const bool is_path = names_a_path(*option) && !value.empty();
        toml.push_back(is_path
                           ? quoted(std::filesystem::absolute(value).lexically_normal().string())
                           : number);
      }
    }
    const bool is_list = !is_flag(*option) && option->get_items_expected_max() > 1;
    options.push_back({.key = keys.front(),
                       .text = fmt::format("{}", fmt::join(words, ",")),
                       .toml = is_list ? fmt::format("[{}]", fmt::join(toml, ", ")) : toml.front(),
                       .given = !option->empty(),
                       .positional = option->get_positional(),
                       .configurable = option->get_configurable()});
  }
  return options;
}

std::string effective_config(const CLI::App& command, ConfigExtent extent) {
  std::string text = fmt::format("# atoll {} --config THIS_FILE\n", command.get_name());
  for (const EffectiveOption& option : effective_options(command)) {
    const bool wanted = option.given || extent == ConfigExtent::kAll;
    if (option.configurable && wanted) text += fmt::format("{} = {}\n", option.key, option.toml);
  }
  return text;
}

}  // namespace atl
