// Graphs as scipy.sparse.save_npz writes them: a square matrix in one of the forms csr, csc and
// coo, of which entry (i, j) is the edge i -> j.
#include <algorithm>
#include <array>
#include <fstream>
#include <vector>

#include "base/error.hpp"
#include "base/progress.hpp"
#include "datasets/import_session.hpp"
#include "datasets/importers.hpp"

namespace atl {

namespace {

constexpr std::int64_t kEntriesAtATime = 1 << 15;  // entries read at a time

// Rows of csr and columns of csc, one after the other.
class CompressedEntries {
 public:
  CompressedEntries(const NpzArchive& archive, std::int64_t nodes, bool by_column)
      : by_column_(by_column),
        ends_(read_row_ptr(archive.open("indptr"), nodes)),
        indices_(archive.open("indices")) {
    indices_.require_shape({ends_.back()});
  }

  std::int64_t count() const { return ends_.back(); }
  void read(std::span<std::int64_t> from, std::span<std::int64_t> to) {
    const std::span<std::int64_t> own = by_column_ ? to : from;
    const std::span<std::int64_t> other = by_column_ ? from : to;
    indices_.read(other);
    for (std::int64_t& line : own) {
      while (at_ >= ends_[static_cast<std::size_t>(line_ + 1)]) ++line_;
      line = line_;
      ++at_;
    }
  }
  const std::string& place() const { return indices_.place(); }
  void finish() { indices_.finish(); }

 private:
  bool by_column_;
  std::vector<std::int64_t> ends_;
  ArrayReader indices_;
  std::int64_t at_ = 0;
  std::int64_t line_ = 0;
};

class ListedEntries {
 public:
  explicit ListedEntries(const NpzArchive& archive)
      : rows_(archive.open("row")), columns_(archive.open("col")) {
    rows_.require_shape({-1});
    columns_.require_shape({rows_.length(0)});
  }

  std::int64_t count() const { return rows_.length(0); }
  void read(std::span<std::int64_t> from, std::span<std::int64_t> to) {
    rows_.read(from);
    columns_.read(to);
  }
  const std::string& place() const { return columns_.place(); }
  void finish() {
    rows_.finish();
    columns_.finish();
  }

 private:
  ArrayReader rows_, columns_;
};

template <typename Entries>
void stream_matrix(Entries entries, std::int64_t nodes, const EdgeValueFiles& files,
                   const EdgeSink& sink) {
  EdgeValues values(files, entries.count());
  std::vector<std::int64_t> from, to;
  EdgeBlock block(sink);
  Activity activity("reading edges", entries.count());
  for (std::int64_t at = 0; at < entries.count(); at += std::ssize(from)) {
    activity.advance_to(at);
    from.resize(static_cast<std::size_t>(std::min(kEntriesAtATime, entries.count() - at)));
    to.resize(from.size());
    entries.read(from, to);
    values.read(from.size());
    for (std::size_t i = 0; i < from.size(); ++i) {
      check_node_id(from[i], nodes, entries.place(), at + static_cast<std::int64_t>(i));
      check_node_id(to[i], nodes, entries.place(), at + static_cast<std::int64_t>(i));
      block.add(from[i], to[i], values.weight(i));
    }
  }
  block.flush();
  entries.finish();
  values.finish();
}

bool all_are_1(ArrayReader reader) {
  return all_values<double>(reader, [](double value, std::int64_t) { return value == 1; });
}

}  // namespace

bool is_zip_archive(const std::filesystem::path& path) {
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return false;  // opening a pipe would wait
  std::array<char, 4> bytes{};
  std::ifstream(path, std::ios::binary).read(bytes.data(), bytes.size());
  return std::string_view(bytes.data(), bytes.size()) == "PK\x03\x04";
}

bool is_scipy_matrix(const NpzArchive& archive) {
  return archive.has("format") && archive.has("shape") && archive.has("data");
}

void import_scipy_matrix(ImportSession& session, const std::filesystem::path& path) {
  const NpzArchive archive(path, session.scratch());
  const std::string place = path.string();
  const std::string format = archive.word("format");
  if (format != "csr" && format != "csc" && format != "coo") {
    fail_input(
        "{}: a SciPy matrix of the form '{}'; allowed are csr, csc, coo: save it with "
        "scipy.sparse.save_npz(FILE, matrix.tocsr())",
        place, format);
  }
  const std::vector<std::int64_t> shape = read_integers(archive.open("shape"));
  if (shape.size() != 2 || shape[0] != shape[1] || shape[0] < 1 || shape[0] > kMaxNodes) {
    fail_input("{}: a matrix of shape ({}); that of a graph has as many rows as columns, 1 to {}",
               place, fmt::join(shape, ", "), kMaxNodes);
  }
  const std::int64_t nodes = shape[0];
  const bool weighted = !all_are_1(archive.open("data"));
  EdgeValueFiles files;
  if (weighted) files.open_weights = [&] { return archive.open("data"); };
  session.graph(
      [&](const EdgeSink& sink) {
        if (format == "coo") {
          stream_matrix(ListedEntries(archive), nodes, files, sink);
        } else {
          stream_matrix(CompressedEntries(archive, nodes, format == "csc"), nodes, files, sink);
        }
      },
      nodes, {.weighted = weighted}, place);
}

}  // namespace atl
