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

// Kipf & Welling 2017, eq. 2: D^-1/2 (A + I) D^-1/2, D the row sums (in-degrees) of A + I. A node
// that has a self-loop already gets no second one.
Matrix symmetric(const Graph& graph) {
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
  return normalised;
}

// The weighted mean of what a node reads, which is 0 for a node that reads nothing.
Matrix mean(const Graph& graph) {
  Matrix mean = adjacency(graph);
  for (int v = 0; v < graph.nodes; ++v) {
    const double degree = row_sum(mean, v);
    for (int u = 0; u < graph.nodes; ++u) mean(v, u) = degree > 0 ? mean(v, u) / degree : 0;
  }
  return mean;
}

Matrix operator*(double factor, Matrix a) {
  for (double& value : a.values) value *= factor;
  return a;
}

Matrix activated(Matrix z, const std::string& function) {
  for (double& v : z.values) {
    if (function == "relu") v = std::max(v, 0.0);
    if (function == "leaky-relu") v = v > 0 ? v : 0.01 * v;
    if (function == "elu") v = v > 0 ? v : std::exp(v) - 1;
    if (function == "gelu") v = 0.5 * v * (1 + std::erf(v / std::sqrt(2.0)));
  }
  return z;
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

// A bias, or a norm with its own scale and shift. prefix: of the names of tensors.
Matrix norm_or_bias(Model& model, const std::string& prefix, const std::string& norm, Matrix z,
                    Mode mode) {
  auto& tensors = model.tensors;
  if (norm == "none") return z + tensors.at(prefix + "bias");
  const std::string name = prefix + "norm.";
  z = norm == "layer" ? layer_norm(z)
                      : batch_norm(z, tensors.at(name + "running_mean"),
                                   tensors.at(name + "running_var"), mode);
  const Matrix& scale = tensors.at(name + "weight");
  for (int i = 0; i < z.rows; ++i) {
    for (int j = 0; j < z.cols; ++j) z(i, j) *= scale(0, j);
  }
  return z + tensors.at(name + "bias");
}

double leaky(double value) { return value > 0 ? value : 0.2 * value; }

// A source that a node attends to. A node's own features are the means of those of its other edges,
// as PyTorch Geometric's GATConv has it.
struct Attended {
  int from;
  std::vector<double> features;
};
std::vector<Attended> attended(const Graph& graph, int to, bool with_self) {
  std::vector<Attended> sources;  // parallel edges count as often as they are there
  for (const Edge& edge : graph.edges) {
    if (edge.to == to && !(with_self && edge.from == to)) {
      sources.push_back({edge.from, edge.features});
    }
  }
  if (!with_self) return sources;
  std::vector<double> means(graph.edges.empty() ? 0 : graph.edges.front().features.size(), 0);
  for (const Attended& source : sources) {
    for (std::size_t k = 0; k < means.size(); ++k) {
      means[k] += source.features[k] / static_cast<double>(sources.size());
    }
  }
  sources.push_back({to, means});
  return sources;
}

// Found once for all scores: gradients are differences of thousands of losses.
struct ScoreTensors {
  const Matrix* edge_weight;
  const Matrix* source;
  const Matrix* target;
  const Matrix* edge;
  const Matrix* both;

  ScoreTensors(const Model& model, const std::string& prefix) {
    const auto find = [&](const char* name) {
      const auto found = model.tensors.find(prefix + name);
      return found == model.tensors.end() ? nullptr : &found->second;
    };
    edge_weight = find("edge_weight");
    source = find("attention_source");
    target = find("attention_target");
    edge = find("attention_edge");
    both = find("attention");
  }
};

// The score of edge from -> to, in head h: Velickovic et al. 2018, eq. 3; Brody et al. 2022, eq. 7;
// the scaled dot product. z of the source, t of the target.
double attention_score(const ScoreTensors& tensors, const std::string& kind, const Matrix& z,
                       const Matrix& t, const Attended& source, int to, int h, int columns) {
  const int from = source.from;
  const bool has_edges = tensors.edge_weight != nullptr;
  double score = 0;
  for (int c = 0; c < columns; ++c) {
    const int j = h * columns + c;
    double of_edge = 0;
    for (std::size_t k = 0; has_edges && k < source.features.size(); ++k) {
      of_edge += (*tensors.edge_weight)(static_cast<int>(k), j) * source.features[k];
    }
    if (kind == "gat") {
      score += (*tensors.source)(h, c) * z(from, j) + (*tensors.target)(h, c) * t(to, j);
      if (has_edges) score += (*tensors.edge)(h, c) * of_edge;
    } else if (kind == "gatv2") {
      score += (*tensors.both)(h, c) * leaky(z(from, j) + t(to, j) + of_edge);
    } else {
      score += z(from, j) * t(to, j) / std::sqrt(columns);
    }
  }
  return kind == "gat" ? leaky(score) : score;
}

// How many edges leave and enter each node, at least one: with_self, one of them to itself.
struct Degrees {
  std::vector<int> out, in;
};
Degrees degrees_of(const Graph& graph, bool with_self) {
  const auto nodes = static_cast<std::size_t>(graph.nodes);
  Degrees degrees{std::vector<int>(nodes, with_self ? 1 : 0),
                  std::vector<int>(nodes, with_self ? 1 : 0)};
  for (const Edge& edge : graph.edges) {
    if (with_self && edge.from == edge.to) continue;
    ++degrees.out[static_cast<std::size_t>(edge.from)];
    ++degrees.in[static_cast<std::size_t>(edge.to)];
  }
  for (auto* counts : {&degrees.out, &degrees.in}) {
    for (int& count : *counts) count = std::max(count, 1);
  }
  return degrees;
}
Matrix scaled_rows(Matrix x, const std::vector<int>& degrees, double power) {
  for (int i = 0; i < x.rows; ++i) {
    for (int j = 0; j < x.cols; ++j)
      x(i, j) *= std::pow(degrees[static_cast<std::size_t>(i)], power);
  }
  return x;
}

// Each head's columns times a matrix of its own, one below the other in `matrices`.
Matrix times_per_head(const Matrix& z, const Matrix& matrices) {
  const int columns = matrices.cols;
  Matrix t(z.rows, z.cols);
  for (int i = 0; i < z.rows; ++i) {
    for (int j = 0; j < z.cols; ++j) {
      const int first = j / columns * columns;
      for (int k = first; k < first + columns; ++k) t(i, j) += z(i, k) * matrices(k, j - first);
    }
  }
  return t;
}

Matrix attention(const Model& model, const std::string& prefix, const Layer& layer,
                 const Graph& graph, const Matrix& x) {
  const auto tensor = [&](const char* name) -> const Matrix& {
    return model.tensors.at(prefix + name);
  };
  const bool is_v2 = layer.convolution == "gatv2";
  Matrix z = x * tensor("weight");
  Matrix t;
  if (is_v2 || layer.convolution == "dot") t = x * tensor("target_weight");
  if (layer.convolution == "bilinear") t = times_per_head(z, tensor("score_weight"));
  if (is_v2) z = z + tensor("source_bias"), t = t + tensor("target_bias");
  const int columns = z.cols / layer.heads;
  // gat scores the target's own row as it is.
  if (layer.convolution == "gat") t = z;
  const Degrees degrees = degrees_of(graph, layer.root != "none");
  if (layer.symmetric_attention) z = scaled_rows(z, degrees.out, -0.5);
  const ScoreTensors tensors(model, prefix);
  Matrix y(z.rows, z.cols);
  for (int to = 0; to < graph.nodes; ++to) {
    const std::vector<Attended> sources = attended(graph, to, layer.root != "none");
    for (int h = 0; h < layer.heads; ++h) {
      double total = 0;
      std::vector<double> weights;
      for (const Attended& source : sources) {
        weights.push_back(
            std::exp(attention_score(tensors, layer.convolution, z, t, source, to, h, columns)));
        total += weights.back();
      }
      for (std::size_t k = 0; k < sources.size(); ++k) {
        for (int c = 0; c < columns; ++c) {
          y(to, h * columns + c) += weights[k] / total * z(sources[k].from, h * columns + c);
        }
      }
    }
  }
  if (layer.symmetric_attention) y = scaled_rows(y, degrees.in, 0.5);
  if (!layer.averages_heads) return y;
  Matrix mean(y.rows, columns);
  for (int i = 0; i < y.rows; ++i) {
    for (int j = 0; j < y.cols; ++j) mean(i, j % columns) += y(i, j) / layer.heads;
  }
  return mean;
}

// Hamilton et al. 2017, section 3.3, max; Li et al. 2020, section 3.3, softmax with t and the power
// mean of p, which sharpness is: column by column.
Matrix pooled(const Layer& layer, double sharpness, const Graph& graph, const Matrix& x) {
  Matrix y(x.rows, x.cols);
  for (int to = 0; to < graph.nodes; ++to) {
    for (int c = 0; c < x.cols; ++c) {
      std::vector<double> values;
      for (const Edge& edge : graph.edges) {
        if (edge.to == to) values.push_back(x(edge.from, c));
      }
      if (values.empty()) continue;
      if (layer.aggregator == "max") {
        y(to, c) = *std::max_element(values.begin(), values.end());
        continue;
      }
      double total = 0;
      if (layer.aggregator == "power") {
        for (const double value : values) {
          total += std::pow(std::clamp(value, 1e-7, 10.0), sharpness);
        }
        y(to, c) = std::pow(total / static_cast<double>(values.size()), 1 / sharpness);
        continue;
      }
      for (const double value : values) total += std::exp(sharpness * value);
      for (const double value : values) y(to, c) += std::exp(sharpness * value) / total * value;
    }
  }
  return y;
}

// Schlichtkrull et al. 2018, eq. 3: rows of W_r below those of W_(r-1).
Matrix composed(const Matrix& coefficients, const Matrix& bases) {
  const int each = bases.rows / coefficients.cols;
  Matrix weight(coefficients.rows * each, bases.cols);
  for (int i = 0; i < weight.rows; ++i) {
    for (int j = 0; j < weight.cols; ++j) {
      for (int b = 0; b < coefficients.cols; ++b) {
        weight(i, j) += coefficients(i / each, b) * bases(b * each + i % each, j);
      }
    }
  }
  return weight;
}

// Schlichtkrull et al. 2018, eq. 2, without self-loop; W_r are blocks of the rows of `weight`.
Matrix relational(const Graph& graph, const Matrix& x, const Matrix& weight) {
  Matrix y(x.rows, weight.cols);
  for (int r = 0; r < graph.relations; ++r) {
    Graph of_relation{graph.nodes, {}, 1, {}};
    for (const Edge& edge : graph.edges) {
      if (edge.type == r) of_relation.edges.push_back(edge);
    }
    Matrix block(x.cols, weight.cols);
    for (int i = 0; i < x.cols; ++i) {
      for (int j = 0; j < weight.cols; ++j) block(i, j) = weight(r * x.cols + i, j);
    }
    y = y + mean(of_relation) * x * block;
  }
  return y;
}

// Hu et al. 2020: what PyTorch Geometric's GINEConv sums up.
Matrix with_edge_features(const Graph& graph, const Matrix& x, const Matrix& weight,
                          const Matrix& bias) {
  Matrix y(x.rows, x.cols);
  for (const Edge& edge : graph.edges) {
    for (int c = 0; c < x.cols; ++c) {
      double sum = x(edge.from, c) + bias(0, c);
      for (int k = 0; k < weight.rows; ++k) {
        sum += edge.features[static_cast<std::size_t>(k)] * weight(k, c);
      }
      y(edge.to, c) += std::max(sum, 0.0);
    }
  }
  return y;
}

// Without bias. first: what the first of `number` layers alike up to this one got.
Matrix convolution(Model& model, const std::string& prefix, const Layer& layer, const Graph& graph,
                   const Matrix& x, const Matrix& first, int number, Mode mode) {
  const auto tensor = [&](const char* name) { return model.tensors.at(prefix + name); };
  const std::string& kind = layer.convolution;
  if (kind == "none") return x * tensor("weight");
  if (kind == "sgc") return symmetric(graph) * x;
  if (kind == "gat" || kind == "gatv2" || kind == "dot" || kind == "bilinear") {
    return attention(model, prefix, layer, graph, x);
  }
  if (kind == "appnp" || kind == "gcnii") {
    const Matrix z = (1 - layer.alpha) * (symmetric(graph) * x) + layer.alpha * first;
    if (kind == "appnp") return z;
    const double beta = std::log(layer.theta / number + 1);
    return (1 - beta) * z + beta * (z * tensor("weight"));
  }
  if (kind == "rgcn") {
    const bool has_bases = model.tensors.contains(prefix + "bases");
    const Matrix y = relational(
        graph, x, has_bases ? composed(tensor("coefficients"), tensor("bases")) : tensor("weight"));
    return layer.root == "none" ? y : y + x * tensor("root_weight");
  }
  const std::string usual = kind == "sage"                    ? "linear"
                            : kind == "gin" || kind == "gine" ? "identity"
                                                              : "none";
  const std::string root = layer.root == "usual" ? usual : layer.root;
  const bool powers = layer.aggregator == "power";
  const bool pools = layer.aggregator == "max" || layer.aggregator == "softmax" || powers;
  const char* const trained = powers ? "power" : "temperature";
  const double sharpness = model.tensors.contains(prefix + trained) ? tensor(trained)(0, 0)
                           : powers                                 ? layer.power
                                                                    : layer.temperature;
  const Matrix neighbours =
      pools                              ? pooled(layer, sharpness, graph, x)
      : kind == "gcn"                    ? symmetric(graph) * x
      : layer.aggregator == "sum"        ? adjacency(graph) * x
      : kind == "sage" || kind == "mean" ? mean(graph) * x
      : kind == "gine" ? with_edge_features(graph, x, tensor("edge_weight"), tensor("edge_bias"))
                       : adjacency(graph) * x;
  if (kind != "gcn" && kind != "sage" && kind != "mean" && kind != "sum" && kind != "gin" &&
      kind != "gine") {
    throw std::logic_error("no oracle for convolution " + kind);
  }
  Matrix z = neighbours * tensor("weight");
  if (root == "identity") z = (neighbours + x) * tensor("weight");
  if (root == "epsilon") {
    z = (neighbours + (1 + tensor("epsilon")(0, 0)) * x) * tensor("weight");
  }
  if (root == "linear") z = z + x * tensor("root_weight");
  if (kind != "gin" && kind != "gine") return z;
  const std::string inner = layer.activation == "none" ? "relu" : layer.activation;
  z = activated(norm_or_bias(model, prefix + "hidden_", layer.norm, z, mode), inner);
  return z * tensor("second_weight");
}

// W_t are blocks of the rows of `weight`, b_t rows of `bias`.
Matrix linear_by_type(const Matrix& x, const std::vector<int>& types, const Matrix& weight,
                      const Matrix& bias) {
  Matrix y(x.rows, weight.cols);
  for (int i = 0; i < x.rows; ++i) {
    const int type = types[static_cast<std::size_t>(i)];
    for (int j = 0; j < y.cols; ++j) {
      y(i, j) = bias(type, j);
      for (int k = 0; k < x.cols; ++k) y(i, j) += x(i, k) * weight(type * x.cols + k, j);
    }
  }
  return y;
}

}  // namespace

