#include "datasets/partition_folder.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/checksum.hpp"
#include "base/elapsed.hpp"
#include "base/error.hpp"
#include "base/files.hpp"
#include "base/log.hpp"
#include "base/memory.hpp"
#include "base/progress.hpp"
#include "base/seal.hpp"
#include "datasets/dataset_writer.hpp"
#include "datasets/file_list.hpp"
#include "partition/quality.hpp"

namespace atl {

namespace fs = std::filesystem;

namespace {

void make_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directory(path, error);
  if (error) fail_input("{}: can't create: {}", path.string(), error.message());
}

// Cutting takes minutes: that its result has no place to go is said before.
void require_writable(const fs::path& folder) {
  fs::path nearest = fs::absolute(folder);
  while (!is_there(nearest) && nearest.has_relative_path()) nearest = nearest.parent_path();
  std::error_code ignored;
  if (!fs::is_directory(nearest, ignored)) {
    errno = ENOTDIR;
  } else if (::faccessat(AT_FDCWD, nearest.c_str(), W_OK | X_OK, AT_EACCESS) == 0) {
    return;
  }
  fail_input("{}: can't create a partition here: {}; --parts-dir DIR keeps partitions elsewhere",
             folder.string(), std::strerror(errno));
}

// The facts of a dataset that a partition depends on, besides options.
Json dataset_identity(const DatasetInfo& info) {
  Json json = {
      {"name", info.name},         {"nodes", info.nodes},          {"edges", info.edges},
      {"directed", info.directed}, {"task", to_string(info.task)}, {"classes", info.classes},
      {"checksum", info.checksum}};
  add_type_fields(json, info);
  return json;
}

void write_files(const Dataset& dataset, int parts, const PartitionOptions& options,
                 const fs::path& folder, const MadeCut& cut) {
  AtomicFolder target(folder);
  Json files = Json::object();
  const auto list = [&](const std::string& name) {
    files[name] = describe_file(target.path() / name);
  };
  LocalGraphBuilder builder(dataset.graph(), cut.part_of, parts, options.node_order);
  Activity writing("writing parts", parts);
  WrittenShard arrays;
  for (int part = 0; part < parts; ++part) {
    writing.advance_to(part);
    const fs::path shard = shard_folder(target.path(), part);
    make_folder(shard);
    const WrittenShard written = write_shard(shard, dataset, builder.build(part),
                                             cut.older.empty() ? nullptr : &cut.older[part]);
    arrays.files += written.files;
    arrays.linked += written.linked;
    list(fmt::format("{}/shard.json", shard.filename().string()));
  }
  const auto quality = measure_quality(builder, partition_split(dataset, options),
                                       normalised_shares(options.weights, parts));
  write_json(target.path() / "quality.json", to_json(quality));
  list("quality.json");
  Json json;
  json["format"] = kShardFormat;
  json["parts"] = parts;
  json["options"] = to_json(options);
  json["dataset"] = dataset_identity(dataset.info());
  json["partition_seconds"] = cut.seconds;
  json["total_seconds"] = seconds_since(cut.start);
  json.update(cut.fields);
  if (!cut.older.empty()) {
    json["arrays"] = {{"all", arrays.files}, {"linked", arrays.linked}};
  }
  json["files"] = files;
  json["checksum"] = list_checksum(files);
  add_seal(json);
  write_json(target.path() / "partition.json", json);
  target.commit();
}

std::string remedy_for(const fs::path& folder) {
  return fmt::format("remove {} and it is made again", folder.string());
}

const Json& listed_file(const Json& description, const std::string& name, const fs::path& folder) {
  const Json& files = description.at("files");
  const auto found = files.find(name);
  if (found == files.end()) {
    fail_input("{}: '{}' is not listed", (folder / "partition.json").string(), name);
  }
  return *found;
}

}  // namespace

fs::path parts_folder(const Dataset& dataset, const PartitionOptions& options) {
  return options.parts_dir.empty() ? dataset.folder() / "parts" : options.parts_dir;
}

std::string partition_name(const Dataset& dataset, int parts, const Json& options) {
  Json identity = dataset_identity(dataset.info());
  identity.erase("name");
  const std::string text =
      fmt::format("{} {} {} {}", kShardFormat, parts, options.dump(), identity.dump());
  return fmt::format("{}-{}-{}-{:08x}", parts, options.at("method").get<std::string>(),
                     options.at("objective").get<std::string>(),
                     static_cast<std::uint32_t>(checksum(text)));
}

fs::path partition_folder(const Dataset& dataset, int parts, const PartitionOptions& options) {
  return parts_folder(dataset, options) / partition_name(dataset, parts, to_json(options));
}

bool has_partition(const Dataset& dataset, int parts, const PartitionOptions& options) {
  return is_there(partition_folder(dataset, parts, options));
}

