#include "launch/jobs/job_list.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/config_text.hpp"
#include "base/duration.hpp"
#include "base/error.hpp"
#include "base/numbers.hpp"
#include "base/shell_words.hpp"
#include "base/suggest.hpp"

namespace atl {

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kMostJobs = 100000;
constexpr int kMostRanks = 1000000;
constexpr double kLeastPriority = 1e-6, kMostPriority = 1e6;
constexpr std::size_t kLongestName = 100;  // names of folders may have 255 bytes

const std::vector<std::string> kListKeys = {"group", "options", "modes", "seeds"};
const std::vector<std::string> kGroupKeys = {
    "name",     "dataset", "launcher",      "options",     "modes",      "seeds",
    "per-seed", "arrival", "arrival-every", "least-ranks", "most-ranks", "priority"};
// Options that the list itself sets for each job.
const std::vector<std::string> kReservedOptions = {"config",  "dataset", "overwrite", "resume",
                                                   "run-dir", "seed",    "take-over"};

Json read_document(const fs::path& path) {
  const std::string text = read_config_text(path);
  if (path.extension() == ".json") return parse_json(text, path.string());
  return config_json(text, path.string());
}

bool is_name(std::string_view text) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  return !text.empty() && text.size() <= kLongestName && plain(text.front()) &&
         std::ranges::all_of(text, [&](char c) {
           return plain(c) || std::string_view(" ._+-").find(c) != std::string_view::npos;
         });
}

bool is_option_name(std::string_view text) {
  const auto letter = [](char c) { return c >= 'a' && c <= 'z'; };
  return !text.empty() && letter(text.front()) && std::ranges::all_of(text, [&](char c) {
    return letter(c) || (c >= '0' && c <= '9') || c == '-';
  });
}

bool is_reserved(const std::string& option) {
  return std::ranges::count(kReservedOptions, option) > 0;
}

const Json& require_table(const Json& value, const std::string& place) {
  if (!value.is_object()) fail_option("{}: found {}; a table is expected", place, shown(value));
  return value;
}

void require_keys(const Json& table, const std::vector<std::string>& known,
                  const std::string& place) {
  for (const auto& [key, value] : require_table(table, place).items()) {
    if (std::ranges::count(known, key) > 0) continue;
    fail_option("{}: unknown key '{}'{}; known are {}", place, key, did_you_mean(key, known),
                fmt::join(known, ", "));
  }
}

// By option: text, number, true for a flag, or false for one that is taken back.
using Settings = std::map<std::string, Json>;

Settings read_settings(const Json& table, const std::string& place) {
  Settings settings;
  for (const auto& [option, value] : require_table(table, place).items()) {
    if (!is_option_name(option)) {
      fail_option(
          "{}: option '{}': must be the name of an option of atoll train, without its dashes",
          place, option);
    }
    if (is_reserved(option)) {
      fail_option("{}: option '{}': is set by the list itself", place, option);
    }
    if (!value.is_boolean() && !value.is_number() && !value.is_string()) {
      fail_option("{}: option '{}': found {}; it must be a number, a text, true or false", place,
                  option, shown(value));
    }
    settings[option] = value;
  }
  return settings;
}

void overwrite(Settings& settings, const Settings& changes) {
  for (const auto& [option, value] : changes) settings[option] = value;
}

std::map<std::string, std::optional<std::string>> options_of(const Settings& settings) {
  std::map<std::string, std::optional<std::string>> options;
  for (const auto& [option, value] : settings) {
    if (value == false) continue;
    if (value == true) {
      options[option] = std::nullopt;
    } else {
      options[option] = value.is_string() ? value.get<std::string>() : value.dump();
    }
  }
  return options;
}

constexpr const char* kSeedsAllowed =
    "allowed are numbers and ranges such as \"1-100\", \"1,3,7-9\" or [1, 2], of seeds from 0 to "
    "9223372036854775807";

