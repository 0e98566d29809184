#include "datasets/partition_list.hpp"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <ctime>
#include <regex>

#include "base/descriptor.hpp"
#include "base/error.hpp"
#include "base/file_lock.hpp"
#include "base/files.hpp"
#include "base/memory.hpp"
#include "datasets/file_list.hpp"
#include "datasets/partition_folder.hpp"

namespace atl {

namespace fs = std::filesystem;

namespace {

// P-method-objective-HASH, and what AtomicFolder makes of it while it is being written.
const std::regex kPartitionName(R"(\d+-[a-z]+-[a-z]+-[0-9a-f]{8})");
const std::regex kTemporaryName(R"(\d+-[a-z]+-[a-z]+-[0-9a-f]{8}\.tmp-.+)");
const std::regex kOwnFile(R"((partition|quality)\.json(\.tmp.*)?)");
const std::regex kShardName(R"(part-\d+)");
const std::regex kShardFile(
    R"((shard\.json|((inner_ids|in_degree|out_degree|has_self_loop|node_types|features|labels|split)|)"
    R"((forward|backward)_(row_ptr|col_idx|values|edge_types|edge_features|split|recv_offset|)"
    R"(send_offset|send_rows|halo_ids))\.npy)(\.tmp.*)?)");

bool has_name(const fs::path& path, const std::regex& pattern) {
  return std::regex_match(path.filename().string(), pattern);
}

// The file that AtomicFolder locks while it writes the folder.
fs::path lock_of(const fs::path& folder) { return folder.string() + ".lock"; }

// Whether the process that was writing the folder is gone. Programs before 0.2 had no lock: what
// they were writing a day ago they have left.
bool is_abandoned(const fs::path& folder, std::int64_t written) {
  constexpr std::int64_t kDay = 24 * 60 * 60;
  if (!is_there(lock_of(folder))) return std::time(nullptr) - written > kDay;
  const Descriptor lock(
      ::open(lock_of(folder).c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  return lock && try_lock(lock.get()) == LockResult::kTaken;
}

// The first thing below `folder` that this program doesn't write there; empty: none.
fs::path foreign_entry(const fs::path& folder) {
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const fs::file_status status = entry.symlink_status();
    if (fs::is_directory(status) && has_name(entry.path(), kShardName)) {
      for (const fs::directory_entry& file : fs::directory_iterator(entry.path())) {
        const bool ours =
            fs::is_regular_file(file.symlink_status()) && has_name(file.path(), kShardFile);
        if (!ours) return file.path();
      }
    } else if (!fs::is_regular_file(status) || !has_name(entry.path(), kOwnFile)) {
      return entry.path();
    }
  }
  return {};
}

std::int64_t bytes_below(const fs::path& folder) {
  std::int64_t bytes = 0;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder, error)) {
    if (fs::is_regular_file(entry.symlink_status(error))) {
      bytes += static_cast<std::int64_t>(entry.file_size(error));
    }
  }
  return bytes;
}

std::int64_t seconds_written(const fs::path& folder) {
  struct stat status {};
  const bool described = ::stat((folder / "partition.json").c_str(), &status) == 0;
  if (!described && ::stat(folder.c_str(), &status) != 0) return 0;
  return status.st_mtime;
}

// Options beyond method and objective, which stand in the name, that are not the default.
std::string unusual_options(const Json& options) {
  const Json defaults = to_json(PartitionOptions{});
  std::string text;
  for (const auto& [name, value] : options.items()) {
    if (name == "method" || name == "objective") continue;
    if (defaults.contains(name) && defaults.at(name) == value) continue;
    const std::string shown = value.is_string() ? value.get<std::string>() : value.dump();
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", name, shown);
  }
  return text;
}

void check_files(const fs::path& folder, const Json& description, bool every_byte) {
  const auto check = [&](const fs::path& base, const Json& files, const fs::path& list) {
    for (const auto& [name, entry] : files.items()) {
      every_byte ? check_file(base / name, entry, list) : check_file_size(base / name, entry, list);
    }
  };
  const fs::path list = folder / "partition.json";
  check(folder, json_field<Json>(description, "files", list), list);
  const int parts = json_field<int>(description, "parts", list);
  for (int part = 0; part < parts; ++part) {
    const fs::path shard = shard_folder(folder, part);
    const fs::path shard_list = shard / "shard.json";
    check(shard, json_field<Json>(read_json(shard_list), "files", shard_list), shard_list);
  }
}

// Fills in what partition.json says and whether training can use it.
void inspect(PartitionEntry& entry, const Dataset& dataset, bool shared, bool every_byte) {
  const fs::path file = entry.folder / "partition.json";
  try {
    const Json description = read_partition_description(entry.folder);
    const auto options = json_field<Json>(description, "options", file);
    entry.options = unusual_options(options);
    const auto owner =
        json_field<std::string>(json_field<Json>(description, "dataset", file), "name", file);
    if (shared && owner != dataset.info().name) {
      entry.kept = fmt::format("of dataset {}", owner);
      return;
    }
    require_dataset(description, entry.folder, dataset);
    if (entry.folder.filename() != partition_name(dataset, entry.parts, options)) {
      fail_input("the folder was renamed: training doesn't find it");
    }
    check_files(entry.folder, description, every_byte);
  } catch (const Error& error) {
    entry.stale = error.what();
    // Inside the folder's own line paths from there say enough.
    const std::string prefix = entry.folder.string() + "/";
    if (entry.stale.starts_with(prefix)) entry.stale.erase(0, prefix.size());
  }
}

PartitionEntry describe(const fs::path& folder, const Dataset& dataset, bool shared,
                        bool every_byte) {
  PartitionEntry entry;
  entry.folder = folder;
  const std::string name = folder.filename().string();
  entry.parts = std::stoi(name.substr(0, std::min<std::size_t>(name.find('-'), 9)));
  entry.method = name.substr(name.find('-') + 1);
  entry.method.resize(entry.method.find('-', entry.method.find('-') + 1));
  entry.bytes = bytes_below(folder);
  entry.written = seconds_written(folder);
  if (has_name(folder, kTemporaryName)) {
    if (is_abandoned(folder, entry.written)) {
      entry.stale = "left over from an interrupted cut";
    } else {
      entry.kept = "being written";
    }
  } else {
    inspect(entry, dataset, shared, every_byte);
  }
  if (entry.stale.empty()) return entry;
  const fs::path foreign = foreign_entry(folder);
  if (!foreign.empty()) {
    entry.kept = fmt::format("holds {}, which is not of a partition",
                             foreign.lexically_relative(folder).string());
  }
  return entry;
}

}  // namespace

