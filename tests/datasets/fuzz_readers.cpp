// Mutates small valid inputs of every reader and checks that each import or open either succeeds or
// throws atl::Error: no crash, no other exception, no hang, no absurd memory. Usage:
//   fuzz_readers [--seconds S | --iterations N] [--seed X] [--only TARGET]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/memory.hpp"
#include "datasets/append.hpp"
#include "datasets/import.hpp"
#include "datasets/statistics.hpp"
#include "tests/datasets/fixtures.hpp"
#include "tests/support/temp_dir.hpp"

namespace atl {
namespace {

namespace fs = std::filesystem;

struct Target {
  const char* name;
  const char* format;  // "" = open the folder as a dataset
  fs::path (*make)(const fs::path&);

  bool typed() const { return std::string_view(name).find("type") != std::string_view::npos; }
};

// The set that `make` describes, with `info` as its dataset.json: without checksums, so that damage
// reaches the value checks.
fs::path imported(const fs::path& folder, fs::path (*make)(const fs::path&), const char* info) {
  ImportOptions options;
  options.source = make(folder / "source");
  options.out = folder / "set";
  import_dataset("npy", options);
  fs::remove_all(folder / "source");
  fixtures::write_file(folder / "set/dataset.json", info);
  return folder / "set";
}

fs::path make_typed_dataset(const fs::path& folder) {
  return imported(folder, fixtures::make_npy_typed, R"({"directed": false, "relations": 2})");
}

fs::path make_dataset(const fs::path& folder) {
  return imported(folder, fixtures::make_npy,
                  R"({"directed": false, "nodes": 4, "classes": 3, "task": "single-label"})");
}

// Edge lists and tables of nodes as spreadsheets, R and NetworkX write them.
fs::path make_semicolons(const fs::path& folder) {
  fixtures::write_file(folder / "edges.csv",
                       "\"from\";\"to\";\"weight\"\n\"0\";1;0,5\n1;2;1,25\n2;3;2\n");
  fixtures::write_file(folder / "labels.csv", "id;class\n2;ham\n0;spam\n3;\n");
  fixtures::write_file(folder / "features.csv", "a;b\n1;2,5\n3;4\n5;6\n7;8\n");
  return folder;
}

fs::path make_pair_of_names(const fs::path& folder) {
  fixtures::write_file(folder / "edges.txt",
                       "txId1,txId2,Type\n0.0,1.0,Undirected\n1,2,Undirected\n");
  fixtures::write_file(folder / "y.tsv", "0\t1\n2\t0\n1\t1\n");
  fixtures::write_file(folder / "train_idx.txt", "0\n");
  fixtures::write_file(folder / "test_mask.csv", "False\nFalse\nTrue\n");
  return folder;
}

fs::path make_attributes(const fs::path& folder) {
  fixtures::write_file(folder / "edges.edgelist", "0 1 {'weight': 0.5}\n1 2 {'weight': 2.0}\n");
  fixtures::write_file(folder / "x.csv", "0,1\n0,2\n0,3\n");
  return folder;
}

fs::path make_names(const fs::path& folder) {
  fixtures::write_file(folder / "edges.tsv", "source\ttarget\nalice\tbob b\nbob b\t12\n");
  fixtures::write_file(folder / "labels.csv", "name,label\nalice,1\n12,0\nz,1\n");
  fixtures::write_file(folder / "train_idx.csv", "alice\nz\n");
  return folder;
}

fs::path make_gaps(const fs::path& folder) {
  fixtures::write_file(folder / "edges.txt", "35 1033\n1033 1100000\n5 -7\n");
  fixtures::write_file(folder / "features.csv", "id,a\n35,1\n5,2\n-7,3\n1033,4\n1100000,5\n");
  return folder;
}

fs::path make_numbered(const fs::path& folder) {
  ImportOptions options;
  options.source = make_names(folder / "source");
  options.out = folder / "set";
  options.renumber = true;
  import_dataset("edges", options);
  fs::remove_all(folder / "source");
  fixtures::write_file(folder / "set/dataset.json", R"({"directed": false})");
  return folder / "set";
}

std::string numbers(const std::vector<std::int32_t>& values) { return fixtures::npy_bytes(values); }

// A file as scipy.sparse.save_npz writes it.
fs::path make_scipy(const fs::path& folder, const char* form,
                    std::map<std::string, std::string> members) {
  members["format"] = make_npy_header("|S3", {}) + form;
  members["shape"] = numbers({3, 3});
  members["data"] = numbers({1, 2, 1, 1});
  fs::create_directories(folder);
  fixtures::write_npz(folder / "graph.npz", members);
  return folder / "graph.npz";
}

fs::path make_scipy_rows(const fs::path& folder) {
  return make_scipy(folder, "csr",
                    {{"indptr", numbers({0, 1, 2, 4})}, {"indices", numbers({1, 2, 0, 1})}});
}

fs::path make_scipy_list(const fs::path& folder) {
  return make_scipy(folder, "coo",
                    {{"row", numbers({0, 1, 2, 2})}, {"col", numbers({1, 2, 0, 1})}});
}

// A chain of two deltas. Their own files are listed with their sizes, what they give is not.
fs::path make_chain(const fs::path& folder) {
  ImportOptions options;
  options.source = fixtures::make_npy(folder / "source");
  options.out = folder / "base";
  const std::int64_t columns = import_dataset("npy", options).info.features;
  fs::remove_all(folder / "source");
  std::string row = "1";
  for (std::int64_t k = 1; k < columns; ++k) row += ",1";
  fixtures::write_file(folder / "x.csv", row + "\n");
  fixtures::write_file(folder / "edges.txt", "0 4 0.5\n4 2 2\n");
  fixtures::write_file(folder / "ids.txt", "1\n");
  AppendOptions append;
  append.data = folder / "base";
  append.out = folder / "next";
  append.nodes = (folder / "x.csv").string();
  append.edges = folder / "edges.txt";
  append_dataset(append);
  AppendOptions change;
  change.data = folder / "next";
  change.out = folder / "set";
  change.remove_nodes = folder / "ids.txt";
  change.change_features = (folder / "ids.txt").string() + "," + (folder / "x.csv").string();
  append_dataset(change);
  for (const char* name : {"x.csv", "edges.txt", "ids.txt"}) fs::remove(folder / name);
  Json json = read_json(folder / "set/dataset.json");
  for (const char* field : {"files", "checksum", "seal"}) json.erase(field);
  write_json(folder / "set/dataset.json", json);
  return folder / "set";
}

constexpr Target kTargets[] = {
    {"ogb", "ogb", fixtures::make_ogb_text},
    {"ogb-binary", "ogb", fixtures::make_ogb_binary},
    {"planetoid", "planetoid", fixtures::make_planetoid},
    {"graphsaint", "graphsaint", fixtures::make_graphsaint},
    {"graphsaint-multi", "graphsaint", fixtures::make_graphsaint_multi_label},
    {"gnn-benchmark", "gnn-benchmark", fixtures::make_gnn_benchmark},
    {"heterophilous", "heterophilous", fixtures::make_heterophilous},
    {"npy", "npy", fixtures::make_npy},
    {"npy-rows", "npy", fixtures::make_npy_rows},
    {"npz-by-columns", "npy", fixtures::make_npz_by_columns},
    {"edges", "edges", fixtures::make_edges},
    {"metis", "metis", fixtures::make_metis},
    {"npy-typed", "npy", fixtures::make_npy_typed},
    {"edges-typed", "edges", fixtures::make_edges_typed},
    {"ogb-types", "ogb", fixtures::make_ogb_heterogeneous},
    {"edges-semicolons", "edges", make_semicolons},
    {"edges-pair", "edges", make_pair_of_names},
    {"edges-attributes", "edges", make_attributes},
    {"edges-renumbered", "edges", make_names},
    {"gaps-renumbered", "edges", make_gaps},
    {"scipy-rows", "npy", make_scipy_rows},
    {"scipy-list", "edges", make_scipy_list},
    {"numbered-dataset", "", make_numbered},
    {"dataset", "", make_dataset},
    {"typed-dataset", "", make_typed_dataset},
    {"chain", "", make_chain},
};

using Random = std::mt19937_64;

std::size_t below(Random& random, std::size_t limit) {
  return random() % std::max<std::size_t>(1, limit);
}

// One random edit: flip, overwrite, insert, delete, repeat or cut.
void edit(std::string& bytes, Random& random) {
  static const std::string kInteresting[] = {"-1",
                                             "0",
                                             "99999999999999999999",
                                             "nan",
                                             "inf",
                                             "1e999",
                                             ",",
                                             "\n",
                                             "[",
                                             "{",
                                             "\"",
                                             "(",
                                             "\xFF\xFF\xFF\xFF",
                                             std::string(8, '\0'),
                                             "\x7F\xFF",
                                             "%",
                                             "2147483647",
                                             "\xEF\xBB\xBF",
                                             "\xFF\xFE"};
  const std::size_t at = below(random, bytes.size() + 1);
  switch (random() % 6) {
    case 0:
      if (at < bytes.size()) bytes[at] = static_cast<char>(bytes[at] ^ 1U << random() % 8);
      return;
    case 1:
      if (at < bytes.size()) bytes[at] = static_cast<char>(random());
      return;
    case 2:
      bytes.insert(at, kInteresting[below(random, std::size(kInteresting))]);
      return;
    case 3:
      bytes.erase(at, 1 + random() % 8);
      return;
    case 4:
      bytes.insert(at, bytes.substr(below(random, bytes.size()), 1 + random() % 32));
      return;
    default: {
      const std::string& word = kInteresting[below(random, std::size(kInteresting))];
      bytes.replace(at, std::min(word.size(), bytes.size() - at), word);
    }
  }
}

// gzip and zip hide their content behind checksums; mutate what is inside as well.
void mutate(const fs::path& path, Random& random) {
  if (path.extension() == ".gz" && random() % 4 != 0) {
    std::string text(std::size_t{1} << 12U, '\0');
    gzFile file = gzopen(path.c_str(), "rb");
    text.resize(static_cast<std::size_t>(std::max(0, gzread(file, text.data(), 1 << 12))));
    gzclose(file);
    for (std::size_t i = 0; i <= random() % 3; ++i) edit(text, random);
    fixtures::write_gz(path, text);
    return;
  }
  if (path.extension() == ".npz" && random() % 4 != 0) {
    std::map<std::string, std::string> members;
    int code = 0;
    zip_t* archive = zip_open(path.c_str(), ZIP_RDONLY, &code);
    for (zip_int64_t i = 0; i < zip_get_num_entries(archive, 0); ++i) {
      const std::string name = zip_get_name(archive, static_cast<zip_uint64_t>(i), 0);
      std::string bytes(std::size_t{1} << 12U, '\0');
      zip_file_t* member = zip_fopen_index(archive, static_cast<zip_uint64_t>(i), 0);
      bytes.resize(static_cast<std::size_t>(zip_fread(member, bytes.data(), bytes.size())));
      zip_fclose(member);
      members[name.substr(0, name.size() - 4)] = bytes;
    }
    zip_discard(archive);
    auto chosen = members.begin();
    std::advance(chosen, static_cast<std::ptrdiff_t>(below(random, members.size())));
    for (std::size_t i = 0; i <= random() % 3; ++i) edit(chosen->second, random);
    fixtures::write_npz(path, members);
    return;
  }
  std::string bytes = read_text(path);
  for (std::size_t i = 0; i <= random() % 4; ++i) edit(bytes, random);
  fixtures::write_file(path, bytes);
}

bool accepts(const Target& target, const fs::path& source, const fs::path& out, Random& random) {
  try {
    if (target.format[0] != '\0') {
      ImportOptions options;
      options.source = source;
      options.out = out;
      options.directed = random() % 2 == 0;
      options.keep_self_loops = random() % 2 == 0;
      options.row_normalize = random() % 2 == 0;
      if (target.name == std::string_view("edges-typed")) options.relation_column = "2";
      options.renumber = std::string_view(target.name).ends_with("-renumbered");
      options.reverse_relations = target.typed() && random() % 2 == 0;
      import_dataset(target.format, options);
      Dataset::open(out).validate();
    } else {
      const Dataset dataset = Dataset::open(source);
      dataset.validate();
      dataset.node_ids();
      const DatasetStatistics statistics = describe_dataset(dataset);
      statistics_json(dataset, statistics, "ok").dump();
      statistics_text(dataset, statistics, "ok");
    }
    return true;
  } catch (const Error&) {
    if (fs::exists(out)) {
      std::fprintf(stderr, "%s: an output was left behind\n", target.name);
      std::abort();
    }
    return false;
  }
}

std::vector<fs::path> files_below(const fs::path& folder) {
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

int run(double seconds, std::int64_t iterations, std::uint64_t seed, const std::string& only) {
  const TempDir dir;
  const auto start = std::chrono::steady_clock::now();
  std::int64_t runs = 0;
  std::int64_t accepted = 0;
  while (runs < iterations) {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    if (seconds > 0 && passed.count() > seconds) break;
    const Target& target = kTargets[static_cast<std::size_t>(runs) % std::size(kTargets)];
    const std::uint64_t case_seed = seed + static_cast<std::uint64_t>(runs);
    ++runs;
    if (!only.empty() && only != target.name) continue;
    Random random(case_seed);
    const fs::path in = dir.path() / "in";
    const fs::path out = dir.path() / "out";
    fs::remove_all(in);
    fs::remove_all(out);
    const fs::path source = target.make(in);
    const std::vector<fs::path> files = files_below(in);
    mutate(files[below(random, files.size())], random);
    std::ofstream(dir.path() / "current") << target.name << " " << case_seed << "\n";
    accepted += accepts(target, source, out, random) ? 1 : 0;
  }
  std::printf("%ld inputs, %ld accepted, peak memory %s\n", static_cast<long>(runs),
              static_cast<long>(accepted), format_bytes(peak_resident_bytes()).c_str());
  constexpr std::int64_t kMostMemory = std::int64_t{512} << 20U;
  if (peak_resident_bytes() > kMostMemory) {
    std::fprintf(stderr, "some input took more than %s\n", format_bytes(kMostMemory).c_str());
    return 1;
  }
  // A mutation that is never accepted, or always, would test nothing.
  return accepted > 0 && accepted < runs ? 0 : 1;
}

}  // namespace
}  // namespace atl

int main(int argc, char** argv) {
  double seconds = 0;
  std::int64_t iterations = 600;
  std::uint64_t seed = 1;
  std::string only;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    if (option == "--seconds") {
      seconds = std::atof(argv[i + 1]);
      iterations = INT64_MAX;
    } else if (option == "--iterations") {
      iterations = std::atoll(argv[i + 1]);
    } else if (option == "--seed") {
      seed = std::strtoull(argv[i + 1], nullptr, 10);
    } else if (option == "--only") {
      only = argv[i + 1];
    }
  }
  return atl::run(seconds, iterations, seed, only);
}
