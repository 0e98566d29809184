// Method `file`: a cut made elsewhere, one part per node in a .npy file.
#include <fmt/format.h>

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

std::vector<std::int32_t> read_parts(const std::filesystem::path& path, const std::string& checksum,
                                     const PartitionProblem& problem) {
  if (path.empty()) {
    fail_option(
        "--method file: the parts have to be read again; give --parts-file P.npy, the file with "
        "checksum {}",
        checksum);
  }
  const NpyFile file(path);
  if (const std::string found = parts_file_checksum(path); found != checksum) {
    fail_input("{}: checksum {} found, {} expected: it is another file, or has changed",
               path.string(), found, checksum);
  }
  const std::vector<std::int64_t> shape{problem.graph.nodes()};
  file.require_shape(shape);
  if (file.is(npy_descr<std::int32_t>())) {
    return checked_parts(file.values<std::int32_t>(), problem.parts, path);
  }
  if (file.is(npy_descr<std::uint8_t>())) {
    return checked_parts(file.values<std::uint8_t>(), problem.parts, path);
  }
  if (file.is(npy_descr<std::int64_t>())) {
    return checked_parts(file.values<std::int64_t>(), problem.parts, path);
  }
  fail_input("{}: elements of type {}; allowed are <i4, <i8 and |u1 (int32, int64, uint8)",
             path.string(), file.header().descr);
}

}  // namespace

std::string parts_file_checksum(const std::filesystem::path& file) {
  return to_hex(file_checksum(file));
}

Partitioner cut_file(const PartitionOptions& options) {
  return [path = options.parts_file,
          checksum = options.parts_checksum](const PartitionProblem& problem) {
    std::vector<std::int32_t> part_of = read_parts(path, checksum, problem);
    // A cut made elsewhere is changed on request only.
    if (problem.refine == Refinement::kOff) {
      validate_partition(
          problem, part_of,
          fmt::format("add --refine on, which moves nodes of the cut in {}", path.string()));
    }
    return part_of;
  };
}

}  // namespace atl
