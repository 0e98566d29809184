// The partition of a dataset on disk: DATASET/parts/P-method-objective-HASH with partition.json,
// quality.json and one shard folder part-K per part (docs/formats.md).
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/elapsed.hpp"
#include "base/json.hpp"
#include "datasets/dataset.hpp"
#include "datasets/shard.hpp"
#include "partition/partitioner.hpp"

namespace atl {

// Where partitions of `dataset` are kept: options.parts_dir, or DATASET/parts.
std::filesystem::path parts_folder(const Dataset& dataset, const PartitionOptions& options);
// Where that partition lies, whether it exists or not. HASH covers all options, what the dataset
// means (its checksum, direction, task and classes) and the format, so that a changed dataset or
// another version of the program never meets an old partition by name.
std::filesystem::path partition_folder(const Dataset& dataset, int parts,
                                       const PartitionOptions& options);
// The name of that folder; `options` as to_json gives them.
std::string partition_name(const Dataset& dataset, int parts, const Json& options);
bool has_partition(const Dataset& dataset, int parts, const PartitionOptions& options);
// The split whose training nodes a cut counts and may balance; empty without one.
std::span<const std::uint8_t> partition_split(const Dataset& dataset,
                                              const PartitionOptions& options);
// partition / "part-K"
std::filesystem::path shard_folder(const std::filesystem::path& partition, int part);

struct Partition {
  std::filesystem::path folder;
  Json description;  // partition.json; its field "checksum" names the content of all shards
  Json quality;      // quality.json

  std::string checksum() const { return description.at("checksum").get<std::string>(); }
};

// The partition, made first (atomically) if it is not there. Before anything is computed it throws
// Error{kOption} for options that can't be and Error{kInput} for a folder that can't be written;
// then Error{kInput} if a file of the dataset is damaged, or the folder there is or belongs to
// another dataset. One process calls this; the others wait for it.
Partition ensure_partition(const Dataset& dataset, int parts, const PartitionOptions& options);

// Before a cut: throws Error{kInput} for a folder that can't be written, says how much memory
// cutting takes, and checks every value of the dataset.
void prepare_cut(const Dataset& dataset, int parts, const PartitionOptions& options,
                 const std::filesystem::path& folder);

// A cut, and what is known of how it was made.
struct MadeCut {
  std::vector<std::int32_t> part_of;
  SteadyTime start;                    // when the work on it began
  double seconds = 0;                  // that the cut alone took
  Json fields = Json::object();        // of its history, for partition.json
  std::vector<OlderShard> older = {};  // by part; empty: there are none
};
// Writes its partition into `folder`, unless another process has put one there first.
void write_partition(const Dataset& dataset, int parts, const PartitionOptions& options,
                     const std::filesystem::path& folder, const MadeCut& cut);
// The partition that lies there. Throws Error{kInput} if it is damaged or another one than the
// arguments say.
Partition read_partition(const std::filesystem::path& folder, const Dataset& dataset, int parts,
                         const PartitionOptions& options);

// partition.json, its seal and format checked. Throws Error{kInput}.
Json read_partition_description(const std::filesystem::path& folder);
// Throws Error{kInput} naming what differs unless the partition that `description` (of `folder`)
// tells of is one of this dataset as it is now.
void require_dataset(const Json& description, const std::filesystem::path& folder,
                     const Dataset& dataset);

// The shard of one part. Throws Error{kInput} if a file of it is damaged, is another part's or
// another partition's, or if the partition's checksum is not `checksum`, which is rank 0's.
Shard open_shard(const std::filesystem::path& partition, int part, const std::string& checksum);

}  // namespace atl
