#include "datasets/text_table.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/numbers.hpp"
#include "base/text.hpp"
#include "datasets/dataset.hpp"
#include "datasets/foreign_format.hpp"
#include "datasets/graph_builder.hpp"
#include "datasets/import.hpp"

namespace atl {

namespace fs = std::filesystem;

namespace {

constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

// The label of a node that has none, in Elliptic's text and others.
constexpr std::string_view kUnknown = "unknown";

// By names in small letters; the first that is there counts.
constexpr std::array kIdNames = {"id", "node", "node_id", "nodeid", "txid", "unnamed: 0", ""};
constexpr std::array kLabelNames = {"label", "labels", "class", "y", "target"};

bool is_blank(std::string_view line, Separator separator) {
  return line.find_first_not_of(separator == Separator::kTab ? " " : " \t") == line.npos;
}

bool is_missing(std::string_view cell) {
  constexpr std::array kWords = {"", "nan", "NaN", "NA", "N/A", "None", "null", "NULL"};
  return std::ranges::find(kWords, cell) != kWords.end();
}

std::optional<bool> as_truth(std::string_view cell) {
  if (cell == "True" || cell == "TRUE" || cell == "true") return true;
  if (cell == "False" || cell == "FALSE" || cell == "false") return false;
  return {};
}

std::optional<double> number_of_cell(std::string_view cell, Separator separator) {
  std::string plain(cell);
  const bool comma = separator == Separator::kTab || separator == Separator::kSemicolon;
  if (comma && std::ranges::count(plain, ',') == 1) std::ranges::replace(plain, ',', '.');
  double value = 0;
  const auto [stop, error] = std::from_chars(plain.data(), plain.data() + plain.size(), value);
  if (error == std::errc::invalid_argument || stop != plain.data() + plain.size()) return {};
  if (error != std::errc()) value = std::strtod(plain.c_str(), nullptr);
  return value;
}

std::optional<std::int64_t> as_integer(std::string_view cell) {
  std::int64_t value = 0;
  const auto [stop, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error == std::errc() && stop == cell.data() + cell.size()) return value;
  return whole_number(cell);
}

std::optional<std::size_t> find_name(const std::vector<std::string>& names,
                                     std::string_view wanted) {
  const auto at = std::ranges::find(names, wanted, in_small_letters);
  if (at == names.end()) return {};
  return static_cast<std::size_t>(at - names.begin());
}

// Whether the first row is the numbers of columns from 0, which pandas writes for want of names.
// Two or three of them may as well be values.
bool counts_columns(const std::vector<std::string>& row, const fs::path& path) {
  const std::size_t begin = row.front().empty() ? 1 : 0;
  for (std::size_t k = begin; k < row.size(); ++k) {
    if (row[k] != std::to_string(k - begin)) return false;
  }
  const std::size_t count = row.size() - begin;
  const bool sure = count > 3 || (begin == 1 && count > 0);
  if (count > 1 || sure) {
    log::warn("{}: the first row, numbers from 0 to {}, was read as {}", path.string(), count - 1,
              sure ? "names of columns" : "values");
  }
  return sure;
}

class MemorySource : public ByteSource {
 public:
  explicit MemorySource(std::string bytes) : bytes_(std::move(bytes)) {}
  std::size_t read(std::span<std::byte> bytes) override {
    const std::size_t got = std::min(bytes.size(), bytes_.size() - at_);
    std::memcpy(bytes.data(), bytes_.data() + at_, got);
    at_ += got;
    return got;
  }

 private:
  std::string bytes_;
  std::size_t at_ = 0;
};

template <typename T>
ArrayReader as_array(const std::vector<double>& values, const char* descr,
                     const std::vector<std::int64_t>& shape, const std::string& place) {
  std::string bytes = make_npy_header(descr, shape);
  const std::size_t begin = bytes.size();
  bytes.resize(begin + values.size() * sizeof(T));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const T value = static_cast<T>(values[i]);
    std::memcpy(bytes.data() + begin + i * sizeof(T), &value, sizeof(T));
  }
  const auto size = static_cast<std::int64_t>(bytes.size());
  return {std::make_unique<MemorySource>(std::move(bytes)), place, size};
}

}  // namespace

