// The labels of a source, as classes, as several 0/1 labels per node, or as numbers to predict.
#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/progress.hpp"
#include "datasets/class_count.hpp"
#include "datasets/import_session.hpp"
#include "datasets/label_values.hpp"

namespace atl {

namespace {

// Hands every element, in order, to `check`; stops before the end when that returns false.
template <typename Check>
void each_label(ArrayReader& reader, const Check& check) {
  Activity activity("reading labels", reader.elements());
  all_values<double>(reader, [&](double value, std::int64_t at) {
    activity.advance_to(at);
    return check(value, at);
  });
}

void require_label_rows(const ArrayReader& reader, std::int64_t nodes) {
  reader.dimensions() == 1 ? reader.require_shape({nodes}) : reader.require_shape({nodes, -1});
}

void check_label_columns(const ArrayReader& reader, const char* what) {
  const std::int64_t columns = reader.length(1);
  if (columns < 1 || columns > kMaxClasses) {
    fail_input("{}: {} {} per node; allowed are 1 to {}", reader.place(), columns, what,
               kMaxClasses);
  }
}

// Classes are numbers without gaps in most sets: what is said otherwise is often a mistake.
void warn_of_empty_classes(std::span<const std::int32_t> labels, std::int64_t classes,
                           const std::string& place) {
  std::vector<bool> seen(static_cast<std::size_t>(classes), false);
  for (const std::int32_t label : labels) {
    if (label >= 0) seen[static_cast<std::size_t>(label)] = true;
  }
  const auto found = std::ranges::count(seen, true);
  if (found == 0) return;
  if (!seen[0]) {
    log::warn(
        "{}: no node has class 0, though classes are counted from 0; the classes found are {}, and "
        "the model will have {}",
        place, found, classes);
  } else if (found * 2 < classes) {
    log::warn(
        "{}: labels up to {} mean {} classes, but only {} of them have a node; if {} stands for "
        "\"no label\", write -1 instead",
        place, classes - 1, classes, found, classes - 1);
  }
}

}  // namespace

void ImportSession::labels(std::vector<std::int32_t> labels, const std::string& place,
                           std::optional<std::int64_t> columns) {
  const std::optional<std::int64_t> stated = options_.classes ? options_.classes : columns;
  const std::int64_t classes = class_count(labels, stated, place, "--classes");
  if (!stated) warn_of_empty_classes(labels, classes, place);
  labels_ = std::move(labels);
  labelled_.resize(labels_.size());
  std::transform(labels_.begin(), labels_.end(), labelled_.begin(),
                 [](std::int32_t label) { return label >= 0 ? std::uint8_t{1} : std::uint8_t{0}; });
  writer_.write_labels(labels_, classes);
}

void ImportSession::multi_labels(const std::vector<std::uint8_t>& labels, std::int64_t classes,
                                 const std::string& place) {
  const std::optional<Task>& task = options_.task;
  OneHot single = one_hot(labels, classes);
  if (task == Task::kSingleLabel || task == Task::kBinary) {
    if (single.bad_row >= 0) {
      fail_input(
          "{}: node {} has several of its {} labels; with --task {} a node has at most one, the "
          "column of its 1 (--task multi-label: any number)",
          place, single.bad_row, classes, to_string(*task));
    }
    return this->labels(std::move(single.classes), place, classes);
  }
  if (!task && single.bad_row < 0 && 2 * single.with_one >= nodes()) {
    log::warn(
        "{}: no node has more than one of its {} labels, which looks like one class per node "
        "(one-hot); they are read as {} labels per node (--task multi-label), and --task "
        "single-label reads them as classes",
        place, classes, classes);
  }
  default_task_ = Task::kMultiLabel;
  if (options_.classes && *options_.classes != classes) {
    fail_option("--classes {}: '{}' has {} labels per node", *options_.classes, writer_.info().name,
                classes);
  }
  labelled_.assign(static_cast<std::size_t>(nodes()), 0);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] != 255) labelled_[i / static_cast<std::size_t>(classes)] = 1;
  }
  writer_.write_multi_labels(labels, classes);
}

void ImportSession::real_labels(ArrayReader reader) {
  default_task_ = Task::kRegression;
  if (options_.classes) {
    fail_option("--classes {}: '{}' has numbers to predict, not classes", *options_.classes,
                writer_.info().name);
  }
  require_label_rows(reader, nodes());
  check_label_columns(reader, "numbers");
  const std::int64_t columns = reader.length(1);
  std::vector<float> values(static_cast<std::size_t>(reader.elements()));
  reader.read(values);
  labelled_.assign(static_cast<std::size_t>(nodes()), 0);
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::isinf(values[i])) {
      fail_input("{}: label {} at element {}; allowed are numbers within float32, and NaN for none",
                 reader.place(), values[i], i);
    }
    if (!std::isnan(values[i])) labelled_[i / static_cast<std::size_t>(columns)] = 1;
  }
  reader.finish();
  writer_.write_real_labels(values, columns);
}

