// Arrays in memory that stand for files of a dataset folder. Internal to datasets/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/files.hpp"
#include "base/npy.hpp"

namespace atl {

// An array in memory, as its file would be.
struct GrownArray {
  std::shared_ptr<MappedFile> file;
  std::byte* values = nullptr;

  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(values);
  }
};

// All 0.
GrownArray new_array(const char* descr, std::vector<std::int64_t> shape);
// The array of a file with more rows, which are 0. Only pages that are written to take memory.
GrownArray grown_array(const NpyFile& old, std::vector<std::int64_t> shape);

}  // namespace atl
