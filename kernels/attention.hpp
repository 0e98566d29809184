// Attention over in-edges: what its three operations (kernels::Attend, AttendBackwardTargets,
// AttendBackwardSources) need to know besides matrices.
//
// A matrix of H heads with C columns each has H C columns; those of head h are [h C, (h + 1) C).
// Row i attends to the rows j that it has an edge from:
//
//   alpha_ij = exp(e_ij) / sum_k exp(e_ik)     per head; the sum runs over the in-edges of i
//   y_i      = sum_j dropped(alpha_ij) z_j     columns of each head times that head's alpha
//
// "dropped" is dropout of the normalised coefficient, 0 or alpha times the rate's scale.
#pragma once

#include "kernels/views.hpp"

namespace atl {

// e_ij of a head: u is the slice of that head.
enum class AttentionScore : std::uint8_t {
  // leaky(s_j + t_i + g): GAT (Velickovic et al. 2018, eq. 3), s_j = <a_source, z_j>, and g of the
  // edge, if there is any
  kAdditive,
  kGatv2,  // <a, leaky(z_j + t_i + f W)>: Brody et al. 2022, eq. 7; f W as in AttentionEdges
  kDot,    // <t_i, z_j> / sqrt(C)
};
const char* to_string(AttentionScore score);  // "additive", "gatv2", "dot"

// Dropout of coefficients: that of edge j -> i in head h of all uses half-word h % 8 of the block
// of row (i | (h / 8) << 32), column block j, where i and j are global ids. So it does not depend
// on ranks; parallel edges fall together.
struct AttentionDropout : DropoutSpec {  // row_ids: of the operator's rows, all of them
  std::span<const GlobalId> col_ids;     // of its columns
  std::int64_t first_head = 0;           // of the operation's heads, among all
};

// Terms that edges add inside of gatv2's scores: the product of their features f, which is made
// where it is needed and never stored. Kernels start from t_i and add its terms in the order of the
// features, in each pass alike: what leaky sees keeps its sign from forward to backward.
struct AttentionEdges {
  // Rows of f without gaps, of edges by their place in col_idx.
  std::span<const float> features;
  // Features of the edges of rows to themselves, where rows attend to themselves.
  std::span<const float> of_self;
  ConstMatrixView weight;  // W [features of an edge, H C], of the parameters' type

  bool absent() const { return weight.absent(); }
  std::int64_t count() const { return weight.rows; }  // of features
};

struct AttentionSpec {
  AttentionScore score = AttentionScore::kAdditive;
  std::int64_t heads = 1;
  double slope = 0.2;  // of leaky relu
  // [1, H C], of the parameters' type: a of gatv2, a_source of additive; absent: of dot.
  ConstMatrixView vector;
  // additive: s, [op.cols, H], of the parameters' type; else absent.
  ConstMatrixView source_scores;
  // additive: g, [nnz + (with_self ? op.rows : 0), H], of the parameters' type: of edges by their
  // place in col_idx, then of what rows have with themselves. May be absent.
  ConstMatrixView edge_scores;
  AttentionEdges edges;  // of gatv2; may be absent
  // Each row attends to itself once, whether there is an edge i -> i or not: such edges of col_idx
  // are passed over.
  bool with_self = false;
  AttentionDropout dropout;
};

}  // namespace atl
