#include "engine/placement/graph_shape.hpp"

#include <array>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/json_entry.hpp"

namespace atl {

namespace {

constexpr int kShapeFormat = 1;
// With these, bytes and operations of an epoch are numbers of 63 bits.
constexpr std::int64_t kMostNodes = 100'000'000'000;
constexpr std::int64_t kMostEdges = 10'000'000'000'000;
constexpr std::int64_t kMostColumns = 1 << 20;

constexpr std::int64_t kMostTypes = 1 << 16;

struct Count {
  const char* name;
  std::int64_t PartQuality::*member;
  std::int64_t most;
};
constexpr std::array<Count, 5> kCounts = {{
    {"nodes", &PartQuality::nodes, kMostNodes},
    {"central", &PartQuality::central, kMostNodes},
    {"edges", &PartQuality::edges, kMostEdges},
    {"marginal_edges", &PartQuality::marginal_edges, kMostEdges},
    {"training_nodes", &PartQuality::training_nodes, kMostNodes},
}};

class ShapeReader {
 public:
  ShapeReader(const Json& json, const std::string& place)
      : root_(json, place,
              {"format", "name", "nodes", "edges", "features", "classes", "relations",
               "edge_features", "node_types", "partition", "parts", "forward_rows", "backward_rows",
               "forward_messages", "forward_sums", "backward_messages", "backward_sums"}) {}

  GraphShape read() {
    root_.require_format(kShapeFormat);
    shape_.name = root_.text("name", "names");
    shape_.nodes = root_.whole("nodes", 1, kMostNodes);
    shape_.edges = root_.whole("edges", 0, kMostEdges);
    shape_.features = root_.whole("features", 1, kMostColumns);
    shape_.classes = root_.whole("classes", 1, kMostColumns);
    shape_.relations = root_.whole_or("relations", 1, kMostTypes, 0);
    shape_.edge_features = root_.whole_or("edge_features", 1, kMostColumns, 0);
    shape_.node_types = root_.whole_or("node_types", 1, kMostTypes, 0);
    const Json& parts = root_.required("parts", "lists of parts, and objects for equal parts");
    if (parts.is_array() && !parts.empty() && parts.size() <= kMaxParts) {
      read_parts(parts);
    } else if (parts.is_object()) {
      make_parts(parts);
    } else {
      root_.refuse("parts", parts,
                   fmt::format("lists of 1 to {} parts, and objects for equal parts", kMaxParts));
    }
    if (root_.has("partition")) {
      shape_.partition =
          parse_partition_options(root_.json.at("partition"), part_count(), root_.place);
    }
    quality().shares.assign(quality().parts.size(), 1.0 / part_count());
    check_parts();
    check_rows("forward_rows", quality().forward_rows);
    check_rows("backward_rows", quality().backward_rows);
    read_cover("forward", quality().forward_rows, quality().forward_cover);
    if (root_.has("backward_messages") || root_.has("backward_sums") ||
        root_.has("backward_rows")) {
      read_cover("backward", quality().backward_rows, quality().backward_cover);
    } else {
      quality().backward_cover = quality().forward_cover;
    }
    return std::move(shape_);
  }

 private:
  PartitionQuality& quality() { return shape_.quality; }
  int part_count() { return static_cast<int>(quality().parts.size()); }

  // A list with every part, and matrices of halo rows.
  void read_parts(const Json& parts) {
    std::vector<std::string> names;
    for (const Count& count : kCounts) names.emplace_back(count.name);
    for (std::size_t p = 0; p < parts.size(); ++p) {
      const JsonEntry entry(parts[p], fmt::format("{}: parts[{}]", root_.place, p), names);
      PartQuality part;
      for (const Count& count : kCounts) {
        part.*count.member = entry.whole(count.name, 0, count.most);
      }
      quality().parts.push_back(part);
    }
    quality().forward_rows = read_matrix("forward_rows");
    quality().backward_rows =
        root_.has("backward_rows") ? read_matrix("backward_rows") : quality().forward_rows;
  }

