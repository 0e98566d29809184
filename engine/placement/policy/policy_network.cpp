#include "engine/placement/policy/policy_network.hpp"

#include <algorithm>
#include <cmath>

#include "engine/placement/policy/edge_attention.hpp"
#include "kernels/registry.hpp"

namespace atl {

namespace {

constexpr double kNormEpsilon = 1e-5;

}  // namespace

struct PolicyLayerWeights {
  int source, target, edge, self, bias, attention, gamma, beta;
};

struct PolicyNetwork::Weights {
  Weights(const PolicyShape& wanted, std::uint64_t seed, DType type)
      : shape(wanted),
        dtype(type),
        backend(type == DType::kF64 ? make_reference_backend() : make_cpu_backend(1)),
        queue(backend->make_queue()),
        parameters(type) {
    ATOLL_ASSERT(shape.hidden > 0 && shape.hidden % kHeads == 0 && shape.layers >= 1);
    const std::int64_t d = shape.hidden;
    using enum Initialisation;
    input = declare("input.weight", kPolicyNodeColumns, d, kGlorotUniform);
    input_bias = declare("input.bias", 1, d, kZeros);
    for (int l = 0; l < shape.layers; ++l) {
      const std::string name = "layers." + std::to_string(l) + ".";
      layers.push_back({.source = declare(name + "source", d, d, kGlorotUniform),
                        .target = declare(name + "target", d, d, kGlorotUniform),
                        .edge = declare(name + "edge", kPolicyEdgeColumns, d, kGlorotUniform),
                        .self = declare(name + "self", d, d, kGlorotUniform),
                        .bias = declare(name + "bias", 1, d, kZeros),
                        .attention = declare(name + "attention", 1, d, kGlorotUniform),
                        .gamma = declare(name + "gamma", 1, d, kOnes),
                        .beta = declare(name + "beta", 1, d, kZeros)});
    }
    decoder = declare("decoder.weight", d, d, kGlorotUniform);
    decoder_bias = declare("decoder.bias", 1, d, kZeros);
    score = declare("decoder.score", d, 1, kGlorotUniform);
    parameters.allocate(*backend, *queue, seed);
  }

  int declare(const std::string& name, std::int64_t rows, std::int64_t cols, Initialisation init) {
    return parameters.declare({name, 0, rows, cols, init});
  }

  PolicyShape shape;
  DType dtype;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Queue> queue;
  ParameterStore parameters;
  int input, input_bias, decoder, decoder_bias, score;
  std::vector<PolicyLayerWeights> layers;
};

// One graph through the network and, if asked for, back.
class PolicyNetwork::Pass {
 public:
  Pass(Weights& weights, const PolicyGraph& graph)
      : w_(weights),
        graph_(graph),
        candidates_{graph.nodes - graph.options, graph.nodes},
        features_(upload(graph.node_features, graph.nodes)),
        edge_features_(upload(graph.edge_features, graph.edges())) {}

  std::vector<double> forward() {
    const std::int64_t d = w_.shape.hidden;
    Epilogue tail;
    tail.beta = value(w_.input_bias);
    tail.function = ActivationFunction::kRelu;
    states_.push_back(matrix(graph_.nodes, d));
    multiply(features_.view(), value(w_.input), 0, states_.back().view(), tail);
    for (const PolicyLayerWeights& layer : w_.layers) forward_layer(layer);
    decoded_ = matrix(graph_.options, d);
    tail.beta = value(w_.decoder_bias);
    multiply(states_.back().view().rows_in(candidates_), value(w_.decoder), 0, decoded_.view(),
             tail);
    scores_ = matrix(graph_.options, 1);
    multiply(decoded_.view(), value(w_.score), 0, scores_.view());
    return softmax_of(numbers(scores_));
  }

  // `gradient`: of the scores.
  void backward(std::span<const double> gradient) {
    const std::int64_t d = w_.shape.hidden;
    Tensor dscores = matrix(graph_.options, 1);
    set_numbers(dscores, gradient);
    add_product(decoded_.view(), dscores.view(), w_.score);
    Tensor ddecoded = matrix(graph_.options, d);
    input_gradient(dscores.view(), w_.score, 0, ddecoded.view());
    add_bias_gradient(ddecoded.view(), decoded_, w_.decoder_bias, ddecoded.view());
    add_product(states_.back().view().rows_in(candidates_), ddecoded.view(), w_.decoder);
    Tensor dstate = matrix(graph_.nodes, d);
    backend().run(queue(), kernels::FillZero{dstate.view()});
    input_gradient(ddecoded.view(), w_.decoder, 0, dstate.view().rows_in(candidates_));
    for (std::size_t l = w_.layers.size(); l-- > 0;) backward_layer(l, dstate);
    add_bias_gradient(dstate.view(), states_[0], w_.input_bias, dstate.view());
    add_product(features_.view(), dstate.view(), w_.input);
  }

