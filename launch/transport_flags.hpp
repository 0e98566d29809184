// The options that say how ranks reach each other, for every subcommand that runs on all of them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "engine/comm/transport.hpp"
#include "launch/help_group.hpp"
#include "launch/validators.hpp"
#include "partition/partitioner.hpp"

namespace atl {

// Declares --transport, --ranks and --timeout. `transport` must live until the command's callback
// has run.
inline void add_transport_flags(CLI::App& command, TransportOptions& transport,
                                const std::string& group) {
  const HelpGroup options(command, group);
  options
      .add_option("--transport", transport.name,
                  "How ranks reach each other: auto, mpi, local (ranks as threads of one process), "
                  "or nccl (between GPUs; auto takes it where it can serve)")
      ->check(one_of(transport_names()));
  options.add_option("--ranks", transport.ranks, "Number of ranks as threads of one process")
      ->check(CLI::Range(0, kMaxParts));
  options
      .add_option("--timeout", transport.timeout_seconds,
                  "Time without a sign of life from a peer after which all ranks end; 0: never")
      ->transform(seconds({.least = 0}));
}

}  // namespace atl
