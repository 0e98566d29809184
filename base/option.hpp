// Options of a plain struct as a table: a row says what an option is called, what it does, where
// its value lies and what it may be. Flags, files and records of runs are made from the rows, and
// no other place has to remember an option. Fingerprints have their fields in the order of the
// rows.
#pragma once

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "base/json.hpp"

// For rows of a table: the member of a struct where an option's value lies.
#define ATOLL_FIELD(member) \
  [](auto& config) -> auto& { return config.member; }

namespace atl {

// For rows of a table: the base of that type, where a struct has the option's value from there.
template <typename Base>
struct InBase {
  Base& operator()(Base& config) const { return config; }
  const Base& operator()(const Base& config) const { return config; }
};

// The numbers that are allowed: `least` to `most`, or above `least`.
template <typename T>
struct Limits {
  T least = std::numeric_limits<T>::lowest();
  T most = std::numeric_limits<T>::max();
  bool above = false;

  bool allow(T value) const {
    if constexpr (std::is_floating_point_v<T>) {
      if (!std::isfinite(value)) return false;
    }
    return (above ? value > least : value >= least) && value <= most;
  }
  // As errors name it: "a whole number from 1 to 200", "a number above 0".
  std::string in_words() const {
    const char* kind = std::is_integral_v<T> ? "a whole number" : "a number";
    if (above) return fmt::format("{} above {}", kind, least);
    const bool open = std::is_floating_point_v<T> && most == std::numeric_limits<T>::max();
    return open ? fmt::format("{} of at least {}", kind, least)
                : fmt::format("{} from {} to {}", kind, least, most);
  }
};

// The role of an option in a plan.json (docs/placement.md).
enum class PlanRole {
  kNone,
  kMadeFor,   // it was made for this value and is refused with another
  kFixes,     // it says the value, so the option can't be given beside it
  kExcludes,  // it is for runs without the option
};

template <typename Config>
struct Option {
  template <typename T>
  struct Place {
    std::function<T&(Config&)> edit;
    std::function<const T&(const Config&)> read;
  };
  template <typename T>
  struct Number {
    Place<T> place;
    Limits<T> limits;
  };
  struct Switch {  // on or off; a boolean in records
    Place<bool> place;
  };
  struct Word {  // one of some words, each for a value
    std::vector<std::string> words;
    std::function<std::size_t(const Config&)> read;  // which
    std::function<void(Config&, std::size_t)> edit;
  };
  struct Text {
    Place<std::string> place;
    std::function<std::string(const std::string&)> problem;  // empty: none; no function: none ever
    std::vector<std::string> words;                          // those allowed; none: all
  };
  struct Written {  // a value of a type of its own, as text
    std::function<std::string(const Config&)> read;
    std::function<void(Config&, const std::string&)> edit;  // throws for what is no value
  };
  struct File {  // that is there
    Place<std::filesystem::path> place;
  };
  struct Document {  // a file that is there: what it says, as records hold it
    Place<std::string> place;
    std::function<std::string(const std::filesystem::path&)> read;  // throws if it says nonsense
  };
  using Value = std::variant<Number<int>, Number<std::int64_t>, Number<std::uint64_t>,
                             Number<double>, Switch, Word, Text, Written, File, Document>;

  std::string name;        // on the command line without dashes, in files, in records
  std::string group = {};  // heading in --help
  std::string help = {};
  Value value;
  // Whether records of what a run computes hold it, with these options; no function: never. An
  // option that comes later is recorded only where it differs from its default, so that records of
  // runs from before it stay as they are.
  std::function<bool(const Config&)> recorded = nullptr;
  PlanRole plan = PlanRole::kNone;
  // Its value where a command line has the flag alone; empty: it is never alone.
  std::string bare = {};

