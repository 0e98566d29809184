#include "datasets/statistics.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/error.hpp"
#include "base/memory.hpp"
#include "base/text.hpp"
#include "datasets/partition_list.hpp"

namespace atl {

namespace {

constexpr std::size_t kShownNumbers = 8;  // described one by one; all of them in JSON

DegreeStatistics describe_degrees(const CsrView& csr) {
  std::vector<std::int64_t> degrees(static_cast<std::size_t>(csr.rows()));
  for (std::int64_t i = 0; i < csr.rows(); ++i) degrees[i] = csr.row_ptr[i + 1] - csr.row_ptr[i];
  const auto middle = degrees.begin() + (csr.rows() - 1) / 2;
  std::nth_element(degrees.begin(), middle, degrees.end());
  DegreeStatistics result;
  result.median = *middle;
  const auto [low, high] = std::minmax_element(degrees.begin(), degrees.end());
  result.minimum = *low;
  result.maximum = *high;
  result.mean = static_cast<double>(csr.nnz()) / static_cast<double>(csr.rows());
  return result;
}

// Self-loops, isolated nodes and homophily, in one walk over the edges.
void describe_edges(const CsrView& csr, std::span<const std::int32_t> labels,
                    DatasetStatistics& result) {
  std::int64_t labelled = 0;
  std::int64_t equal = 0;
  for (std::int64_t i = 0; i < csr.rows(); ++i) {
    for (const std::int32_t j : csr.row(i)) {
      if (j < 0 || j >= csr.rows()) {
        fail_input("col_idx.npy: row {} holds node {}; allowed are 0 to {}", i, j, csr.rows() - 1);
      }
      if (j == i) {
        ++result.self_loops;
        continue;
      }
      if (labels.empty() || labels[i] < 0 || labels[j] < 0) continue;
      ++labelled;
      equal += labels[i] == labels[j] ? 1 : 0;
    }
  }
  result.isolated = std::ranges::count(joined_nodes(csr, false), std::uint8_t{0});
  if (labelled > 0) result.homophily = static_cast<double>(equal) / static_cast<double>(labelled);
}

void describe_numbers(const Dataset& dataset, DatasetStatistics& result) {
  const DatasetInfo& info = dataset.info();
  const auto values = dataset.real_labels();
  result.unlabelled = std::ranges::count(dataset.labelled(), std::uint8_t{0});
  result.numbers.resize(static_cast<std::size_t>(info.classes));
  for (std::int64_t c = 0; c < info.classes; ++c) {
    DatasetStatistics::Numbers& numbers = result.numbers[static_cast<std::size_t>(c)];
    const auto for_labels = [&](auto&& use) {
      for (std::int64_t i = 0; i < info.nodes; ++i) {
        const auto value = static_cast<double>(values[i * info.classes + c]);
        if (!std::isnan(value)) use(value);
      }
    };
    double sum = 0;
    for_labels([&](double value) {
      sum += value;
      ++numbers.labelled;
    });
    const double count = static_cast<double>(std::max<std::int64_t>(numbers.labelled, 1));
    numbers.mean = sum / count;
    double squares = 0;
    for_labels([&](double v) { squares += (v - numbers.mean) * (v - numbers.mean); });
    numbers.deviation = std::sqrt(squares / count);
  }
}

void describe_labels(const Dataset& dataset, DatasetStatistics& result) {
  const DatasetInfo& info = dataset.info();
  if (info.task == Task::kRegression) return describe_numbers(dataset, result);
  result.class_counts.assign(static_cast<std::size_t>(info.classes), 0);
  for (const std::int32_t label : dataset.labels()) {
    if (label < 0) {
      ++result.unlabelled;
    } else {
      ++result.class_counts[label];
    }
  }
  const auto multi = dataset.multi_labels();
  for (std::int64_t i = 0; !multi.empty() && i < info.nodes; ++i) {
    const auto row = multi.subspan(i * info.classes, info.classes);
    for (std::int64_t c = 0; c < info.classes; ++c) result.class_counts[c] += row[c] == 1 ? 1 : 0;
    const bool none = std::all_of(row.begin(), row.end(), [](std::uint8_t v) { return v == 255; });
    result.unlabelled += none ? 1 : 0;
  }
}

std::vector<std::int64_t> count_types(std::span<const std::uint16_t> types, std::int64_t count) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(count), 0);
  for (const std::uint16_t type : types) {
    if (type < count) ++counts[type];
  }
  return counts;
}

// The first counts of a list.
std::string listed(const std::vector<std::int64_t>& counts) {
  constexpr std::size_t kMost = 16;
  const std::span<const std::int64_t> first(counts.data(), std::min(counts.size(), kMost));
  return fmt::format("{}{}", fmt::join(first, ", "), counts.size() > kMost ? ", ..." : "");
}

}  // namespace

