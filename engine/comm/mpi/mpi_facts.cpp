#include "engine/comm/mpi/mpi_facts.hpp"

#include <algorithm>

namespace atl {

std::string short_mpi_version(const MpiCalls& calls) {
  std::string version = calls.version();
  std::ranges::replace(version, '\t', ' ');
  return version.substr(0, version.find_first_of(",\n"));
}

std::string MpiFacts::text() const {
  if (version.empty()) return "none";
  return file.empty() ? version : version + " (" + file + ")";
}

}  // namespace atl
