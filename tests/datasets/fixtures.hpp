// Small input files in every import format, written byte by byte by the rules of the formats.
#pragma once

#include <zip.h>
#include <zlib.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/npy.hpp"

namespace atl::fixtures {

namespace fs = std::filesystem;

void write_file(const fs::path& path, const std::string& bytes);  // makes the folder
void write_gz(const fs::path& path, const std::string& text);
// Compressed members, as numpy.savez_compressed writes them.
void write_npz(const fs::path& path, const std::map<std::string, std::string>& arrays);

// The bytes of a .npy file.
std::string npy_bytes(const std::string& descr, const std::vector<std::int64_t>& shape,
                      const std::string& data, bool fortran = false);
template <typename T>
std::string npy_bytes(const std::vector<T>& values, const std::vector<std::int64_t>& shape) {
  return npy_bytes(npy_descr<T>(), shape,
                   {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)});
}
template <typename T>
std::string npy_bytes(const std::vector<T>& values) {
  return npy_bytes(values, {static_cast<std::int64_t>(values.size())});
}

// Protocol 2 pickles as Python 2 writes them for Planetoid sets.
std::string pickle_csr(std::int32_t rows, std::int32_t columns,
                       const std::vector<std::int32_t>& indptr,
                       const std::vector<std::int32_t>& indices, const std::vector<float>& data);
std::string pickle_dense(std::int32_t rows, std::int32_t columns,
                         const std::vector<std::int32_t>& values);
std::string pickle_graph(const std::map<std::int32_t, std::vector<std::int32_t>>& graph);

// Four nodes, edges 0-1, 1-2, 2-0 (some listed twice or in both directions), node 3 isolated; two
// features, three classes of which class 1 has no node. Each returns the SOURCE to import.
fs::path make_ogb_text(const fs::path& folder);
fs::path make_ogb_binary(const fs::path& folder);
fs::path make_planetoid(const fs::path& folder);
fs::path make_graphsaint(const fs::path& folder);
fs::path make_graphsaint_multi_label(const fs::path& folder);
fs::path make_gnn_benchmark(const fs::path& folder);
fs::path make_heterophilous(const fs::path& folder);
fs::path make_npy(const fs::path& folder);
fs::path make_npy_rows(const fs::path& folder);
fs::path make_npz_by_columns(const fs::path& folder);  // Fortran order, big-endian, floats, lists
fs::path make_edges(const fs::path& folder);
fs::path make_metis(const fs::path& folder);

// Four nodes whose edges have types, and where there is an array also features; see the .cpp.
fs::path make_npy_typed(const fs::path& folder);
fs::path make_edges_typed(const fs::path& folder);
// Two authors, a venue and three papers, in this order.
fs::path make_ogb_heterogeneous(const fs::path& folder);

}  // namespace atl::fixtures