std::string describe_padding(const std::vector<std::int64_t>& widths,
                             const std::vector<std::int64_t>& nodes) {
  const std::int64_t columns = std::ranges::max(widths);
  std::int64_t stored = 0;
  std::int64_t zeros = 0;
  for (std::size_t t = 0; t < widths.size(); ++t) {
    stored += nodes[t] * columns;
    zeros += nodes[t] * (columns - widths[t]);
  }
  constexpr std::int64_t kBytes = sizeof(float);
  return fmt::format("{}; {} columns are stored for each node: {}, of which {} are zeros",
                     listed(widths), columns, format_bytes(kBytes * stored),
                     format_bytes(kBytes * zeros));
}

namespace {

std::vector<std::string> usable_parts(const Dataset& dataset) {
  std::vector<std::string> parts;
  for (const PartitionEntry& entry : list_partitions(dataset, {}, /*every_byte=*/false)) {
    if (entry.stale.empty() && entry.kept.empty())
      parts.push_back(entry.folder.filename().string());
  }
  return parts;
}

}  // namespace

std::vector<std::uint8_t> joined_nodes(const CsrView& csr, bool symmetric) {
  std::vector<std::uint8_t> joined(static_cast<std::size_t>(csr.rows()), 0);
  for (std::int64_t i = 0; i < csr.rows(); ++i) {
    for (const std::int32_t j : csr.row(i)) {
      if (j == i) continue;
      joined[i] = joined[j] = 1;
      if (symmetric) break;
    }
  }
  return joined;
}

std::array<std::int64_t, 3> count_split(const Dataset& dataset, std::int64_t index) {
  std::array<std::int64_t, 3> counts{};
  for (const std::uint8_t part : dataset.split(index)) {
    if (part < 3) ++counts[part];
  }
  return counts;
}

DatasetStatistics describe_dataset(const Dataset& dataset) {
  const CsrView csr = dataset.graph().in_edges;
  DatasetStatistics result;
  result.degrees = describe_degrees(csr);
  describe_edges(csr, dataset.labels(), result);
  for (std::int64_t k = 0; k < dataset.info().splits; ++k) {
    result.splits.push_back(count_split(dataset, k));
  }
  describe_labels(dataset, result);
  result.relation_counts = count_types(dataset.graph().edge_types, dataset.info().relations);
  result.node_type_counts = count_types(dataset.graph().node_types, dataset.info().node_types);
  result.parts = usable_parts(dataset);
  return result;
}

Json statistics_json(const Dataset& dataset, const DatasetStatistics& s,
                     const std::string& checksums) {
  const DatasetInfo& info = dataset.info();
  Json json = {{"name", info.name},           {"nodes", info.nodes},
               {"edges", info.edges},         {"edges_source", info.edges_source},
               {"directed", info.directed},   {"weighted", info.weighted},
               {"features", info.features},   {"classes", info.classes},
               {"task", to_string(info.task)}};
  json["degree"] = {{"min", s.degrees.minimum},
                    {"median", s.degrees.median},
                    {"mean", s.degrees.mean},
                    {"max", s.degrees.maximum}};
  json["isolated"] = s.isolated;
  json["self_loops"] = s.self_loops;
  json["homophily"] = s.homophily >= 0 ? Json(s.homophily) : Json(nullptr);
  json["splits"] = Json::array();
  if (dataset.links().there()) json["links"] = info.links;
  for (const auto& split : s.splits) {
    json["splits"].push_back({{"train", split[0]}, {"valid", split[1]}, {"test", split[2]}});
  }
  json["relations"] = info.relations;
  json["edge_features"] = info.edge_features;
  json["node_types"] = info.node_types;
  if (!info.features_by_type.empty()) json["features_by_type"] = info.features_by_type;
  json["relation_counts"] = s.relation_counts;
  json["node_type_counts"] = s.node_type_counts;
  json["class_counts"] = s.class_counts;
  for (const DatasetStatistics::Numbers& numbers : s.numbers) {
    json["numbers"].push_back(
        {{"labelled", numbers.labelled}, {"mean", numbers.mean}, {"deviation", numbers.deviation}});
  }
  json["unlabelled"] = s.unlabelled;
  json["parts"] = s.parts;
  json["checksum"] = info.checksum;
  json["checksums"] = checksums;
  json["provenance"] = info.provenance;
  if (dataset.grown() != nullptr) json["chain"] = describe_chain(dataset.grown()->chain());
  return json;
}