TextTable::TextTable(fs::path path, TableKind kind, const TableColumns& columns)
    : path_(std::move(path)), kind_(kind) {
  refuse_packed(path_);
  find_columns(columns);
}

// Calls visit(reader, cells) for every row below the header, all equally long. An empty line
// between rows is one, too, where rows have one value: the node of its place has none.
template <typename Visit>
void TextTable::each_row(const Visit& visit) const {
  LineReader reader(path_);
  std::string_view line;
  bool header = header_;
  bool above = true;  // the first row
  bool tells = true;
  std::int64_t empty = 0;
  std::int64_t first_empty = 0;
  std::vector<std::string> cells;
  while (reader.next(line)) {
    if (is_blank(line, separator_)) {
      if (!above && empty++ == 0) first_empty = reader.line_number();
      continue;
    }
    if (passes_over(line, above)) continue;
    if (std::exchange(header, false)) continue;
    above = false;
    if (empty > 0 && width_ == 1 && kind_ != TableKind::kIds) {
      if (!places_are_known_ && std::exchange(tells, false)) {
        log::warn(
            "{}: line {} is empty: read as a node without a value, as are other empty lines "
            "between rows",
            path_.string(), first_empty);
      }
      cells.assign(1, "");
      for (std::int64_t k = 0; k < empty; ++k) visit(reader, cells);
    } else if (empty > 0 && places_are_known_ && in_order()) {
      fail_input("{}: line {} is empty; {} columns expected, as rows are in the order of the nodes",
                 path_.string(), first_empty, width_);
    }
    empty = 0;
    FieldReader fields(line, reader, separator_);
    cells.clear();
    while (!fields.done()) cells.emplace_back(fields.text("a value"));
    if (cells.size() != width_) {
      fail_input("{}: line {}: {} columns found, {} expected", path_.string(), reader.line_number(),
                 cells.size(), width_);
    }
    visit(reader, cells);
  }
}

// Whether it is a comment. Below the first row, #1 may be a word.
bool TextTable::passes_over(std::string_view line, bool above) const {
  return is_comment(line) && (above || !may_be_words());
}

void TextTable::find_columns(const TableColumns& columns) {
  constexpr std::size_t kSampled = 100;
  std::vector<std::string> lines;
  {
    LineReader reader(path_);
    std::string_view line;
    while (lines.size() < kSampled && reader.next(line)) {
      if (!is_blank(line, separator_) && !passes_over(line, lines.empty()))
        lines.emplace_back(line);
    }
  }
  if (lines.empty()) fail_input("{}: no row found", path_.string());
  separator_ = likely_separator(lines);
  std::vector<std::string> names;
  std::size_t below = 0;  // columns of the second row
  {
    LineReader reader(path_);
    std::string_view line;
    while (reader.next(line) && is_comment(line)) {
    }
    names = FieldReader(line, reader, separator_).all();
    if (lines.size() > 1) below = FieldReader(lines[1], reader, separator_).all().size();
  }
  // A row of numbers, truths or missing values is no header; one of words is, unless words are what
  // a column of labels holds.
  const auto is_name = [&](const std::string& cell) {
    return !is_missing(cell) && !as_truth(cell) && !number_of_cell(cell, separator_);
  };
  const bool all_names = std::ranges::all_of(
      names, [&](const std::string& cell) { return cell.empty() || is_name(cell); });
  const bool known = std::ranges::any_of(names, [&](const std::string& cell) {
    const std::string small = in_small_letters(cell);
    const auto is = [&](std::string_view name) { return small == name && !small.empty(); };
    return std::ranges::any_of(kIdNames, is) || std::ranges::any_of(kLabelNames, is) ||
           cell == columns.id || cell == columns.label;
  });
  const bool words_are_values = may_be_words();
  // A class may be called y.
  const bool is_class =
      words_are_values && names.size() == 1 && std::ranges::count(lines, lines.front()) > 1;
  header_ =
      all_names && !is_class && (known || !words_are_values || numbers_stand_below(names, lines));
  header_ = header_ || counts_columns(names, path_);
  words_above_ = all_names && !header_;
  if (header_ && below == names.size() + 1) names.insert(names.begin(), "");  // R's names of rows
  width_ = names.size();
  if (!header_) names.clear();
  look_at_cells();
  choose_id(columns, names);
  places_are_known_ = true;
  choose_values(columns, names);
  if (kind_ == TableKind::kLabels || kind_ == TableKind::kTypes) collect_words();
}

