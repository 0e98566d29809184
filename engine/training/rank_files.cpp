#include "engine/training/rank_files.hpp"

#include <cstdio>

#include "base/checksum.hpp"
#include "base/files.hpp"
#include "base/log.hpp"
#include "engine/comm/rank_values.hpp"
#include "engine/training/agreement.hpp"

namespace atl {

namespace fs = std::filesystem;

fs::path checkpoint_folder(const fs::path& run) { return run / "checkpoint"; }

void make_checkpoint_folder(const fs::path& run) {
  std::error_code error;
  fs::create_directories(checkpoint_folder(run), error);
  if (error) fail_input("{}: can't create: {}", checkpoint_folder(run).string(), error.message());
}

fs::path RankFile::in(const fs::path& run) const {
  return checkpoint_folder(run) /
         fmt::format("epoch-{}.rank-{}-of-{}.safetensors", epoch, rank, ranks);
}

int epoch_of_rank_file(const fs::path& file) {
  RankFile found;
  const std::string name = file.filename().string();
  if (std::sscanf(name.c_str(), "epoch-%d.rank-%d-of-%d", &found.epoch, &found.rank,
                  &found.ranks) != 3) {
    return -1;
  }
  return found.in({}).filename() == name ? found.epoch : -1;
}

std::string write_rank_file(const fs::path& run, const RankFile& file, const std::string& bytes) {
  make_checkpoint_folder(run);
  write_atomically(file.in(run), bytes);
  return to_hex(checksum(bytes));
}

std::optional<std::string> read_rank_file(const fs::path& run, const RankFile& file,
                                          const std::string& expected) {
  const fs::path path = file.in(run);
  if (!is_there(path)) return std::nullopt;
  std::string bytes = read_text(path);
  if (const std::string found = to_hex(checksum(bytes)); found != expected) {
    fail_input("{}: checksum {} found, {} expected: not the file that its checkpoint was made with",
               path.string(), found, expected);
  }
  return bytes;
}

std::vector<std::string> write_rank_files(Transport& transport, HaloExchange& exchange,
                                          const fs::path& run, int epoch) {
  const std::string state = exchange.state();
  std::string mine;
  on_all_ranks(transport, [&] {
    mine = write_rank_file(run, {epoch, transport.rank(), transport.size()}, state);
  });
  return gather_texts(transport, mine, {"files of ranks"});
}

void load_rank_files(Transport& transport, HaloExchange& exchange, const fs::path& run, int epoch,
                     const std::vector<std::string>& checksums) {
  const std::size_t ranks = checksums.size();
  const RankFile file{epoch, transport.rank(), transport.size()};
  const bool fits = ranks == static_cast<std::size_t>(transport.size());
  std::optional<std::string> mine;
  on_all_ranks(transport, [&] {
    if (fits) mine = read_rank_file(run, file, checksums[static_cast<std::size_t>(file.rank)]);
  });
  const std::int64_t missing =
      sum_over_ranks<std::int64_t>(transport, mine ? 0 : 1, {"files of ranks"});
  if (missing == 0) {
    on_all_ranks(transport, [&] { exchange.load_state(*mine, file.in(run).string()); });
  } else if (file.rank == 0 && !fits) {
    log::warn(
        "the rows that {} ranks have kept for their messages are no use to {}; the exchange mode "
        "starts anew",
        ranks, file.ranks);
  } else if (file.rank == 0) {
    log::warn(
        "{} of {} ranks don't find what they have kept for their messages (epoch-{}.rank-R-of-{}"
        ".safetensors in {}, on the host that wrote it); the exchange mode starts anew",
        missing, ranks, epoch, ranks, checkpoint_folder(run).string());
  }
}

}  // namespace atl