std::string_view trimmed(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

std::optional<std::int64_t> seed_of(std::string_view text) {
  return parse_number<std::int64_t>(trimmed(text), 0);
}

// Adds the seeds of "3" or "1-100".
void add_seeds(std::string_view item, const std::string& place, std::vector<std::int64_t>& seeds) {
  const std::size_t dash = std::min(item.find('-'), item.size());
  const auto first = seed_of(item.substr(0, dash));
  const auto last = dash == item.size() ? first : seed_of(item.substr(dash + 1));
  if (!first || !last) fail_option("{}: found '{}'; {}", place, item, kSeedsAllowed);
  if (*first > *last) {
    fail_option("{}: the range '{}' is empty; {}", place, trimmed(item), kSeedsAllowed);
  }
  if (*last - *first >= kMostJobs - static_cast<std::int64_t>(seeds.size())) {
    fail_option("{}: '{}' makes more than {} seeds, the most that are allowed", place,
                trimmed(item), kMostJobs);
  }
  for (std::int64_t seed = *first; seed < *last; ++seed) seeds.push_back(seed);
  seeds.push_back(*last);  // which may be the greatest that there is
}

std::vector<std::int64_t> read_seeds(const Json& value, const std::string& place) {
  std::vector<std::int64_t> seeds;
  for (const Json& item : value.is_array() ? value : Json::array({value})) {
    if (!item.is_string() && !item.is_number_integer()) {
      fail_option("{}: found {}; {}", place, shown(item), kSeedsAllowed);
    }
    const std::string text = item.is_string() ? item.get<std::string>() : item.dump();
    for (const std::string& piece : between_commas(text)) add_seeds(piece, place, seeds);
  }
  std::set<std::int64_t> known;
  for (const std::int64_t seed : seeds) {
    if (!known.insert(seed).second) fail_option("{}: {} stands there twice", place, seed);
  }
  if (seeds.empty()) fail_option("{}: there is none; {}", place, kSeedsAllowed);
  return seeds;
}

// In file order.
using Modes = std::vector<std::pair<std::string, Settings>>;

Modes read_modes(const Json& table, const std::string& place) {
  Modes modes;
  for (const auto& [name, options] : require_table(table, place + ": modes").items()) {
    if (!is_name(name)) {
      fail_option(
          "{}: modes: the name '{}' must consist of up to {} letters, digits, spaces and "
          "._+-",
          place, name, kLongestName);
    }
    modes.emplace_back(name, read_settings(options, fmt::format("{}: mode '{}'", place, name)));
  }
  if (modes.empty()) fail_option("{}: modes: there is none", place);
  return modes;
}

// The option that takes the number of the seed as well, or "".
std::string read_per_seed(const Json& group, const std::string& place) {
  if (!group.contains("per-seed")) return "";
  const Json& value = group["per-seed"];
  const std::string option = value.is_string() ? value.get<std::string>() : "";
  if (!is_option_name(option) || is_reserved(option)) {
    fail_option(
        "{}: per-seed: found {}; the name of an option that the list does not set itself is "
        "expected, such as \"split-index\"",
        place, shown(value));
  }
  return option;
}

// Throws if an option takes the number of the seed, but also a value that is said: one of the two
// would be ignored.
void require_own_option(const std::string& per_seed, const Settings& common, const Modes& modes,
                        const std::string& place) {
  const auto require_not_in = [&](const Settings& settings, const std::string& where) {
    const auto found = settings.find(per_seed);
    if (found == settings.end()) return;
    fail_option(
        "{}: per-seed: found \"{}\", which {} too, to {}; allowed is an option that neither a "
        "mode, "
        "the group nor [options] sets",
        place, per_seed, where, shown(found->second));
  };
  for (const auto& [mode, settings] : modes) {
    require_not_in(settings, fmt::format("mode '{}' sets", mode));
  }
  require_not_in(common, "the options of the group or of all groups set");
}

std::vector<std::string> read_launcher(const Json& group, const std::string& place) {
  if (!group.contains("launcher")) return {};
  const Json& value = group["launcher"];
  const auto words = value.is_string() ? shell_words(value.get<std::string>()) : std::nullopt;
  if (!words) {
    fail_option(
        "{}: launcher: found {}; a text such as \"mpirun -n 2\" is expected, with every quote "
        "closed",
        place, shown(value));
  }
  return *words;
}

// A number of seconds or a duration; 0 where there is none.
double read_seconds(const Json& group, const char* key, const std::string& place) {
  if (!group.contains(key)) return 0;
  const Json& value = group[key];
  std::optional<double> seconds;
  if (value.is_number()) seconds = value.get<double>();
  if (value.is_string()) seconds = parse_duration(value.get<std::string>());
  if (!seconds || !(*seconds >= 0 && *seconds <= kMostListSeconds)) {
    fail_option(
        "{}: {}: found {}; allowed are seconds, such as 30, and durations, such as \"1h30m\", "
        "up to {} s",
        place, key, shown(value), kMostListSeconds);
  }
  return *seconds;
}

std::optional<int> read_ranks(const Json& group, const char* key, int least,
                              const std::string& place) {
  if (!group.contains(key)) return std::nullopt;
  const Json& value = group[key];
  if (!value.is_number_integer() || !integers_fit<int>(value) || value.get<int>() < least ||
      value.get<int>() > kMostRanks) {
    fail_option("{}: {}: found {}; allowed is a whole number from {} to {}", place, key,
                shown(value), least, kMostRanks);
  }
  return value.get<int>();
}

JobNeeds read_needs(const Json& group, const std::string& place) {
  JobNeeds needs;
  needs.arrival_s = read_seconds(group, "arrival", place);
  needs.least_ranks = read_ranks(group, "least-ranks", 1, place).value_or(1);
  needs.most_ranks = read_ranks(group, "most-ranks", needs.least_ranks, place);
  if (!group.contains("priority")) return needs;
  const Json& value = group["priority"];
  const double found = value.is_number() ? value.get<double>() : 0;
  if (!(found >= kLeastPriority && found <= kMostPriority)) {
    fail_option("{}: priority: found {}; allowed is a number from {} to {}", place, shown(value),
                kLeastPriority, kMostPriority);
  }
  needs.priority = found;
  return needs;
}

// The value of a group, or else that at the top of the file.
const Json& own_or_common(const Json& group, const Json& list, const char* key,
                          const std::string& place) {
  if (group.contains(key)) return group[key];
  if (!list.contains(key)) {
    fail_option("{}: {} are missing, in the group and at the top of the file", place, key);
  }
  return list[key];
}

std::string read_text_of(const Json& group, const char* key, const std::string& place,
                         const std::string& expected, bool (*allowed)(std::string_view)) {
  const Json value = group.contains(key) ? group[key] : Json();
  if (!value.is_string() || !allowed(value.get_ref<const std::string&>())) {
    fail_option("{}: {}: found {}; {} is expected", place, key,
                value.is_null() ? "nothing" : shown(value), expected);
  }
  return value.get<std::string>();
}

// The group's jobs: seeds outside, modes inside, so that an unfinished list has the same seeds of
// every mode.
void add_group(const Json& group, const Json& list, const std::string& path,
               const std::string& place, std::vector<ListedJob>& jobs) {
  require_keys(group, kGroupKeys, place);
  ListedJob job;
  job.group = read_text_of(
      group, "name", place,
      fmt::format("a text of up to {} letters, digits, spaces and ._+-", kLongestName), is_name);
  const std::string named = fmt::format("{}: group '{}'", path, job.group);
  job.dataset = read_text_of(group, "dataset", named, "the path of a dataset folder",
                             [](std::string_view text) { return !text.empty(); });
  job.launcher = read_launcher(group, named);
  job.needs = read_needs(group, named);
  const double every_s = read_seconds(group, "arrival-every", named);
  Settings common;
  if (list.contains("options")) common = read_settings(list["options"], path + ": options");
  if (group.contains("options")) overwrite(common, read_settings(group["options"], named));
  const Modes modes = read_modes(own_or_common(group, list, "modes", named), named);
  const auto seeds = read_seeds(own_or_common(group, list, "seeds", named), named + ": seeds");
  const std::string per_seed = read_per_seed(group, named);
  require_own_option(per_seed, common, modes, named);
  if (jobs.size() + seeds.size() * modes.size() > kMostJobs) {
    fail_option("{}: with it the list has more than {} jobs, the most that are allowed", named,
                kMostJobs);
  }
  for (const std::int64_t seed : seeds) {
    for (const auto& [mode, changes] : modes) {
      Settings settings = common;
      overwrite(settings, changes);
      if (!per_seed.empty()) settings[per_seed] = std::to_string(seed);
      job.seed = seed;
      job.mode = mode;
      job.options = options_of(settings);
      jobs.push_back(job);
      job.needs.arrival_s += every_s;
    }
    if (job.needs.arrival_s > kMostListSeconds) {
      fail_option("{}: arrival-every: with {} its last jobs arrive after more than {} s", named,
                  shown(group["arrival-every"]), kMostListSeconds);
    }
  }
}

void require_own_folders(const std::vector<ListedJob>& jobs, const std::string& path) {
  std::map<fs::path, const ListedJob*> known;
  for (const ListedJob& job : jobs) {
    const auto [place, is_new] = known.emplace(job.folder(""), &job);
    if (is_new) continue;
    fail_option("{}: '{}' and '{}' would share the folder {}; use other names", path,
                place->second->title(), job.title(), place->first.string());
  }
}

void keep_groups(std::span<const std::string> only, const std::string& path,
                 std::vector<ListedJob>& jobs) {
  std::vector<std::string> names;
  for (const ListedJob& job : jobs) {
    if (std::ranges::count(names, job.group) == 0) names.push_back(job.group);
  }
  for (const std::string& name : only) {
    if (std::ranges::count(names, name) > 0) continue;
    fail_option("--group {}: is not in {}{}; its groups are {}", name, path,
                did_you_mean(name, names), fmt::join(names, ", "));
  }
  if (only.empty()) return;
  std::erase_if(jobs,
                [&](const ListedJob& job) { return std::ranges::count(only, job.group) == 0; });
}

std::string as_path(std::string name) {
  std::ranges::replace(name, ' ', '-');
  return name;
}

}  // namespace

