// Attention of the oracle: every coefficient from its formula, kernels/attention.hpp.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/reference/elements.hpp"
#include "kernels/reference/reference_backend.hpp"

namespace atl {

namespace {

// A source that a row attends to, and where its coefficients lie.
struct AttendedEdge {
  std::int64_t source;
  std::int64_t place;
};

std::vector<AttendedEdge> attended_edges(const SparseOperator& op, bool with_self, std::int64_t i) {
  std::vector<AttendedEdge> edges;
  for_edges_of(op, i, [&](std::int64_t j, std::int64_t e) {
    if (!with_self || j != i) edges.push_back({j, e});
  });
  if (with_self) edges.push_back({i, static_cast<std::int64_t>(op.col_idx.size()) + i});
  return edges;
}

// Columns of one head.
struct HeadColumns {
  std::int64_t begin;
  std::int64_t end;
};
HeadColumns head_columns(const AttentionSpec& attention, std::int64_t cols, std::int64_t head) {
  const std::int64_t each = cols / attention.heads;
  return {head * each, (head + 1) * each};
}

// Feature k of the edge whose coefficients lie at `place`.
double edge_feature(const AttentionEdges& edges, std::int64_t place, std::int64_t k) {
  const auto index = static_cast<std::size_t>(place * edges.count() + k);
  const std::size_t between = edges.features.size();
  return index < between ? edges.features[index] : edges.of_self[index - between];
}

double attention_slope(const AttentionSpec& attention, double x) {
  return x > 0 ? 1 : attention.slope;
}
double attention_leaky(const AttentionSpec& attention, double x) {
  return x * attention_slope(attention, x);
}

// The sum whose leaky value is e_ij of the additive score.
template <typename T>
double additive_sum(const AttentionSpec& attention, ConstMatrixView t, std::int64_t i,
                    const AttendedEdge& edge, std::int64_t head) {
  using P = Parameter<T>;
  const double of_edge =
      attention.edge_scores.absent() ? 0 : at<P>(attention.edge_scores, edge.place, head);
  return at<P>(attention.source_scores, edge.source, head) + at<P>(t, i, head) + of_edge;
}

// The term beside z_j inside of gatv2's leaky: column c of t_i, and of what the edge adds.
template <typename T>
double target_at(const AttentionSpec& attention, ConstMatrixView t, std::int64_t i,
                 std::int64_t place, std::int64_t c) {
  double sum = at<T>(t, i, c);
  for (std::int64_t k = 0; k < attention.edges.count(); ++k) {
    sum += edge_feature(attention.edges, place, k) * at<Parameter<T>>(attention.edges.weight, k, c);
  }
  return sum;
}

template <typename T>
double attention_score(const AttentionSpec& attention, ConstMatrixView z, ConstMatrixView t,
                       std::int64_t i, const AttendedEdge& edge, std::int64_t head) {
  if (attention.score == AttentionScore::kAdditive) {
    return attention_leaky(attention, additive_sum<T>(attention, t, i, edge, head));
  }
  const std::int64_t j = edge.source;
  const auto [begin, end] = head_columns(attention, z.cols, head);
  double sum = 0;
  for (std::int64_t c = begin; c < end; ++c) {
    if (attention.score == AttentionScore::kDot) {
      sum += at<T>(t, i, c) * at<T>(z, j, c);
    } else {
      sum +=
          at<Parameter<T>>(attention.vector, 0, c) *
          attention_leaky(attention, at<T>(z, j, c) + target_at<T>(attention, t, i, edge.place, c));
    }
  }
  if (attention.score == AttentionScore::kGatv2) return sum;
  return sum / std::sqrt(static_cast<double>(end - begin));
}

// alpha of all edges of row i.
template <typename T>
std::vector<double> attention_weights(const AttentionSpec& attention, ConstMatrixView z,
                                      ConstMatrixView t, std::int64_t i,
                                      const std::vector<AttendedEdge>& edges, std::int64_t head) {
  std::vector<double> weights;
  double most = -std::numeric_limits<double>::infinity();
  for (const AttendedEdge& edge : edges) {
    weights.push_back(attention_score<T>(attention, z, t, i, edge, head));
    most = std::max(most, weights.back());
  }
  double sum = 0;
  for (double& weight : weights) {
    weight = std::exp(weight - most);
    sum += weight;
  }
  for (double& weight : weights) weight /= sum;
  return weights;
}

// The factors by which dropout multiplies alpha of each edge of row i in a head of the operation.
std::vector<double> kept_factors(const AttentionDropout& dropout, std::int64_t i,
                                 const std::vector<AttendedEdge>& edges, std::int64_t own_head) {
  std::vector<double> factors(edges.size(), 1);
  if (!dropout.active()) return factors;
  const std::int64_t head = dropout.first_head + own_head;
  const std::uint64_t row = static_cast<std::uint64_t>(to_index(dropout.row_ids[i])) |
                            static_cast<std::uint64_t>(head / 8) << 32U;
  for (std::size_t k = 0; k < edges.size(); ++k) {
    const auto column = static_cast<std::uint32_t>(to_index(dropout.col_ids[edges[k].source]));
    const PhiloxBlock block = random_block(dropout.key_now(), row, column);
    const bool keep =
        dropout_half_word(block, static_cast<std::uint32_t>(head % 8)) < dropout.rate.threshold;
    factors[k] = keep ? static_cast<double>(dropout.rate.scale) : 0;
  }
  return factors;
}

// gatv2: the gradient of e_ij with respect to column c of z_j, of t_i and of what the edge adds.
template <typename T>
double score_slope(const AttentionSpec& attention, ConstMatrixView z, ConstMatrixView t,
                   std::int64_t i, const AttendedEdge& edge, std::int64_t c) {
  return at<Parameter<T>>(attention.vector, 0, c) *
         attention_slope(attention,
                         at<T>(z, edge.source, c) + target_at<T>(attention, t, i, edge.place, c));
}

}  // namespace

void kernel(ReferenceBackend&, Queue&, const kernels::Attend& call) {
  const auto& [op, rows, z, t, attention, y, epilogue] = call;
  with_value_type(z.dtype, [&]<typename T>(T) {
    for (std::int64_t i = rows.begin; i < rows.end; ++i) {
      const auto edges = attended_edges(op, attention.with_self, i);
      for (std::int64_t head = 0; head < attention.heads; ++head) {
        const auto weights = attention_weights<T>(attention, z, t, i, edges, head);
        const auto kept = kept_factors(attention.dropout, i, edges, head);
        const auto [begin, end] = head_columns(attention, z.cols, head);
        for (std::int64_t c = begin; c < end; ++c) {
          double sum = 0;
          for (std::size_t k = 0; k < edges.size(); ++k) {
            sum += weights[k] * kept[k] * at<T>(z, edges[k].source, c);
          }
          set<T>(y, i, c, epilogue_value<Parameter<T>>(epilogue, i - rows.begin, c, sum));
        }
      }
    }
  });
}

void kernel(ReferenceBackend&, Queue&, const kernels::AttendBackwardTargets& call) {
  const auto& [op, rows, z, t, dy, attention, dt, coefficients, dvector, dedge_weight] = call;
  with_value_type(z.dtype, [&]<typename T>(T) {
    using P = Parameter<T>;
    std::vector<double> vector_sums(static_cast<std::size_t>(z.cols), 0);
    std::vector<double> weight_sums(static_cast<std::size_t>(attention.edges.count() * z.cols), 0);
    for (std::int64_t i = rows.begin; i < rows.end; ++i) {
      // Zeros for the edges that are passed over.
      for (std::int64_t e = op.row_ptr[i]; e < op.row_ptr[i + 1]; ++e) {
        for (std::int64_t k = 0; k < 2 * attention.heads; ++k) set<P>(coefficients, e, k, 0);
      }
      const auto edges = attended_edges(op, attention.with_self, i);
      for (std::int64_t head = 0; head < attention.heads; ++head) {
        const auto [begin, end] = head_columns(attention, z.cols, head);
        const auto weights = attention_weights<T>(attention, z, t, i, edges, head);
        const auto kept = kept_factors(attention.dropout, i, edges, head);
        std::vector<double> gradients;  // of alpha
        double mean = 0;
        for (std::size_t k = 0; k < edges.size(); ++k) {
          const std::int64_t j = edges[k].source;
          double product = 0;
          for (std::int64_t c = begin; c < end; ++c) product += at<T>(dy, i, c) * at<T>(z, j, c);
          gradients.push_back(kept[k] * product);
          mean += weights[k] * gradients.back();
        }
        std::vector<double> dt_row(static_cast<std::size_t>(end - begin), 0);
        double dt_sum = 0;
        for (std::size_t k = 0; k < edges.size(); ++k) {
          const auto [j, place] = edges[k];
          double gradient = weights[k] * (gradients[k] - mean);
          for (std::int64_t c = begin; c < end; ++c) {
            double& to = dt_row[static_cast<std::size_t>(c - begin)];
            if (attention.score == AttentionScore::kDot) {
              to += gradient * at<T>(z, j, c) / std::sqrt(static_cast<double>(end - begin));
            } else if (attention.score == AttentionScore::kGatv2) {
              const double inner = at<T>(z, j, c) + target_at<T>(attention, t, i, place, c);
              vector_sums[static_cast<std::size_t>(c)] +=
                  gradient * attention_leaky(attention, inner);
              const double slope = gradient * score_slope<T>(attention, z, t, i, edges[k], c);
              to += slope;
              for (std::int64_t f = 0; f < dedge_weight.rows; ++f) {
                weight_sums[static_cast<std::size_t>(f * z.cols + c)] +=
                    slope * edge_feature(attention.edges, place, f);
              }
            }
          }
          if (attention.score == AttentionScore::kAdditive) {
            gradient *=
                attention_slope(attention, additive_sum<T>(attention, t, i, edges[k], head));
            dt_sum += gradient;
          }
          set<P>(coefficients, place, head, weights[k] * kept[k]);
          set<P>(coefficients, place, attention.heads + head, gradient);
        }
        if (attention.score == AttentionScore::kAdditive) {
          set<P>(dt, i, head, dt_sum);
        } else {
          for (std::int64_t c = begin; c < end; ++c) {
            set<T>(dt, i, c, dt_row[static_cast<std::size_t>(c - begin)]);
          }
        }
      }
    }
    if (dvector.absent()) return;
    for (std::int64_t c = 0; c < z.cols; ++c) {
      set<P>(dvector, 0, c, at<P>(dvector, 0, c) + vector_sums[static_cast<std::size_t>(c)]);
    }
    for (std::int64_t k = 0; k < dedge_weight.rows; ++k) {
      for (std::int64_t c = 0; c < z.cols; ++c) {
        set<P>(dedge_weight, k, c,
               at<P>(dedge_weight, k, c) + weight_sums[static_cast<std::size_t>(k * z.cols + c)]);
      }
    }
  });
}

void kernel(ReferenceBackend&, Queue&, const kernels::AttendBackwardSources& call) {
  const auto& [op, edges, sources, z, t, dy, coefficients, attention, dz, dvector] = call;
  const auto nnz = static_cast<std::int64_t>(op.col_idx.size());
  with_value_type(z.dtype, [&]<typename T>(T) {
    using P = Parameter<T>;
    std::vector<double> vector_sums(static_cast<std::size_t>(z.cols), 0);
    for (std::int64_t j = sources.begin; j < sources.end; ++j) {
      for (std::int64_t head = 0; head < attention.heads; ++head) {
        const auto [begin, end] = head_columns(attention, z.cols, head);
        const double root = std::sqrt(static_cast<double>(end - begin));
        for (std::int64_t c = begin; c < end; ++c) {
          double sum = 0;
          double score_sum = 0;  // additive: of s_j
          const auto add = [&](std::int64_t i, std::int64_t place) {
            const double gradient = at<P>(coefficients, place, attention.heads + head);
            sum += at<P>(coefficients, place, head) * at<T>(dy, i, c);
            if (attention.score == AttentionScore::kDot) {
              sum += gradient * at<T>(t, i, c) / root;
            } else if (attention.score == AttentionScore::kGatv2) {
              sum += gradient * score_slope<T>(attention, z, t, i, {j, place}, c);
            } else {
              score_sum += gradient;
            }
          };
          for_edges_from(op, edges, j, add);
          if (attention.with_self && j < op.rows) add(j, nnz + j);
          if (attention.score == AttentionScore::kAdditive) {
            sum += score_sum * at<P>(attention.vector, 0, c);
            vector_sums[static_cast<std::size_t>(c)] += score_sum * at<T>(z, j, c);
          }
          set<T>(dz, j - sources.begin, c, sum);
        }
      }
    }
    if (dvector.absent()) return;
    for (std::int64_t c = 0; c < z.cols; ++c) {
      set<P>(dvector, 0, c, at<P>(dvector, 0, c) + vector_sums[static_cast<std::size_t>(c)]);
    }
  });
}

void kernel(ReferenceBackend&, Queue&, const kernels::HeadDots& call) {
  const auto& [x, vector, out] = call;
  const std::int64_t each = x.cols / out.cols;
  with_value_type(x.dtype, [&]<typename T>(T) {
    using P = Parameter<T>;
    set_all<P>(out, [&](std::int64_t i, std::int64_t head) {
      double sum = 0;
      for (std::int64_t c = head * each; c < (head + 1) * each; ++c) {
        sum += at<T>(x, i, c) * at<P>(vector, 0, c);
      }
      return sum;
    });
  });
}

void kernel(ReferenceBackend&, Queue&, const kernels::HeadDotsBackward& call) {
  const auto& [d, x, vector, dx, dvector] = call;
  const std::int64_t each = x.cols / d.cols;
  with_value_type(x.dtype, [&]<typename T>(T) {
    using P = Parameter<T>;
    for (std::int64_t c = 0; c < x.cols; ++c) {
      double sum = at<P>(dvector, 0, c);
      for (std::int64_t i = 0; i < x.rows; ++i) {
        sum += at<P>(d, i, c / each) * at<T>(x, i, c);
        set<T>(dx, i, c, at<P>(d, i, c / each) * at<P>(vector, 0, c));
      }
      set<P>(dvector, 0, c, sum);
    }
  });
}

void kernel(ReferenceBackend&, Queue&, const kernels::HeadMean& call) {
  const auto& [x, y] = call;
  const std::int64_t heads = x.cols / y.cols;
  with_value_type(x.dtype, [&]<typename T>(T) {
    set_all<T>(y, [&](std::int64_t i, std::int64_t c) {
      double sum = 0;
      for (std::int64_t head = 0; head < heads; ++head) sum += at<T>(x, i, head * y.cols + c);
      return sum / static_cast<double>(heads);
    });
  });
}

void kernel(ReferenceBackend&, Queue&, const kernels::HeadMeanBackward& call) {
  const auto& [dy, dx] = call;
  const std::int64_t heads = dx.cols / dy.cols;
  with_value_type(dy.dtype, [&]<typename T>(T) {
    set_all<T>(dx, [&](std::int64_t i, std::int64_t c) {
      return at<T>(dy, i, c % dy.cols) / static_cast<double>(heads);
    });
  });
}

}  // namespace atl
