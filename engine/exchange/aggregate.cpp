#include "engine/exchange/aggregate.hpp"

namespace atl {

void aggregate(const RankContext& context, const DistributedOperator& op, Channel channel,
               MatrixView x, MatrixView y, const AggregateStages& stages) {
  const TraceTag tag{context.epoch, channel.layer, -1, -1};
  const char* direction = to_string(op.direction);
  const auto run = [&](const char* phase, const auto& stage, RowRange range) {
    const ScopedSpan span(context.trace, phase, tag, direction);
    stage(range);
  };
  const auto spmm = [&](RowRange range) {
    context.backend.spmm(context.queue, op.matrix, range, x, stages.beta, y,
                         stages.epilogue(range));
  };

  run("prepare marginal", stages.prepare, op.marginal);
  const auto pending = context.exchange.begin(op, x, channel, context.epoch);
  if (!context.overlap) pending->finish();
  run("prepare central", stages.prepare, op.central);
  run("spmm central", spmm, op.central);
  run("complete central", stages.complete, op.central);
  pending->finish();
  run("spmm marginal", spmm, op.marginal);
  run("complete marginal", stages.complete, op.marginal);
}

}  // namespace atl