std::vector<PartitionEntry> list_partitions(const Dataset& dataset, const PartitionOptions& options,
                                            bool every_byte) {
  std::vector<fs::path> folders;
  std::error_code error;
  for (const fs::directory_entry& entry :
       fs::directory_iterator(parts_folder(dataset, options), error)) {
    const bool named =
        has_name(entry.path(), kPartitionName) || has_name(entry.path(), kTemporaryName);
    if (named && fs::is_directory(entry.symlink_status(error))) folders.push_back(entry.path());
  }
  std::ranges::sort(folders);
  std::vector<PartitionEntry> entries;
  for (const fs::path& folder : folders) {
    entries.push_back(describe(folder, dataset, !options.parts_dir.empty(), every_byte));
  }
  return entries;
}

void remove_partition(const PartitionEntry& entry) {
  ATOLL_ASSERT(entry.removable());
  std::error_code error;
  const std::string name = entry.folder.filename().string();
  if (is_there(lock_of(entry.folder))) {
    remove_stale_temporaries(entry.folder.parent_path() / name.substr(0, name.find(".tmp-")));
  } else {
    fs::remove_all(entry.folder, error);
  }
  if (error) fail_input("{}: can't remove: {}", entry.folder.string(), error.message());
}

Json to_json(const std::vector<PartitionEntry>& entries) {
  Json list = Json::array();
  for (const PartitionEntry& entry : entries) {
    list.push_back({{"folder", entry.folder.string()},
                    {"parts", entry.parts},
                    {"method", entry.method},
                    {"options", entry.options},
                    {"bytes", entry.bytes},
                    {"written", entry.written},
                    {"usable", entry.stale.empty() && entry.kept.empty()},
                    {"stale", entry.stale},
                    {"kept", entry.kept}});
  }
  return list;
}

std::string to_text(const std::vector<PartitionEntry>& entries) {
  std::string text = fmt::format("{:<28} {:>5}  {:<17} {:>10}  {:<16}  {}\n", "folder", "parts",
                                 "method", "size", "made", "state");
  for (const PartitionEntry& entry : entries) {
    std::string state = entry.stale.empty() ? "" : fmt::format("stale: {}", entry.stale);
    if (!entry.kept.empty()) state += fmt::format("{}{}", state.empty() ? "" : "; ", entry.kept);
    if (state.empty()) state = "usable";
    if (!entry.options.empty()) state += fmt::format(" ({})", entry.options);
    text += fmt::format("{:<28} {:>5}  {:<17} {:>10}  {:%Y-%m-%d %H:%M}  {}\n",
                        entry.folder.filename().string(), entry.parts, entry.method,
                        format_bytes(entry.bytes), fmt::localtime(entry.written), state);
  }
  return text;
}

}  // namespace atl
