#include "partition/quality.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>

#include "base/error.hpp"
#include "partition/partitioner.hpp"

namespace atl {

namespace {

struct Quantity {
  const char* name;
  std::int64_t PartQuality::*member;
  // Whether reports tell its balance: where a partitioner can balance it, and for the halo, which
  // decides how long the slowest rank waits.
  bool has_balance = false;
};
constexpr std::array<Quantity, 8> kQuantities = {{
    {"nodes", &PartQuality::nodes, true},
    {"central", &PartQuality::central},
    {"edges", &PartQuality::edges, true},
    {"marginal_edges", &PartQuality::marginal_edges},
    {"training_nodes", &PartQuality::training_nodes, true},
    {"cost", &PartQuality::cost, true},
    {"halo_forward", &PartQuality::halo_forward, true},
    {"halo_backward", &PartQuality::halo_backward},
}};
struct Cover {
  const char* messages;
  const char* sums;
  CoverCounts PartitionQuality::*member;
};
constexpr std::array<Cover, 2> kCovers = {{
    {"forward_messages", "forward_sums", &PartitionQuality::forward_cover},
    {"backward_messages", "backward_sums", &PartitionQuality::backward_cover},
}};

PartQuality measure_part(const LocalGraphBuilder& builder, int part,
                         std::span<const std::uint8_t> split, std::int64_t& cut_edges) {
  const CsrView in = builder.graph().in_edges;
  const CsrView out = builder.out_edges();
  const auto part_of = builder.part_of();
  const auto inner = builder.inner_ids(part);
  PartQuality result;
  result.nodes = static_cast<std::int64_t>(inner.size());
  result.central = builder.central(part);
  for (std::size_t i = 0; i < inner.size(); ++i) {
    const std::int64_t v = to_index(inner[i]);
    const auto row = in.row(v);
    const auto in_degree = static_cast<std::int64_t>(row.size());
    const auto out_degree = static_cast<std::int64_t>(out.row(v).size());
    result.edges += in_degree;
    result.cost += kNodeCost + (in_degree + out_degree + 1) / 2;
    if (!split.empty() && split[v] == 0) ++result.training_nodes;
    if (static_cast<std::int64_t>(i) < result.central) continue;
    result.marginal_edges += in_degree;
    cut_edges += std::ranges::count_if(row, [&](std::int32_t u) { return part_of[u] != part; });
  }
  return result;
}

Json matrix_json(const std::vector<std::int64_t>& rows, std::size_t parts) {
  Json matrix = Json::array();
  for (std::size_t to = 0; to < parts; ++to) {
    const auto begin = rows.begin() + static_cast<std::ptrdiff_t>(to * parts);
    matrix.push_back(std::vector<std::int64_t>(begin, begin + static_cast<std::ptrdiff_t>(parts)));
  }
  return matrix;
}

std::vector<std::int64_t> parse_matrix(const Json& json, const char* field, std::size_t parts,
                                       const std::filesystem::path& file) {
  std::vector<std::int64_t> flat;
  for (const auto& row : json_field<std::vector<std::vector<std::int64_t>>>(json, field, file)) {
    flat.insert(flat.end(), row.begin(), row.end());
  }
  if (flat.size() != parts * parts) {
    fail_input("{}: field '{}' has {} numbers; {} parts need {}", file.string(), field, flat.size(),
               parts, parts * parts);
  }
  return flat;
}

std::string matrix_text(const char* title, const std::vector<std::int64_t>& rows,
                        std::size_t parts) {
  std::string text = fmt::format("\n{} (row: receiver, column: owner)\n{:>6}", title, "");
  for (std::size_t from = 0; from < parts; ++from) text += fmt::format("{:>9}", from);
  for (std::size_t to = 0; to < parts; ++to) {
    text += fmt::format("\n{:>6}", to);
    for (std::size_t from = 0; from < parts; ++from) {
      text +=
          to == from ? fmt::format("{:>9}", "-") : fmt::format("{:>9}", rows[to * parts + from]);
    }
  }
  return text + "\n";
}

double percent(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

PartQuality PartitionQuality::total() const {
  PartQuality sum;
  for (const PartQuality& part : parts) {
    for (const Quantity& quantity : kQuantities) sum.*quantity.member += part.*quantity.member;
  }
  return sum;
}

double PartitionQuality::balance(std::int64_t PartQuality::*quantity) const {
  const auto whole = static_cast<double>(total().*quantity);
  if (whole == 0) return 0;
  double worst = 0;
  for (std::size_t p = 0; p < parts.size(); ++p) {
    worst = std::max(worst, static_cast<double>(parts[p].*quantity) / (shares[p] * whole));
  }
  return worst;
}

PartitionQuality measure_quality(const LocalGraphBuilder& builder,
                                 std::span<const std::uint8_t> split, std::vector<double> shares) {
  const int parts = builder.parts();
  ATOLL_ASSERT(shares.size() == static_cast<std::size_t>(parts));
  PartitionQuality quality;
  quality.shares = std::move(shares);
  for (int to = 0; to < parts; ++to) {
    PartQuality part = measure_part(builder, to, split, quality.cut_edges);
    for (int from = 0; from < parts; ++from) {
      quality.forward_rows.push_back(builder.halo_rows(Direction::kForward, from, to));
      quality.backward_rows.push_back(builder.halo_rows(Direction::kBackward, from, to));
      part.halo_forward += quality.forward_rows.back();
      part.halo_backward += quality.backward_rows.back();
    }
    quality.parts.push_back(part);
  }
  quality.forward_cover = count_cover(builder, Direction::kForward);
  quality.backward_cover = builder.graph().symmetric ? quality.forward_cover
                                                     : count_cover(builder, Direction::kBackward);
  return quality;
}

Json to_json(const PartitionQuality& quality) {
  const auto part_json = [](const PartQuality& part) {
    Json json;
    for (const Quantity& quantity : kQuantities) json[quantity.name] = part.*quantity.member;
    return json;
  };
  Json json;
  json["parts"] = quality.parts.size();
  json["cut_edges"] = quality.cut_edges;
  json["total"] = part_json(quality.total());
  for (const Quantity& quantity : kQuantities) {
    if (!quantity.has_balance) continue;
    json["balance"][quantity.name] = quality.balance(quantity.member);
  }
  json["shares"] = quality.shares;
  json["per_part"] = Json::array();
  for (const PartQuality& part : quality.parts) json["per_part"].push_back(part_json(part));
  json["forward_rows"] = matrix_json(quality.forward_rows, quality.parts.size());
  json["backward_rows"] = matrix_json(quality.backward_rows, quality.parts.size());
  for (const Cover& cover : kCovers) {
    const CoverCounts& counts = quality.*cover.member;
    if (counts.messages.empty()) continue;
    json[cover.messages] = matrix_json(counts.messages, quality.parts.size());
    json[cover.sums] = matrix_json(counts.sums, quality.parts.size());
  }
  return json;
}

PartitionQuality parse_quality(const Json& json, const std::filesystem::path& file) {
  PartitionQuality quality;
  quality.shares = json_field<std::vector<double>>(json, "shares", file);
  quality.cut_edges = json_field<std::int64_t>(json, "cut_edges", file);
  for (const Json& entry : json_field<Json>(json, "per_part", file)) {
    PartQuality part;
    for (const Quantity& quantity : kQuantities) {
      part.*quantity.member = json_field<std::int64_t>(entry, quantity.name, file);
    }
    quality.parts.push_back(part);
  }
  quality.forward_rows = parse_matrix(json, "forward_rows", quality.parts.size(), file);
  quality.backward_rows = parse_matrix(json, "backward_rows", quality.parts.size(), file);
  for (const Cover& cover : kCovers) {
    if (!json.contains(cover.messages)) continue;
    quality.*cover.member = {parse_matrix(json, cover.messages, quality.parts.size(), file),
                             parse_matrix(json, cover.sums, quality.parts.size(), file)};
  }
  if (quality.shares.size() != quality.parts.size()) {
    fail_input("{}: {} shares for {} parts", file.string(), quality.shares.size(),
               quality.parts.size());
  }
  return quality;
}

std::string to_text(const PartitionQuality& quality) {
  const PartQuality total = quality.total();
  std::string text =
      fmt::format("{:>6}{:>12}{:>9}{:>13}{:>9}{:>12}{:>14}{:>12}{:>12}\n", "part", "nodes",
                  "marginal", "edges", "marginal", "training", "cost", "halo", "halo");
  text += fmt::format("{:>6}{:>12}{:>9}{:>13}{:>9}{:>12}{:>14}{:>12}{:>12}\n", "", "", "nodes", "",
                      "edges", "nodes", "", "forward", "backward");
  const auto line = [&](const std::string& name, const PartQuality& part) {
    text += fmt::format("{:>6}{:>12}{:>8.1f}%{:>13}{:>8.1f}%{:>12}{:>14}{:>12}{:>12}\n", name,
                        part.nodes, percent(part.nodes - part.central, part.nodes), part.edges,
                        percent(part.marginal_edges, part.edges), part.training_nodes, part.cost,
                        part.halo_forward, part.halo_backward);
  };
  for (std::size_t p = 0; p < quality.parts.size() && quality.parts.size() <= 64; ++p) {
    line(std::to_string(p), quality.parts[p]);
  }
  line("all", total);
  text +=
      fmt::format("\ncut edges {} ({:.1f} %)\nlargest part against its share:", quality.cut_edges,
                  percent(quality.cut_edges, total.edges));
  for (const Quantity& quantity : kQuantities) {
    if (!quantity.has_balance) continue;
    text += fmt::format(" {} {:.3f}", quantity.name, quality.balance(quantity.member));
  }
  text += "\n";
  const auto add_cover = [&](const char* direction, std::int64_t rows, const CoverCounts& cover) {
    if (cover.messages.empty() || rows == 0) return;
    const auto sum = [](const std::vector<std::int64_t>& counts) {
      return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    };
    const std::int64_t messages = sum(cover.messages);
    text += fmt::format("messages {}: {} rows, or {} ({:.1f} %) where {} are partial sums\n",
                        direction, rows, messages, percent(messages, rows), sum(cover.sums));
  };
  add_cover("forward", total.halo_forward, quality.forward_cover);
  if (quality.forward_cover != quality.backward_cover) {
    add_cover("backward", total.halo_backward, quality.backward_cover);
  }
  if (quality.parts.size() < 2 || quality.parts.size() > 16) return text;
  text += matrix_text("halo rows forward", quality.forward_rows, quality.parts.size());
  if (quality.forward_rows != quality.backward_rows) {
    text += matrix_text("halo rows backward", quality.backward_rows, quality.parts.size());
  }
  return text;
}

}  // namespace atl
