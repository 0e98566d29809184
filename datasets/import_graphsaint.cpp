// GraphSAINT sets (Zeng et al., ICLR'20): adj_full.npz (SciPy CSR), feats.npy, class_map.json (a
// class, or a list of 0 and 1, per node) and role.json (lists tr, va, te).
#include <algorithm>
#include <array>

#include "base/byte_order_mark.hpp"
#include "base/error.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/numbers.hpp"
#include "base/progress.hpp"
#include "datasets/import_session.hpp"
#include "datasets/importers.hpp"
#include "datasets/sparse_member.hpp"
#include "datasets/text_reader.hpp"

namespace atl {

namespace fs = std::filesystem;

namespace {

// A streaming JSON reader for files that would be large as a tree. Structure expected by both
// files: one object whose values are integers or flat lists of integers.
class FlatObjectReader : public nlohmann::json_sax<Json> {
 public:
  explicit FlatObjectReader(fs::path file) : file_(std::move(file)) {}

  void read() {
    const MappedFile map(file_);
    const std::string_view text(reinterpret_cast<const char*>(map.bytes().data()),
                                map.bytes().size());
    byte_order_mark(text, file_.string());  // the parser skips that of UTF-8 itself
    const Activity activity("reading " + file_.filename().string());
    Json::sax_parse(text.begin(), text.end(), this);
  }

  bool null() override { bad("null"); }
  bool boolean(bool value) override { return item(value ? 1 : 0); }
  bool number_integer(number_integer_t value) override { return item(value); }
  bool number_unsigned(number_unsigned_t value) override {
    if (value > (std::uint64_t{1} << 62U)) bad("a huge number");
    return item(static_cast<std::int64_t>(value));
  }
  bool number_float(number_float_t value, const string_t&) override {
    if (value !=
        static_cast<double>(static_cast<std::int32_t>(std::min(1e9, std::max(-1.0, value))))) {
      bad("a number that is not whole");
    }
    return item(static_cast<std::int64_t>(value));
  }
  bool string(string_t&) override { bad("a string"); }
  bool binary(binary_t&) override { bad("binary data"); }
  bool start_object(std::size_t) override {
    if (depth_++ != 0) bad("an object");
    return true;
  }
  bool end_object() override { return true; }
  bool start_array(std::size_t) override {
    if (depth_++ != 1) bad("a list");
    begin_list(key_);
    return true;
  }
  bool end_array() override {
    --depth_;
    end_list(key_);
    return true;
  }
  bool key(string_t& name) override {
    key_ = name;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& error) override {
    fail_input("{}: not valid JSON at byte {}: {}", file_.string(), position, error.what());
  }

 protected:
  virtual void begin_list(const std::string& key) = 0;
  virtual void end_list(const std::string& key) = 0;
  virtual void list_item(std::int64_t value) = 0;
  virtual void single_item(const std::string& key, std::int64_t value) = 0;
  const fs::path& file() const { return file_; }
  const std::string& current_key() const { return key_; }
  // The key as a node id below `nodes`.
  std::int64_t node_of(const std::string& key, std::int64_t nodes) const {
    const auto node = parse_number<std::int64_t>(key, 0, nodes - 1);
    if (!node) {
      fail_input("{}: key {}; allowed are node ids 0 to {}", file_.string(), in_quotes(key),
                 nodes - 1);
    }
    return *node;
  }

 private:
  [[noreturn]] void bad(const char* what) const {
    fail_input("{}: {} under key {}; a number or a list of numbers is expected", file_.string(),
               what, in_quotes(key_));
  }
  bool item(std::int64_t value) {
    if (depth_ == 0) bad("a number");
    depth_ == 2 ? list_item(value) : single_item(key_, value);
    return true;
  }

  fs::path file_;
  std::string key_;
  int depth_ = 0;
};

// role.json
class RoleReader : public FlatObjectReader {
 public:
  RoleReader(const fs::path& file, std::int64_t nodes)
      : FlatObjectReader(file), split(static_cast<std::size_t>(nodes), 255) {}
  std::vector<std::uint8_t> split;

