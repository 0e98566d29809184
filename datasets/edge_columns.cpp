#include "datasets/edge_columns.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <functional>
#include <optional>
#include <set>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/numbers.hpp"

namespace atl {

namespace fs = std::filesystem;

namespace {

struct ColumnNames {
  EdgeColumn column;
  std::vector<std::string_view> names;  // in small letters
};
const std::array<ColumnNames, 4> kColumnNames = {
    {{EdgeColumn::kSource,
      {"source", "src", "from", "u", "head", "node_1", "source_id", "src_id", "from_id",
       "fromnodeid", "start", "citing"}},
     {EdgeColumn::kTarget,
      {"target", "dst", "destination", "to", "v", "tail", "node_2", "target_id", "dst_id", "to_id",
       "tonodeid", "end", "cited"}},
     {EdgeColumn::kWeight, {"weight", "edge_weight", "w"}},
     {EdgeColumn::kRelation, {"relation", "type", "edge_type", "rel", "label"}}}};

EdgeColumn column_named(std::string_view name) {
  const std::string small = in_small_letters(name);
  for (const ColumnNames& known : kColumnNames) {
    if (std::ranges::count(known.names, small) > 0) return known.column;
  }
  return EdgeColumn::kIgnored;
}

std::string list_of_names() {
  std::vector<std::string> lists;
  for (const ColumnNames& known : kColumnNames) {
    lists.push_back(fmt::format("{}", fmt::join(known.names, ", ")));
  }
  return fmt::format("{}", fmt::join(lists, "; "));
}

std::string quoted_list(const std::vector<std::string>& names) {
  std::vector<std::string> quoted;
  for (const std::string& name : names) quoted.push_back(in_quotes(name));
  return fmt::format("{}", fmt::join(quoted, ", "));
}

// "id1", "ID_1" and "id" may be a pair with "id2", "ID_2" and "id".
bool are_pair(std::string_view first, std::string_view second) {
  std::string one = in_small_letters(first);
  std::string other = in_small_letters(second);
  if (one.empty() || one == other) return one == other && !one.empty();
  if (one.back() != '1' || other.back() != '2') return false;
  one.pop_back();
  other.pop_back();
  return one == other;
}

constexpr std::size_t kSampled = 1000;  // lines

// The first lines that are no comments.
struct Sample {
  Separator separator = Separator::kBlankOrComma;
  std::vector<std::vector<std::string>> rows;
  std::vector<std::int64_t> line_numbers;

  const std::vector<std::string>& first() const { return rows.front(); }
};

void each_sampled(const fs::path& path,
                  const std::function<void(const LineReader&, std::string_view)>& visit) {
  LineReader reader(path);
  std::string_view line;
  std::size_t seen = 0;
  while (seen < kSampled && reader.next(line)) {
    if (line.starts_with("%%MatrixMarket")) {
      fail_input("{}: a Matrix Market file: use the format matrix-market", path.string());
    }
    if (is_comment(line)) continue;
    visit(reader, line);
    ++seen;
  }
}

Sample read_sample(const fs::path& path, bool renumber) {
  std::vector<std::string> lines;
  each_sampled(path, [&](const LineReader&, std::string_view line) { lines.emplace_back(line); });
  Sample sample;
  const Separator likely = likely_separator(lines);
  // Where both ways give the same fields, lines further down may differ in what separates them.
  bool differ = likely == Separator::kSemicolon || renumber;
  each_sampled(path, [&](const LineReader& reader, std::string_view line) {
    sample.rows.push_back(FieldReader(line, reader, likely).all());
    sample.line_numbers.push_back(reader.line_number());
    differ = differ || (likely != Separator::kBlankOrComma &&
                        FieldReader(line, reader).all() != sample.rows.back());
  });
  if (differ) sample.separator = likely;
  return sample;
}

// The values of a column, of the rows from `first` on that have it.
std::optional<double> number_in(std::string text) {
  if (std::ranges::count(text, ',') == 1) std::ranges::replace(text, ',', '.');
  double value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (stop != text.data() + text.size() || error == std::errc::invalid_argument) return {};
  return value;
}

struct Doubt {
  std::size_t row = 0;  // of the sample
  std::string reason;   // empty: none
};

// Why the values of a column can hardly be weights.
Doubt doubt_weights(const Sample& sample, std::size_t column) {
  constexpr double kSecondsIn1973 = 1e8;
  constexpr std::size_t kManyYears = 10;
  constexpr std::size_t kLongOrder = 20;
  std::vector<double> values;
  std::string first;
  for (std::size_t row = 0; row < sample.rows.size(); ++row) {
    if (column >= sample.rows[row].size()) continue;
    const std::string text = in_quotes(sample.rows[row][column]);
    const std::optional<double> value = number_in(sample.rows[row][column]);
    if (!value) return {row, text + " is no number"};
    if (values.empty()) first = text;
    values.push_back(*value);
  }
  if (values.empty()) return {};
  const auto all = [&](const auto& accepts) { return std::ranges::all_of(values, accepts); };
  if (all([](double v) { return v >= kSecondsIn1973 && std::isfinite(v); })) {
    return {0, first + " and the others look like times"};
  }
  const auto year = [](double v) { return v >= 1900 && v <= 2100 && v == std::trunc(v); };
  if (values.size() >= kManyYears && all(year)) {
    return {0, first + " and the others look like years"};
  }
  const std::set<double> different(values.begin(), values.end());
  if (values.size() >= kLongOrder && std::ranges::is_sorted(values) &&
      2 * different.size() > values.size()) {
    return {0, "its values only grow, as times or numbers of lines do"};
  }
  return {};
}

class ColumnFinder {
 public:
  ColumnFinder(const fs::path& path, const ImportOptions& options)
      : path_(path), options_(options), sample_(read_sample(path, options.renumber)) {}

