#include "engine/training/prediction_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "base/files.hpp"
#include "base/json.hpp"

namespace atl {

namespace fs = std::filesystem;

namespace {

// As a field of CSV.
std::string field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

double sigmoid(double logit) { return 1 / (1 + std::exp(-logit)); }

class PredictionLines {
 public:
  PredictionLines(PredictionKind kind, Task task, std::int64_t columns,
                  const PredictionNames& names)
      : kind_(kind), task_(task), columns_(columns), names_(names) {}

  void header() {
    text("node");
    if (kind_ != PredictionKind::kLabels) {
      const char* const of = kind_ == PredictionKind::kNumbers  ? "value"
                             : kind_ == PredictionKind::kLogits ? "logit"
                                                                : "embedding";
      for (std::int64_t c = 0; c < columns_; ++c) text(fmt::format(",{}_{}", of, c));
    } else if (task_ == Task::kMultiLabel) {
      for (std::int64_t c = 0; c < columns_; ++c) text("," + field("label_" + name_of(c)));
      probabilities_header();
    } else {
      text(",class");
      if (!names_.classes.empty()) text(",name");
      probabilities_header();
    }
    text("\n");
  }

  void row(std::int64_t node, std::span<const float> values) {
    text(names_.nodes.empty() ? std::to_string(node) : field(names_.nodes[node]));
    if (kind_ != PredictionKind::kLabels) {
      for (const float value : values) number(value);
    } else if (task_ == Task::kMultiLabel) {
      for (const float logit : values) text(logit > 0 ? ",1" : ",0");
      for (const float logit : values) number(static_cast<float>(sigmoid(logit)));
    } else if (task_ == Task::kBinary) {
      of_class(values[0] > 0 ? 1 : 0);
      number(static_cast<float>(sigmoid(values[0])));
    } else {
      const auto largest = std::ranges::max_element(values);
      of_class(largest - values.begin());
      double sum = 0;
      for (const float logit : values) sum += std::exp(static_cast<double>(logit) - *largest);
      for (const float logit : values) {
        number(static_cast<float>(std::exp(static_cast<double>(logit) - *largest) / sum));
      }
    }
    text("\n");
  }

  // The text that has been written so far, which is forgotten.
  std::string take() { return std::exchange(text_, {}); }
  std::size_t size() const { return text_.size(); }

 private:
  void text(const std::string& added) { text_ += added; }
  // The shortest that reads back to the same number.
  void number(float value) { fmt::format_to(std::back_inserter(text_), ",{}", value); }
  std::string name_of(std::int64_t c) const {
    return names_.classes.empty() ? std::to_string(c) : names_.classes[c];
  }
  void of_class(std::int64_t c) {
    text("," + std::to_string(c));
    if (!names_.classes.empty()) text("," + field(names_.classes[c]));
  }
  void probabilities_header() {
    const std::int64_t first = task_ == Task::kBinary ? 1 : 0;
    for (std::int64_t c = first; c < first + columns_; ++c) {
      text(",");
      text(field("probability_" + name_of(c)));
    }
  }

  PredictionKind kind_;
  Task task_;
  std::int64_t columns_;
  const PredictionNames& names_;
  std::string text_;
};

}  // namespace

PredictionNames prediction_names(const Dataset& dataset) {
  PredictionNames names{dataset.node_ids(), {}};
  const fs::path file = dataset.folder() / kClassNamesFile;
  std::error_code ignored;
  Json classes;
  if (fs::exists(file, ignored)) {
    classes = parse_json(read_text(file), file.string());
  } else if (const Json& made = dataset.info().provenance;
             made.is_object() && made.contains("class_names")) {
    classes = made.at("class_names");
  }
  const std::int64_t count = dataset.info().task == Task::kBinary ? 2 : dataset.info().classes;
  if (!classes.is_array() || std::ssize(classes) != count) return names;
  for (const Json& name : classes) {
    names.classes.push_back(name.is_string() ? name.get<std::string>() : name.dump());
  }
  return names;
}

bool is_table_file(const fs::path& out, std::string_view option) {
  std::string suffix = out.extension().string();
  std::ranges::transform(suffix, suffix.begin(), [](unsigned char c) { return std::tolower(c); });
  if (suffix == ".csv") return true;
  if (suffix == ".npy") return false;
  fail_option("{} {}: allowed are names that end in .npy or .csv (from Python also .parquet)",
              option, out.string());
}

void write_prediction_table(const fs::path& out, PredictionKind kind, Task task,
                            std::span<const float> values, std::int64_t columns,
                            const PredictionNames& names, std::span<const GlobalId> nodes) {
  constexpr std::size_t kBlock = 1 << 20;
  AtomicFile file(out);
  std::ofstream stream(file.path(), std::ios::binary);
  PredictionLines table(kind, task, columns, names);
  table.header();
  const auto width = static_cast<std::size_t>(columns);
  for (std::size_t begin = 0; begin < values.size() && stream; begin += width) {
    const std::size_t row = begin / width;
    table.row(nodes.empty() ? static_cast<std::int64_t>(row) : to_index(nodes[row]),
              values.subspan(begin, width));
    if (table.size() >= kBlock) stream << table.take();
  }
  stream << table.take();
  stream.close();
  if (!stream) fail_input("{}: can't write: {}", out.string(), std::strerror(errno));
  file.commit();
}

}  // namespace atl
