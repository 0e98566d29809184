#include "tests/support/dense_oracle.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace atl::oracle {

namespace {

constexpr double kEpsilon = 1e-5;  // of both norms, inside the root
constexpr double kMomentum = 0.1;  // of running statistics

Matrix operator*(const Matrix& a, const Matrix& b) {
  if (a.cols != b.rows) throw std::logic_error("shapes of a product");
  Matrix product(a.rows, b.cols);
  for (int i = 0; i < a.rows; ++i) {
    for (int j = 0; j < b.cols; ++j) {
      for (int k = 0; k < a.cols; ++k) product(i, j) += a(i, k) * b(k, j);
    }
  }
  return product;
}

// b may be one row, which is then added to each.
Matrix operator+(const Matrix& a, const Matrix& b) {
  if (a.cols != b.cols || (b.rows != 1 && b.rows != a.rows)) {
    throw std::logic_error("shapes of a sum");
  }
  Matrix sum = a;
  for (int i = 0; i < a.rows; ++i) {
    for (int j = 0; j < a.cols; ++j) sum(i, j) += b(b.rows == 1 ? 0 : i, j);
  }
  return sum;
}

// A[v][u]: the sum of weights of edges u -> v.
Matrix adjacency(const Graph& graph) {
  Matrix a(graph.nodes, graph.nodes);
  for (const Edge& edge : graph.edges) a(edge.to, edge.from) += edge.weight;
  return a;
}

double row_sum(const Matrix& a, int i) {
  double sum = 0;
  for (int j = 0; j < a.cols; ++j) sum += a(i, j);
  return sum;
}

// Kipf & Welling 2017, eq. 2: D^-1/2 (A + I) D^-1/2 X W, D the row sums (in-degrees) of A + I. A
// node that has a self-loop already gets no second one.
Matrix gcn(const Graph& graph, const Matrix& x, const Matrix& weight) {
  Matrix a = adjacency(graph);
  std::vector<bool> has_loop(static_cast<std::size_t>(graph.nodes), false);
  for (const Edge& edge : graph.edges) {
    if (edge.from == edge.to) has_loop[static_cast<std::size_t>(edge.to)] = true;
  }
  for (int v = 0; v < graph.nodes; ++v) {
    if (!has_loop[static_cast<std::size_t>(v)]) a(v, v) += 1;
  }
  Matrix normalised(graph.nodes, graph.nodes);
  for (int v = 0; v < graph.nodes; ++v) {
    for (int u = 0; u < graph.nodes; ++u) {
      if (a(v, u) != 0) normalised(v, u) = a(v, u) / std::sqrt(row_sum(a, v) * row_sum(a, u));
    }
  }
  return normalised * x * weight;
}

// GraphSAGE (Hamilton et al. 2017) with the mean aggregator, in the form of a weight for the node
// and one for the weighted mean of what it reads, which is 0 for a node that reads nothing.
Matrix sage(const Graph& graph, const Matrix& x, const Matrix& weight, const Matrix& root_weight) {
  Matrix mean = adjacency(graph);
  for (int v = 0; v < graph.nodes; ++v) {
    const double degree = row_sum(mean, v);
    for (int u = 0; u < graph.nodes; ++u) mean(v, u) = degree > 0 ? mean(v, u) / degree : 0;
  }
  return x * root_weight + mean * x * weight;
}

Matrix convolution(const Model& model, const std::string& layer, const Graph& graph,
                   const Matrix& x) {
  const auto tensor = [&](const char* name) { return model.tensors.at(layer + name); };
  if (model.kind == "gcn") return gcn(graph, x, tensor(".weight"));
  if (model.kind == "sage") return sage(graph, x, tensor(".weight"), tensor(".root_weight"));
  throw std::logic_error("no oracle for model " + model.kind);
}

struct Moments {
  double mean = 0;
  double variance = 0;  // biased
};

Moments moments(const std::vector<double>& values) {
  const auto count = static_cast<double>(values.size());
  Moments result;
  for (const double value : values) result.mean += value / count;
  for (const double value : values) {
    result.variance += (value - result.mean) * (value - result.mean) / count;
  }
  return result;
}

std::vector<double> row(const Matrix& z, int i) {
  std::vector<double> values;
  for (int j = 0; j < z.cols; ++j) values.push_back(z(i, j));
  return values;
}

std::vector<double> column(const Matrix& z, int j) {
  std::vector<double> values;
  for (int i = 0; i < z.rows; ++i) values.push_back(z(i, j));
  return values;
}

double normalised(double value, const Moments& by) {
  return (value - by.mean) / std::sqrt(by.variance + kEpsilon);
}

// Ba et al. 2016: over the columns of each node.
Matrix layer_norm(const Matrix& z) {
  Matrix y(z.rows, z.cols);
  for (int i = 0; i < z.rows; ++i) {
    const Moments of_row = moments(row(z, i));
    for (int j = 0; j < z.cols; ++j) y(i, j) = normalised(z(i, j), of_row);
  }
  return y;
}

// Ioffe & Szegedy 2015: over all nodes of each column. The running variance is the unbiased one.
Matrix batch_norm(const Matrix& z, Matrix& running_mean, Matrix& running_variance, Mode mode) {
  Matrix y(z.rows, z.cols);
  const double unbiased = z.rows / (z.rows - 1.0);
  for (int j = 0; j < z.cols; ++j) {
    Moments used{running_mean(0, j), running_variance(0, j)};
    if (mode == Mode::kTraining) {
      used = moments(column(z, j));
      running_mean(0, j) += kMomentum * (used.mean - running_mean(0, j));
      running_variance(0, j) += kMomentum * (unbiased * used.variance - running_variance(0, j));
    }
    for (int i = 0; i < z.rows; ++i) y(i, j) = normalised(z(i, j), used);
  }
  return y;
}

// What stands between two convolutions: a bias, or a norm with its own scale and shift; then ReLU.
Matrix hidden(Model& model, const std::string& layer, Matrix z, Mode mode) {
  auto& tensors = model.tensors;
  if (model.norm == "none") {
    z = z + tensors.at(layer + ".bias");
  } else {
    const std::string norm = layer + ".norm.";
    z = model.norm == "layer" ? layer_norm(z)
                              : batch_norm(z, tensors.at(norm + "running_mean"),
                                           tensors.at(norm + "running_var"), mode);
    const Matrix& scale = tensors.at(norm + "weight");
    for (int i = 0; i < z.rows; ++i) {
      for (int j = 0; j < z.cols; ++j) z(i, j) *= scale(0, j);
    }
    z = z + tensors.at(norm + "bias");
  }
  for (double& value : z.values) value = std::max(value, 0.0);
  return z;
}

}  // namespace

