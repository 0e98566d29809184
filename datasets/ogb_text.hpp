// The text files of which the Open Graph Benchmark's raw layouts consist: one node or edge per
// line, gzip. Internal to datasets/. All throw Error{kInput} naming file and line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace atl {

class ImportSession;

// The only number of a list with one graph.
std::int64_t read_ogb_count(const std::filesystem::path& path, std::int64_t maximum);

// Hands every "source,target" of FOLDER/edge.csv.gz to `add`; as many as num-edge-list.csv.gz says,
// where it is there.
void read_ogb_edges(const std::filesystem::path& folder, std::int64_t sources, std::int64_t targets,
                    const std::function<void(std::int64_t, std::int64_t)>& add);

// Hands each of `rows` rows, which are equally long, to `add`; `whose`: what has one of them.
void read_ogb_features(const std::filesystem::path& path, std::int64_t rows, const char* whose,
                       const std::function<void(std::span<float>)>& add);

// Each different number of a file with one per node is a type of nodes, in ascending order.
struct OgbTypes {
  std::vector<std::uint16_t> type_of;
  std::vector<std::int64_t> numbers;  // by type
};
OgbTypes read_ogb_types(const std::filesystem::path& path, std::int64_t nodes);

// One column: a class, -1 = none. Several: 0 or 1 per class, -1 = none.
struct OgbLabels {
  std::vector<std::int32_t> values;  // [nodes, columns]
  std::int64_t columns = 0;
  std::string file;
};
OgbLabels read_ogb_labels(const std::filesystem::path& path, std::int64_t nodes);
// Labels of all nodes of the session.
void write_ogb_labels(ImportSession& session, OgbLabels labels);

// The folder of split/ that --split-name says, or the only one; its name is noted. Empty if there
// is no split/, or if --split replaces what it holds.
std::filesystem::path ogb_split_scheme(ImportSession& session);
// Sets the nodes that train.csv.gz, valid.csv.gz and test.csv.gz of `folder` list; the others must
// be 255 before and stay so.
void read_ogb_split(const std::filesystem::path& folder, std::span<std::uint8_t> split);

}  // namespace atl
