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
    set_rows<T>(y, rows, [&](std::int64_t i, std::int64_t c) {
      double sum = 0;
      for_edges_of(op, i, [&](std::int64_t j, std::int64_t e) {
        const double value = carried<T>(terms, x, j, e, c);
        sum += value < 0 ? 0 : value;
      });
      return sum;
    });
  });
}

void kernel(ReferenceBackend&, Queue&, const kernels::AggregateEdgesBackwardSources& call) {
  const auto& [op, edges, sources, x, terms, dy, dx] = call;
  with_value_type(x.dtype, [&]<typename T>(T) {
    set_all<T>(dx, [&](std::int64_t row, std::int64_t c) {
      const std::int64_t j = sources.begin + row;
      double sum = 0;
      for_edges_from(op, edges, j, [&](std::int64_t i, std::int64_t e) {
        if (carried<T>(terms, x, j, e, c) > 0) sum += at<T>(dy, i, c);
      });
      return sum;
    });
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
        for_edges_of(op, i, [&](std::int64_t j, std::int64_t e) {
          if (!(carried<T>(terms, x, j, e, c) > 0)) return;
          const double gradient = at<T>(dy, i, c);
          for (std::int64_t k = 0; k < count; ++k) {
            sums[static_cast<std::size_t>(k)] +=
                gradient * static_cast<double>(terms.features[e * count + k]);
          }
          sums.back() += gradient;
        });
      }
      for (std::int64_t k = 0; k < count; ++k) {
        set<P>(dweight, k, c, at<P>(dweight, k, c) + sums[static_cast<std::size_t>(k)]);
      }
      set<P>(dbias, 0, c, at<P>(dbias, 0, c) + sums.back());
    }
  });
}

}  // namespace atl