  // Makers of `value`. `field`: see ATOLL_FIELD.
  template <typename Field>
  static auto number(Field field, auto least, auto most) {
    using T = std::remove_cvref_t<decltype(field(std::declval<Config&>()))>;
    return Number<T>{{field, field}, {static_cast<T>(least), static_cast<T>(most)}};
  }
  template <typename Field>
  static auto at_least(Field field, auto least) {
    using T = std::remove_cvref_t<decltype(field(std::declval<Config&>()))>;
    return Number<T>{{field, field}, {.least = static_cast<T>(least)}};
  }
  template <typename Field>
  static auto above(Field field, double least) {
    return Number<double>{{field, field}, {.least = least, .above = true}};
  }
  template <typename Field>
  static Value on_or_off(Field field) {
    return Switch{{field, field}};
  }
  template <typename Field>
  static Value text(Field field, std::function<std::string(const std::string&)> problem = nullptr) {
    return Text{{field, field}, std::move(problem), {}};
  }
  template <typename Field>
  static Value text_of(Field field, std::vector<std::string> words) {
    return Text{{field, field}, nullptr, std::move(words)};
  }
  // A type whose values to_string() writes. `parse`: the reverse, throws for other texts.
  template <typename Field, typename T>
  static Value written(Field field, T (*parse)(const std::string&)) {
    return Written{[=](const Config& config) { return to_string(field(config)); },
                   [=](Config& config, const std::string& text) { field(config) = parse(text); }};
  }
  template <typename Field>
  static Value file(Field field) {
    return File{{field, field}};
  }
  template <typename Field>
  static Value document(Field field,
                        std::function<std::string(const std::filesystem::path&)> read) {
    return Document{{field, field}, std::move(read)};
  }
  template <typename T, typename Field>
  static Value word(Field field, std::vector<std::pair<std::string, T>> named) {
    std::vector<std::string> words;
    std::vector<T> values;
    for (const auto& [word, value] : named) {
      words.push_back(word);
      values.push_back(value);
    }
    return Word{words,
                [=](const Config& config) {
                  return static_cast<std::size_t>(
                      std::find(values.begin(), values.end(), field(config)) - values.begin());
                },
                [=](Config& config, std::size_t which) { field(config) = values.at(which); }};
  }
  // A value of an enumeration, named by to_string().
  template <typename Field, typename T>
  static Value name_of(Field field, std::initializer_list<T> values) {
    std::vector<std::pair<std::string, T>> named;
    for (const T value : values) named.emplace_back(to_string(value), value);
    return word<T>(field, std::move(named));
  }

