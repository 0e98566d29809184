#include "datasets/ogb_text.hpp"

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/text.hpp"
#include "datasets/import_session.hpp"
#include "datasets/label_values.hpp"
#include "datasets/text_reader.hpp"

namespace atl {

namespace fs = std::filesystem;

namespace {

void check_rows(const LineReader& reader, std::int64_t rows, std::int64_t expected,
                const char* whose = "node") {
  if (rows != expected) {
    fail_input("{}: {} lines found, {} expected (one per {})", reader.file(), rows, expected,
               whose);
  }
}

}  // namespace

std::int64_t read_ogb_count(const fs::path& path, std::int64_t maximum) {
  LineReader reader(path);
  std::string_view line;
  if (!reader.next(line)) fail_input("{}: empty; one number is expected", path.string());
  FieldReader fields(line, reader);
  const std::int64_t count = fields.integer(1, maximum, "number");
  fields.expect_end();
  if (reader.next(line)) {
    fail_input("{}: more than one graph; only sets of one graph can be imported", path.string());
  }
  return count;
}

void read_ogb_edges(const fs::path& folder, std::int64_t sources, std::int64_t targets,
                    const std::function<void(std::int64_t, std::int64_t)>& add) {
  LineReader reader(folder / "edge.csv.gz");
  std::string_view line;
  std::int64_t edges = 0;
  while (reader.next(line)) {
    FieldReader fields(line, reader);
    const std::int64_t source = fields.integer(0, sources - 1, "node id");
    const std::int64_t target = fields.integer(0, targets - 1, "node id");
    fields.expect_end();
    add(source, target);
    ++edges;
  }
  const fs::path count = folder / "num-edge-list.csv.gz";
  if (is_there(count)) {
    const std::int64_t expected = read_ogb_count(count, std::int64_t{1} << 40U);
    if (edges != expected) {
      fail_input("{}: {} edges found, {} expected from {}", reader.file(), edges, expected,
                 count.filename().string());
    }
  }
}

void read_ogb_features(const fs::path& path, std::int64_t rows, const char* whose,
                       const std::function<void(std::span<float>)>& add) {
  LineReader reader(path);
  std::string_view line;
  std::vector<float> row;
  std::int64_t found = 0;
  while (found <= rows && reader.next(line)) {
    FieldReader fields(line, reader);
    const std::size_t columns = row.size();
    row.clear();
    while (!fields.done()) row.push_back(fields.number("feature"));
    if (row.empty()) fields.fail_here("features expected, an empty line found");
    if (found > 0 && row.size() != columns) {
      fields.fail_here(fmt::format("{} features found, {} expected", row.size(), columns));
    }
    ++found;
    if (found <= rows) add(row);
  }
  check_rows(reader, found, rows, whose);
}

OgbTypes read_ogb_types(const fs::path& path, std::int64_t nodes) {
  LineReader reader(path);
  std::string_view line;
  std::vector<std::int64_t> number_of;
  while (std::ssize(number_of) <= nodes && reader.next(line)) {
    FieldReader fields(line, reader);
    number_of.push_back(fields.integer(0, std::int64_t{1} << 53U, "type of a node"));
    fields.expect_end();
  }
  check_rows(reader, std::ssize(number_of), nodes);
  OgbTypes types;
  types.numbers = number_of;
  std::ranges::sort(types.numbers);
  types.numbers.erase(std::unique(types.numbers.begin(), types.numbers.end()), types.numbers.end());
  if (std::ssize(types.numbers) > kMaxTypes) {
    fail_input("{}: {} different numbers; allowed are {} types of nodes", reader.file(),
               types.numbers.size(), kMaxTypes);
  }
  types.type_of.reserve(number_of.size());
  for (const std::int64_t number : number_of) {
    const auto found = std::ranges::lower_bound(types.numbers, number);
    types.type_of.push_back(static_cast<std::uint16_t>(found - types.numbers.begin()));
  }
  return types;
}

OgbLabels read_ogb_labels(const fs::path& path, std::int64_t nodes) {
  LineReader reader(path);
  std::string_view line;
  constexpr std::int32_t kMinusOne = -2;  // until it is known what it means
  std::vector<std::int32_t> values;
  LabelTally tally;
  std::int64_t columns = 0;
  std::int64_t rows = 0;
  while (rows <= nodes && reader.next(line)) {
    FieldReader fields(line, reader);
    std::int64_t found = 0;
    while (!fields.done()) {
      const FieldReader here = fields;
      const double value = fields.any_number("label");
      const bool none = value != value;
      if (!none && value != -1 &&
          (value < 0 || value > 2e9 || value != static_cast<double>(std::int64_t(value)))) {
        here.fail_here(
            fmt::format("label {} found; allowed are whole numbers from 0, and nan", value));
      }
      tally.add(value);
      values.push_back(none ? -1 : value == -1 ? kMinusOne : static_cast<std::int32_t>(value));
      ++found;
    }
    if (rows == 0) columns = found;
    if (found != columns || found == 0) {
      fields.fail_here(
          fmt::format("{} labels found, {} expected", found, std::max<std::int64_t>(1, columns)));
    }
    ++rows;
  }
  check_rows(reader, rows, nodes);
  const bool signs = tally.two_signs();
  if (signs) say_two_signs(reader.file());
  std::ranges::replace(values, kMinusOne, signs ? 0 : -1);
  for (std::size_t i = 0; columns > 1 && i < values.size(); ++i) {
    if (values[i] > 1) {
      fail_input("{}: line {}: label {} found; allowed are 0, 1 and nan where a node has {} labels",
                 reader.file(), static_cast<std::int64_t>(i) / columns + 1, values[i], columns);
    }
  }
  return {std::move(values), columns, reader.file()};
}

void write_ogb_labels(ImportSession& session, OgbLabels labels) {
  if (labels.columns == 1) {
    session.labels(std::move(labels.values), labels.file);
    return;
  }
  std::vector<std::uint8_t> many(labels.values.size());
  std::ranges::transform(labels.values, many.begin(), [](std::int32_t label) {
    return label < 0 ? std::uint8_t{255} : static_cast<std::uint8_t>(label);
  });
  session.multi_labels(many, labels.columns, labels.file);
}

fs::path ogb_split_scheme(ImportSession& session) {
  const fs::path folder = session.source() / "split";
  if (!is_there(folder)) return {};
  const std::string& name = session.options().split_name;
  if (session.options().split && name.empty()) {
    session.note("own_splits_replaced", 1);
    return {};
  }
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  if (names.empty()) fail_input("{}: no split (a folder) found; 1 expected", folder.string());
  const std::string allowed = printable(fmt::format("{}", fmt::join(names, ", ")));
  if (name.empty() && names.size() > 1) {
    fail_input("{}: {} splits (folders) found; name one of them with --split-name: {}",
               folder.string(), names.size(), allowed);
  }
  if (!name.empty() && std::ranges::find(names, name) == names.end()) {
    fail_option("--split-name {}: {} has no folder of this name; allowed are {}", name,
                folder.string(), allowed);
  }
  const std::string& chosen = name.empty() ? names.front() : name;
  session.note("split_scheme", chosen);
  return folder / chosen;
}

void read_ogb_split(const fs::path& folder, std::span<std::uint8_t> split) {
  if (is_there(folder / "split_dict.pt")) {
    fail_input(
        "{}: splits saved by PyTorch can't be read; save train, valid and test as .csv.gz, one "
        "node id per line",
        (folder / "split_dict.pt").string());
  }
  const auto nodes = static_cast<std::int64_t>(split.size());
  constexpr std::array<const char*, 3> kParts = {"train", "valid", "test"};
  for (std::uint8_t part = 0; part < 3; ++part) {
    LineReader reader(folder / (std::string(kParts[part]) + ".csv.gz"));
    std::string_view line;
    while (reader.next(line)) {
      FieldReader fields(line, reader);
      const FieldReader here = fields;
      const std::int64_t node = fields.integer(0, nodes - 1, "node id");
      fields.expect_end();
      if (split[node] != 255) {
        here.fail_here(fmt::format("node {} is in {} already", node, kParts[split[node]]));
      }
      split[node] = part;
    }
  }
}

}  // namespace atl
