#include "datasets/partition_folder.hpp"

#include <fmt/format.h>

#include <chrono>

#include "base/checksum.hpp"
#include "base/error.hpp"
#include "base/files.hpp"
#include "base/log.hpp"
#include "datasets/shard.hpp"
#include "partition/quality.hpp"

namespace atl {

namespace fs = std::filesystem;

namespace {

constexpr int kPartitionFormat = 1;

std::span<const std::uint8_t> training_split(const Dataset& dataset,
                                             const PartitionOptions& options) {
  if (dataset.info().splits == 0) return {};
  const bool chosen = options.balance == PartitionBalance::kEdgesTrain;
  return dataset.split(chosen ? options.split_index : 0);
}

void make_folder(const fs::path& path) {
  std::error_code error;
  fs::create_directory(path, error);
  if (error) fail_input("{}: can't create: {}", path.string(), error.message());
}

void make_partition(const Dataset& dataset, int parts, const PartitionOptions& options,
                    const fs::path& folder) {
  using Clock = std::chrono::steady_clock;
  const auto seconds_since = [](Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  const auto start = Clock::now();
  const GraphView graph = dataset.graph();
  const auto split = training_split(dataset, options);
  const std::vector<std::int32_t> part_of = partition_graph(graph, parts, options, split);
  const double partition_seconds = seconds_since(start);

  AtomicFolder target(folder);
  LocalGraphBuilder builder(graph, part_of, parts, options.node_order);
  for (int part = 0; part < parts; ++part) {
    const fs::path shard = shard_folder(target.path(), part);
    make_folder(shard);
    write_shard(shard, dataset, builder.build(part));
  }
  write_json(target.path() / "quality.json",
             to_json(measure_quality(builder, split, normalised_shares(options.weights, parts))));
  Json json;
  json["format"] = kPartitionFormat;
  json["parts"] = parts;
  json["options"] = to_json(options);
  json["dataset"] = {{"name", dataset.info().name},
                     {"nodes", dataset.info().nodes},
                     {"edges", dataset.info().edges},
                     {"checksum", dataset.info().checksum}};
  json["partition_seconds"] = partition_seconds;
  json["total_seconds"] = seconds_since(start);
  write_json(target.path() / "partition.json", json);
  target.commit();
}

}  // namespace

fs::path partition_folder(const Dataset& dataset, int parts, const PartitionOptions& options) {
  const std::string text = fmt::format("{} {} {} {}", parts, to_json(options).dump(),
                                       dataset.info().directed, dataset.info().checksum);
  return dataset.folder() / "parts" /
         fmt::format("{}-{}-{}-{:08x}", parts, options.method, to_string(options.objective),
                     static_cast<std::uint32_t>(checksum(text)));
}

fs::path shard_folder(const fs::path& partition, int part) {
  return partition / fmt::format("part-{}", part);
}

Json read_partition(const fs::path& folder, const Dataset& dataset) {
  dataset.validate_checksums();  // else files edited under their dataset.json would go unnoticed
  const fs::path file = folder / "partition.json";
  Json json = read_json(file);
  const int format = json_field<int>(json, "format", file);
  if (format != kPartitionFormat) {
    fail_input("{}: format {}; this program reads format {}; remove the folder and partition again",
               file.string(), format, kPartitionFormat);
  }
  const auto found =
      json_field<std::string>(json_field<Json>(json, "dataset", file), "checksum", file);
  if (found != dataset.info().checksum) {
    fail_input(
        "{}: made from a dataset with checksum {}, but {} has {}: the dataset changed since; "
        "remove the folder and partition again",
        file.string(), found, dataset.folder().string(), dataset.info().checksum);
  }
  const int parts = json_field<int>(json, "parts", file);
  for (int part = 0; part < parts; ++part) {
    if (!is_there(shard_folder(folder, part) / "shard.json")) {
      fail_input("{}: shard.json is missing; remove {} and partition again",
                 shard_folder(folder, part).string(), folder.string());
    }
  }
  return json;
}

fs::path ensure_partition(const Dataset& dataset, int parts, const PartitionOptions& options) {
  make_partitioner(options.method);  // an unknown method is an option error, not a folder name
  fs::path folder = partition_folder(dataset, parts, options);
  if (!is_there(folder)) {
    log::info("partitioning {} into {} parts ({}, {}, balance {})", dataset.info().name, parts,
              options.method, to_string(options.objective), to_string(options.balance));
    dataset.validate();  // METIS and the shards trust every id and value
    try {
      make_partition(dataset, parts, options, folder);
    } catch (const Error&) {
      // Another process may have put the same partition there first.
      if (!is_there(folder)) throw;
    }
  }
  read_partition(folder, dataset);
  return folder;
}

}  // namespace atl
