// A program with an operation of its own, softsign(x) = x / (1 + |x|), and a model that uses it:
// `own_operation train DATA --model bounded`. It has a kernel for CPUs.
#include <atoll/atoll.hpp>
#include <atoll/operations.hpp>
#include <cmath>

namespace {

// y = f(x), or, with two inputs, y = f(x, z), element by element of the rows at hand.
template <typename Function>
void for_each_element(const atl::Views& views, const atl::Backend& backend,
                      const Function& function) {
  const atl::MatrixView y = views.out();
  if (!backend.host_accessible() || y.dtype != atl::DType::kF32) {
    atl::fail_option("--backend, --dtype: softsign has a kernel for CPUs and f32; found {} and {}",
                     backend.device(), atl::to_string(y.dtype));
  }
  const atl::MatrixView x = views.in(0);
  const atl::MatrixView z = views.in(views.op().inputs.size() - 1);
  for (std::int64_t i = 0; i < y.rows; ++i) {
    for (std::int64_t c = 0; c < y.cols; ++c) {
      y.row<float>(i)[c] = function(x.row<float>(i)[c], z.row<float>(i)[c]);
    }
  }
}

void softsign_kernel(const atl::Views& views, atl::Backend& backend, atl::Queue& /*queue*/) {
  for_each_element(views, backend, [](float x, float) { return x / (1 + std::abs(x)); });
}

// dx = dy / (1 + |x|)^2
void backward_kernel(const atl::Views& views, atl::Backend& backend, atl::Queue& /*queue*/) {
  for_each_element(views, backend, [](float dy, float x) {
    const float one = 1 + std::abs(x);
    return dy / (one * one);
  });
}

void lower_softsign(const atl::Views& views, atl::Requests& requests) {
  const atl::SpanWork work = atl::streaming_work({views.in(0), views.out()});
  requests.take_own({"softsign", work, softsign_kernel}, views);
}

void lower_backward(const atl::Views& views, atl::Requests& requests) {
  const atl::SpanWork work = atl::streaming_work({views.in(0), views.in(1), views.out()});
  requests.take_own({"softsign_backward", work, backward_kernel}, views);
}

constexpr atl::Rule kBackward{.name = "softsign backward", .lower = lower_backward};

atl::Value through_softsign(atl::Gradients& gradients, atl::Value reader, std::size_t /*i*/) {
  const atl::Operation op = gradients.at(reader);
  return gradients.append(
      {.rule = &kBackward, .inputs = {gradients.of(reader), op.inputs[0]}, .columns = op.columns});
}

constexpr atl::Rule kSoftsign{
    .name = "softsign", .lower = lower_softsign, .through = through_softsign};

// softsign(M x W) + x R.
atl::Value bounded(atl::Builder& builder, const atl::ConvolutionInput& input) {
  const atl::Value weight = builder.weight("weight", input.x, input.columns);
  const atl::Value root_weight = builder.weight("root_weight", input.x, input.columns);
  const atl::Value near = builder.propagate(atl::Normalisation::kMean, input.x, weight);
  const atl::Value own = builder.linear(input.x, root_weight);
  const atl::Value bound = builder.own_operation(kSoftsign, {near}, input.columns);
  return builder.add(bound, own);
}

}  // namespace

int main(int argc, char** argv) {
  return atl::main(argc, argv, {.convolutions = {{"bounded", bounded}}});
}