  static std::vector<double> softmax_of(std::vector<double> scores) {
    const double most = *std::ranges::max_element(scores);
    double sum = 0;
    for (double& score : scores) sum += score = std::exp(score - most);
    for (double& score : scores) score /= sum;
    return scores;
  }

 private:
  // Values of a layer's forward pass that backward needs.
  struct Kept {
    Tensor messages;   // z, [edges, d]
    Tensor targets;    // h W_target, [nodes, d]
    Tensor shares;     // softmax, [edges, heads]
    Tensor updates;    // after relu, [nodes, d]
    Tensor residuals;  // h + updates, [nodes, d]
  };

  Backend& backend() { return *w_.backend; }
  Queue& queue() { return *w_.queue; }
  Tensor matrix(std::int64_t rows, std::int64_t cols) { return {backend(), rows, cols, w_.dtype}; }
  MatrixView value(int parameter) { return w_.parameters.value(parameter); }
  MatrixView slope(int parameter) { return w_.parameters.gradient(parameter); }

  Tensor upload(const std::vector<float>& numbers, std::int64_t rows) {
    Tensor tensor = matrix(rows, rows == 0 ? 0 : std::ssize(numbers) / rows);
    set_numbers(tensor, std::vector<double>(numbers.begin(), numbers.end()));
    return tensor;
  }
  void set_numbers(Tensor& tensor, std::span<const double> numbers) {
    for_type(w_.dtype, [&]<typename T>(T) {
      for (std::int64_t i = 0; i < tensor.rows(); ++i) {
        std::ranges::transform(numbers.subspan(static_cast<std::size_t>(i * tensor.cols()),
                                               static_cast<std::size_t>(tensor.cols())),
                               tensor.view().row<T>(i), [](double x) { return static_cast<T>(x); });
      }
    });
  }
  std::vector<double> numbers(Tensor& tensor) {
    std::vector<double> numbers;
    for_type(w_.dtype, [&]<typename T>(T) {
      for (std::int64_t i = 0; i < tensor.rows(); ++i) {
        const T* row = tensor.view().row<T>(i);
        numbers.insert(numbers.end(), row, row + tensor.cols());
      }
    });
    return numbers;
  }

  void multiply(ConstMatrixView a, ConstMatrixView b, double beta, MatrixView c,
                const Epilogue& epilogue = {}) {
    backend().run(queue(), kernels::Gemm{Transpose::kNo, a, Transpose::kNo, b, beta, c, epilogue});
  }
  // Gradient of a weight: += x^T dy.
  void add_product(ConstMatrixView x, ConstMatrixView dy, int parameter) {
    backend().run(queue(),
                  kernels::Gemm{Transpose::kYes, x, Transpose::kNo, dy, 1, slope(parameter)});
  }
  // Gradient of an input: dx = beta dx + dy W^T.
  void input_gradient(ConstMatrixView dy, int parameter, double beta, MatrixView dx) {
    backend().run(queue(),
                  kernels::Gemm{Transpose::kNo, dy, Transpose::kYes, value(parameter), beta, dx});
  }
  // Gradient of a bias in front of a relu, whose outputs were `y`: += sums of dx, which becomes dy
  // where y is not 0.
  void add_bias_gradient(ConstMatrixView dy, Tensor& y, int parameter, MatrixView dx) {
    backend().run(queue(), kernels::ColumnSums{dy, true, slope(parameter), {y.view(), dx}});
  }

  void forward_layer(const PolicyLayerWeights& layer) {
    const std::int64_t d = w_.shape.hidden, nodes = graph_.nodes;
    Tensor& state = states_.back();
    Kept kept{matrix(graph_.edges(), d), matrix(nodes, d), matrix(graph_.edges(), kHeads),
              matrix(nodes, d), matrix(nodes, d)};
    Tensor sources = matrix(nodes, d);
    multiply(state.view(), value(layer.source), 0, sources.view());
    multiply(state.view(), value(layer.target), 0, kept.targets.view());
    backend().run(
        queue(), kernels::GatherRows{sources.view(), graph_.edge_source, {}, kept.messages.view()});
    multiply(edge_features_.view(), value(layer.edge), 1, kept.messages.view());
    attend(graph_.edge_begin, kept.messages.view(), kept.targets.view(), value(layer.attention),
           kept.shares.view(), kept.updates.view());
    Epilogue tail;
    tail.beta = value(layer.bias);
    tail.function = ActivationFunction::kRelu;
    multiply(state.view(), value(layer.self), 1, kept.updates.view(), tail);
    backend().run(queue(),
                  kernels::Combine{1, state.view(), 1, kept.updates.view(), kept.residuals.view()});
    Tensor next = matrix(nodes, d);
    backend().run(queue(), kernels::LayerNorm{kept.residuals.view(), value(layer.gamma),
                                              value(layer.beta), kNormEpsilon, next.view()});
    states_.push_back(std::move(next));
    kept_.push_back(std::move(kept));
  }

