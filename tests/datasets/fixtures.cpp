#include "tests/datasets/fixtures.hpp"

#include <fstream>
#include <stdexcept>

namespace atl::fixtures {

void write_file(const fs::path& path, const std::string& bytes) {
  fs::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << bytes;
}

void write_gz(const fs::path& path, const std::string& text) {
  fs::create_directories(path.parent_path());
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, text.data(), static_cast<unsigned>(text.size()));
  gzclose(file);
}

void write_npz(const fs::path& path, const std::map<std::string, std::string>& arrays) {
  fs::create_directories(path.parent_path());
  int code = 0;
  zip_t* archive = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, &code);
  if (archive == nullptr) throw std::runtime_error("can't create " + path.string());
  for (const auto& [name, bytes] : arrays) {
    zip_source_t* source = zip_source_buffer(archive, bytes.data(), bytes.size(), 0);
    zip_file_add(archive, (name + ".npy").c_str(), source, ZIP_FL_OVERWRITE);
  }
  if (zip_close(archive) != 0) throw std::runtime_error("can't write " + path.string());
}

std::string npy_bytes(const std::string& descr, const std::vector<std::int64_t>& shape,
                      const std::string& data, bool fortran) {
  std::string header = make_npy_header(descr, shape);
  if (fortran) {
    const std::size_t at = header.find("False");
    header.replace(at, 5, "True ");
  }
  return header + data;
}

namespace {

std::string little(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 0xFFU);
  return text;
}
std::string number(std::int32_t value) {  // BININT
  return std::string("J") + little(static_cast<std::uint32_t>(value), 4);
}
std::string word(const std::string& text) {
  return std::string("U") + little(text.size(), 1) + text;
}

template <typename T>
std::string array(const std::string& type, const std::vector<std::int32_t>& shape,
                  const std::vector<T>& values) {
  const std::string data(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  std::string text = "cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\n";
  text += number(0) + "\x85" + word("b") + "\x87R(" + number(1) + "(";
  for (const std::int32_t length : shape) text += number(length);
  text += "tcnumpy\ndtype\n" + word(type) + number(0) + number(1) + "\x87R(" + number(3) +
          word("<") + "NNN" + number(-1) + number(-1) + number(0) + "tb\x89";
  return text + "T" + little(data.size(), 4) + data + "tb";
}

}  // namespace

std::string pickle_csr(std::int32_t rows, std::int32_t columns,
                       const std::vector<std::int32_t>& indptr,
                       const std::vector<std::int32_t>& indices, const std::vector<float>& data) {
  const auto length = [](const auto& v) { return static_cast<std::int32_t>(v.size()); };
  return "\x80\x02" + std::string("cscipy.sparse.csr\ncsr_matrix\nq\x01)\x81q\x02}q\x03(") +
         word("_shape") + number(rows) + number(columns) + "\x86" + word("indptr") +
         array("i4", {length(indptr)}, indptr) + word("indices") +
         array("i4", {length(indices)}, indices) + word("data") +
         array("f4", {length(data)}, data) + "ub.";
}

std::string pickle_dense(std::int32_t rows, std::int32_t columns,
                         const std::vector<std::int32_t>& values) {
  return "\x80\x02" + array("i4", {rows, columns}, values) + ".";
}

std::string pickle_graph(const std::map<std::int32_t, std::vector<std::int32_t>>& graph) {
  std::string text = "\x80\x02";
  text += "ccollections\ndefaultdict\nq\x01";
  text += "c__builtin__\nlist\nq\x02\x85Rq\x03(";
  for (const auto& [node, neighbours] : graph) {
    text += number(node) + "](";
    for (const std::int32_t neighbour : neighbours) text += number(neighbour);
    text += "e";
  }
  return text + "u.";
}

fs::path make_ogb_text(const fs::path& folder) {
  write_gz(folder / "raw/edge.csv.gz", "0,1\n1,2\n2,0\n0,1\n2,1\n");
  write_gz(folder / "raw/num-node-list.csv.gz", "4\n");
  write_gz(folder / "raw/num-edge-list.csv.gz", "5\n");
  write_gz(folder / "raw/node-feat.csv.gz", "1,-2.5\n0,1e-3\n3,3\n0.5,0\n");
  write_gz(folder / "raw/node-label.csv.gz", "0\n2\nnan\n2\n");
  write_gz(folder / "split/time/train.csv.gz", "0\n1\n");
  write_gz(folder / "split/time/valid.csv.gz", "2\n");
  write_gz(folder / "split/time/test.csv.gz", "3\n");
  return folder;
}