void ImportSession::labels(ArrayReader reader) {
  if (options_.task == Task::kRegression) return real_labels(std::move(reader));
  require_label_rows(reader, nodes());
  check_label_columns(reader, "labels");
  const bool multi = reader.length(1) != 1;
  const double largest =
      multi ? 1 : static_cast<double>(std::numeric_limits<std::int32_t>::max() - 1);
  // Until it is known what -1 means.
  constexpr std::int32_t kMinusOne = -2;
  constexpr std::uint8_t kManyMinusOne = 254;
  LabelTally tally;
  std::vector<std::int32_t> single;
  std::vector<std::uint8_t> many;
  each_label(reader, [&](double value, std::int64_t at) {
    const bool none = std::isnan(value) || (multi && value == 255);
    const bool minus = value == -1;
    if (!none && !minus && (value < 0 || value > largest || value != std::floor(value))) {
      fail_input(
          "{}: label {} at element {}; allowed are whole numbers 0 to {}, and NaN or -1 for none",
          reader.place(), value, at, largest);
    }
    tally.add(none ? std::numeric_limits<double>::quiet_NaN() : value);
    if (multi) {
      many.push_back(none    ? std::uint8_t{255}
                     : minus ? kManyMinusOne
                             : static_cast<std::uint8_t>(value));
    } else {
      single.push_back(none ? -1 : minus ? kMinusOne : static_cast<std::int32_t>(value));
    }
    return true;
  });
  const bool signs = tally.two_signs() && (multi || options_.classes.value_or(2) == 2);
  if (signs) say_two_signs(reader.place());
  std::ranges::replace(single, kMinusOne, signs ? 0 : -1);
  std::ranges::replace(many, kManyMinusOne, signs ? std::uint8_t{0} : std::uint8_t{255});
  multi ? multi_labels(many, reader.length(1), reader.place())
        : labels(std::move(single), reader.place());
}

// Uses that --task could make of floating-point labels that are all whole, where they can be
// classes; empty: they can only be numbers to predict.
std::string ImportSession::choices(const LabelTally& tally, std::int64_t columns) {
  const std::string none = tally.missing() > 0 ? ", NaN: none" : "";
  if (columns > 1 && !tally.only_bits()) return "";
  if (columns > 1) {
    return fmt::format(
        "--task multi-label ({} labels per node, each 0 or 1{}), --task single-label (one class "
        "per node, the column of its only 1), --task regression ({} numbers to predict per node{})",
        columns, none, columns, none);
  }
  if (tally.smallest() < -1 || tally.largest() >= static_cast<double>(kMaxClasses)) return "";
  const bool signs = tally.two_signs();
  const auto last = signs ? 1.0 : tally.largest();
  std::string text = fmt::format("--task single-label (classes 0 to {}{}{})", std::max(0.0, last),
                                 tally.smallest() >= 0 ? ""
                                 : signs               ? ", -1: 0"
                                                       : ", -1: none",
                                 none);
  if (last == 1) text += ", --task binary (the same two classes, reported as ROC-AUC)";
  return text + fmt::format(", --task regression (numbers to predict{})", none);
}

void ImportSession::labels_or_numbers(const std::function<ArrayReader()>& open) {
  ArrayReader reader = open();
  if (reader.kind() != 'f' || options_.task) return labels(std::move(reader));
  require_label_rows(reader, nodes());
  check_label_columns(reader, "labels");
  LabelTally tally;
  each_label(reader, [&](double value, std::int64_t) {
    tally.add(value);
    return tally.whole();
  });
  if (tally.whole() && options_.classes) return labels(open());  // which says that they are some
  const std::string allowed = tally.whole() ? choices(tally, reader.length(1)) : "";
  if (allowed.empty()) return real_labels(open());
  const std::string found =
      tally.missing() == reader.elements()
          ? "all of them NaN"
          : fmt::format("all of them whole ({} to {}{})", tally.smallest(), tally.largest(),
                        tally.missing() == 0 ? "" : fmt::format("; {} are NaN", tally.missing()));
  fail_input(
      "{}: the labels are floating-point numbers, {}: they can be classes or numbers to predict. "
      "Say which: {}",
      reader.place(), found, allowed);
}

}  // namespace atl