 protected:
  void begin_list(const std::string& key) override {
    constexpr std::array<const char*, 3> kRoles = {"tr", "va", "te"};
    for (part_ = 0; part_ < 3 && key != kRoles[part_]; ++part_) {
    }
    if (part_ == 3) {
      fail_input("{}: key {}; allowed are tr, va, te", file().string(), in_quotes(key));
    }
  }
  void end_list(const std::string&) override {}
  void list_item(std::int64_t node) override {
    const auto nodes = static_cast<std::int64_t>(split.size());
    if (node < 0 || node >= nodes) {
      fail_input("{}: node {} under {}; allowed are 0 to {}", file().string(), node,
                 in_quotes(current_key()), nodes - 1);
    }
    if (split[node] != 255) {
      fail_input("{}: node {} is listed twice", file().string(), node);
    }
    split[node] = part_;
  }
  void single_item(const std::string& key, std::int64_t) override {
    fail_input("{}: a list is expected under key {}", file().string(), in_quotes(key));
  }

 private:
  std::uint8_t part_ = 0;
};

// class_map.json
class ClassReader : public FlatObjectReader {
 public:
  ClassReader(const fs::path& file, std::int64_t nodes) : FlatObjectReader(file), nodes_(nodes) {}
  std::vector<std::int32_t> single;  // if no node has a list
  std::vector<std::uint8_t> many;    // [nodes, classes]
  std::int64_t classes = 0;

 protected:
  void begin_list(const std::string& key) override {
    node_ = node_of(key, nodes_);
    row_.clear();
  }
  void list_item(std::int64_t value) override {
    if (value != 0 && value != 1) {
      fail_input("{}: {} in the list of node {}; allowed are 0 and 1", file().string(), value,
                 node_);
    }
    row_.push_back(static_cast<std::uint8_t>(value));
  }
  void end_list(const std::string&) override {
    if (!single.empty()) mixed();
    if (many.empty()) {
      classes = static_cast<std::int64_t>(row_.size());
      if (classes == 0) fail_input("{}: node {} has an empty list", file().string(), node_);
      const auto bytes = static_cast<std::int64_t>(std::filesystem::file_size(file()));
      if (classes > 64 * bytes / nodes_) {
        fail_input("{}: {} classes for each of {} nodes, more than {} bytes can say",
                   file().string(), classes, nodes_, bytes);
      }
      many.assign(static_cast<std::size_t>(nodes_ * classes), 255);
    }
    if (static_cast<std::int64_t>(row_.size()) != classes) {
      fail_input("{}: node {} has {} classes, {} expected", file().string(), node_, row_.size(),
                 classes);
    }
    std::copy(row_.begin(), row_.end(), many.begin() + node_ * classes);
  }
  void single_item(const std::string& key, std::int64_t value) override {
    if (!many.empty()) mixed();
    if (single.empty()) single.assign(static_cast<std::size_t>(nodes_), -1);
    if (value < -1 || value >= kMaxNodes) {
      fail_input("{}: class {} of node {}; allowed are 0 to {}", file().string(), value,
                 in_quotes(key), kMaxNodes - 1);
    }
    single[node_of(key, nodes_)] = static_cast<std::int32_t>(value);
  }

 private:
  [[noreturn]] void mixed() const {
    fail_input("{}: some nodes have a class and some a list", file().string());
  }

  std::int64_t nodes_;
  std::int64_t node_ = 0;
  std::vector<std::uint8_t> row_;
};

}  // namespace

void import_graphsaint(ImportSession& session) {
  const fs::path& folder = session.source();
  const NpzArchive archive(folder / "adj_full.npz", session.scratch());
  const SparseMember adjacency(archive, "");
  session.graph([&](const EdgeSink& sink) { adjacency.stream_edges(sink); }, adjacency.rows(), {},
                archive.path().string());
  session.features(ArrayReader::open_npy(folder / "feats.npy"));
  ClassReader classes(folder / "class_map.json", session.nodes());
  classes.read();
  if (!classes.many.empty()) {
    session.multi_labels(classes.many, classes.classes, (folder / "class_map.json").string());
  } else {
    classes.single.resize(static_cast<std::size_t>(session.nodes()), -1);
    session.labels(std::move(classes.single), (folder / "class_map.json").string());
  }
  RoleReader roles(folder / "role.json", session.nodes());
  roles.read();
  session.splits(roles.split, 1);
}

}  // namespace atl