fs::path make_ogb_binary(const fs::path& folder) {
  // 1, -2.5, 0, 2^-10, 3, 3, 0.5, 0 in half precision
  const std::string halves("\x00\x3C\x00\xC1\x00\x00\x00\x14\x00\x42\x00\x42\x00\x38\x00\x00", 16);
  write_npz(folder / "raw/data.npz",
            {{"edge_index", npy_bytes<std::int64_t>({0, 1, 2, 0, 2, 1, 2, 0, 1, 1}, {2, 5})},
             {"node_feat", npy_bytes("<f2", {4, 2}, halves)},
             {"num_nodes_list", npy_bytes<std::int64_t>({4})},
             {"num_edges_list", npy_bytes<std::int64_t>({5})}});
  const float nan = __builtin_nanf("");
  write_npz(folder / "raw/node-label.npz",
            {{"node_label", npy_bytes<float>({0, 2, nan, 2}, {4, 1})}});
  write_gz(folder / "split/time/train.csv.gz", "0\n1\n");
  write_gz(folder / "split/time/valid.csv.gz", "2\n");
  write_gz(folder / "split/time/test.csv.gz", "3\n");
  return folder;
}

// Like citeseer: nodes 0 to 2 in allx, test nodes 5 and 3 (in that order), node 4 without any row.
fs::path make_planetoid(const fs::path& folder) {
  const fs::path prefix = folder / "ind.tiny";
  const auto write = [&](const char* part, const std::string& bytes) {
    write_file(prefix.string() + "." + part, bytes);
  };
  write("allx", pickle_csr(3, 2, {0, 1, 1, 3}, {1, 0, 1}, {1, 2, 3}));
  write("tx", pickle_csr(2, 2, {0, 1, 2}, {0, 1}, {5, 6}));
  write("ally", pickle_dense(3, 3, {1, 0, 0, 0, 0, 1, 0, 0, 1}));
  write("ty", pickle_dense(2, 3, {0, 0, 1, 1, 0, 0}));
  write("y", pickle_dense(1, 3, {1, 0, 0}));
  write("graph", pickle_graph({{0, {1, 2}}, {1, {0, 2, 2}}, {2, {1, 0, 5}}, {3, {3}}, {5, {2}}}));
  write("test.index", "5\n3\n");
  return prefix;
}

fs::path make_graphsaint(const fs::path& folder) {
  write_npz(folder / "adj_full.npz", {{"indptr", npy_bytes<std::int32_t>({0, 2, 3, 5, 5})},
                                      {"indices", npy_bytes<std::int32_t>({1, 1, 2, 0, 1})},
                                      {"data", npy_bytes("|b1", {5}, std::string(5, '\x01'))},
                                      {"shape", npy_bytes<std::int64_t>({4, 4})},
                                      {"format", npy_bytes("|S3", {}, "csr")}});
  write_file(folder / "feats.npy", npy_bytes<double>({1, -2.5, 0, 1e-3, 3, 3, 0.5, 0}, {4, 2}));
  write_file(folder / "class_map.json", R"({"0": 0, "1": 2, "3": 2})");
  write_file(folder / "role.json", R"({"tr": [0, 1], "va": [2], "te": [3]})");
  return folder;
}

fs::path make_graphsaint_multi_label(const fs::path& folder) {
  make_graphsaint(folder);
  write_file(folder / "class_map.json", R"({"0": [0, 1], "1": [1, 1], "3": [0, 0]})");
  return folder;
}

fs::path make_gnn_benchmark(const fs::path& folder) {
  write_npz(folder / "tiny.npz", {{"adj_indptr", npy_bytes<std::int32_t>({0, 2, 3, 5, 5})},
                                  {"adj_indices", npy_bytes<std::int32_t>({1, 1, 2, 0, 1})},
                                  {"adj_data", npy_bytes<float>({1, 1, 1, 1, 1})},
                                  {"adj_shape", npy_bytes<std::int64_t>({4, 4})},
                                  {"attr_indptr", npy_bytes<std::int32_t>({0, 2, 3, 5, 6})},
                                  {"attr_indices", npy_bytes<std::int32_t>({0, 1, 1, 1, 0, 0})},
                                  {"attr_data", npy_bytes<float>({1, -2.5, 0.125, 3, 3, 0.5})},
                                  {"attr_shape", npy_bytes<std::int64_t>({4, 2})},
                                  {"labels", npy_bytes<std::int64_t>({0, 2, 0, 2})}});
  return folder / "tiny.npz";
}

fs::path make_heterophilous(const fs::path& folder) {
  const auto mask = [](const std::string& bits) { return npy_bytes("|b1", {2, 4}, bits); };
  write_npz(folder / "tiny.npz",
            {{"edges", npy_bytes<std::int64_t>({0, 1, 1, 2, 2, 0}, {3, 2})},
             {"node_features", npy_bytes<float>({1, -2.5, 0, 0.125, 3, 3, 0.5, 0}, {4, 2})},
             {"node_labels", npy_bytes<std::int64_t>({0, 1, 0, 1})},
             {"train_masks", mask(std::string("\1\1\0\0\0\0\1\1", 8))},
             {"val_masks", mask(std::string("\0\0\1\0\1\0\0\0", 8))},
             {"test_masks", mask(std::string("\0\0\0\1\0\1\0\0", 8))}});
  return folder / "tiny.npz";
}