  // Absent: not counted.
  void read_cover(const std::string& direction, const std::vector<std::int64_t>& rows,
                  CoverCounts& cover) {
    const std::string messages = direction + "_messages";
    const std::string sums = direction + "_sums";
    if (!root_.has(messages.c_str()) && !root_.has(sums.c_str())) return;
    cover = {read_matrix(messages.c_str()), read_matrix(sums.c_str())};
    const std::size_t parts = quality().parts.size();
    for (std::size_t pair = 0; pair < rows.size(); ++pair) {
      const auto check = [&](const std::string& field, std::int64_t found, std::int64_t most,
                             const std::string& what) {
        if (found <= most) return;
        fail_input("{}: '{}[{}][{}]' is {}; allowed are 0 to {}, {}", root_.place, field,
                   pair / parts, pair % parts, found, most, what);
      };
      check(messages, cover.messages[pair], rows[pair], "the rows between these parts");
      check(sums, cover.sums[pair], cover.messages[pair], "the messages between these parts");
    }
  }

  std::vector<std::int64_t> read_matrix(const char* field) {
    const std::size_t parts = quality().parts.size();
    const std::string allowed = fmt::format("lists of {} lists of {} row counts", parts, parts);
    const Json& matrix = root_.required(field, allowed);
    if (!matrix.is_array() || matrix.size() != parts) root_.refuse(field, matrix, allowed);
    std::vector<std::int64_t> rows;
    for (std::size_t to = 0; to < parts; ++to) {
      const std::string name = fmt::format("{}[{}]", field, to);
      if (!matrix[to].is_array() || matrix[to].size() != parts) {
        root_.refuse(name, matrix[to], fmt::format("lists of {} row counts", parts));
      }
      for (std::size_t from = 0; from < parts; ++from) {
        const Json& found = matrix[to][from];
        if (!found.is_number_integer() || found < 0 || found > kMostNodes) {
          root_.refuse(fmt::format("{}[{}]", name, from), found,
                       fmt::format("whole numbers from 0 to {}", kMostNodes));
        }
        rows.push_back(found.get<std::int64_t>());
      }
    }
    return rows;
  }

  // Equal parts, as a person describes them.
  void make_parts(const Json& json) {
    for (const char* field : {"forward_rows", "backward_rows", "forward_messages", "forward_sums",
                              "backward_messages", "backward_sums", "partition"}) {
      if (!root_.has(field)) continue;
      fail_input("{}: '{}' stands beside equal parts; allowed is it beside a list of parts",
                 root_.place, field);
    }
    const JsonEntry entry(json, fmt::format("{}: parts", root_.place),
                          {"count", "per_host", "central_share", "marginal_edges_share",
                           "training_nodes", "halo_rows"});
    const std::int64_t count = entry.whole("count", 1, kMaxParts);
    const std::int64_t per_host = entry.whole("per_host", 1, count);
    const double central = share_of(entry, "central_share");
    const double marginal_edges = share_of(entry, "marginal_edges_share");
    const std::int64_t training = entry.whole("training_nodes", 0, shape_.nodes);
    const JsonEntry rows(entry.required("halo_rows", "objects with within_host, between_hosts"),
                         entry.place + ".halo_rows", {"within_host", "between_hosts"});
    const std::int64_t within = rows.whole("within_host", 0, kMostNodes);
    const std::int64_t between = rows.whole("between_hosts", 0, kMostNodes);
    for (std::int64_t p = 0; p < count; ++p) {
      // The remainder goes to the first parts.
      const auto part_of = [&](std::int64_t total) {
        return total / count + (p < total % count ? 1 : 0);
      };
      PartQuality part{.nodes = part_of(shape_.nodes),
                       .edges = part_of(shape_.edges),
                       .training_nodes = part_of(training)};
      part.central = std::llround(central * static_cast<double>(part.nodes));
      part.marginal_edges = std::llround(marginal_edges * static_cast<double>(part.edges));
      quality().parts.push_back(part);
      for (std::int64_t from = 0; from < count; ++from) {
        const bool same_host = from / per_host == p / per_host;
        quality().forward_rows.push_back(from == p ? 0 : same_host ? within : between);
      }
    }
    quality().backward_rows = quality().forward_rows;
  }

  static double share_of(const JsonEntry& entry, const char* field) {
    const char* const allowed = "numbers from 0 to 1";
    const Json& found = entry.required(field, allowed);
    if (!found.is_number() || !(found.get<double>() >= 0 && found.get<double>() <= 1)) {
      entry.refuse(field, found, allowed);
    }
    return found.get<double>();
  }

