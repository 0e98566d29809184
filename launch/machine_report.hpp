// Looks at what this machine offers a run: MPI, processor, memory, libraries, devices, disk,
// network.
#pragma once

#include <string>
#include <vector>

namespace atl {

enum class FindingLevel {
  kOk,
  kNote,     // works, but slower or with a limit that `advice` names
  kProblem,  // training cannot work before `advice` is followed
};

struct Finding {
  std::string section;  // "MPI", "processor", ...
  std::string name;
  std::string value;
  FindingLevel level = FindingLevel::kOk;
  std::string advice = {};
};

// Examines the machine without initialising MPI and without leaving anything behind. Never throws
// for something that is absent: that is a finding.
std::vector<Finding> examine_machine();

}  // namespace atl