std::string ListedJob::title() const { return fmt::format("{}, {}, seed {}", group, mode, seed); }

fs::path ListedJob::folder(const fs::path& out) const {
  return out / as_path(group) / as_path(mode) / fmt::format("seed-{}", seed);
}

Json ListedJob::identity() const {
  Json given = Json::object();
  for (const auto& [option, text] : options) given[option] = text ? Json(*text) : Json(true);
  return {{"launcher", launcher}, {"dataset", dataset}, {"options", given}, {"seed", seed}};
}

std::vector<std::string> ListedJob::command_words(const std::string& program) const {
  std::vector<std::string> words = launcher;
  words.push_back(program);
  const std::vector<std::string> train = train_words();
  words.insert(words.end(), train.begin(), train.end());
  return words;
}

std::vector<std::string> ListedJob::train_words() const {
  std::vector<std::string> words{"train", dataset};
  for (const auto& [option, text] : options) {
    words.push_back("--" + option);
    if (text) words.push_back(*text);
  }
  words.insert(words.end(), {"--seed", std::to_string(seed)});
  return words;
}

std::vector<ListedJob> read_job_list(const fs::path& path,
                                     std::span<const std::string> only_groups) {
  const std::string file = path.string();
  const Json list = read_document(path);
  require_keys(list, kListKeys, file);
  const Json groups = list.contains("group") ? list["group"] : Json();
  if (!groups.is_array() || groups.empty()) {
    fail_option("{}: group: found {}; at least one [[group]] is expected", file,
                groups.is_null() ? "nothing" : shown(groups));
  }
  std::vector<ListedJob> jobs;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    add_group(groups[i], list, file, fmt::format("{}: group {}", file, i + 1), jobs);
  }
  require_own_folders(jobs, file);
  keep_groups(only_groups, file, jobs);
  return jobs;
}

}  // namespace atl
