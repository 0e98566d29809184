// The map of which import formats exist.
#include <filesystem>
#include <new>

#include "base/error.hpp"
#include "base/progress.hpp"
#include "datasets/import_session.hpp"
#include "datasets/importers.hpp"

namespace atl {

namespace {

struct Format {
  const char* name;
  void (*import)(ImportSession&);
};

constexpr Format kFormats[] = {
    {"ogb", import_ogb},
    {"planetoid", import_planetoid},
    {"graphsaint", import_graphsaint},
    {"gnn-benchmark", import_gnn_benchmark},
    {"heterophilous", import_heterophilous},
    {"npy", import_npy},
    {"edges", import_edges},
    {"matrix-market", import_matrix_market},
    {"metis", import_metis},
};

}  // namespace

std::vector<std::string> import_formats() {
  std::vector<std::string> names;
  for (const Format& format : kFormats) names.emplace_back(format.name);
  return names;
}

ImportReport import_dataset(const std::string& format, const ImportOptions& options) {
  if (options.relation_column && format != std::string_view("edges")) {
    fail_option("--relation-column: only the lines of format edges have columns, not {}", format);
  }
  if (!options.split_name.empty() && format != std::string_view("ogb")) {
    fail_option("--split-name: only sets of format ogb have splits with names, not {}", format);
  }
  for (const Format& candidate : kFormats) {
    if (format != candidate.name) continue;
    const Activity activity("importing " + options.source.string());
    try {
      ImportSession session(format, options);
      candidate.import(session);
      return session.finish();
    } catch (const std::filesystem::filesystem_error& error) {
      fail_input("{}: {}", error.path1().string(), error.code().message());
    } catch (const std::bad_alloc&) {
      fail(ErrorKind::kMemory, "{}: not enough memory to import it", options.source.string());
    }
  }
  fail_option("unknown format '{}'; allowed are {}", format, fmt::join(import_formats(), ", "));
}

}  // namespace atl
