// Another array in the place of one of a finished dataset: `atoll split`, `atoll features`.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "base/descriptor.hpp"
#include "base/json.hpp"

namespace atl {

// No other process changes the folder while one of these lives.
class DatasetChange {
 public:
  // First completes a change that was interrupted. Throws Error{kOption} if another process changes
  // the dataset.
  explicit DatasetChange(const std::filesystem::path& folder);

  struct Array {
    const char* file;         // its name in the folder
    const char* count_field;  // of dataset.json, with its value
    Json count;
    const char* provenance_field;  // what it was made of
    Json made_of;
  };
  // `write` makes the file that it is given the path of, which then takes the place of the array;
  // dataset.json follows, each atomically. Interrupted between the two, the folder is refused until
  // the next DatasetChange, which finds in the folder what was to follow. The dataset's checksum is
  // another, so that its partitions are too. Throws Error{kInput} if a file can't be read or
  // written.
  void replace(const Array& array,
               const std::function<void(const std::filesystem::path&)>& write) const;

 private:
  void complete_interrupted() const;

  std::filesystem::path folder_;
  Descriptor lock_;
};

}  // namespace atl
