// Which of several kernels runs an operation on a given shape, measured once and kept as JSON.
#pragma once

#include <compare>
#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/json.hpp"
#include "kernels/views.hpp"

namespace atl {

// What a choice depends on. `device` is the model of the device, not one specimen of it.
struct KernelKey {
  std::string operation;  // "spmm"
  std::int64_t rows = 0;
  std::int64_t nnz = 0;
  std::int64_t width = 0;
  DType dtype = DType::kF32;
  std::string device;

  auto operator<=>(const KernelKey&) const = default;
};

// Milliseconds by the name of the kernel.
using KernelTimes = std::vector<std::pair<std::string, double>>;

struct KernelChoice {
  std::string kernel;
  KernelTimes milliseconds;
};

// Shared by the backends of one process; any thread may call it.
class KernelChoices {
 public:
  // measure: backends measure shapes that are not in the list and record them.
  explicit KernelChoices(bool measure = false) : measure_(measure) {}

  bool measure() const { return measure_; }
  // The kernels an operation can choose among, the default first; none for unknown operations.
  static std::vector<std::string> kernels_of(const std::string& operation);

  std::optional<std::string> lookup(const KernelKey& key) const;
  // Replaces what the key had.
  void record(const KernelKey& key, KernelChoice choice);

  // {"kernel_choices": [{operation, rows, nnz, width, dtype, device, kernel, milliseconds}, ...]}
  Json to_json() const;
  // Adds the choices of such an object. Throws Error{kInput} naming `file` and the entry if a field
  // is missing, unknown or of another type, a kernel is not of the operation, or a key comes twice.
  void add_json(const Json& object, const std::filesystem::path& file);

 private:
  bool measure_;
  mutable std::mutex mutex_;
  std::map<KernelKey, KernelChoice> choices_;
};

}  // namespace atl
