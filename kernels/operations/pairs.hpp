// Products of pairs of rows.
#pragma once

#include <cstdint>
#include <span>

#include "base/trace.hpp"
#include "kernels/views.hpp"

namespace atl {

class Backend;

namespace kernels {

// out[k, 0] = <x[first[k], :], x[second[k], :]>, summed in f32 or wider: the same bits wherever a
// pair stands in the lists. x [N, F], out [first.size(), 1] of the parameters' type.
struct PairDots {
  static constexpr const char* kName = "pair_dots";
  ConstMatrixView x;
  std::span<const LocalId> first;
  std::span<const LocalId> second;
  MatrixView out;

  bool empty() const { return out.empty(); }
  void check(const Backend& backend) const;
  SpanWork work(bool host_readable) const;
};

// y[k, c] = x[first[k], c] z[second[k], c], rounded once. x, z [., F], y [first.size(), F]; z may
// be x.
struct PairProducts {
  static constexpr const char* kName = "pair_products";
  ConstMatrixView x;
  std::span<const LocalId> first;
  ConstMatrixView z;
  std::span<const LocalId> second;
  MatrixView y;

  bool empty() const { return y.empty(); }
  void check(const Backend& backend) const;
  SpanWork work(bool host_readable) const;
};

}  // namespace kernels

}  // namespace atl