namespace {

// A line for the base of a delta, and one for each delta behind it.
void add_chain(const Chain& links,
               const std::function<void(const char*, const std::string&)>& line) {
  const Json chain = describe_chain(links);
  const auto number = [](const Json& link, const char* field) {
    return link.at(field).get<std::int64_t>();
  };
  for (const Json& link : chain) {
    const std::string bytes = format_bytes(number(link, "bytes"));
    const auto place = link.at("folder").get<std::string>();
    if (link.contains("nodes")) {
      line("base", fmt::format("{}: {} nodes, {}", place, number(link, "nodes"), bytes));
      continue;
    }
    const auto folded = link.value("folded", std::vector<std::string>());
    std::string with;
    if (!folded.empty()) with = fmt::format(" with {}", folded.front());
    if (folded.size() > 1) with += fmt::format(" to {}", folded.back());
    line("delta",
         fmt::format("{}{}: nodes +{} -{}, edges +{} -{}, features of {} nodes changed, {}", place,
                     with, number(link, "nodes_added"), number(link, "nodes_removed"),
                     number(link, "edges_added"), number(link, "edges_removed"),
                     number(link, "features_changed"), bytes));
  }
}

}  // namespace

std::string statistics_text(const Dataset& dataset, const DatasetStatistics& s,
                            const std::string& checksums) {
  const DatasetInfo& info = dataset.info();
  std::string text;
  const auto line = [&](const char* name, const std::string& value) {
    text += fmt::format("{:<12} {}\n", name, printable(value));
  };
  if (s.isolated > 0) {
    const double share = 100 * static_cast<double>(s.isolated) / static_cast<double>(info.nodes);
    line("isolated", fmt::format("{} of {} nodes ({:.1f} %) have no edge to another node",
                                 s.isolated, info.nodes, share));
  }
  line("name", info.name);
  line("task", to_string(info.task));
  line("nodes", fmt::format("{}", info.nodes));
  line("edges", fmt::format("{} ({}{}), {} in the source", info.edges,
                            info.directed ? "directed" : "both directions",
                            info.weighted ? ", weighted" : "", info.edges_source));
  line("degree", fmt::format("min {}, median {}, mean {:.2f}, max {}", s.degrees.minimum,
                             s.degrees.median, s.degrees.mean, s.degrees.maximum));
  line("self-loops", fmt::format("{}", s.self_loops));
  if (info.relations > 0) {
    line("relations", fmt::format("{}; {} edges", info.relations, listed(s.relation_counts)));
  }
  if (info.node_types > 0) {
    line("node types", fmt::format("{}; {} nodes", info.node_types, listed(s.node_type_counts)));
  }
  line("features",
       fmt::format("{}{}", info.features,
                   info.edge_features > 0 ? fmt::format("; {} of edges", info.edge_features) : ""));
  if (!info.features_by_type.empty()) {
    line("by type", describe_padding(info.features_by_type, s.node_type_counts));
  }
  if (dataset.links().there()) {
    line("links",
         fmt::format("{} train, {} valid, {} test", info.links[0], info.links[1], info.links[2]));
  } else {
    line(info.task == Task::kRegression ? "numbers" : "classes",
         fmt::format("{}; {} nodes without label", info.classes, s.unlabelled));
  }
  for (std::size_t k = 0; k < s.numbers.size() && k < kShownNumbers; ++k) {
    const DatasetStatistics::Numbers& numbers = s.numbers[k];
    line(fmt::format("number {}", k).c_str(),
         fmt::format("{} nodes, mean {:.4g}, standard deviation {:.4g}", numbers.labelled,
                     numbers.mean, numbers.deviation));
  }
  if (!s.class_counts.empty()) {
    const auto [low, high] = std::minmax_element(s.class_counts.begin(), s.class_counts.end());
    line("class sizes",
         fmt::format("smallest {} (class {}), largest {} (class {})", *low,
                     low - s.class_counts.begin(), *high, high - s.class_counts.begin()));
  }
  if (s.homophily >= 0) line("homophily", fmt::format("{:.3f}", s.homophily));
  for (std::size_t k = 0; k < s.splits.size(); ++k) {
    line(
        fmt::format("split {}", k).c_str(),
        fmt::format("{} train, {} valid, {} test, {} none", s.splits[k][0], s.splits[k][1],
                    s.splits[k][2], info.nodes - s.splits[k][0] - s.splits[k][1] - s.splits[k][2]));
  }
  line("parts", s.parts.empty() ? "none" : fmt::format("{}", fmt::join(s.parts, ", ")));
  line("checksum", fmt::format("{} ({})", info.checksum, checksums));
  if (dataset.grown() != nullptr) add_chain(dataset.grown()->chain(), line);
  return text;
}

}  // namespace atl
