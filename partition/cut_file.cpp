// Method `file`: a cut made elsewhere, one part per node in a .npy file.
#include <fmt/format.h>

#include <utility>

#include "base/checksum.hpp"
#include "base/error.hpp"
#include "base/npy.hpp"
#include "partition/partitioner.hpp"

namespace atl {

namespace {

template <typename T>
std::vector<std::int32_t> checked_parts(std::span<const T> values, int parts,
                                        const std::filesystem::path& file) {
  std::vector<std::int32_t> part_of;
  part_of.reserve(values.size());
  for (std::size_t v = 0; v < values.size(); ++v) {
    const auto part = static_cast<std::int64_t>(values[v]);
    if (part < 0 || part >= parts) {
      fail_input("{}: node {} is in part {}; allowed are 0 to {}", file.string(), v, part,
                 parts - 1);
    }
    part_of.push_back(static_cast<std::int32_t>(part));
  }
  return part_of;
}

class FilePartitioner : public Partitioner {
 public:
  FilePartitioner(std::filesystem::path file, std::string checksum)
      : file_(std::move(file)), checksum_(std::move(checksum)) {}

  std::vector<std::int32_t> partition(const PartitionProblem& problem) const override {
    std::vector<std::int32_t> part_of = read(problem);
    // A cut made elsewhere is changed on request only.
    if (problem.refine == Refinement::kOff) {
      validate_partition(
          problem, part_of,
          fmt::format("add --refine on, which moves nodes of the cut in {}", file_.string()));
    }
    return part_of;
  }

 private:
  std::vector<std::int32_t> read(const PartitionProblem& problem) const {
    if (file_.empty()) {
      fail_option(
          "--method file: the parts have to be read again; give --parts-file P.npy, the file with "
          "checksum {}",
          checksum_);
    }
    const NpyFile file(file_);
    if (const std::string found = parts_file_checksum(file_); found != checksum_) {
      fail_input("{}: checksum {} found, {} expected: it is another file, or has changed",
                 file_.string(), found, checksum_);
    }
    const std::vector<std::int64_t> shape{problem.graph.nodes()};
    file.require_shape(shape);
    if (file.is(npy_descr<std::int32_t>())) {
      return checked_parts(file.values<std::int32_t>(), problem.parts, file_);
    }
    if (file.is(npy_descr<std::uint8_t>())) {
      return checked_parts(file.values<std::uint8_t>(), problem.parts, file_);
    }
    if (file.is(npy_descr<std::int64_t>())) {
      return checked_parts(file.values<std::int64_t>(), problem.parts, file_);
    }
    fail_input("{}: elements of type {}; allowed are <i4, <i8 and |u1 (int32, int64, uint8)",
               file_.string(), file.header().descr);
  }

  std::filesystem::path file_;
  std::string checksum_;
};

}  // namespace

std::string parts_file_checksum(const std::filesystem::path& file) {
  return to_hex(file_checksum(file));
}

std::unique_ptr<Partitioner> make_file_partitioner(const PartitionOptions& options) {
  return std::make_unique<FilePartitioner>(options.parts_file, options.parts_checksum);
}

}  // namespace atl