// Whether all values of some column are numbers, but not the one in the first line.
bool TextTable::numbers_stand_below(const std::vector<std::string>& first,
                                    const std::vector<std::string>& lines) const {
  std::vector<std::size_t> numbers(first.size(), 0);
  LineReader reader(path_);
  for (const std::string& line : lines) {
    const std::vector<std::string> cells = FieldReader(line, reader, separator_).all();
    for (std::size_t k = 0; k < std::min(cells.size(), numbers.size()); ++k) {
      if (number_of_cell(cells[k], separator_) || as_truth(cells[k])) ++numbers[k];
    }
  }
  const std::size_t below = lines.size() - 1;
  return below > 0 && std::ranges::any_of(numbers, [&](std::size_t n) { return n == below; });
}

void TextTable::look_at_cells() {
  found_.assign(width_, {});
  NodeIds first(path_.string());
  each_row([&](const LineReader& reader, const std::vector<std::string>& cells) {
    for (std::size_t k = 0; k < cells.size(); ++k) {
      Found& found = found_[k];
      const std::string& cell = cells[k];
      if (is_missing(cell)) {
        found.missing = true;
        continue;
      }
      if (as_truth(cell)) {
        found.truths = true;
        continue;
      }
      found.only_truths = false;
      if (const std::optional<double> number = number_of_cell(cell, separator_)) {
        found.numbers = true;
        found.fractions =
            found.fractions || !as_integer(cell) || cell.find_first_of(".e") != std::string::npos;
        found.minus_one = found.minus_one || *number == -1;
        found.negative = found.negative || *number < 0;
        found.largest = std::max(found.largest, as_integer(cell).value_or(-1));
      } else {
        found.words = true;
        const bool unknown = kind_ == TableKind::kLabels && cell == kUnknown;
        if (found.first_word.empty() && !unknown) {
          found.first_word = cell;
          found.line_of_word = reader.line_number();
        }
      }
    }
    if (first.count() == rows_) first.add(cells.front());
    ++rows_;
    if (rows_ > kMaxNodes) {
      fail_input("{}: line {}: more than {} rows", path_.string(), reader.line_number(), kMaxNodes);
    }
  });
  if (rows_ == 0) fail_input("{}: no row found below the names of columns", path_.string());
  first_is_distinct_ = first.count() == rows_;
}

// A column that the options or its name say to be ids; else the first one if its values are all
// different and whole numbers or words, as ids are and values hardly ever.
void TextTable::choose_id(const TableColumns& columns, const std::vector<std::string>& names) {
  least_nodes_ = kind_ == TableKind::kIds ? 0 : rows_;
  if (kind_ == TableKind::kIds || columns.id == kNoColumn) return;
  const char* how = "--id-column";
  if (!columns.id.empty() && width_ > 1) {
    id_column_ = find_name(names, in_small_letters(columns.id));
    const std::optional<std::int64_t> number = as_integer(columns.id);
    if (!id_column_ && number && *number >= 1 && *number <= std::ssize(found_)) {
      id_column_ = static_cast<std::size_t>(*number - 1);
    }
  }
  for (const std::string_view name : kIdNames) {
    if (id_column_ || names.empty()) break;
    how = "its name";
    id_column_ = find_name(names, name);
  }
  const Found& first = found_.front();
  const bool like_ids = !first.fractions && !first.missing && first_is_distinct_ &&
                        (first.words || first.numbers) && !first.negative;
  if (!id_column_ && width_ > 1 && like_ids) {
    // Features may be different whole numbers by chance, but not all numbers from 0.
    if (kind_ == TableKind::kFeatures && !first.words && first.largest != rows_ - 1) {
      fail_input(
          "{}: column 1 may be the id of the node or a feature; --id-column 1 or --id-column "
          "{} says what it is",
          path_.string(), kNoColumn);
    }
    how = "its values are all different; if they are no ids: --id-column none";
    id_column_ = 0;
  }
  if (!id_column_) {
    log::info("{}: {} rows, in the order of the nodes", path_.string(), rows_);
    return;
  }
  log::info("{}: {} rows, column {} is the id of the node ({})", path_.string(), rows_,
            *id_column_ + 1, how);
  if (width_ == 1) fail_input("{}: it has ids and no values", path_.string());
  if (!found_[*id_column_].words) least_nodes_ = found_[*id_column_].largest + 1;
}

