// The state of an exchange that keeps rows, in a checkpoint: too much for one file and for one
// rank's network, so each rank writes and reads its own, RUN/checkpoint/epoch-K.rank-R-of-P.
// safetensors, in its host's view of RUN. The checkpoint, which appears after them, names their
// checksums.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "engine/exchange/halo_exchange.hpp"

namespace atl {

std::filesystem::path checkpoint_folder(const std::filesystem::path& run);
// Throws Error{kInput} if it can't be there.
void make_checkpoint_folder(const std::filesystem::path& run);

struct RankFile {
  int epoch = 0;
  int rank = 0;
  int ranks = 1;

  std::filesystem::path in(const std::filesystem::path& run) const;
};
// Its epoch; -1: no name of such a file.
int epoch_of_rank_file(const std::filesystem::path& file);

// Returns the checksum of `bytes`, the state of an exchange that keeps rows.
std::string write_rank_file(const std::filesystem::path& run, const RankFile& file,
                            const std::string& bytes);
// Nothing: it is not there. Throws Error{kInput} naming it if its checksum is another.
std::optional<std::string> read_rank_file(const std::filesystem::path& run, const RankFile& file,
                                          const std::string& checksum);

// Writes the files of all ranks; returns their checksums on rank 0. Collective; what one rank
// throws, all do.
std::vector<std::string> write_rank_files(Transport& transport, HaloExchange& exchange,
                                          const std::filesystem::path& run, int epoch);
// Gives each rank's exchange its state back if all ranks find theirs and there are as many as then;
// else a warning says that the mode starts anew. Collective; what one rank throws, all do.
void load_rank_files(Transport& transport, HaloExchange& exchange, const std::filesystem::path& run,
                     int epoch, const std::vector<std::string>& checksums);

}  // namespace atl
