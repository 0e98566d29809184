// Exchange mode `none`: parts train as if nothing lay behind the cut. What remains of an epoch is
// what no way of sending messages can save.
#include "engine/exchange/halo_exchange.hpp"

namespace atl {

namespace {

class IsolatedExchange final : public HaloExchange {
 public:
  explicit IsolatedExchange(const Rank& rank) : rank_(rank), exact_(make_exact_exchange(rank)) {}

  std::string name() const override { return "none"; }

  std::unique_ptr<PendingExchange> begin(const DistributedOperator& op, MatrixView x,
                                         Channel channel, const Round& round) override {
    if (channel.constant) return exact_->begin(op, x, channel, round);
    check_rows(op, x);
    for (int peer = 0; peer < rank_.transport.size(); ++peer) {
      const auto p = static_cast<std::size_t>(peer);
      const std::int64_t first = op.inner() + op.halo.first_halo_row(p);
      const RowRange rows{first, first + op.halo.received_from(p)};
      if (rows.size() > 0) rank_.backend.run(rank_.queue, kernels::FillZero{x.rows_in(rows)});
    }
    return std::make_unique<NothingPending>();
  }
  void keep_alive(std::shared_ptr<const void> memory) override {
    exact_->keep_alive(std::move(memory));
  }
  std::int64_t buffer_bytes(const DistributedOperator& op, std::int64_t columns,
                            DType dtype) const override {
    return exact_->buffer_bytes(op, columns, dtype);
  }

 private:
  const Rank& rank_;
  std::unique_ptr<HaloExchange> exact_;  // for constant channels
};

}  // namespace

std::unique_ptr<HaloExchange> make_isolated_exchange(const Rank& rank) {
  return std::make_unique<IsolatedExchange>(rank);
}

}  // namespace atl