  EdgeLines run() {
    lines_.separator = sample_.separator;
    if (sample_.rows.empty()) {
      lines_.columns = {EdgeColumn::kSource, EdgeColumn::kTarget};
      return lines_;
    }
    lines_.header = names_columns();
    lines_.columns.assign(sample_.first().size(), EdgeColumn::kIgnored);
    taken_.assign(sample_.first().size(), false);
    take_options();
    lines_.header ? take_names() : take_order();
    return lines_;
  }

 private:
  struct Option {
    const char* name;
    const std::string& value;
    EdgeColumn column;
  };
  std::array<Option, 4> column_options() const {
    return {{{"--source-column", options_.source_column, EdgeColumn::kSource},
             {"--target-column", options_.target_column, EdgeColumn::kTarget},
             {"--weight-column", options_.weight_column, EdgeColumn::kWeight},
             {"--relation-column", options_.relation_column, EdgeColumn::kRelation}}};
  }
  bool without_weight() const { return options_.weight_column == kNoColumn; }

  static std::optional<std::size_t> as_position(const std::string& text) {
    std::size_t value = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || stop != text.data() + text.size()) return {};
    return value;
  }

  [[noreturn]] void fail_at(std::size_t row, const std::string& message) const {
    fail_input("{}:{}: {}", path_.string(), sample_.line_numbers[row], message);
  }

  bool names_columns() const {
    for (const Option& option : column_options()) {
      const bool name = !option.value.empty() && option.value != kNoColumn;
      if (name && !as_position(option.value)) return true;
    }
    const std::vector<std::string>& first = sample_.first();
    if (first.empty() || number_in(first.front())) return false;
    if (!options_.renumber) return !looks_like_number(first.front());
    if (first.front().empty()) return true;
    // Names of nodes may look like anything.
    const auto known = [&](EdgeColumn column) {
      return std::ranges::any_of(first, [&](const auto& s) { return column_named(s) == column; });
    };
    const bool numbers_below = sample_.rows.size() > 1 && sample_.rows[1].size() > 1 &&
                               looks_like_number(sample_.rows[1][0]) &&
                               looks_like_number(sample_.rows[1][1]);
    const bool header = (known(EdgeColumn::kSource) && known(EdgeColumn::kTarget)) || numbers_below;
    log::warn("{}:{}: {} was read as {}", path_.string(), sample_.line_numbers.front(),
              quoted_list(first),
              header ? "names of columns"
                     : "an edge; if it names columns: --source-column NAME --target-column NAME");
    return header;
  }