fs::path make_npy(const fs::path& folder) {
  write_file(folder / "edge_index.npy",
             npy_bytes<std::int64_t>({0, 1, 2, 0, 2, 1, 2, 0, 1, 1}, {2, 5}));
  write_file(folder / "edge_weights.npy", npy_bytes<float>({1, 2, 4, 0.5, 3}));
  write_file(folder / "features.npy", npy_bytes<float>({1, -2.5, 0, 0.125, 3, 3, 0.5, 0}, {4, 2}));
  write_file(folder / "labels.npy", npy_bytes<std::int64_t>({0, 2, -1, 2}));
  write_file(folder / "split.npy", npy_bytes<std::uint8_t>({0, 0, 1, 2}));
  return folder;
}

fs::path make_npy_rows(const fs::path& folder) {
  write_file(folder / "row_ptr.npy", npy_bytes<std::int64_t>({0, 1, 4, 5, 5}));
  write_file(folder / "col_idx.npy", npy_bytes<std::int32_t>({2, 2, 0, 0, 1}));
  return folder;
}

fs::path make_npz_by_columns(const fs::path& folder) {
  const auto turned = [](const std::vector<float>& values) {
    std::string bytes;
    for (const float value : values) {
      const std::string item(reinterpret_cast<const char*>(&value), sizeof value);
      bytes.append(item.rbegin(), item.rend());
    }
    return bytes;
  };
  const std::string pairs = npy_bytes<std::int64_t>({0, 1, 1, 2, 2, 0, 0, 1, 2, 1});
  write_npz(folder / "set.npz",
            {{"edge_index", npy_bytes("<i8", {2, 5}, pairs.substr(pairs.size() - 80), true)},
             {"x", npy_bytes(">f4", {4, 2}, turned({1, 0, 3, 0.5, -2.5, 0.125, 3, 0}), true)},
             {"y", npy_bytes<float>({0.5, 2, __builtin_nanf(""), 2}, {4, 1})},
             {"train_mask", npy_bytes("|b1", {4, 1}, std::string("\1\1\0\0", 4))},
             {"val_mask", npy_bytes<std::int32_t>({2}, {1, 1})}});
  return folder / "set.npz";
}

fs::path make_edges(const fs::path& folder) {
  write_file(folder / "graph.txt",
             "# comment\n0 1 1\n1\t2 2\n% more\n\n2, 0, 4\n0 1 0.5\r\n2 1 3\n");
  return folder / "graph.txt";
}

fs::path make_metis(const fs::path& folder) {
  write_file(folder / "tiny.graph",
             "% comment\n4 3 011 2\n9 9 2 1.5 3 4\n9 9 1 1.5 3 2\n% more\n9 9 2 2 1 4\n9 9\n");
  return folder / "tiny.graph";
}

// 0 -> 1 of types 0 and 1, of type 0 once more, 2 -> 1, a self-loop, 1 -> 0.
fs::path make_npy_typed(const fs::path& folder) {
  write_file(folder / "edge_index.npy",
             npy_bytes<std::int32_t>({0, 0, 2, 0, 3, 1, 1, 1, 1, 1, 3, 0}, {2, 6}));
  write_file(folder / "edge_type.npy", npy_bytes<std::int64_t>({0, 1, 0, 0, 1, 0}));
  write_file(folder / "edge_attr.npy", npy_bytes<double>({1, 2, 3, 4, 5, 6}, {6, 1}));
  write_file(folder / "node_type.npy", npy_bytes<std::int64_t>({0, 0, 2, 1}));
  return folder;
}

// Source, relation, target, weight.
fs::path make_edges_typed(const fs::path& folder) {
  write_file(folder / "graph.txt", "0 2 1 0.5\n# comment\n3,0,1,2\n0 2 1 1\n1 1 0 4\n");
  return folder / "graph.txt";
}

fs::path make_ogb_heterogeneous(const fs::path& folder) {
  const fs::path raw = folder / "raw";
  write_gz(raw / "num-node-dict.csv.gz", "author,venue,paper\n2,1,3\n");
  write_gz(raw / "relations/author___writes___paper/edge.csv.gz", "0,0\n1,0\n1,2\n");
  write_gz(raw / "relations/author___writes___paper/num-edge-list.csv.gz", "3\n");
  write_gz(raw / "relations/paper___in___venue/edge.csv.gz", "0,0\n");
  write_gz(raw / "relations/paper___cites___paper/edge.csv.gz", "0,1\n2,1\n");
  write_gz(raw / "node-feat/paper/node-feat.csv.gz", "1,2\n3,4\n5,6\n");
  write_gz(raw / "node-label/paper/node-label.csv.gz", "1\nnan\n0\n");
  write_gz(folder / "split/time/paper/train.csv.gz", "0\n");
  write_gz(folder / "split/time/paper/valid.csv.gz", "1\n");
  write_gz(folder / "split/time/paper/test.csv.gz", "2\n");
  return folder;
}

}  // namespace atl::fixtures
