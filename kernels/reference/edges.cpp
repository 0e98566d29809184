#include "kernels/reference/elements.hpp"
#include "kernels/reference/reference_backend.hpp"

namespace atl {

namespace {

// Column c of what edge e from j carries: kernels/edge_terms.hpp.
template <typename T>
double carried(const EdgeTerms& terms, ConstMatrixView x, std::int64_t j, std::int64_t e,
               std::int64_t c) {
  double sum = at<T>(x, j, c) + at<Parameter<T>>(terms.bias, 0, c);
  for (std::int64_t k = 0; k < terms.weight.rows; ++k) {
    sum += static_cast<double>(terms.features[e * terms.weight.rows + k]) *
           at<Parameter<T>>(terms.weight, k, c);
  }
  return sum;
}

}  // namespace

void kernel(ReferenceBackend&, Queue&, const kernels::AggregateEdges& call) {
  const auto& [op, rows, x, terms, y] = call;
  with_value_type(x.dtype, [&]<typename T>(T) {
    for (std::int64_t i = rows.begin; i < rows.end; ++i) {
      for (std::int64_t c = 0; c < x.cols; ++c) {
        double sum = 0;
        for (std::int64_t e = op.row_ptr[i]; e < op.row_ptr[i + 1]; ++e) {
          const std::int64_t j = op.col_idx[e];
          ATOLL_ASSERT(0 <= j && j < op.cols, "row {}: column {} of {}", i, j, op.cols);
          const double value = carried<T>(terms, x, j, e, c);
          sum += value < 0 ? 0 : value;
        }
        set<T>(y, i, c, sum);
      }
    }
  });
}

void kernel(ReferenceBackend&, Queue&, const kernels::AggregateEdgesBackwardSources& call) {
  const auto& [op, edges, sources, x, terms, dy, dx] = call;
  with_value_type(x.dtype, [&]<typename T>(T) {
    for (std::int64_t j = sources.begin; j < sources.end; ++j) {
      for (std::int64_t c = 0; c < x.cols; ++c) {
        double sum = 0;
        for (std::int64_t k = edges.row_ptr[j]; k < edges.row_ptr[j + 1]; ++k) {
          const std::int64_t i = edges.targets[k];
          ATOLL_ASSERT(0 <= i && i < op.rows, "source {}: row {} of {}", j, i, op.rows);
          if (carried<T>(terms, x, j, edges.edges[k], c) > 0) sum += at<T>(dy, i, c);
        }
        set<T>(dx, j - sources.begin, c, sum);
      }
    }
  });
}

void kernel(ReferenceBackend&, Queue&, const kernels::AggregateEdgesBackwardTerms& call) {
  const auto& [op, rows, x, terms, dy, dweight, dbias] = call;
  const std::int64_t count = terms.weight.rows;
  with_value_type(x.dtype, [&]<typename T>(T) {
    using P = Parameter<T>;
    for (std::int64_t c = 0; c < x.cols; ++c) {
      std::vector<double> sums(static_cast<std::size_t>(count) + 1, 0);  // the bias comes last
      for (std::int64_t i = rows.begin; i < rows.end; ++i) {
        for (std::int64_t e = op.row_ptr[i]; e < op.row_ptr[i + 1]; ++e) {
          if (!(carried<T>(terms, x, op.col_idx[e], e, c) > 0)) continue;
          const double gradient = at<T>(dy, i, c);
          for (std::int64_t k = 0; k < count; ++k) {
            sums[static_cast<std::size_t>(k)] +=
                gradient * static_cast<double>(terms.features[e * count + k]);
          }
          sums.back() += gradient;
        }
      }
      for (std::int64_t k = 0; k < count; ++k) {
        set<P>(dweight, k, c, at<P>(dweight, k, c) + sums[static_cast<std::size_t>(k)]);
      }
      set<P>(dbias, 0, c, at<P>(dbias, 0, c) + sums.back());
    }
  });
}

}  // namespace atl
