// `atoll` with a loss and a metric of its own. docs/own-model.md describes them.
#include <algorithm>
#include <atoll/atoll.hpp>
#include <cmath>
#include <span>
#include <vector>

namespace {

std::span<const float> row_of(const atl::LabelledRows& rows, std::int64_t i) {
  return rows.logits.subspan(i * rows.outputs, rows.outputs);
}

// (1 - p^q) / q, p the probability of the label, which forgives labels that are wrong: Zhang and
// Sabuncu, Generalized Cross Entropy Loss, NeurIPS 2018, equation 6.
double robust(const atl::LabelledRows& rows, std::span<float> gradient) {
  constexpr double kPower = 0.7;
  double sum = 0;
  std::vector<double> share(rows.outputs);
  for (std::int64_t i = 0; i < rows.rows(); ++i) {
    const std::span<const float> row = row_of(rows, i);
    const double largest = *std::ranges::max_element(row);
    double total = 0;
    for (std::int64_t c = 0; c < rows.outputs; ++c) total += share[c] = std::exp(row[c] - largest);
    const std::int32_t label = rows.classes[i];
    const double sure = std::pow(share[label] / total, kPower);
    for (std::int64_t c = 0; c < rows.outputs; ++c) {
      gradient[i * rows.outputs + c] = sure * (share[c] / total - (c == label ? 1 : 0));
    }
    sum += (1 - sure) / kPower;
  }
  return sum;
}

// The share of nodes whose class is among the two with the largest logits.
double in_first_two(const atl::LabelledRows& rows) {
  std::int64_t right = 0;
  for (std::int64_t i = 0; i < rows.rows(); ++i) {
    const std::span<const float> row = row_of(rows, i);
    const float of_label = row[rows.classes[i]];
    const auto above = std::ranges::count_if(row, [&](float logit) { return logit > of_label; });
    if (above < 2) ++right;
  }
  return static_cast<double>(right) / static_cast<double>(rows.rows());
}

}  // namespace

int main(int argc, char** argv) {
  return atl::main(argc, argv,
                   {.functions = {.losses = {{"robust", robust}},
                                  .metrics = {{"in-first-two", false, in_first_two}}}});
}
