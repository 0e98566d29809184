#include "engine/training/backend_of_rank.hpp"

#include <map>
#include <vector>

#include "base/log.hpp"
#include "engine/comm/rank_list.hpp"
#include "engine/comm/rank_values.hpp"
#include "engine/training/agreement.hpp"
#include "engine/training/host_share.hpp"

namespace atl {

namespace {

std::string name_of_rank(const std::string& list, int rank, int size) {
  const std::vector<std::string> names = backends_of(list);
  if (names.size() == 1) return names[0];
  if (std::ssize(names) != size) {
    fail_option("--backend {}: {} names for {} ranks; give one, or one per rank", list,
                names.size(), size);
  }
  return names[static_cast<std::size_t>(rank)];
}

// Each reason once, with the ranks that have it. Collective.
void log_fallbacks(Transport& transport, const BackendObstacle& mine, bool on_device) {
  const OperationLabel label{"choice of backends"};
  const bool has_device = mine.has_device || on_device;
  const auto devices = sum_over_ranks<std::int64_t>(transport, has_device ? 1 : 0, label);
  const std::vector<std::string> reasons = gather_texts(transport, mine.why, label);
  std::map<std::string, std::vector<int>> ranks_of;
  for (std::size_t rank = 0; rank < reasons.size(); ++rank) {
    if (!reasons[rank].empty()) ranks_of[reasons[rank]].push_back(static_cast<int>(rank));
  }
  for (const auto& [why, ranks] : ranks_of) {
    log::log(devices > 0 ? spdlog::level::warn : spdlog::level::info,
             "--backend auto: the cpu on {}: {}", rank_list(ranks), why);
  }
}

}  // namespace

std::unique_ptr<Backend> make_backend_of_rank(Transport& transport, const std::string& list,
                                              BackendOptions options) {
  std::string name;
  on_all_ranks(transport, [&] { name = name_of_rank(list, transport.rank(), transport.size()); });
  options.local_rank = device_rank_on_host(transport, name == "cuda" || name == "auto");
  std::unique_ptr<Backend> backend;
  BackendObstacle obstacle;
  on_all_ranks(transport, [&] { backend = make_backend(name, options, &obstacle); });
  log_fallbacks(transport, obstacle, !backend->host_accessible());
  return backend;
}

}  // namespace atl
