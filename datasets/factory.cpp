// The map of which import formats exist.
#include <filesystem>
#include <new>

#include "base/error.hpp"
#include "base/progress.hpp"
#include "datasets/foreign_format.hpp"
#include "datasets/import_session.hpp"
#include "datasets/importers.hpp"

namespace atl {

namespace {

struct Format {
  const char* name;
  void (*import)(ImportSession&);
};

// Options that only some formats read.
void refuse_unread_options(std::string_view format, const ImportOptions& options) {
  for (const auto& [name, value] : {std::pair{"--source-column", &options.source_column},
                                    std::pair{"--target-column", &options.target_column},
                                    std::pair{"--weight-column", &options.weight_column},
                                    std::pair{"--relation-column", &options.relation_column}}) {
    if (value->empty() || format == "edges") continue;
    fail_option("{}: only the lines of format edges have columns, not {}", name, format);
  }
  if (!options.split_name.empty() && format != "ogb") {
    fail_option("--split-name: only sets of format ogb have splits with names, not {}", format);
  }
  const bool tables = format == "edges" || format == "npy" || format == "matrix-market";
  for (const auto& [name, value] : {std::pair{"--id-column", &options.id_column},
                                    std::pair{"--label-column", &options.label_column}}) {
    if (value->empty()) continue;
    if (!tables) {
      fail_option("{}: only the formats edges, npy and matrix-market read text of nodes, not {}",
                  name, format);
    }
    // Beside a single file nothing is read.
    if (std::error_code error; std::filesystem::is_directory(options.source, error)) continue;
    fail_option("{}: {} is not a folder, in which text of nodes could be", name,
                options.source.string());
  }
  if (options.nodes && format != "edges" && format != "npy") {
    fail_option("--nodes: sets of format {} state it; allowed with edges and npy", format);
  }
  if (options.renumber && format != "edges" && format != "npy") {
    fail_option("--renumber: only ids of the formats edges and npy may have gaps, not those of {}",
                format);
  }
}

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
  refuse_unread_options(format, options);
  for (const Format& candidate : kFormats) {
    if (format != candidate.name) continue;
    const Activity activity("importing " + options.source.string());
    try {
      ImportSession session(format, options);
      refuse_foreign_format(options.source);
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
