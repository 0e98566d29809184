#include "base/config_text.hpp"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "base/byte_order_mark.hpp"
#include "base/error.hpp"
#include "base/files.hpp"

namespace atl {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMostBytes = std::size_t{1} << 20;
constexpr int kDeepestKeys = 100;

// Walks over TOML just far enough to know what lies outside of strings and comments.
class DepthCheck {
 public:
  DepthCheck(std::string_view text, const std::string& file) : rest_(text), file_(file) {}

  void run() {
    while (!rest_.empty()) {
      const char c = rest_.front();
      if (c == '"' || c == '\'') {
        skip_string(c);
      } else if (c == '#') {
        rest_.remove_prefix(std::min(rest_.find('\n'), rest_.size()));
      } else {
        count(c);
        rest_.remove_prefix(1);
      }
    }
  }

 private:
  void count(char c) {
    if (c == '\n') ++line_;
    if (c == '.') {  // between the parts of a key, or one of a number
      ++dots_.back();
      ++depth_;
    } else if (c == '[' || c == '{') {
      dots_.push_back(0);
      ++depth_;
    } else if (c == ']' || c == '}' || c == ',' || c == '\n') {
      depth_ -= std::exchange(dots_.back(), 0);
      if ((c == ']' || c == '}') && dots_.size() > 1) {
        dots_.pop_back();
        --depth_;
      }
    }
    if (depth_ > kDeepestKeys) {
      fail_option("{}:{}: keys, arrays and tables are nested more than {} deep", file_, line_,
                  kDeepestKeys);
    }
  }

  void skip_string(char quote) {
    const std::string three(3, quote);
    const bool long_string = rest_.starts_with(three);
    rest_.remove_prefix(long_string ? 3 : 1);
    while (!rest_.empty()) {
      if (long_string ? rest_.starts_with(three) : rest_.front() == quote) break;
      if (rest_.front() == '\n') {
        if (!long_string) return;  // not closed: the library says so
        ++line_;
      }
      const bool escape = quote == '"' && rest_.front() == '\\' && rest_.size() > 1;
      if (escape && rest_[1] == '\n') ++line_;
      rest_.remove_prefix(escape ? 2 : 1);
    }
    rest_.remove_prefix(std::min<std::size_t>(rest_.size(), long_string ? 3 : 1));
    // Up to two quotes may stand before the three that close a long string.
    for (int i = 0; long_string && i < 2 && rest_.starts_with(quote); ++i) rest_.remove_prefix(1);
  }

  std::string_view rest_;
  const std::string& file_;
  int line_ = 1;
  std::vector<int> dots_{0};  // of the entry at hand, outside of brackets and in each open one
  int depth_ = 0;             // open brackets and all these dots
};

Json json_of(const toml::node& node, const std::string& file);

// The library sorts a table's entries by name.
Json json_of_table(const toml::table& table, const std::string& file) {
  using Entry = std::pair<const toml::key*, const toml::node*>;
  std::vector<Entry> entries;
  for (const auto& [key, value] : table) entries.emplace_back(&key, &value);
  std::ranges::stable_sort(entries, {}, [](const Entry& entry) {
    const toml::source_position& place = entry.first->source().begin;
    return std::pair(place.line, place.column);
  });
  Json::object_t object;
  for (const auto& [key, value] : entries) object.emplace_back(key->str(), json_of(*value, file));
  return object;
}

Json json_of(const toml::node& node, const std::string& file) {
  if (const toml::table* table = node.as_table()) return json_of_table(*table, file);
  if (const toml::array* array = node.as_array()) {
    Json list = Json::array();
    for (const toml::node& item : *array) list.push_back(json_of(item, file));
    return list;
  }
  if (const auto* text = node.as_string()) return text->get();
  if (const auto* flag = node.as_boolean()) return flag->get();
  if (const auto* whole = node.as_integer()) return whole->get();
  const toml::source_position& place = node.source().begin;
  const auto* number = node.as_floating_point();
  if (number == nullptr || !std::isfinite(number->get())) {
    fail_option(
        "{}:{}:{}: found {}; allowed are finite numbers, texts, true, false, arrays, tables", file,
        place.line, place.column,
        number == nullptr ? "a date or time" : "a number that is not finite");
  }
  return number->get();
}

}  // namespace

std::string read_config_text(const fs::path& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (!fs::exists(status)) fail_option("{}: no such file", path.string());
  if (!fs::is_regular_file(status)) {
    fail_option("{}: not a regular file; configurations are read from files only", path.string());
  }
  const std::uintmax_t size = fs::file_size(path, error);
  if (size > kMostBytes) {
    fail_option("{}: {} bytes; a configuration has at most {}", path.string(), size, kMostBytes);
  }
  std::string text = read_text(path);
  const std::string file = path.string();
  byte_order_mark(text, file);  // the parser skips that of UTF-8 itself
  DepthCheck(text, file).run();
  return text;
}

toml::table parse_config(const std::string& text, const std::string& file) {
  try {
    return toml::parse(text, file);
  } catch (const toml::parse_error& error) {
    const toml::source_position begin = error.source().begin;
    fail_option("{}:{}:{}: not valid TOML: {}", file, begin.line, begin.column,
                error.description());
  }
}

Json config_json(const std::string& text, const std::string& file) {
  return json_of_table(parse_config(text, file), file);
}

}  // namespace atl
