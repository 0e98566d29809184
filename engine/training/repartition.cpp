#include "engine/training/repartition.hpp"

#include "base/error.hpp"
#include "base/progress.hpp"
#include "engine/training/agreement.hpp"

namespace atl {

void require_same_dataset(const DatasetInfo& found, const std::string& first_checksum,
                          const std::filesystem::path& folder) {
  if (found.checksum == first_checksum) return;
  fail_input("{}: the dataset changed since the run began", folder.string());
}

Repartition::Repartition(Transport& transport, int parts, const std::filesystem::path& dataset,
                         const PartitionOptions& options, const DatasetInfo& first) {
  const auto cut = [&] {
    dataset_ = Dataset::open(dataset);
    dataset_.validate_checksums();
    require_same_dataset(dataset_.info(), first.checksum, dataset);
    if (transport.rank() != 0) return;
    const Activity activity("cutting into clusters");
    clusters_ = make_clusters(dataset_.graph(), parts, options);
  };
  on_all_ranks(transport, cut, {"the clusters"});
  clusters_.parts = parts;
  transport.broadcast(std::as_writable_bytes(std::span(&clusters_.per_part, 1)), 0,
                      {"the clusters"});
  for (auto* numbers : {&clusters_.cluster_of, &clusters_.sequence}) {
    numbers->resize(static_cast<std::size_t>(dataset_.info().nodes));
    transport.broadcast(std::as_writable_bytes(std::span(*numbers)), 0, {"the clusters"});
  }
}

LocalGraph Repartition::part(int part, std::uint64_t seed, int number) const {
  const std::vector<std::int32_t> part_of = deal(clusters_, seed, number);
  return LocalGraphBuilder(dataset_.graph(), part_of, clusters_.parts, clusters_.sequence)
      .build(part);
}

}  // namespace atl