Matrix logits(Model& model, const Graph& graph, const Matrix& features, Mode mode) {
  Matrix x = features;
  if (!model.input_activation.empty()) {
    const Matrix& weight = model.tensors.at("input.weight");
    const Matrix& bias = model.tensors.at("input.bias");
    x = activated(
        model.typed_input ? linear_by_type(x, graph.node_types, weight, bias) : x * weight + bias,
        model.input_activation);
  }
  const Matrix very_first = x;
  Matrix first;
  int number = 0;
  std::vector<Matrix> outputs;
  for (std::size_t l = 0; l < model.layers.size(); ++l) {
    const Layer& layer = model.layers[l];
    const std::string prefix = "layers." + std::to_string(l) + ".";
    const bool is_linear = layer.convolution == "gcnii" || layer.convolution == "appnp" ||
                           layer.convolution == "sgc";  // without bias
    if (l == 0 || layer.convolution != model.layers[l - 1].convolution) {
      first = x;
      number = 0;
    }
    ++number;
    Matrix into = x;
    if (layer.norm_before) {
      if (layer.norm != "none") into = norm_or_bias(model, prefix, layer.norm, into, mode);
      into = activated(into, layer.activation);
    }
    Matrix y = convolution(model, prefix, layer, graph, into, first, number, mode);
    const Matrix& from = layer.skip_from_first ? very_first : x;
    if (layer.skip == "identity") y = y + from;
    if (layer.skip == "linear") y = y + from * model.tensors.at(prefix + "skip_weight");
    if (layer.norm_before) {
      if (!is_linear) y = y + model.tensors.at(prefix + "bias");
    } else {
      if (!is_linear || layer.norm != "none") {
        y = norm_or_bias(model, prefix, layer.norm, y, mode);
      }
      y = activated(y, layer.activation);
    }
    x = y;
    outputs.push_back(x);
  }
  if (!model.has_head) return x;
  const Layer& last = model.layers.back();
  const auto finished = [&](Matrix z) {
    if (!last.norm_before) return z;
    if (last.norm != "none") z = norm_or_bias(model, "head.", last.norm, z, mode);
    return activated(z, last.activation);
  };
  Matrix all = outputs.back();
  if (model.jump == "sum" || model.jump == "max") {
    all = outputs.front();
    for (std::size_t l = 1; l < outputs.size(); ++l) {
      for (std::size_t i = 0; i < all.values.size(); ++i) {
        const double other = outputs[l].values[i];
        all.values[i] =
            model.jump == "sum" ? all.values[i] + other : std::max(all.values[i], other);
      }
    }
    all = finished(all);
  } else if (model.jump == "concatenate") {
    outputs.back() = finished(outputs.back());
    all = Matrix(x.rows, 0);
    for (const Matrix& part : outputs) {
      Matrix wider(all.rows, all.cols + part.cols);
      for (int i = 0; i < all.rows; ++i) {
        for (int j = 0; j < wider.cols; ++j) {
          wider(i, j) = j < all.cols ? all(i, j) : part(i, j - all.cols);
        }
      }
      all = wider;
    }
  } else {
    all = finished(all);
  }
  return all * model.tensors.at("head.weight") + model.tensors.at("head.bias");
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