Matrix logits(Model& model, const Graph& graph, const Matrix& features, Mode mode) {
  Matrix x = features;
  for (int index = 0; index < model.layers; ++index) {
    const std::string layer = "layers." + std::to_string(index);
    x = convolution(model, layer, graph, x);
    if (index + 1 == model.layers) return x + model.tensors.at(layer + ".bias");
    x = hidden(model, layer, std::move(x), mode);
  }
  return x;
}

double loss(const Matrix& logits, const Targets& targets) {
  double sum = 0;
  int labels = 0;
  for (int i = 0; i < logits.rows; ++i) {
    if (!targets.trained[static_cast<std::size_t>(i)]) continue;
    if (!targets.classes.empty()) {
      const int wanted = targets.classes[static_cast<std::size_t>(i)];
      if (wanted < 0) continue;
      double total = 0;
      for (int j = 0; j < logits.cols; ++j) total += std::exp(logits(i, j));
      sum -= std::log(std::exp(logits(i, wanted)) / total);
      ++labels;
      continue;
    }
    for (int j = 0; j < logits.cols; ++j) {
      const std::uint8_t bit = targets.bits[static_cast<std::size_t>(i * logits.cols + j)];
      if (bit == 255) continue;
      const double chance = 1 / (1 + std::exp(-logits(i, j)));
      sum -= std::log(bit == 1 ? chance : 1 - chance);
      ++labels;
    }
  }
  return sum / labels;
}

Matrix gradient(Matrix& tensor, const std::function<double()>& value) {
  constexpr double kStep = 1e-6;
  Matrix result(tensor.rows, tensor.cols);
  for (std::size_t p = 0; p < tensor.values.size(); ++p) {
    const double before = tensor.values[p];
    tensor.values[p] = before + kStep;
    const double up = value();
    tensor.values[p] = before - kStep;
    const double down = value();
    tensor.values[p] = before;
    result.values[p] = (up - down) / (2 * kStep);
  }
  return result;
}

}  // namespace atl::oracle