void TextTable::choose_values(const TableColumns& columns, const std::vector<std::string>& names) {
  std::vector<std::size_t> others;
  for (std::size_t k = 0; k < width_; ++k) {
    if (k != id_column_) others.push_back(k);
  }
  const auto name_of = [&](std::size_t k) {
    return names.empty() ? fmt::format("{}", k + 1) : in_quotes(names[k]);
  };
  std::vector<std::string> unread;
  if (kind_ == TableKind::kFeatures) {
    for (const std::size_t k : others) {
      if (found_[k].words) {
        unread.push_back(name_of(k));
      } else {
        value_columns_.push_back(k);
      }
    }
    if (value_columns_.empty()) fail_input("{}: no column of numbers found", path_.string());
  } else if (kind_ == TableKind::kLabels && (!columns.label.empty() || !names.empty())) {
    std::optional<std::size_t> label;
    if (!columns.label.empty()) {
      label = find_name(names, in_small_letters(columns.label));
      const std::optional<std::int64_t> number = as_integer(columns.label);
      if (!label && number && *number >= 1 && *number <= std::ssize(found_)) {
        label = static_cast<std::size_t>(*number - 1);
      }
      if (!label || label == id_column_) {
        fail_option("--label-column {}: {} has {} columns{}{}{}", columns.label, path_.string(),
                    width_, names.empty() ? "" : ": ", fmt::join(names, ", "),
                    label ? ", and that one is the id" : "");
      }
    }
    for (const std::string_view name : kLabelNames) {
      if (!label) label = find_name(names, name);
    }
    const bool words = std::ranges::any_of(others, [&](std::size_t k) { return found_[k].words; });
    if (!label && others.size() > 1 && words) {
      fail_input(
          "{}: several columns, of which none is called label: {}; --label-column says "
          "which is",
          path_.string(), fmt::join(names, ", "));
    }
    for (const std::size_t k : others) {
      if (!label || k == *label) {
        value_columns_.push_back(k);
      } else {
        unread.push_back(name_of(k));
      }
    }
  } else {
    value_columns_ = others;
  }
  for (const std::size_t k : value_columns_) {
    if (found_[k].words && (kind_ == TableKind::kMasks || kind_ == TableKind::kSplit)) {
      fail_input("{}: line {}: column {} is {}; {} expected", path_.string(),
                 found_[k].line_of_word, name_of(k), in_quotes(found_[k].first_word),
                 kind_ == TableKind::kMasks ? "True, False, 1 or 0 is" : "a number is");
    }
    if (found_[k].truths && found_[k].numbers) {
      log::warn("{}: column {} has numbers and truth values: these are read as 0 and 1",
                path_.string(), name_of(k));
    }
  }
  if (!unread.empty()) {
    log::warn("{}: not read: column{} {}", path_.string(), unread.size() > 1 ? "s" : "",
              fmt::join(unread, ", "));
  }
  if ((kind_ == TableKind::kIds || kind_ == TableKind::kTypes) && value_columns_.size() != 1) {
    fail_input("{}: {} columns found, 1 expected", path_.string(), value_columns_.size());
  }
}

