#include "datasets/dataset_change.hpp"

#include <fcntl.h>

#include "base/error.hpp"
#include "base/file_lock.hpp"
#include "base/files.hpp"
#include "base/seal.hpp"
#include "datasets/dataset_writer.hpp"
#include "datasets/file_list.hpp"

namespace atl {

namespace fs = std::filesystem;

namespace {

// {"array": its name, "dataset": the dataset.json that follows it}, while an array is replaced.
constexpr const char* kNextName = ".dataset.json.next";

}  // namespace

DatasetChange::DatasetChange(const fs::path& folder)
    : folder_(folder), lock_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  // A folder that can't be opened is for those to name who read the dataset.
  if (lock_ && try_lock(lock_.get()) == LockResult::kHeld) {
    fail_option("{}: another process is changing the dataset; try again when it has ended",
                folder_.string());
  }
  if (lock_) complete_interrupted();
}

void DatasetChange::complete_interrupted() const {
  const fs::path next = folder_ / kNextName;
  if (!is_there(next)) return;
  const Json json = read_json(next);
  const auto array = json_field<std::string>(json, "array", next);
  const auto dataset = json_field<Json>(json, "dataset", next);
  const auto files = json_field<Json>(dataset, "files", next);
  // Where the array is still the former one, so is dataset.json.
  const fs::path file = folder_ / array;
  if (is_there(file) && describe_file(file) == json_field<Json>(files, array.c_str(), next)) {
    write_json(folder_ / "dataset.json", dataset);
  }
  fs::remove(next);
}

void DatasetChange::replace(const Array& array,
                            const std::function<void(const fs::path&)>& write) const {
  const fs::path list = folder_ / "dataset.json";
  Json json = read_json(list);
  if (!json.contains("files") && !is_delta(json)) {
    json["files"] = describe_files(folder_, array.file != std::string_view(kSplitFile));
  }
  AtomicFile made(folder_ / array.file);
  write(made.path());
  json[array.count_field] = array.count;
  Json& provenance = json["provenance"];
  if (provenance.is_null() || provenance.is_object()) {
    provenance[array.provenance_field] = array.made_of;
  }
  json["files"][array.file] = describe_file(made.path());
  if (is_delta(json)) json["delta"]["files"][array.file] = json["files"][array.file];
  json["checksum"] = overall_checksum(json["files"]);
  add_seal(json);
  write_json(folder_ / kNextName, {{"array", array.file}, {"dataset", json}});
  made.commit();
  write_json(list, json);
  fs::remove(folder_ / kNextName);
}

}  // namespace atl
