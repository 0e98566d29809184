// Once per epoch: the loss, and what becomes of the parameters' gradients.
#include "engine/program/operations/rules.hpp"
#include "engine/program/views.hpp"

namespace atl {

constinit const Rule rules::kLoss{
    .name = "loss", .reach = Reach::kWhole, .span = "loss", .lower = ask_for<RankWork::kLoss>};
constinit const Rule rules::kZeroGradients{.name = "zero gradients",
                                           .reach = Reach::kSmall,
                                           .has_rows = false,
                                           .span = kNoSpan,
                                           .lower = ask_for<RankWork::kZeroGradients>};
constinit const Rule rules::kComposedGradients{.name = "composed gradients",
                                               .reach = Reach::kSmall,
                                               .has_rows = false,
                                               .span = kNoSpan,
                                               .lower = ask_for<RankWork::kComposedGradients>};
constinit const Rule rules::kSumGradients{.name = "sum gradients",
                                          .reach = Reach::kRanks,
                                          .has_rows = false,
                                          .span = kNoSpan,
                                          .lower = ask_for<RankWork::kSumGradients>};
constinit const Rule rules::kStep{.name = "step",
                                  .reach = Reach::kSmall,
                                  .has_rows = false,
                                  .span = "step",
                                  .lower = ask_for<RankWork::kStep>};

}  // namespace atl
