// Aggregates that read features of edges: a thread per row and column (edge_elements.cuh).
#include "kernels/cuda/edge_elements.cuh"
#include "kernels/cuda/launch.hpp"
#include "kernels/cuda/term_sums.cuh"
#include "kernels/operations/edges.hpp"

namespace atl::cuda {

namespace {

template <typename T>
struct EdgeArgs {
  const std::int32_t* col_idx;
  Rows<const T> x;
  Rows<const T> dy;
  const float* features;
  std::int64_t count;  // of features of an edge
  Rows<const float> weight;
  const float* bias;

  // Column c of what edge e from j carries.
  __device__ float carried(std::int64_t j, std::int64_t e, std::int64_t c) const {
    float sum = to_f32(*x.at(j, c)) + bias[c];
    for (std::int64_t k = 0; k < count; ++k) {
      sum = fmaf(features[e * count + k], *weight.at(k, c), sum);
    }
    return sum;
  }
};

template <typename T>
EdgeArgs<T> edge_args(const SparseOperator& op, ConstMatrixView x, ConstMatrixView dy,
                      const EdgeTerms& terms) {
  return {op.col_idx.data(),
          rows_of<T>(x),
          rows_of<T>(dy),
          terms.features.data(),
          terms.weight.rows,
          rows_of<float>(terms.weight),
          static_cast<const float*>(terms.bias.data)};
}

template <typename T>
struct SumOfEdges : EdgeSums<1> {
  EdgeArgs<T> a;

  __device__ void add(std::int64_t, std::int64_t c, std::int64_t begin, std::int64_t end,
                      Numbers& to) const {
    float sum = 0;
    for (std::int64_t e = begin; e < end; ++e) {
      const float value = a.carried(a.col_idx[e], e, c);
      sum += value < 0 ? 0.0F : value;
    }
    to.values[0] = sum;
  }
};

template <typename T>
struct SumOfTargets : EdgeSums<1> {
  EdgeArgs<T> a;
  const std::int32_t* targets;
  const std::int64_t* edges;

  __device__ void add(std::int64_t j, std::int64_t c, std::int64_t begin, std::int64_t end,
                      Numbers& to) const {
    float sum = 0;
    for (std::int64_t k = begin; k < end; ++k) {
      if (a.carried(j, edges[k], c) > 0) sum += to_f32(*a.dy.at(targets[k], c));
    }
    to.values[0] = sum;
  }
};

// Gradients of the weight, and of the bias as the row behind it.
template <typename T>
struct TermGradients : TermPass {
  EdgeArgs<T> a;

  __device__ void add(const Columns&, std::int64_t row, std::int64_t col, const Held&,
                      double (&sums)[kSums][1]) const {
    const RowShare share = spread_share_of(shares, row);
    const std::int64_t i = share.first;
    const RowEdges edges = edges_of(shares, share, i, false);
    const std::int64_t c = first_col + col;
    float along[kSums] = {};
    for (std::int64_t e = edges.begin; e < edges.begin + edges.count; ++e) {
      if (!(a.carried(a.col_idx[e], e, c) > 0)) continue;
#pragma unroll
      for (int s = 0; s < kSums; ++s) {
        const std::int64_t k = first_term + s;
        along[s] += k < a.count ? a.features[e * a.count + k] : 1.0F;
      }
    }
    const float gradient = to_f32(*a.dy.at(i, c));
#pragma unroll
    for (int s = 0; s < kSums; ++s) {
      sums[s][0] += static_cast<double>(along[s]) * static_cast<double>(gradient);
    }
  }
};

}  // namespace

void kernel(CudaBackend& backend, Queue& queue, const kernels::AggregateEdges& call) {
  const auto& [op, rows, x, terms, y] = call;
  const Launch& where = launch_of(backend, queue);
  const SpmmWork work = work_of(op.prepared, rows);
  with_element(x.dtype, [&]<typename T>(T) {
    for_edge_elements<T>(where, work, op.row_ptr, y.rows_in(work.range),
                         SumOfEdges<T>{{}, edge_args<T>(op, x, {}, terms)});
  });
}

void kernel(CudaBackend& backend, Queue& queue,
            const kernels::AggregateEdgesBackwardSources& call) {
  const auto& [op, edges, sources, x, terms, dy, dx] = call;
  const Launch& where = launch_of(backend, queue);
  const SpmmWork work = work_of(edges.prepared, sources);
  with_element(x.dtype, [&]<typename T>(T) {
    for_edge_elements<T>(
        where, work, edges.row_ptr, dx,
        SumOfTargets<T>{
            {}, edge_args<T>(op, x, dy, terms), edges.targets.data(), edges.edges.data()});
  });
}

void kernel(CudaBackend& backend, Queue& queue, const kernels::AggregateEdgesBackwardTerms& call) {
  const auto& [op, rows, x, terms, dy, dweight, dbias] = call;
  const Launch& where = launch_of(backend, queue);
  const SpmmWork work = work_of(op.prepared, rows);
  with_element(x.dtype, [&]<typename T>(T) {
    const EdgeArgs<T> a = edge_args<T>(op, x, dy, terms);
    sum_terms(where, all_shares(work, op.row_ptr), dweight, dbias, [&](const TermPass& pass) {
      return TermGradients<T>{pass, a};
    });
  });
}

}  // namespace atl::cuda
