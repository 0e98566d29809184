// A chain of deltas and its base as one: the bytes of the files that a whole folder would hold.
#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "datasets/dataset.hpp"
#include "datasets/dataset_writer.hpp"
#include "datasets/delta.hpp"
#include "datasets/edge_merge.hpp"
#include "datasets/grown_array.hpp"

namespace atl {

namespace fs = std::filesystem;

namespace {

// The first `rows` rows of a [rows, ...] array are there before; the others and some of these are
// set by the deltas.
class NodeArrays {
 public:
  NodeArrays(const Chain& chain, const Dataset& base, WholeFiles& files)
      : chain_(chain), base_(base), files_(files), nodes_(chain.deltas.back().nodes) {}

  void features() {
    Start start = start_of("features.npy", kAddedFeatures);
    if (!start.array) return;
    start.array->require_descr("<f4");
    const std::int64_t columns = start.array->columns();
    const GrownArray grown = grow(start, {nodes_, columns}, kChangedNodes);
    if (!grown.file) return;
    const std::size_t row = sizeof(float) * static_cast<std::size_t>(columns);
    each_after(start, [&](const Delta& delta) {
      if (delta.nodes_added() > 0) {
        const NpyFile& added = required(delta, kAddedFeatures, "<f4");
        added.require_shape(std::vector{delta.nodes_added(), columns});
        copy_rows(grown, added, row, delta.nodes_before);
      }
      const NpyFile* changed = delta.find(kChangedFeatures);
      if (changed == nullptr) return;
      changed->require_shape(std::vector{delta.rows_of(kChangedNodes), columns});
      const auto ids = delta.find(kChangedNodes)->values<std::int32_t>();
      const auto values = changed->values<float>();
      for (std::size_t k = 0; k < ids.size(); ++k) {
        std::memcpy(grown.values + static_cast<std::size_t>(ids[k]) * row,
                    values.data() + k * static_cast<std::size_t>(columns), row);
      }
    });
  }

  void node_types() {
    Start start = start_of("node_types.npy", kAddedNodeTypes);
    if (!start.array) return;
    start.array->require_descr("<u2");
    const GrownArray grown = grow(start, {nodes_}, nullptr);
    if (!grown.file) return;
    each_after(start, [&](const Delta& delta) {
      if (delta.nodes_added() == 0) return;
      const NpyFile& added = required(delta, kAddedNodeTypes, "<u2");
      added.require_shape(std::vector{delta.nodes_added()});
      copy_rows(grown, added, sizeof(std::uint16_t), delta.nodes_before);
    });
  }

  void labels() {
    Start start = start_of("labels.npy", kAddedLabels);
    if (!start.array) return;
    std::vector<std::int64_t> shape = start.array->header().shape;
    shape.front() = nodes_;
    const GrownArray grown = grow(start, shape, kRemovedNodes);
    if (!grown.file) return;
    const std::size_t item = start.array->header().item_bytes();
    const auto columns = static_cast<std::size_t>(start.array->columns());
    const auto set_none = [&](std::int64_t node) {
      std::byte* at = grown.values + static_cast<std::size_t>(node) * columns * item;
      if (start.array->is("<f4")) {
        std::fill_n(reinterpret_cast<float*>(at), columns, std::numeric_limits<float>::quiet_NaN());
      } else {
        std::memset(at, 0xFF, columns * item);  // -1, or 255
      }
    };
    each_after(start, [&](const Delta& delta) {
      if (const NpyFile* added = delta.find(kAddedLabels)) {
        added->require_descr(start.array->header().descr.c_str());
        shape.front() = delta.nodes_added();
        added->require_shape(shape);
        copy_rows(grown, *added, columns * item, delta.nodes_before);
      } else {
        for (std::int64_t i = delta.nodes_before; i < delta.nodes; ++i) set_none(i);
      }
      each_removed(delta, set_none);
    });
  }

  void split() {
    Start start = start_of(kSplitFile, kAddedSplit);
    if (!start.array) return;
    start.array->require_descr("|u1");
    const std::vector<std::int64_t> before = start.array->header().shape;
    const bool matrix = before.size() == 2;
    const std::int64_t count = matrix ? before.front() : 1;
    const std::int64_t old_nodes = before.empty() ? 0 : before.back();
    if (!changes(start, kRemovedNodes)) return share(start);
    const auto shape = matrix ? std::vector{count, nodes_} : std::vector{nodes_};
    const GrownArray grown =
        count == 1 ? grown_array(*start.array, shape) : new_array("|u1", shape);
    auto* values = grown.as<std::uint8_t>();
    for (std::int64_t k = 0; count > 1 && k < count; ++k) {
      const auto old = start.array->values<std::uint8_t>().subspan(
          static_cast<std::size_t>(k * old_nodes), static_cast<std::size_t>(old_nodes));
      std::ranges::copy(old, values + k * nodes_);
    }
    for (std::int64_t k = 0; k < count; ++k) {
      std::uint8_t* of_split = values + k * nodes_;
      each_after(start, [&](const Delta& delta) {
        const NpyFile* added = delta.find(kAddedSplit);
        const auto n = static_cast<std::size_t>(delta.nodes_added());
        if (added == nullptr) {
          std::fill_n(of_split + delta.nodes_before, n, static_cast<std::uint8_t>(Split::kNone));
        } else {
          added->require_shape(std::vector{count, delta.nodes_added()});
          const auto roles =
              added->values<std::uint8_t>().subspan(static_cast<std::size_t>(k) * n, n);
          std::ranges::copy(roles, of_split + delta.nodes_before);
        }
        each_removed(delta, [&](std::int64_t node) {
          of_split[node] = static_cast<std::uint8_t>(Split::kNone);
        });
      });
    }
    files_[kSplitFile] = grown.file;
  }

