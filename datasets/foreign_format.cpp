#include "datasets/foreign_format.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/shell_words.hpp"

namespace atl {

namespace fs = std::filesystem;

namespace {

// The first bytes, unpacked if they are gzip; nothing if the file can't be read.
std::string first_bytes(const fs::path& path) {
  std::string bytes(4096, '\0');
  std::error_code error;
  gzFile file = fs::is_regular_file(path, error) ? gzopen(path.c_str(), "rb") : nullptr;
  if (file == nullptr) return {};
  const int got = gzread(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
  bytes.resize(static_cast<std::size_t>(std::max(got, 0)));
  return bytes;
}

// Without what may stand before the first word of a text: blanks, a byte order mark, comments.
std::string_view text_from_first_word(std::string_view text) {
  if (text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
    if (!text.starts_with('#')) return text;
    text.remove_prefix(std::min(text.find('\n'), text.size()));
  }
}

// Whether the text begins with these words, in any case and with any blanks between them.
bool begins(std::string_view text, std::initializer_list<std::string_view> words) {
  for (const std::string_view word : words) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
    const std::string_view start = text.substr(0, word.size());
    if (!std::ranges::equal(start, word, {}, [](unsigned char c) { return std::tolower(c); })) {
      return false;
    }
    text.remove_prefix(word.size());
  }
  return true;
}

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

struct Foreign {
  const char* name = nullptr;
  const char* python = "";  // {} stands for the file
  const char* remark = "";
};

constexpr const char* kTrust = " (loading such a file can run code: only if you trust it)";

Foreign recognise_binary(std::string_view bytes) {
  if (bytes.starts_with("MATLAB 7.3") || bytes.starts_with("\x89HDF\r\n")) {
    return {"HDF5 (or MATLAB 7.3)",
            "import h5py, scipy.sparse; g = h5py.File('{}')['A']; scipy.sparse.save_npz("
            "'graph.npz', scipy.sparse.csc_matrix((g['data'][:], g['ir'][:], g['jc'][:])))",
            " (with the name of its matrix for A; this is for sparse matrices of MATLAB), and then "
            "atoll import npy graph.npz"};
  }
  if (bytes.starts_with("MATLAB 5.0")) {
    return {"a MATLAB file",
            "import scipy.io, scipy.sparse; scipy.sparse.save_npz('graph.npz', "
            "scipy.sparse.csr_matrix(scipy.io.loadmat('{}')['A']))",
            " (with the name of its matrix for A), and then atoll import npy graph.npz"};
  }
  if (bytes.starts_with("\x3F\xA1\xB4\x46\xF0\x4F\x2E\xDD")) {
    return {"a graph saved by DGL",
            "import atoll, dgl; atoll.Dataset.from_dgl(dgl.load_graphs('{}')[0][0], path='NEW')"};
  }
  const bool zip = bytes.starts_with("PK\x03\x04");
  if ((zip && has(bytes, "data.pkl")) || has(bytes.substr(0, 16), "\xfc\x9c\x46\xf9\x20\x6a")) {
    return {"a file of PyTorch",
            "import atoll, torch; atoll.Dataset.from_pyg(torch.load('{}', weights_only=False), "
            "path='NEW')",
            " (loading such a file can run code: only if you trust it; of a tuple that PyTorch "
            "Geometric has saved, take the first element)"};
  }
  if (bytes.size() > 1 && bytes[0] == '\x80' && bytes[1] >= '\x02' && bytes[1] <= '\x05') {
    return {"a pickle",
            "import atoll, pickle; atoll.Dataset.from_networkx(pickle.load(open('{}', 'rb')), "
            "path='NEW')",
            kTrust};
  }
  if (bytes.starts_with("PAR1")) {
    return {"a Parquet table",
            "import atoll; atoll.Dataset.from_tables('{}', source='source', target='target', "
            "path='NEW')",
            " (with the names of its columns)"};
  }
  if (bytes.starts_with("\x93NUMPY")) {
    return {"a single NumPy array",
            "import numpy, os; os.makedirs('arrays'); numpy.save('arrays/edge_index.npy', "
            "numpy.load('{}'))",
            " (if it has the shape [2, E]), and then atoll import npy arrays"};
  }
  return {};
}

Foreign recognise_text(std::string_view bytes) {
  const std::string_view text = text_from_first_word(bytes);
  if (text.starts_with('<')) {
    if (has(text, "<graphml")) {
      return {"GraphML",
              "import atoll, networkx; atoll.Dataset.from_networkx(networkx.read_graphml('{}'), "
              "path='NEW')"};
    }
    if (has(text, "<gexf")) {
      return {"GEXF",
              "import atoll, networkx; atoll.Dataset.from_networkx(networkx.read_gexf('{}'), "
              "path='NEW')"};
    }
    return {"XML",
            "import atoll, networkx; atoll.Dataset.from_networkx(networkx.read_graphml('{}'), "
            "path='NEW')",
            " (read_graphml or read_gexf: its first bytes don't say which it is)"};
  }
  if (begins(text, {"graph", "["}) || begins(text, {"creator", "\""})) {
    return {"GML",
            "import atoll, networkx; atoll.Dataset.from_networkx(networkx.read_gml('{}'), "
            "path='NEW')",
            " (if that fails because nodes have no labels: read_gml(FILE, label='id'))"};
  }
  if (begins(text, {"*vertices"}) || begins(text, {"*network"})) {
    return {"Pajek",
            "import atoll, networkx; atoll.Dataset.from_networkx(networkx.Graph("
            "networkx.read_pajek('{}')), path='NEW')"};
  }
  const bool dot = begins(text, {"digraph"}) || begins(text, {"strict"}) || begins(text, {"graph"});
  if (dot && has(text.substr(0, text.find('\n')), "{")) {
    return {"DOT",
            "import atoll, networkx; atoll.Dataset.from_networkx(networkx.nx_pydot.read_dot('{}'), "
            "path='NEW')"};
  }
  if (text.starts_with('{') || text.starts_with('[')) {
    return {"JSON",
            "import atoll, json, networkx; atoll.Dataset.from_networkx(networkx.node_link_graph("
            "json.load(open('{}'))), path='NEW')",
            " (if it is the node-link form of NetworkX and D3)"};
  }
  return {};
}

}  // namespace

void refuse_packed(const fs::path& path) {
  const std::string bytes = first_bytes(path);
  struct Packed {
    std::string_view start;
    const char* what;
    const char* command;
  };
  constexpr std::array kPacked = {
      Packed{"BZh", "compressed by bzip2", "bunzip2"},
      Packed{"\xFD\x37zXZ", "compressed by xz", "unxz"},
      Packed{"\x28\xB5\x2F\xFD", "compressed by Zstandard", "unzstd"},
      Packed{"version https://git-lfs", "a pointer of Git LFS, not the file itself",
             "git lfs pull --include"}};
  for (const auto& [start, what, command] : kPacked) {
    if (!bytes.starts_with(start)) continue;
    fail_input("{}: this is {}; run first: {} {}", path.string(), what, command,
               shell_word(path.filename().string()));
  }
}

void refuse_foreign_format(const fs::path& path) {
  refuse_packed(path);
  const std::string bytes = first_bytes(path);
  Foreign foreign = recognise_binary(bytes);
  if (foreign.name == nullptr) foreign = recognise_text(bytes);
  if (foreign.name == nullptr) return;
  fail_input("{}: this is {}, which is not read; in Python: {}{}", path.string(), foreign.name,
             fmt::format(fmt::runtime(foreign.python), path.filename().string()), foreign.remark);
}

}  // namespace atl
