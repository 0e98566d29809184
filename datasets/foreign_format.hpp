// Files of other programs that no importer reads, known by their first bytes. Internal to
// datasets/.
#pragma once

#include <filesystem>

namespace atl {

// Throws Error{kInput} with the line of Python that converts the file if it is GraphML, GEXF, GML,
// Pajek, DOT, JSON, a MATLAB file, a file of PyTorch or DGL, a pickle, a table in Parquet or HDF5,
// or a single NumPy array. Everything else, and what can't be read, passes.
void refuse_foreign_format(const std::filesystem::path& path);
// Throws Error{kInput} if the file is packed by what isn't unpacked here, or only stands for one
// that Git LFS has not fetched. Part of refuse_foreign_format().
void refuse_packed(const std::filesystem::path& path);

}  // namespace atl