  // dstate: of the layer's output, becomes that of its input.
  void backward_layer(std::size_t index, Tensor& dstate) {
    const PolicyLayerWeights& layer = w_.layers[index];
    const std::int64_t d = w_.shape.hidden, nodes = graph_.nodes;
    Kept& kept = kept_[index];
    Tensor& state = states_[index];
    backend().run(queue(), kernels::LayerNormBackward{
                               dstate.view(), kept.residuals.view(), value(layer.gamma),
                               kNormEpsilon, dstate.view(), slope(layer.gamma), slope(layer.beta)});
    Tensor dupdates = matrix(nodes, d);
    add_bias_gradient(dstate.view(), kept.updates, layer.bias, dupdates.view());
    add_product(state.view(), dupdates.view(), layer.self);
    input_gradient(dupdates.view(), layer.self, 1, dstate.view());
    Tensor dmessages = matrix(graph_.edges(), d), dtargets = matrix(nodes, d);
    Tensor dsources = matrix(nodes, d);
    for (Tensor* sum : {&dtargets, &dsources})
      backend().run(queue(), kernels::FillZero{sum->view()});
    attend_backward(graph_.edge_begin, kept.messages.view(), kept.targets.view(),
                    value(layer.attention), kept.shares.view(), dupdates.view(), dmessages.view(),
                    dtargets.view(), slope(layer.attention));
    add_product(edge_features_.view(), dmessages.view(), layer.edge);
    scatter_add(dmessages.view(), graph_.edge_source, dsources.view());
    add_product(state.view(), dsources.view(), layer.source);
    add_product(state.view(), dtargets.view(), layer.target);
    input_gradient(dsources.view(), layer.source, 1, dstate.view());
    input_gradient(dtargets.view(), layer.target, 1, dstate.view());
  }

  Weights& w_;
  const PolicyGraph& graph_;
  RowRange candidates_;
  Tensor features_, edge_features_;
  std::vector<Tensor> states_;  // h before the first layer and after each
  std::vector<Kept> kept_;      // by layer
  Tensor decoded_, scores_;
};

PolicyNetwork::PolicyNetwork(const PolicyShape& shape, std::uint64_t seed, DType dtype)
    : weights_(std::make_unique<Weights>(shape, seed, dtype)) {}
PolicyNetwork::~PolicyNetwork() = default;
PolicyNetwork::PolicyNetwork(PolicyNetwork&&) noexcept = default;

const PolicyShape& PolicyNetwork::shape() const { return weights_->shape; }
ParameterStore& PolicyNetwork::parameters() { return weights_->parameters; }

std::vector<double> PolicyNetwork::probabilities(const PolicyGraph& graph) {
  return Pass(*weights_, graph).forward();
}

PolicyNetwork::Outcome PolicyNetwork::add_gradient(const PolicyGraph& graph,
                                                   std::span<const double> target, double weight) {
  ATOLL_ASSERT(std::ssize(target) == graph.options);
  Pass pass(*weights_, graph);
  std::vector<double> probabilities = pass.forward();
  std::vector<double> gradient;
  double loss = 0;
  for (std::size_t k = 0; k < target.size(); ++k) {
    if (target[k] > 0) loss -= weight * target[k] * std::log(std::max(probabilities[k], 1e-30));
    gradient.push_back(weight * (probabilities[k] - target[k]));
  }
  pass.backward(gradient);
  return {loss, std::move(probabilities)};
}

void PolicyNetwork::step(const OptimizerConfig& config, int step) {
  Optimizer optimizer(config, weights_->parameters, *weights_->backend);
  const EpochState state = optimizer.state_of(step);
  optimizer.step(*weights_->backend, *weights_->queue, weights_->parameters, &state);
  weights_->backend->run(*weights_->queue, kernels::FillZero{weights_->parameters.gradients()});
}

}  // namespace atl
