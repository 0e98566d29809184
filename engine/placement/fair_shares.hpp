// What transfers under way at the same time get of the links and network cards they share.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/placement/topology.hpp"

namespace atl {

// Max-min fair rates (Bertsekas & Gallager, Data Networks, section 6.5.2): every flow gets as much
// as the link it travels, its sender's host and its receiver's host leave it, and none could get
// more without another that has no more getting less.
class FairShares {
 public:
  explicit FairShares(const Topology& topology);

  // Transfers under way that are alike. `send` and `receive` are -1 inside a host, where no card is
  // passed.
  struct Flow {
    int from = 0;  // ranks
    int to = 0;
    double limit = 0;  // of the link, bytes/s
    int send = -1;     // index into the resources: the card it leaves by
    int receive = -1;  // the card it arrives by
    int count = 1;     // how many there are
  };
  Flow flow(int from, int to) const;
  // Rates in bytes/s of each single transfer of each flow; 0 for none. `rates` is resized.
  void compute(const std::vector<Flow>& flows, std::vector<double>& rates);

 private:
  struct Resource {
    double capacity = 0;
    double left = 0;
    int flows = 0;     // without a rate yet
    double share = 0;  // of each of these
  };

  const Topology& topology_;
  std::vector<Resource> hosts_;    // send of each host, then receive of each host
  std::vector<std::size_t> open_;  // flows without a rate yet
};

}  // namespace atl