  void take(std::size_t position, EdgeColumn column) {
    lines_.columns[position] = column;
    taken_[position] = true;
  }

  void take_options() {
    const std::vector<std::string>& first = sample_.first();
    for (const Option& option : column_options()) {
      if (option.value.empty() || option.value == kNoColumn) continue;
      std::optional<std::size_t> position;
      for (std::size_t k = 0; lines_.header && k < first.size() && !position; ++k) {
        if (first[k] == option.value) position = k;
      }
      for (std::size_t k = 0; lines_.header && k < first.size() && !position; ++k) {
        if (in_small_letters(first[k]) == in_small_letters(option.value)) position = k;
      }
      if (const auto number = as_position(option.value); !position && number && *number > 0) {
        position = *number - 1;
      }
      if (!position || *position >= first.size()) {
        fail_option("{} {}: line {} of {} has {} columns: {}", option.name, option.value,
                    sample_.line_numbers.front(), path_.string(), first.size(), quoted_list(first));
      }
      if (taken_[*position]) {
        fail_option("{} {}: another option says what this column is", option.name, option.value);
      }
      take(*position, option.column);
    }
  }

  bool has(EdgeColumn column) const { return lines_.has(column); }

  // Gephi's tables have a column Type with Undirected in every row, and often an empty Label.
  bool is_unusable_relation(std::size_t position) const {
    if (sample_.rows.size() < 2 || position >= sample_.rows[1].size()) return false;
    const std::string value = in_small_letters(sample_.rows[1][position]);
    return value.empty() || value == "directed" || value == "undirected" || value == "mixed";
  }

  void take_names() {
    const std::vector<std::string>& names = sample_.first();
    std::vector<std::string> others;
    std::array<bool, 4> by_option{};
    for (const EdgeColumn column : lines_.columns) {
      if (column < EdgeColumn::kAttributes) by_option.at(static_cast<std::size_t>(column)) = true;
    }
    for (std::size_t k = 0; k < names.size(); ++k) {
      if (taken_[k]) continue;
      EdgeColumn column = column_named(names[k]);
      if (column == EdgeColumn::kRelation && is_unusable_relation(k)) column = EdgeColumn::kIgnored;
      if (column == EdgeColumn::kWeight && without_weight()) continue;
      if (column != EdgeColumn::kIgnored && by_option.at(static_cast<std::size_t>(column))) {
        column = EdgeColumn::kIgnored;
      }
      if (column != EdgeColumn::kIgnored && has(column)) {
        fail_at(0, fmt::format("column {}: another one says the same; names: {}; or say which is "
                               "which: --source-column, --target-column, --weight-column, "
                               "--relation-column",
                               in_quotes(names[k]), list_of_names()));
      }
      lines_.columns[k] = column;
    }
    if (!has(EdgeColumn::kSource) && !has(EdgeColumn::kTarget)) take_pair(names);
    for (const EdgeColumn needed : {EdgeColumn::kSource, EdgeColumn::kTarget}) {
      if (has(needed)) continue;
      fail_at(0, fmt::format("no column is the {} of an edge; columns: {}; say which are: "
                             "--source-column NAME --target-column NAME (found by themselves: "
                             "{}){}",
                             needed == EdgeColumn::kSource ? "source" : "target",
                             quoted_list(names), list_of_names(),
                             options_.renumber ? ""
                                               : "; if the line is an edge and its ids are names: "
                                                 "--renumber"));
    }
    for (std::size_t k = 0; k < names.size(); ++k) {
      if (lines_.columns[k] == EdgeColumn::kIgnored && !names[k].empty()) {
        others.push_back(names[k]);
      }
    }
    if (!others.empty()) {
      log::warn("{}: not read: column{} {}; names that are: {}", path_.string(),
                others.size() > 1 ? "s" : "", quoted_list(others), list_of_names());
    }
    add_row_names();
  }

