// The command line as a function: what a program with models or partitioners of its own includes.
#pragma once

#include <string>
#include <vector>

#include "engine/models/convolutions.hpp"
#include "engine/models/model.hpp"
#include "engine/program/own_functions.hpp"
#include "partition/partitioner.hpp"

namespace atl {

// A program's additions to `atoll`. They are an argument of main(): registration by
// constructors of static objects would depend on their order, and linkers leave unused objects out.
struct Extensions {
  std::vector<ConvolutionKind> convolutions = {};  // see add_convolutions()
  std::vector<PartitionMethod> partitioners = {};  // see add_partition_methods()
  OwnFunctions functions = {};                     // for --loss and --metric
};

// Runs the command line and returns the exit code. It handles signals and messages as `atoll`
// does, so a program's main() calls it once and does nothing else:
//   return atl::main(argc, argv, {.convolutions = {{"mine", mine}}});
int main(int argc, char** argv, const Extensions& extensions = {});

}  // namespace atl