  void node_ids() {
    const fs::path path = base_.folder() / kNodeIdsFile;
    if (!is_there(path)) return;
    std::string more;
    for (const Delta& delta : chain_.deltas) {
      const fs::path added = delta.folder / kAddedNodeIds;
      if (is_there(added)) more += read_text(added);
    }
    const std::size_t size = MappedFile(path).bytes().size();  // it says why it can't be opened
    auto file = std::make_shared<MappedFile>(MappedFile::grown(size + more.size(), path));
    if (!more.empty()) std::memcpy(file->writable().data() + size, more.data(), more.size());
    files_[kNodeIdsFile] = std::move(file);
  }

 private:
  // The last whole array of the chain, and the delta behind it.
  struct Start {
    const char* name;
    std::optional<NpyFile> array;
    std::size_t next = 0;
  };

  Start start_of(const char* name, const char* added) const {
    Start start{name, std::nullopt, 0};
    for (std::size_t l = 0; l < chain_.deltas.size(); ++l) {
      const NpyFile* whole = chain_.deltas[l].find(name);
      if (whole == nullptr) continue;
      start.array = *whole;
      start.next = l + 1;
    }
    if (!start.array && is_there(base_.folder() / name))
      start.array = NpyFile(base_.folder() / name);
    if (start.array) {
      const std::int64_t rows =
          start.next == 0 ? base_.info().nodes : chain_.deltas[start.next - 1].nodes;
      const auto& shape = start.array->header().shape;
      const std::int64_t found = shape.empty()                          ? 0
                                 : name == std::string_view(kSplitFile) ? shape.back()
                                                                        : shape.front();
      if (found != rows) {
        fail_input("{}: it has {} rows, {} expected, one per node", start.array->path().string(),
                   found, rows);
      }
      return start;
    }
    for (const Delta& delta : chain_.deltas) {
      if (delta.find(added) == nullptr) continue;
      fail_input("{}: it is there, but {} has no {}", (delta.folder / added).string(),
                 chain_.base.string(), name);
    }
    return start;
  }

  template <typename Visit>
  void each_after(const Start& start, const Visit& visit) const {
    for (std::size_t l = start.next; l < chain_.deltas.size(); ++l) visit(chain_.deltas[l]);
  }

  // Whether a delta behind the array changes it: by more nodes, or by rows that `other` lists.
  bool changes(const Start& start, const char* other) const {
    bool any = false;
    each_after(start, [&](const Delta& delta) {
      any = any || delta.nodes_added() > 0 || (other != nullptr && delta.rows_of(other) > 0);
    });
    return any;
  }

  void share(const Start& start) {
    files_[start.name] = std::make_shared<const MappedFile>(start.array->path());
  }

  // Empty if the file is the array already.
  GrownArray grow(const Start& start, std::vector<std::int64_t> shape, const char* other) {
    if (!changes(start, other)) {
      share(start);
      return {};
    }
    GrownArray grown = grown_array(*start.array, std::move(shape));
    files_[start.name] = grown.file;
    return grown;
  }

  static const NpyFile& required(const Delta& delta, const char* name, const char* descr) {
    const NpyFile* array = delta.find(name);
    if (array == nullptr) {
      fail_input("{}: not there, but the delta has {} new nodes", (delta.folder / name).string(),
                 delta.nodes_added());
    }
    array->require_descr(descr);
    return *array;
  }

  static void copy_rows(const GrownArray& grown, const NpyFile& rows, std::size_t row_bytes,
                        std::int64_t at) {
    const std::span<const std::byte> values = rows.value_bytes();
    std::memcpy(grown.values + static_cast<std::size_t>(at) * row_bytes, values.data(),
                values.size());
  }

  template <typename Visit>
  static void each_removed(const Delta& delta, const Visit& visit) {
    const NpyFile* removed = delta.find(kRemovedNodes);
    if (removed == nullptr) return;
    for (const std::int32_t node : removed->values<std::int32_t>()) visit(node);
  }

  const Chain& chain_;
  const Dataset& base_;
  WholeFiles& files_;
  std::int64_t nodes_;
};

}  // namespace

GrownFolder::GrownFolder(Chain chain, bool with_split, std::optional<std::int64_t> edges)
    : chain_(std::move(chain)) {
  Dataset base = Dataset::open(chain_.base);
  const Delta& first = chain_.deltas.front();
  if (base.info().nodes != first.nodes_before) {
    fail_input("{}: field 'nodes_before' is {}, but the base has {} nodes",
               (first.folder / "dataset.json").string(), first.nodes_before, base.info().nodes);
  }
  NodeArrays nodes(chain_, base, files_);
  nodes.features();
  nodes.node_types();
  nodes.labels();
  if (with_split) nodes.split();
  nodes.node_ids();
  edges_ = std::make_unique<EdgeMerge>(chain_, std::move(base), edges, files_);
}

GrownFolder::~GrownFolder() = default;

const WholeFiles& GrownFolder::merged() const {
  edges_->run();
  return files_;
}

}  // namespace atl
