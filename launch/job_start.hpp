// The start of a job of several processes: before anything else all compare what they were started
// with, so that none waits for another that does something else.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>

#include "engine/comm/transport.hpp"
#include "engine/training/group_ranks.hpp"

namespace atl {

// Does nothing in a process that no launcher started as one of several. Holds MPI until it is
// destroyed, which must not happen to a rank that failed: see abort_job.
class JobStart {
 public:
  // Collective, once the command line is read: throws Error{kOption} on all ranks unless all run
  // the same version and command, with the same options and on the same contents of files. What a
  // rank has for itself (--threads, --backend) and where a host keeps its files may differ.
  void compare(CLI::App& program);

  // For a rank that failed: what it should print. Unless the ranks have met already it meets them
  // now, so that they end with it, and gets what all of them print.
  std::string share_failure(const std::string& message);

  // For a rank that was only asked for help; the others must be, too.
  void compare_request(const std::string& request);

 private:
  void meet(double timeout_seconds, CLI::App* program, const std::string& command,
            const std::string& failure);

  std::shared_ptr<const void> mpi_;
  bool met_ = false;
};

// Throws Error{kOption}, naming --ranks or the launcher, if a command is to run on more ranks than
// the dataset has nodes, or in more groups. Reads no more than the size of row_ptr.npy; what is
// wrong with the folder is for others to say.
void require_node_per_rank(const TransportOptions& transport, const std::filesystem::path& dataset,
                           const GroupRanks& groups = {});

}  // namespace atl
