// The one place that writes a delta (delta.hpp): arrays first, dataset.json with their checksums
// and those of what the whole chain gives last, renamed into place when complete.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/files.hpp"
#include "base/npy.hpp"
#include "datasets/dataset.hpp"

namespace atl {

// Entries of rows, which are added in ascending order of target, source and type.
class DeltaEdges {
 public:
  // `features`: of the entry, where edges have some.
  void add(std::int64_t source, std::int64_t target, float weight, std::uint16_t type,
           std::span<const float> features = {});
  std::int64_t size() const { return std::ssize(targets_); }

 private:
  friend class DeltaWriter;
  std::vector<std::int32_t> sources_, targets_;
  std::vector<float> weights_;
  std::vector<std::uint16_t> types_;
  std::vector<float> features_;
};

class DeltaWriter {
 public:
  // As DatasetWriter, of `out`. `folder` is where the delta will look for its base, of which `base`
  // is what opening it says.
  DeltaWriter(const std::filesystem::path& out, const std::filesystem::path& folder,
              const DatasetInfo& base);

  // Facts that arrays don't tell: those of the base, until the caller changes them.
  DatasetInfo& info() { return info_; }
  std::int64_t nodes_before() const { return base_.nodes; }
  std::int64_t nodes_added() const { return info_.nodes - base_.nodes; }
  // Where a file lies until commit().
  std::filesystem::path file(const char* name) const { return folder_.path() / name; }
  template <typename T>
  void write(const char* name, std::span<const T> values, std::vector<std::int64_t> shape) {
    write_npy(file(name), values, std::move(shape));
  }
  // Added entries have weights, types and features if those of the base have. `new_ones`: how many
  // of them are no entries of the base.
  void write_edges(const DeltaEdges& added, const DeltaEdges& removed, std::int64_t new_ones);

  // Reads the chain once more, for the checksums, and takes the small deltas before this one into
  // it (delta_fold.hpp), so that its base may become an earlier one than that given. Throws
  // Error{kOption} if a split has no training node left. Returns the values of the final
  // dataset.json.
  DatasetInfo commit();

 private:
  Json description(const Json& files) const;
  // Writes the files anew, so that they also do what the deltas before do.
  void fold(const Dataset& whole, std::size_t count);
  void write_new_rows(const Dataset& whole);

  AtomicFolder folder_;
  std::filesystem::path out_;
  std::filesystem::path base_folder_;
  DatasetInfo base_;
  DatasetInfo info_;
  std::int64_t edges_added_ = 0;
  std::vector<std::string> folded_;  // names of folders whose changes are in this delta
};

}  // namespace atl