  void check_parts() {
    for (std::size_t p = 0; p < quality().parts.size(); ++p) {
      const PartQuality& part = quality().parts[p];
      const auto check = [&](const char* field, std::int64_t found, std::int64_t least,
                             std::int64_t most, const char* what) {
        if (found >= least && found <= most) return;
        fail_input("{}: part {}: '{}' is {}; allowed are {} to {}, {}", root_.place, p, field,
                   found, least, most, what);
      };
      check("nodes", part.nodes, 1, kMostNodes, "a part is never empty");
      check("central", part.central, 0, part.nodes, "its nodes");
      check("training_nodes", part.training_nodes, 0, part.nodes, "its nodes");
      check("marginal_edges", part.marginal_edges, 0, part.central < part.nodes ? part.edges : 0,
            "the edges of its nodes that aren't central");
    }
    for (const auto& [field, total, member] :
         {std::tuple("nodes", shape_.nodes, &PartQuality::nodes),
          {"edges", shape_.edges, &PartQuality::edges}}) {
      const std::int64_t sum =
          std::accumulate(quality().parts.begin(), quality().parts.end(), std::int64_t{0},
                          [member = member](std::int64_t so_far, const PartQuality& part) {
                            return so_far + part.*member;
                          });
      if (sum == total) continue;
      fail_input("{}: '{}' is {}, but those of its parts sum to {}; allowed is their sum",
                 root_.place, field, total, sum);
    }
  }

  // Sums the rows that each part receives, too.
  void check_rows(const char* field, const std::vector<std::int64_t>& rows) {
    const bool forward = field == std::string("forward_rows");
    const std::size_t parts = quality().parts.size();
    for (std::size_t to = 0; to < parts; ++to) {
      PartQuality& part = quality().parts[to];
      std::int64_t received = 0;
      for (std::size_t from = 0; from < parts; ++from) {
        const std::int64_t found = rows[to * parts + from];
        const std::int64_t most = from == to ? 0 : quality().parts[from].nodes;
        if (found > most) {
          fail_input("{}: {}: part {} receives {} halo rows from part {}; allowed are 0 to {}, {}",
                     root_.place, field, to, found, from, most,
                     from == to ? "none from itself" : "the nodes of that part");
        }
        received += found;
      }
      (forward ? part.halo_forward : part.halo_backward) = received;
      if (forward && received > part.marginal_edges) {
        fail_input(
            "{}: {}: part {} receives {} halo rows over {} marginal edges; allowed is at most a "
            "row per marginal edge",
            root_.place, field, to, received, part.marginal_edges);
      }
    }
  }

  JsonEntry root_;
  GraphShape shape_;
};

}  // namespace

PartitionQuality GraphShape::uncut() const {
  PartQuality all{.nodes = nodes, .central = nodes, .edges = edges};
  for (const PartQuality& part : quality.parts) all.training_nodes += part.training_nodes;
  PartitionQuality one;
  one.parts = {all};
  one.forward_rows = one.backward_rows = {0};
  return one;
}

Json to_json(const GraphShape& shape) {
  Json parts = Json::array();
  for (const PartQuality& part : shape.quality.parts) {
    Json json;
    for (const Count& count : kCounts) json[count.name] = part.*count.member;
    parts.push_back(std::move(json));
  }
  const Json quality = to_json(shape.quality);
  Json json = {{"format", kShapeFormat},
               {"name", shape.name},
               {"nodes", shape.nodes},
               {"edges", shape.edges},
               {"features", shape.features},
               {"classes", shape.classes},
               {"partition", to_json(shape.partition)},
               {"parts", parts},
               {"forward_rows", quality.at("forward_rows")}};
  if (shape.relations > 0) json["relations"] = shape.relations;
  if (shape.edge_features > 0) json["edge_features"] = shape.edge_features;
  if (shape.node_types > 0) json["node_types"] = shape.node_types;
  if (shape.quality.backward_rows != shape.quality.forward_rows) {
    json["backward_rows"] = quality.at("backward_rows");
  }
  const bool same_cover = shape.quality.backward_cover == shape.quality.forward_cover;
  for (const char* field :
       {"forward_messages", "forward_sums", "backward_messages", "backward_sums"}) {
    const bool backward = std::string_view(field).starts_with("backward");
    if (quality.contains(field) && !(backward && same_cover)) json[field] = quality.at(field);
  }
  return json;
}

GraphShape parse_shape(const Json& json, const std::string& place) {
  return ShapeReader(json, place).read();
}

GraphShape read_shape(const std::filesystem::path& path) {
  return parse_shape(read_json(path), path.string());
}

}  // namespace atl