std::span<const std::uint8_t> partition_split(const Dataset& dataset,
                                              const PartitionOptions& options) {
  if (dataset.info().splits == 0) return {};
  const bool chosen = options.balance == PartitionBalance::kEdgesTrain;
  return dataset.split(chosen ? options.split_index : 0);
}

fs::path shard_folder(const fs::path& partition, int part) {
  return partition / fmt::format("part-{}", part);
}

Json read_partition_description(const fs::path& folder) {
  const fs::path file = folder / "partition.json";
  Json json = read_json(file);
  const int format = json_field<int>(json, "format", file);
  if (format != kShardFormat) {
    fail_input("{}: format {}; this program reads format {}", file.string(), format, kShardFormat);
  }
  check_seal(json, file);
  return json;
}

void require_dataset(const Json& description, const fs::path& folder, const Dataset& dataset) {
  const fs::path file = folder / "partition.json";
  const auto found = json_field<Json>(description, "dataset", file);
  const Json identity = dataset_identity(dataset.info());
  for (const auto& [field, now] : identity.items()) {
    const auto then = json_field<Json>(found, field.c_str(), file);
    if (field == "name" || then == now) continue;
    fail_input("{}: made from a dataset with {} {}, but {} has {}: the dataset changed since",
               file.string(), field, then.dump(), dataset.folder().string(), now.dump());
  }
}

void prepare_cut(const Dataset& dataset, int parts, const PartitionOptions& options,
                 const fs::path& folder) {
  require_writable(folder.parent_path());
  const GraphSize size{dataset.info().nodes, dataset.info().edges, !dataset.info().directed};
  const std::int64_t bytes = most_cutting_bytes(size, parts, options);
  log::info("partitioning {} into {} parts ({}, {}, balance {}); cutting takes up to {} of memory",
            dataset.info().name, parts, options.method, to_string(options.objective),
            to_string(options.balance), format_bytes(bytes));
  if (const std::int64_t available = available_memory_bytes(); bytes > available) {
    const std::string less = options_for_memory(size, parts, options, available);
    log::warn("only {} of memory are available{}{}", format_bytes(available),
              less.empty() ? "" : ", which is enough with ", less);
  }
  dataset.validate();  // METIS and the shards trust every id and value
}

void write_partition(const Dataset& dataset, int parts, const PartitionOptions& options,
                     const fs::path& folder, const MadeCut& cut) {
  try {
    write_files(dataset, parts, options, folder, cut);
  } catch (const Error&) {
    // Another process may have put the same partition there first.
    if (!is_there(folder)) throw;
  }
}

Partition read_partition(const fs::path& folder, const Dataset& dataset, int parts,
                         const PartitionOptions& options) {
  return with_remedy(remedy_for(folder), [&] {
    Partition partition{folder, read_partition_description(folder), {}};
    const Json& description = partition.description;
    require_dataset(description, folder, dataset);
    const fs::path file = folder / "partition.json";
    if (json_field<int>(description, "parts", file) != parts ||
        json_field<Json>(description, "options", file) != to_json(options)) {
      fail_input("{}: another partition than the folder's name says: {} parts, {}", file.string(),
                 description.at("parts").dump(), description.at("options").dump());
    }
    for (int part = 0; part < parts; ++part) {
      const std::string shard = fmt::format("{}/shard.json", shard_folder("", part).string());
      check_file_size(folder / shard, listed_file(description, shard, folder), file);
    }
    check_file(folder / "quality.json", listed_file(description, "quality.json", folder), file);
    partition.quality = read_json(folder / "quality.json");
    return partition;
  });
}

Partition ensure_partition(const Dataset& dataset, int parts, const PartitionOptions& options) {
  check_partition_options(dataset.info().nodes, parts, options);
  const fs::path folder = partition_folder(dataset, parts, options);
  if (is_there(folder)) {
    dataset.validate_checksums();  // else files edited under their dataset.json go unnoticed
  } else {
    const Activity activity(fmt::format("partitioning {}", dataset.info().name));
    prepare_cut(dataset, parts, options, folder);
    MadeCut cut{.part_of = {}, .start = steady_now()};
    {
      const Activity cutting("cutting");
      cut.part_of =
          partition_graph(dataset.graph(), parts, options, partition_split(dataset, options));
    }
    cut.seconds = seconds_since(cut.start);
    write_partition(dataset, parts, options, folder, cut);
  }
  return read_partition(folder, dataset, parts, options);
}

Shard open_shard(const fs::path& partition, int part, const std::string& checksum) {
  return with_remedy(remedy_for(partition), [&] {
    const Json description = read_partition_description(partition);
    const auto found = description.at("checksum").get<std::string>();
    if (found != checksum) {
      fail_input("{}: another partition (checksum {}) than rank 0 has there ({})",
                 partition.string(), found, checksum);
    }
    const fs::path folder = shard_folder(partition, part);
    const std::string name = fmt::format("{}/shard.json", folder.filename().string());
    return Shard::open(folder, listed_file(description, name, partition));
  });
}

}  // namespace atl
