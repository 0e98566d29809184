// The convolutions that layers are made of: what a row takes from its neighbours' rows.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/models/description.hpp"
#include "engine/program/builder.hpp"

namespace atl {

// What a convolution is made from.
struct ConvolutionInput {
  Value x = kNoValue;  // what the layer gets
  // What the first layer of a run of layers with this convolution gets, before dropout; only for
  // those that read it (ConvolutionKind::reads_first).
  Value first = kNoValue;
  int number = 1;              // of the layer in that run
  std::int64_t columns = 0;    // of the result
  std::int64_t relations = 0;  // types of edges that the dataset has
  std::int64_t edge_features = 0;
  LayerOptions options = {};
};

struct ConvolutionKind {
  std::string name;
  // Returns a value of input.columns columns, without bias.
  Value (*make)(Builder& builder, const ConvolutionInput& input) = nullptr;
  bool keeps_columns = false;  // the result has as many columns as x
  bool has_bias = true;        // unless a norm follows
  bool has_weight = true;      // without one there is no activation either, unless it is asked for
  bool reads_first = false;
  // Names of the options that it reads, without those of every layer (norm, activation, dropout,
  // skip); with --model, others that some convolution names are refused. Not said: it may read all.
  std::optional<std::vector<std::string>> reads = {};
  // Options of every layer that its model has not.
  std::vector<std::string> lacks = {};
};

// All of them, in the order of help texts: those below and those that were added.
const std::vector<ConvolutionKind>& convolution_kinds();
// Adds those of a program's own, which are models, too. For its start: flags, files of options and
// checks are made from the names once. Throws Error{kOption} for a name that is taken, that is no
// word of a command line or has more than 64 characters, if there is no function, or if it reads
// what is no option of layers.
void add_convolutions(const std::vector<ConvolutionKind>& kinds);
std::vector<std::string> convolution_names();
// Throws Error{kOption} for an unknown name.
const ConvolutionKind& convolution_named(const std::string& name);

// A norm's shift serves as the bias of what comes before it. prefix: of the parameters' names.
Value norm_or_bias(Builder& builder, Value x, Norm norm, const std::string& prefix = "");

// Kipf & Welling 2017, eq. 2: D^-1/2 (A + I) D^-1/2 x W.
Value gcn_convolution(Builder& builder, const ConvolutionInput& input);
// GraphSAGE (Hamilton et al. 2017, algorithm 1): aggregate_j(x_j) W + x R, the concatenation of the
// paper written as two weights. The aggregator: options.aggregator.
Value sage_convolution(Builder& builder, const ConvolutionInput& input);
// The mean or the sum over in-neighbours, times W.
Value mean_convolution(Builder& builder, const ConvolutionInput& input);
Value sum_convolution(Builder& builder, const ConvolutionInput& input);
// GIN (Xu et al. 2019, eq. 4.1): an MLP of two layers of x + sum_j(x_j); between them the layer's
// norm and activation (ReLU where it has none).
Value gin_convolution(Builder& builder, const ConvolutionInput& input);
// GINE (Hu et al. 2020, eq. 3.2 of the appendix): the same MLP of x + sum_e(relu(x_j + f_e W + b))
// over in-edges e: j -> i with features f_e.
Value gine_convolution(Builder& builder, const ConvolutionInput& input);
// GCNII (Chen et al. 2020, eq. 5): z = (1 - alpha) S x + alpha first, S as gcn's; then
// (1 - beta) z + beta z W with beta = log(theta / number + 1).
Value gcnii_convolution(Builder& builder, const ConvolutionInput& input);
// One step of APPNP (Gasteiger et al. 2019, eq. 4): (1 - alpha) S x + alpha first.
Value appnp_convolution(Builder& builder, const ConvolutionInput& input);
// One hop of SGC (Wu et al. 2019, eq. 8): S x.
Value sgc_convolution(Builder& builder, const ConvolutionInput& input);
// GAT (Velickovic et al. 2018): z = x W, e_ij = leaky(<a_source, z_j> + <a_target, z_i>).
Value gat_convolution(Builder& builder, const ConvolutionInput& input);
// GATv2 (Brody et al. 2022, eq. 7): z = x W + b, e_ij = <a, leaky(z_j + x_i R + c)>.
Value gatv2_convolution(Builder& builder, const ConvolutionInput& input);
// Scaled dot products, keys and values alike: z = x W, e_ij = <x_i Q, z_j> / sqrt(columns of a
// head).
Value dot_convolution(Builder& builder, const ConvolutionInput& input);
// R-GCN (Schlichtkrull et al. 2018, eq. 2): sum over relations r of mean_{j in N_r}(x_j) W_r, and
// x W_0.
Value rgcn_convolution(Builder& builder, const ConvolutionInput& input);
// x W.
Value no_convolution(Builder& builder, const ConvolutionInput& input);

}  // namespace atl
