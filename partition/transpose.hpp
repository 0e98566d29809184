// The transpose of a sparse matrix and the undirected structure that partitioners cut.
#pragma once

#include <cstdint>

#include "base/csr.hpp"

namespace atl {

// columns: of the matrix; -1: as many as rows. Rows of the result have ascending columns where
// equal ones keep the order they had. Linear time.
Csr transpose(const CsrView& csr, std::int64_t columns = -1);

// Neighbours of every node in either direction, ascending, without duplicates and self-loops; no
// values. out: the graph's transpose, empty for a symmetric graph. Peak memory: 4 bytes per entry
// of both.
Csr undirected_structure(const CsrView& in, const CsrView& out);

}  // namespace atl
