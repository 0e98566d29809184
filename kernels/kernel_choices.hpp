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

// The case that a choice is for. `device` is the model of the device, not one specimen of it.
struct KernelKey {
  std::string operation;  // "spmm"
  std::int64_t rows = 0;
  std::int64_t nnz = 0;
  std::int64_t columns = 0;
  DType dtype = DType::kF32;
  std::string device;

  auto operator<=>(const KernelKey&) const = default;
};

// Milliseconds by the name of the kernel.
using KernelTimes = std::vector<std::pair<std::string, double>>;

// Whether runs in a row gave the same bits, by the name of a kernel that does not promise it.
using KernelRepeats = std::vector<std::pair<std::string, bool>>;

struct KernelChoice {
  std::string kernel;
  KernelTimes milliseconds;
  KernelRepeats repeats;
};

// The kernel of an spmm that no earlier choice names: the own kernel; cuSPARSE, by the faster of
// its algorithms; or the fastest of all that promise the same bits in every run, or gave them
// whenever they were measured.
enum class SpmmWish : std::uint8_t { kOwn, kCusparse, kAuto };

const char* to_string(SpmmWish wish);  // "own", "cusparse", "auto": on the command line

// Fewer edges are not worth a measurement, nor a second copy of the matrix.
inline constexpr std::int64_t kMeasuredEdges = 1'000'000;

// Shared by the backends of one process; any thread may call it.
class KernelChoices {
 public:
  // Backends follow the wish for shapes that are not in the list, and record what they chose. What
  // is fastest is measured for matrices of more than `measured_edges` edges.
  explicit KernelChoices(SpmmWish wish = SpmmWish::kOwn,
                         std::int64_t measured_edges = kMeasuredEdges)
      : wish_(wish), measured_edges_(measured_edges) {}

  SpmmWish wish() const { return wish_; }
  std::int64_t measured_edges() const { return measured_edges_; }
  // The kernels an operation can choose among, the default first; none for unknown operations.
  static std::vector<std::string> kernels_of(const std::string& operation);

  std::optional<std::string> lookup(const KernelKey& key) const;
  // Replaces what the key had.
  void record(const KernelKey& key, KernelChoice choice);
  // Keeps what was measured for the key, if anything.
  void replace_kernel(const KernelKey& key, const std::string& kernel);
  bool empty() const;
  // Grows with every choice that is recorded or replaced.
  std::int64_t changes() const;

  // {"kernel_choices": [{operation, rows, nnz, width, dtype, device, kernel, milliseconds,
  // repeats},
  // ...]}, `repeats` only where something was measured for it.
  Json to_json() const;
  // Adds the choices of such an object. Throws Error{kInput} naming `file` and the entry if a field
  // is missing, unknown or of another type, a kernel is not of the operation, or a key comes twice.
  void add_json(const Json& object, const std::filesystem::path& file);

 private:
  SpmmWish wish_;
  std::int64_t measured_edges_;
  mutable std::mutex mutex_;
  std::map<KernelKey, KernelChoice> choices_;
  std::int64_t changes_ = 0;
};

}  // namespace atl
