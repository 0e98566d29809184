// The models' computation, said once more as plainly as possible: edge lists, dense matrices of
// doubles, and loops that follow the papers. Tests hold the engine against it, so it uses nothing
// of the engine. A new convolution is one more function in convolution().
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace atl::oracle {

struct Matrix {
  Matrix() = default;
  Matrix(int row_count, int column_count)
      : rows(row_count),
        cols(column_count),
        values(static_cast<std::size_t>(row_count) * static_cast<std::size_t>(column_count)) {}
  double& operator()(int i, int j) { return values[static_cast<std::size_t>(i * cols + j)]; }
  double operator()(int i, int j) const { return values[static_cast<std::size_t>(i * cols + j)]; }

  int rows = 0;
  int cols = 0;
  std::vector<double> values;
};

struct Edge {
  int from;
  int to;
  double weight;
  int type = 0;  // its relation
  std::vector<double> features = {};
};

struct Graph {
  int nodes = 0;
  std::vector<Edge> edges;  // node `to` reads node `from`; both directions if undirected
  int relations = 1;
  std::vector<int> node_types;  // of a typed input layer
};

// One layer; names of things are those of options.
struct Layer {
  std::string convolution;
  std::string norm = "none";
  bool norm_before = false;  // norm and activation come before the convolution
  std::string activation = "relu";
  std::string skip = "none";
  bool skip_from_first = false;
  std::string root = "usual";
  std::string aggregator = "mean";  // of sage
  double temperature = 1;           // unless it is a tensor, as the next
  double power = 1;
  double alpha = 0.1;
  double theta = 0.5;
  int heads = 1;  // of attention
  bool averages_heads = false;
  bool symmetric_attention = false;
};

struct Model {
  std::string input_activation;  // of a linear layer before the first; empty: there is none
  bool typed_input = false;      // with a weight and a bias for each type of nodes
  std::vector<Layer> layers;
  std::string jump = "last";
  bool has_head = false;
  // Weights, biases and running statistics, named as in model.safetensors; vectors are one row.
  std::map<std::string, Matrix> tensors;
};

enum class Mode {
  kTraining,    // batch norm by statistics of all nodes, which move the running ones
  kEvaluation,  // batch norm by the running statistics
};

// Logits of every node, without dropout. Training changes the running statistics in model.tensors.
Matrix logits(Model& model, const Graph& graph, const Matrix& features, Mode mode);

struct Targets {
  // Class per node (-1: none) for softmax; 0, 1 or 255 (missing) per node and output for sigmoid.
  std::vector<std::int32_t> classes;
  std::vector<std::uint8_t> bits;
  std::vector<bool> trained;  // nodes of the training split
};

// Mean cross-entropy over the labels of training nodes: of softmax where there are classes, else of
// the sigmoid of each output.
double loss(const Matrix& logits, const Targets& targets);

// d value() / d tensor by central differences; value() reads the tensor.
Matrix gradient(Matrix& tensor, const std::function<double()>& value);

}  // namespace atl::oracle
