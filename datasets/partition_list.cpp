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
#include "datasets/community_folder.hpp"
#include "datasets/file_list.hpp"
#include "datasets/partition_folder.hpp"

namespace atl {

namespace fs = std::filesystem;

namespace {

const std::regex kOwnFile(R"((partition|quality)\.json(\.tmp.*)?)");
const std::regex kShardName(R"(part-\d+)");
const std::regex kShardFile(
    R"((shard\.json|((inner_ids|in_degree|out_degree|has_self_loop|node_types|features|labels|split)|)"
    R"((forward|backward)_(row_ptr|col_idx|values|edge_types|edge_features|split|recv_offset|)"
    R"(send_offset|send_rows|halo_ids))\.npy)(\.tmp.*)?)");
const std::regex kCommunitiesFile(R"(communities\.(json|npy)(\.tmp.*)?)");

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

// The first thing below the folder of a partition that this program doesn't write there; empty:
// none.
fs::path foreign_to_partition(const fs::path& folder) {
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

fs::path foreign_to_communities(const fs::path& folder) {
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const bool ours =
        fs::is_regular_file(entry.symlink_status()) && has_name(entry.path(), kCommunitiesFile);
    if (!ours) return entry.path();
  }
  return {};
}

// A kind of folder: its name and what AtomicFolder makes of it while it is being written, the file
// that describes it, and how to find what is not of it.
struct FolderKind {
  const char* what;
  std::regex name;
  std::regex temporary;
  const char* list;
  fs::path (*foreign)(const fs::path& folder);
};

// P-method-objective-HASH
const FolderKind kPartitionFolder{"a partition", std::regex(R"(\d+-[a-z]+-[a-z]+-[0-9a-f]{8})"),
                                  std::regex(R"(\d+-[a-z]+-[a-z]+-[0-9a-f]{8}\.tmp-.+)"),
                                  "partition.json", foreign_to_partition};
// COUNT-HASH
const FolderKind kCommunitiesFolder{"communities", std::regex(R"(\d+-[0-9a-f]{8})"),
                                    std::regex(R"(\d+-[0-9a-f]{8}\.tmp-.+)"), "communities.json",
                                    foreign_to_communities};

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

std::int64_t seconds_written(const fs::path& folder, const char* list) {
  struct stat status {};
  const bool described = ::stat((folder / list).c_str(), &status) == 0;
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

// look() throws where training can't use it.
template <typename Look>
void inspect(PartitionEntry& entry, const Look& look) {
  try {
    look();
  } catch (const Error& error) {
    entry.stale = error.what();
    // Inside the folder's own line paths from there say enough.
    const std::string prefix = entry.folder.string() + "/";
    if (entry.stale.starts_with(prefix)) entry.stale.erase(0, prefix.size());
  }
}

// Fills in what partition.json says and whether training can use it.
void inspect_partition(PartitionEntry& entry, const Dataset& dataset, bool shared,
                       bool every_byte) {
  const fs::path file = entry.folder / "partition.json";
  inspect(entry, [&] {
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
  });
}

void inspect_communities(PartitionEntry& entry, const Dataset& dataset, const fs::path& parts_dir,
                         bool every_byte) {
  inspect(entry, [&] {
    const std::string owner = owner_of_communities(entry.folder);
    if (!parts_dir.empty() && owner != dataset.info().name) {
      entry.kept = fmt::format("of dataset {}", owner);
      return;
    }
    check_communities(entry.folder, dataset, parts_dir, every_byte);
  });
}

// The number that the folder's name begins with.
int leading_number(const std::string& name) {
  return std::stoi(name.substr(0, std::min<std::size_t>(name.find('-'), 9)));
}

// The folders of that kind in `place`, by name.
std::vector<fs::path> folders_of(const fs::path& place, const FolderKind& kind) {
  std::vector<fs::path> folders;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(place, error)) {
    const bool named = has_name(entry.path(), kind.name) || has_name(entry.path(), kind.temporary);
    if (named && fs::is_directory(entry.symlink_status(error))) folders.push_back(entry.path());
  }
  std::ranges::sort(folders);
  return folders;
}

// look(entry) inspects a folder that is no left-over.
template <typename Look>
PartitionEntry describe(const fs::path& folder, const FolderKind& kind, const Look& look) {
  PartitionEntry entry;
  entry.folder = folder;
  entry.parts = leading_number(folder.filename().string());
  entry.bytes = bytes_below(folder);
  entry.written = seconds_written(folder, kind.list);
  if (!has_name(folder, kind.temporary)) {
    look(entry);
  } else if (is_abandoned(folder, entry.written)) {
    entry.stale = "left over from an interrupted cut";
  } else {
    entry.kept = "being written";
  }
  if (entry.stale.empty()) return entry;
  const fs::path foreign = kind.foreign(folder);
  if (!foreign.empty()) {
    entry.kept = fmt::format("holds {}, which is not of {}",
                             foreign.lexically_relative(folder).string(), kind.what);
  }
  return entry;
}

}  // namespace

std::vector<PartitionEntry> list_partitions(const Dataset& dataset, const PartitionOptions& options,
                                            bool every_byte) {
  std::vector<PartitionEntry> entries;
  const auto look = [&](PartitionEntry& entry) {
    inspect_partition(entry, dataset, !options.parts_dir.empty(), every_byte);
  };
  for (const fs::path& folder : folders_of(parts_folder(dataset, options), kPartitionFolder)) {
    PartitionEntry& entry = entries.emplace_back(describe(folder, kPartitionFolder, look));
    const std::string name = folder.filename().string();
    entry.method = name.substr(name.find('-') + 1);
    entry.method.resize(entry.method.find('-', entry.method.find('-') + 1));
  }
  return entries;
}

std::vector<PartitionEntry> list_communities(const Dataset& dataset,
                                             const PartitionOptions& options, bool every_byte) {
  std::vector<PartitionEntry> entries;
  const fs::path place = communities_folder(dataset, options.parts_dir);
  const auto look = [&](PartitionEntry& entry) {
    inspect_communities(entry, dataset, options.parts_dir, every_byte);
  };
  for (const fs::path& folder : folders_of(place, kCommunitiesFolder)) {
    entries.emplace_back(describe(folder, kCommunitiesFolder, look)).method = "communities";
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