void TextTable::collect_words() {
  const bool words =
      std::ranges::any_of(value_columns_, [&](std::size_t k) { return found_[k].words; });
  if (!words) return;
  if (value_columns_.size() > 1) {
    fail_input("{}: several columns with words; numbers 0 and 1 are expected, or one column",
               path_.string());
  }
  const std::size_t column = value_columns_.front();
  std::set<std::string> different;
  std::int64_t unknown = 0;
  std::string missing;
  std::int64_t missing_rows = 0;
  std::string first;  // of the first row
  std::int64_t like_first = 0;
  each_row([&](const LineReader& reader, const std::vector<std::string>& cells) {
    const std::string& cell = cells[column];
    if (is_missing(cell)) {
      if (cell.empty()) return;
      if (missing_rows++ == 0) missing = cell;
      return;
    }
    if (!is_utf8(cell)) {
      fail_input("{}: line {}: column {} is {}, which is not UTF-8", path_.string(),
                 reader.line_number(), column + 1, in_quotes(cell));
    }
    if (first.empty()) first = cell;
    if (cell == first) ++like_first;
    if (kind_ == TableKind::kLabels && cell == kUnknown) {
      ++unknown;
      return;
    }
    different.insert(cell);
    if (std::ssize(different) > kMaxClasses) {
      fail_input("{}: more than {} different words in column {}", path_.string(), kMaxClasses,
                 column + 1);
    }
  });
  if (unknown > 0) {
    log::warn("{}: the label 'unknown' of {} nodes was taken for none", path_.string(), unknown);
  }
  if (missing_rows > 0) {
    log::warn("{}: {} rows with words like '{}' have no value", path_.string(), missing_rows,
              missing);
  }
  constexpr std::int64_t kFewRows = 2;
  if (words_above_ && like_first == 1 && rows_ > kFewRows) {
    log::warn("{}: the first row, {}, was read as a node's; if it names columns, call {} {}",
              path_.string(), in_quotes(first), width_ == 1 ? "it" : "the one of the values",
              kLabelNames.front());
  }
  if (const Found& found = found_[column]; found.numbers && !found.first_word.empty()) {
    log::warn("{}: line {}: column {} is {}, but other lines have numbers: all are taken for names",
              path_.string(), found.line_of_word, column + 1, in_quotes(found.first_word));
  }
  words_.assign(different.begin(), different.end());
  constexpr std::size_t kShown = 20;
  const std::size_t shown = std::min(words_.size(), kShown);
  log::info("{}: words become numbers, in alphabetical order: {}{}", path_.string(),
            fmt::join(words_.begin(), words_.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
            words_.size() > shown ? ", ..." : "");
}

void TextTable::collect(NodeIds& ids) const {
  if (in_order()) return;
  const std::size_t column = kind_ == TableKind::kIds ? value_columns_.front() : *id_column_;
  each_row([&](const LineReader& reader, const std::vector<std::string>& cells) {
    if (cells[column].empty()) {
      fail_input("{}: line {}: an id of a node expected, '' found", path_.string(),
                 reader.line_number());
    }
    ids.add(cells[column]);
  });
}

double TextTable::value_of(std::string_view cell, const LineReader& reader,
                           std::size_t column) const {
  if (is_missing(cell)) return kMissing;
  if (!words_.empty()) {
    const auto at = std::ranges::lower_bound(words_, cell);
    if (at == words_.end() || *at != cell) return kMissing;  // unknown
    return static_cast<double>(at - words_.begin());
  }
  if (const std::optional<bool> truth = as_truth(cell)) return *truth ? 1 : 0;
  if (const std::optional<double> number = number_of_cell(cell, separator_)) {
    const bool is_f32 = kind_ == TableKind::kFeatures || kind_ == TableKind::kLabels;
    if (is_f32 && std::isinf(static_cast<float>(*number))) {
      fail_input("{}: line {}: column {} is {}; allowed are {}", path_.string(),
                 reader.line_number(), column + 1, in_quotes(cell), kFiniteFloats);
    }
    return *number;
  }
  fail_input("{}: line {}: column {} is {}; a number is expected", path_.string(),
             reader.line_number(), column + 1, in_quotes(cell));
}

std::int64_t TextTable::node_of(std::string_view id, const LineReader& reader, const NodeIds* ids,
                                std::int64_t nodes) const {
  const std::optional<std::int64_t> number = as_integer(id);
  const std::int64_t node = ids != nullptr ? ids->find(id) : number.value_or(-1);
  if (node >= 0 && node < nodes) return node;
  fail_input("{}: line {}: node id {} found; allowed are {}", path_.string(), reader.line_number(),
             in_quotes(id),
             ids != nullptr
                 ? std::string("ids of the source")
                 : fmt::format("0 to {} (--renumber numbers other ids anew)", nodes - 1));
}

// [nodes, value columns], or the nodes of a list.
std::vector<double> TextTable::read_values(const NodeIds* ids, std::int64_t nodes) const {
  std::vector<double> values;
  if (kind_ == TableKind::kIds) {
    const bool truths = found_[value_columns_.front()].only_truths;
    std::set<std::string, std::less<>> seen;
    each_row([&](const LineReader& reader, const std::vector<std::string>& cells) {
      const std::string& cell = cells[value_columns_.front()];
      if (ids != nullptr && !truths && !seen.insert(cell).second) {
        fail_input("{}: line {}: node id {} for the second time", path_.string(),
                   reader.line_number(), in_quotes(cell));
      }
      values.push_back(truths ? value_of(cell, reader, value_columns_.front())
                              : static_cast<double>(node_of(cell, reader, ids, nodes)));
    });
    return values;
  }
  if (in_order() && rows_ != nodes) {
    fail_input(
        "{}: {} rows found, {} expected, one per node; a column of ids may be called id, or "
        "--id-column names it",
        path_.string(), rows_, nodes);
  }
  const std::size_t columns = value_columns_.size();
  values.assign(static_cast<std::size_t>(nodes) * columns, kMissing);
  std::vector<bool> seen(static_cast<std::size_t>(nodes), false);
  std::int64_t row = 0;
  each_row([&](const LineReader& reader, const std::vector<std::string>& cells) {
    const std::int64_t node = in_order() ? row : node_of(cells[*id_column_], reader, ids, nodes);
    if (seen[static_cast<std::size_t>(node)]) {
      fail_input("{}: line {}: a second row of node {}", path_.string(), reader.line_number(),
                 in_quotes(cells[*id_column_]));
    }
    seen[static_cast<std::size_t>(node)] = true;
    for (std::size_t k = 0; k < columns; ++k) {
      values[static_cast<std::size_t>(node) * columns + k] =
          value_of(cells[value_columns_[k]], reader, value_columns_[k]);
    }
    ++row;
  });
  const bool complete = kind_ == TableKind::kFeatures || kind_ == TableKind::kTypes;
  const std::int64_t absent = nodes - row;
  if (absent > 0 && complete) {
    const std::int64_t first = std::ranges::find(seen, false) - seen.begin();
    fail_input("{}: {} of {} nodes have no row; the first is {}", path_.string(), absent, nodes,
               ids != nullptr ? in_quotes((*ids)[first]) : std::to_string(first));
  }
  for (double& value : values) {
    if (kind_ == TableKind::kMasks && std::isnan(value)) value = 0;
    if (kind_ == TableKind::kSplit && std::isnan(value)) value = 255;
  }
  return values;
}

ArrayReader TextTable::open(const NodeIds* ids, std::int64_t nodes) const {
  if (nodes < 0) nodes = kind_ == TableKind::kIds ? kMaxNodes : least_nodes_;
  const std::vector<double> values = read_values(ids, nodes);
  const auto columns = static_cast<std::int64_t>(value_columns_.size());
  std::vector<std::int64_t> shape = {static_cast<std::int64_t>(values.size()) / columns};
  if (columns > 1 || kind_ == TableKind::kFeatures) shape.push_back(columns);
  const std::string place = path_.string();
  if (kind_ == TableKind::kFeatures) return as_array<float>(values, "<f4", shape, place);
  Found all;
  for (const std::size_t k : value_columns_) {
    all.only_truths = all.only_truths && found_[k].only_truths;
    all.fractions = all.fractions || (found_[k].fractions && words_.empty());
    all.minus_one = all.minus_one || found_[k].minus_one;
  }
  const bool missing = std::ranges::any_of(values, [](double v) { return std::isnan(v); });
  if (all.only_truths && !missing) return as_array<std::uint8_t>(values, "|b1", shape, place);
  // -1 stands for none, unless it is a value or would look like one beside 1.
  const bool only_1 = std::ranges::all_of(values, [](double v) { return std::isnan(v) || v == 1; });
  if (all.fractions || (missing && (all.minus_one || only_1))) {
    return as_array<double>(values, "<f8", shape, place);
  }
  std::vector<double> whole = values;
  for (double& value : whole) {
    if (std::isnan(value)) value = -1;
  }
  return as_array<std::int64_t>(whole, "<i8", shape, place);
}

}  // namespace atl