  void take_pair(const std::vector<std::string>& names) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      for (std::size_t j = i + 1; j < names.size(); ++j) {
        if (taken_[i] || taken_[j] || !are_pair(names[i], names[j])) continue;
        take(i, EdgeColumn::kSource);
        take(j, EdgeColumn::kTarget);
        return;
      }
    }
  }

  // R's write.table gives every row a name, but that column has none.
  void add_row_names() {
    const std::size_t named = sample_.first().size();
    if (sample_.rows.size() < 2) return;
    for (std::size_t row = 1; row < sample_.rows.size(); ++row) {
      if (sample_.rows[row].size() != named + 1) return;
    }
    lines_.columns.insert(lines_.columns.begin(), EdgeColumn::kIgnored);
  }

  void take_order() {
    const auto next = [&] {
      return static_cast<std::size_t>(std::ranges::find(taken_, false) - taken_.begin());
    };
    for (const EdgeColumn end : {EdgeColumn::kSource, EdgeColumn::kTarget}) {
      if (has(end)) continue;
      if (next() < taken_.size()) {
        take(next(), end);
      } else {
        lines_.columns.push_back(end);  // its absence is an error of the line
      }
    }
    const std::int64_t left = std::ranges::count(taken_, false);
    if (left == 0) return;
    const std::size_t third = next();
    if (sample_.first()[third].starts_with('{')) return take_attributes(third);
    if (has(EdgeColumn::kWeight) || without_weight()) {
      if (without_weight() && left == 1) return;
      log::warn("{}: {} of {} columns are not read", path_.string(), left, taken_.size());
      return;
    }
    const std::string question = fmt::format(
        "--weight-column K says which column is the weight, --weight-column {} that none is",
        kNoColumn);
    if (left > 1) {
      fail_at(0, fmt::format("{} columns, of which it is not known what {} of them say; {}",
                             taken_.size(), left, question));
    }
    const Doubt doubt = doubt_weights(sample_, third);
    if (!doubt.reason.empty()) {
      fail_at(doubt.row, fmt::format("column {} would be the weight of the edge, but {}; {}",
                                     third + 1, doubt.reason, question));
    }
    take(third, EdgeColumn::kWeight);
  }

  void take_attributes(std::size_t position) {
    const std::string& first = sample_.first()[position];
    take(position, EdgeColumn::kAttributes);
    if (without_weight()) return;
    const bool weight = first.find("weight") != std::string::npos;
    lines_.attributes = weight ? Attributes::kWeight : Attributes::kNoWeight;
    if (std::ranges::count(first, ':') > (weight ? 1 : 0)) {
      log::warn("{}: of the attributes {} only a weight is read", path_.string(), in_quotes(first));
    }
  }

  fs::path path_;
  const ImportOptions& options_;
  Sample sample_;
  EdgeLines lines_;
  std::vector<bool> taken_;  // columns whose meaning is known for sure
};

}  // namespace

bool EdgeLines::has(EdgeColumn column) const { return std::ranges::count(columns, column) > 0; }

EdgeLines find_edge_columns(const fs::path& path, const ImportOptions& options) {
  return ColumnFinder(path, options).run();
}

float weight_of_attributes(FieldReader& fields, Attributes attributes) {
  const FieldReader before = fields;
  const std::string_view text = fields.take_rest();
  const std::size_t end = text.find_last_not_of(" \t");
  if (!text.starts_with('{') || text[end] != '}') {
    before.fail_here(fmt::format("attributes in braces expected, {} found", in_quotes(text)));
  }
  if (attributes == Attributes::kNothing) return 1;
  std::size_t at = std::min(text.find("'weight':"), text.find("\"weight\":"));
  const bool there = at != std::string_view::npos;
  if (there != (attributes == Attributes::kWeight)) {
    before.fail_here(there ? "a weight among the attributes, but the first edge has none"
                           : "no weight among the attributes, but the first edge has one");
  }
  if (!there) return 1;
  at = text.find_first_not_of(' ', at + std::string_view("'weight':").size());
  const std::string_view value = text.substr(at, text.find_first_of(",} ", at) - at);
  float weight = 0;
  const auto [stop, error] = std::from_chars(value.data(), value.data() + value.size(), weight);
  if (error != std::errc() || stop != value.data() + value.size() || !std::isfinite(weight)) {
    before.fail_here(
        fmt::format("weight {} found; allowed are {}", in_quotes(value), kFiniteFloats));
  }
  return weight;
}

}  // namespace atl
