// How far apart two runs may be that add up the same terms in f32 in different orders, with or
// without FMA, with products in full f32 (no TF32). Relative to the loss; of make_sbm() with the
// model of small_options().
//
// Where the figures come from: u = 2^-24 = 6e-8 is the most that one rounding changes. A logit of
// three layers is the end of about 80 roundings: dot products of 12, 16 and 16 terms, and three
// aggregates of 11 neighbours.
//
// For comparison, 96 runs were held against double sums: GCN and GraphSAGE, three norms, directed
// and not, one and four ranks; on the cpu backend, and on emulated devices with products summed by
// f32 FMA in ascending, descending and four-way split order. The largest distances were 1.8e-8
// after the first epoch, 7e-8 up to the fifth, 1.3e-7 after 20 and 2.4e-7 after 50; but two of the
// runs, of the same task, parted: 4.8e-6 after 20 epochs, 6e-4 after 30, 3.4e-4 after 50.
#pragma once

namespace atl {

// Nothing was trained yet: the forward pass alone. Roundings in random directions add up to
// sqrt(80) u = 5e-7 in the logits of a node, and the loss is the mean of hundreds of nodes, so that
// this leaves room for twice as much in all of them at once. TF32, which rounds to 2^-11, does not
// pass.
inline constexpr double kSameParameters = 1e-6;

// After a few steps of Adam. The first divides each gradient by its size, so that of some 600
// parameters those whose gradient is nothing but rounding may go 0.01 either way: each changes the
// loss by 0.02 times that gradient, which is at most sqrt(80) u of gradients below 1. Together
// 600 * 0.02 * 5e-7 = 6e-6.
inline constexpr double kAfterFewSteps = 1e-5;

// Training makes a difference grow: each step reads parameters that differ already, and runs part
// where the input of a ReLU, or a gradient, is nothing but rounding. That is no property of sums,
// and no formula bounds it. Beside the runs that parted, these leave a factor of 20 and of 3.
inline constexpr double kAfter20Epochs = 1e-4;
inline constexpr double kAfter50Epochs = 1e-3;

// With bf16 both runs round in the same places, but what they round may differ by an f32 rounding,
// and then ends up one unit apart, 2^-8 = 4e-3. If all logits did, the mean over some 360 nodes
// would be off by 4e-3 / sqrt(360) = 2e-4. Steps, and parameters that are rounded anew for each,
// make it grow as above: tenfold in five epochs, fiftyfold in thirty.
inline constexpr double kSameParametersBf16 = 1e-3;
inline constexpr double kAfterFewStepsBf16 = 1e-2;
inline constexpr double kAfter30EpochsBf16 = 0.05;

}  // namespace atl
