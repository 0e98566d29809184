#include "datasets/delta.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <set>
#include <vector>

#include "base/checksum.hpp"
#include "base/error.hpp"
#include "base/files.hpp"
#include "base/parallel.hpp"
#include "base/paths.hpp"
#include "datasets/dataset_writer.hpp"
#include "datasets/file_list.hpp"

namespace atl {

namespace fs = std::filesystem;

namespace {

// Files of a delta's folder beside dataset.json. The last two are whole arrays, which `atoll
// features` and `atoll split` put in the place of what the chain before them says.
constexpr std::array kDeltaFiles = {
    kAddedEdges,   kAddedWeights,    kAddedTypes,    kAddedEdgeFeatures,
    kRemovedEdges, kRemovedTypes,    kAddedFeatures, kAddedLabels,
    kAddedSplit,   kAddedNodeTypes,  kAddedNodeIds,  kRemovedNodes,
    kChangedNodes, kChangedFeatures, "features.npy", kSplitFile};

// One array beside another that says how many rows it has.
void require_beside(const Delta& delta, const char* name, const char* other, const char* descr,
                    std::vector<std::int64_t> shape) {
  const NpyFile* array = delta.find(name);
  if (array == nullptr) return;
  if (delta.find(other) == nullptr) {
    fail_input("{}: it is there, but {} is not", array->path().string(), other);
  }
  array->require_descr(descr);
  array->require_shape(shape);
}

// An array of ids of the first `nodes` nodes, if it is there.
void check_ids(const Delta& delta, const char* name, std::vector<std::int64_t> shape,
               std::int64_t nodes) {
  const NpyFile* array = delta.find(name);
  if (array == nullptr) return;
  array->require_descr("<i4");
  array->require_shape(shape);
  const auto ids = array->values<std::int32_t>();
  const auto wrong =
      std::ranges::find_if(ids, [&](std::int32_t id) { return id < 0 || id >= nodes; });
  if (wrong == ids.end()) return;
  fail_input("{}: entry {} is {}; allowed are node ids 0 to {}", array->path().string(),
             wrong - ids.begin(), *wrong, nodes - 1);
}

void check_arrays(const Delta& delta) {
  if (delta.find(kAddedEdges) == nullptr) {
    fail_input("{}: it is not there", (delta.folder / kAddedEdges).string());
  }
  check_ids(delta, kAddedEdges, {2, -1}, delta.nodes);
  check_ids(delta, kRemovedEdges, {2, -1}, delta.nodes);
  const std::int64_t added = delta.rows_of(kAddedEdges, 1);
  require_beside(delta, kAddedWeights, kAddedEdges, "<f4", {added});
  require_beside(delta, kAddedTypes, kAddedEdges, "<u2", {added});
  require_beside(delta, kAddedEdgeFeatures, kAddedEdges, "<f4", {added, -1});
  require_beside(delta, kRemovedTypes, kRemovedEdges, "<u2", {delta.rows_of(kRemovedEdges, 1)});
  check_ids(delta, kRemovedNodes, {-1}, delta.nodes_before);
  check_ids(delta, kChangedNodes, {-1}, delta.nodes_before);
  require_beside(delta, kChangedFeatures, kChangedNodes, "<f4", {delta.rows_of(kChangedNodes), -1});
  if ((delta.find(kChangedNodes) == nullptr) != (delta.find(kChangedFeatures) == nullptr)) {
    fail_input("{}: one of {} and {} is not there", delta.folder.string(), kChangedNodes,
               kChangedFeatures);
  }
}

Delta open_delta(const fs::path& folder, const Json& json, bool with_split) {
  const fs::path file = folder / "dataset.json";
  Delta delta{.folder = folder, .json = json, .arrays = {}};
  const auto changes = json_field<Json>(json, "delta", file);
  delta.nodes = json_field<std::int64_t>(json, "nodes", file);
  delta.nodes_before = json_field<std::int64_t>(changes, "nodes_before", file);
  if (delta.nodes_before < 1 || delta.nodes < delta.nodes_before ||
      delta.nodes > std::numeric_limits<std::int32_t>::max()) {
    fail_input("{}: {} nodes after {}; allowed are as many or more, and at most 2^31 - 1",
               file.string(), delta.nodes, delta.nodes_before);
  }
  const auto files = json_field<Json>(changes, "files", file);
  if (!files.is_object()) fail_input("{}: field 'files' of 'delta' is no object", file.string());
  for (const auto& [name, entry] : files.items()) {
    if (std::ranges::find(kDeltaFiles, name) == kDeltaFiles.end()) {
      fail_input("{}: 'files' of 'delta' names {}; allowed are {}", file.string(),
                 Json(name).dump(), fmt::join(kDeltaFiles, ", "));
    }
  }
  for (const char* name : kDeltaFiles) {
    if (!with_split && name == std::string_view(kSplitFile)) continue;
    const fs::path path = folder / name;
    const bool there = is_there(path);
    if (there != files.contains(name)) {
      const std::string found =
          there ? "not listed in dataset.json" : "listed in dataset.json, but not there";
      with_remedy(fmt::format("if atoll split or atoll features {} was interrupted, run it again "
                              "with --replace",
                              folder.string()),
                  [&] { fail_input("{}: {}", path.string(), found); });
    }
    if (!there) continue;
    check_file_size(path, files[name], file);
    if (name != std::string_view(kAddedNodeIds)) delta.arrays.emplace(name, NpyFile(path));
  }
  check_arrays(delta);
  const std::int64_t entries = delta.rows_of(kAddedEdges, 1);
  const auto added = json_field_or<std::int64_t>(changes, "edges_added", file, 0);
  if (added < 0 || added > entries) {
    fail_input("{}: field 'edges_added' is {}; allowed are 0 to {}, the entries of {}",
               file.string(), added, entries, kAddedEdges);
  }
  return delta;
}

// The checksum that stands for a folder's content: as its dataset.json states it, or its files are.
// Those of a delta are not its content.
std::string content_checksum(const fs::path& folder, const Json& json) {
  const fs::path file = folder / "dataset.json";
  if (json.contains("checksum")) return json_field<std::string>(json, "checksum", file);
  if (!is_delta(json)) return overall_checksum(describe_files(folder));
  fail_input(
      "{}: field 'checksum' is missing, which a delta needs that another one stands on; 'atoll "
      "compact' makes a folder of it that needs none",
      file.string());
}

// Beside `file`, the dataset.json of a delta.
fs::path base_of(const Json& changes, const fs::path& file) {
  const auto text = json_field<std::string>(changes, "base", file);
  // Where the folder is reached by a link, only the system finds the way out of it.
  const fs::path way = file.parent_path() / text;
  fs::path base = way.lexically_normal();
  std::error_code error;
  if (!fs::equivalent(base, way, error)) base = fs::weakly_canonical(way, error);
  if (!fs::is_directory(base, error) || !is_there(base / "dataset.json")) {
    fail_input(
        "{}: its base {} is not there; the folder holds only what changed since. Move the base "
        "back, or write its new place into field 'base' and remove the field 'seal'",
        file.parent_path().string(), base.string());
  }
  return without_slash(base);
}

}  // namespace

const NpyFile* Delta::find(const char* name) const {
  const auto at = arrays.find(name);
  return at == arrays.end() ? nullptr : &at->second;
}

std::int64_t Delta::rows_of(const char* name, std::size_t axis) const {
  const NpyFile* array = find(name);
  return array != nullptr && axis < array->header().shape.size() ? array->header().shape[axis] : 0;
}

bool is_delta(const Json& dataset_json) {
  return dataset_json.is_object() && dataset_json.contains("format") &&
         dataset_json["format"] == kDeltaFormat;
}

Chain read_chain(const fs::path& folder, const Json& json, bool with_split) {
  Chain chain;
  std::vector<std::pair<fs::path, Json>> links;  // the newest first
  std::set<fs::path> seen;
  fs::path at = folder;
  Json description = json;
  while (is_delta(description)) {
    std::error_code error;
    if (!seen.insert(fs::weakly_canonical(at, error)).second) {
      fail_input("{}: the chain of its bases comes back to {}", folder.string(), at.string());
    }
    const fs::path file = at / "dataset.json";
    const auto changes = json_field<Json>(description, "delta", file);
    const fs::path base = base_of(changes, file);
    links.emplace_back(at, std::move(description));
    description = read_dataset_json(base);
    const auto then = json_field<std::string>(changes, "base_checksum", file);
    const std::string now = content_checksum(base, description);
    if (now != then) {
      fail_input("{}: its base {} has changed: checksum {} found, {} when the delta was made",
                 at.string(), base.string(), now, then);
    }
    at = base;
  }
  chain.base = at;
  std::ranges::reverse(links);
  chain.deltas.resize(links.size());
  parallel_for(std::ssize(links), 1, [&](std::int64_t l) {
    const auto& [place, text] = links[l];
    chain.deltas[l] = open_delta(place, text, with_split || place != folder);
  });
  for (std::size_t l = 1; l < chain.deltas.size(); ++l) {
    const Delta& delta = chain.deltas[l];
    if (delta.nodes_before == chain.deltas[l - 1].nodes) continue;
    fail_input("{}: field 'nodes_before' is {}, but the base has {} nodes",
               (delta.folder / "dataset.json").string(), delta.nodes_before,
               chain.deltas[l - 1].nodes);
  }
  return chain;
}

void check_chain_files(const Chain& chain, bool with_split) {
  const auto check = [&](const fs::path& folder, const Json& files) {
    with_remedy("restore the file, or make the dataset again", [&] {
      for (const auto& [name, entry] : files.items()) {
        const bool newest = folder == chain.deltas.back().folder;
        if (name == kSplitFile && newest && !with_split) continue;
        check_file(folder / name, entry, folder / "dataset.json");
      }
    });
  };
  const Json base = read_dataset_json(chain.base);
  if (base.contains("files")) check(chain.base, base["files"]);
  for (const Delta& delta : chain.deltas) check(delta.folder, delta.json["delta"]["files"]);
}

Json describe_chain(const Chain& chain) {
  Json links = Json::array();
  const auto bytes_of = [](const Json& files) {
    std::int64_t bytes = 0;
    for (const auto& [name, entry] : files.items()) bytes += entry.value("bytes", std::int64_t{0});
    return bytes;
  };
  const Json base = read_dataset_json(chain.base);
  links.push_back(
      {{"folder", chain.base.string()},
       {"nodes", chain.deltas.front().nodes_before},
       {"bytes", bytes_of(base.contains("files") ? base["files"] : describe_files(chain.base))}});
  for (const Delta& delta : chain.deltas) {
    const auto changes = json_field<Json>(delta.json, "delta", delta.folder / "dataset.json");
    links.push_back({{"folder", delta.folder.string()},
                     {"nodes_added", delta.nodes_added()},
                     {"nodes_removed", delta.rows_of(kRemovedNodes)},
                     {"edges_added", json_field_or<std::int64_t>(changes, "edges_added",
                                                                 delta.folder / "dataset.json", 0)},
                     {"edges_removed", delta.rows_of(kRemovedEdges, 1)},
                     {"features_changed", delta.rows_of(kChangedNodes)},
                     {"bytes", bytes_of(changes["files"])}});
    const auto folded = json_field_or<std::vector<std::string>>(changes, "folded",
                                                                delta.folder / "dataset.json", {});
    if (!folded.empty()) links.back()["folded"] = folded;
  }
  return links;
}

Json describe_files(const WholeFiles& files) {
  std::vector<const WholeFiles::value_type*> entries;
  for (const auto& entry : files) entries.push_back(&entry);
  std::vector<std::uint64_t> sums(entries.size());
  parallel_for(std::ssize(entries), 1,
               [&](std::int64_t i) { sums[i] = checksum(entries[i]->second->bytes()); });
  Json json = Json::object();
  for (const char* name : kDatasetFiles) {
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (entries[i]->first != name) continue;
      json[name] = {{"bytes", entries[i]->second->bytes().size()}, {"xxh3", to_hex(sums[i])}};
    }
  }
  return json;
}

}  // namespace atl