  // The same option of a struct that holds a Config as `member` (see ATOLL_FIELD).
  template <typename Outer, typename Member>
  Option<Outer> inside(Member member) const;
};

template <typename Config>
template <typename Outer, typename Member>
Option<Outer> Option<Config>::inside(Member member) const {
  using Result = Option<Outer>;
  const auto place = [member]<typename T>(const Place<T>& own) {
    return typename Result::template Place<T>{
        [=](Outer& outer) -> T& { return own.edit(member(outer)); },
        [=](const Outer& outer) -> const T& { return own.read(member(outer)); }};
  };
  const auto lift = [&]<typename V>(const V& own) -> typename Result::Value {
    if constexpr (std::is_same_v<V, Word>) {
      return typename Result::Word{
          own.words, [=](const Outer& outer) { return own.read(member(outer)); },
          [=](Outer& outer, std::size_t which) { own.edit(member(outer), which); }};
    } else if constexpr (std::is_same_v<V, Switch>) {
      return typename Result::Switch{place(own.place)};
    } else if constexpr (std::is_same_v<V, Text>) {
      return typename Result::Text{place(own.place), own.problem, own.words};
    } else if constexpr (std::is_same_v<V, Written>) {
      return typename Result::Written{
          [=](const Outer& outer) { return own.read(member(outer)); },
          [=](Outer& outer, const std::string& text) { own.edit(member(outer), text); }};
    } else if constexpr (std::is_same_v<V, File>) {
      return typename Result::File{place(own.place)};
    } else if constexpr (std::is_same_v<V, Document>) {
      return typename Result::Document{place(own.place), own.read};
    } else {
      using T = decltype(own.limits.least);
      return typename Result::template Number<T>{place(own.place), own.limits};
    }
  };
  Result result{name, group, help, std::visit(lift, value), nullptr, plan, bare};
  if (recorded) {
    result.recorded = [recorded = recorded, member](const Outer& outer) {
      return recorded(member(outer));
    };
  }
  return result;
}

// For Option::recorded.
inline constexpr auto kAlwaysRecorded = [](const auto& /*config*/) { return true; };

template <typename Config>
using OptionTable = std::vector<Option<Config>>;

// The row of that name, which must be there.
template <typename Config>
const Option<Config>& option_named(const OptionTable<Config>& table, std::string_view name) {
  const auto found =
      std::find_if(table.begin(), table.end(), [&](const auto& row) { return row.name == name; });
  ATOLL_ASSERT(found != table.end(), "no option {}", name);
  return *found;
}

// The value of an option as records hold it.
template <typename Config>
Json option_json(const Option<Config>& option, const Config& config) {
  using Row = Option<Config>;
  return std::visit(
      [&]<typename V>(const V& value) -> Json {
        if constexpr (std::is_same_v<V, typename Row::Word>) {
          return value.words.at(value.read(config));
        } else if constexpr (std::is_same_v<V, typename Row::Written>) {
          return value.read(config);
        } else if constexpr (std::is_same_v<V, typename Row::File>) {
          return value.place.read(config).string();
        } else {
          return value.place.read(config);
        }
      },
      option.value);
}

// The same options, recorded where they are not what they are by default: what a row that came
// later is given, so that records from before it stay as they are.
template <typename Config>
Option<Config> recorded_if_set(Option<Config> option) {
  option.recorded = [option](const Config& config) {
    return option_json(option, config) != option_json(option, Config());
  };
  return option;
}

// Sets an option from json[field]. Throws Error{kInput} naming `place`, the field, the value found
// and those allowed.
template <typename Config>
void read_option_json(const Option<Config>& option, const Json& json, const char* field,
                      const std::filesystem::path& place, Config& config) {
  using Row = Option<Config>;
  const auto which = [&](const std::vector<std::string>& words, const std::string& text) {
    const auto found = std::find(words.begin(), words.end(), text);
    if (found == words.end()) {
      fail_input("{}: field '{}' is '{}'; allowed are {}", place.string(), field, text,
                 fmt::join(words, ", "));
    }
    return static_cast<std::size_t>(found - words.begin());
  };
  std::visit(
      [&]<typename V>(const V& value) {
        if constexpr (std::is_same_v<V, typename Row::Word>) {
          value.edit(config, which(value.words, json_field<std::string>(json, field, place)));
        } else if constexpr (std::is_same_v<V, typename Row::Written>) {
          const auto text = json_field<std::string>(json, field, place);
          try {
            value.edit(config, text);
          } catch (const Error& error) {
            fail_input("{}: field '{}' is '{}'; {}", place.string(), field, text, error.what());
          }
        } else if constexpr (std::is_same_v<V, typename Row::Switch>) {
          value.place.edit(config) = json_field<bool>(json, field, place);
        } else if constexpr (std::is_same_v<V, typename Row::File> ||
                             std::is_same_v<V, typename Row::Document>) {
          value.place.edit(config) = json_field<std::string>(json, field, place);
        } else if constexpr (std::is_same_v<V, typename Row::Text>) {
          auto text = json_field<std::string>(json, field, place);
          if (!value.words.empty()) which(value.words, text);
          value.place.edit(config) = std::move(text);
        } else {
          using T = decltype(value.limits.least);
          const auto number = json_field<T>(json, field, place);
          if (!value.limits.allow(number)) {
            fail_input("{}: field '{}' is {}; allowed is {}", place.string(), field, number,
                       value.limits.in_words());
          }
          value.place.edit(config) = number;
        }
      },
      option.value);
}

}  // namespace atl
