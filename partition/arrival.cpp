#include "partition/arrival.hpp"

#include <algorithm>

namespace atl {

const char* to_string(Arrival arrival) {
  switch (arrival) {
    case Arrival::kAuto:
      return "auto";
    case Arrival::kOn:
      return "on";
    case Arrival::kOff:
      return "off";
  }
  return "";
}

namespace {

// Counts what the marginal rows of one direction need, row after row.
class Need {
 public:
  Need(const LocalGraphView& graph, const LocalMatrixView& matrix)
      : matrix_(matrix), inner_(graph.inner()), needed_(static_cast<std::size_t>(graph.parts), 0) {
    for (int part = 0; part < graph.parts; ++part) {
      part_of_.insert(part_of_.end(), static_cast<std::size_t>(matrix.halo.received_from(part)),
                      part);
    }
  }

  // By part: how many of its messages the rows so far need, up to the last one.
  const std::vector<std::int64_t>& needed() const { return needed_; }
  std::int64_t all() const { return all_; }

  void add(std::int64_t row) {
    for (std::int64_t e = matrix_.split[row]; e < matrix_.csr.row_ptr[row + 1]; ++e) {
      const std::int64_t message = matrix_.csr.col_idx[e] - inner_;
      const std::int32_t part = part_of_[message];
      const std::int64_t more = message + 1 - matrix_.halo.recv_offset[part] - needed_[part];
      if (more <= 0) continue;
      needed_[part] += more;
      all_ += more;
    }
  }

 private:
  const LocalMatrixView& matrix_;
  std::int64_t inner_;
  std::vector<std::int32_t> part_of_;  // by message
  std::vector<std::int64_t> needed_;
  std::int64_t all_ = 0;
};

}  // namespace

MarginalGroups marginal_groups(const LocalGraphView& graph) {
  Need need(graph, graph.forward);
  const std::int64_t messages = graph.forward.halo.halo_rows();
  MarginalGroups groups;
  for (std::int64_t row = graph.central; row < graph.inner(); ++row) {
    need.add(row);
    const auto next = std::ssize(groups) + 1;
    if (next < kMarginalGroups && need.all() * kMarginalGroups >= messages * next) {
      groups.push_back(row + 1);
    }
  }
  groups.resize(kMarginalGroups, graph.inner());
  return groups;
}

std::vector<std::int64_t> needed_messages(const LocalGraphView& graph,
                                          const LocalMatrixView& matrix,
                                          const MarginalGroups& groups) {
  Need need(graph, matrix);
  std::vector<std::int64_t> needed(static_cast<std::size_t>(graph.parts) * groups.size());
  std::int64_t row = graph.central;
  for (std::size_t group = 0; group < groups.size(); ++group) {
    for (; row < groups[group]; ++row) need.add(row);
    for (int part = 0; part < graph.parts; ++part) {
      needed[static_cast<std::size_t>(part) * groups.size() + group] =
          group + 1 == groups.size() ? matrix.halo.received_from(part) : need.needed()[part];
    }
  }
  return needed;
}

}  // namespace atl
