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

DatasetChange::DatasetChange(const fs::path& folder)
    : folder_(folder), lock_(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)) {
  // A folder that can't be opened is for those to name who read the dataset.
  if (lock_ && try_lock(lock_.get()) == LockResult::kHeld) {
    fail_option("{}: another process is changing the dataset; try again when it has ended",
                folder_.string());
  }
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
  made.commit();
  json[array.count_field] = array.count;
  Json& provenance = json["provenance"];
  if (provenance.is_null() || provenance.is_object()) {
    provenance[array.provenance_field] = array.made_of;
  }
  json["files"][array.file] = describe_file(folder_ / array.file);
  if (is_delta(json)) json["delta"]["files"][array.file] = json["files"][array.file];
  json["checksum"] = overall_checksum(json["files"]);
  add_seal(json);
  write_json(list, json);
}

}  // namespace atl
