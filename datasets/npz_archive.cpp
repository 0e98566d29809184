#include <zip.h>

#include <array>
#include <functional>

#include "base/error.hpp"
#include "base/npy.hpp"
#include "datasets/array_reader.hpp"

namespace atl {

namespace {

// Deflate can't shrink data further than this.
constexpr std::uint64_t kDeflateLimit = 1032;

class ZipSource : public ByteSource {
 public:
  using Copy = std::function<std::shared_ptr<const RandomFile>()>;

  // copy: makes a file of the member's bytes, or knows one.
  ZipSource(std::shared_ptr<zip> archive, zip_uint64_t index, std::string place, Copy copy = {})
      : archive_(std::move(archive)),
        copy_(std::move(copy)),
        place_(std::move(place)),
        file_(zip_fopen_index(archive_.get(), index, 0), &zip_fclose) {
    if (!file_) fail_input("{}: can't read: {}", place_, zip_strerror(archive_.get()));
  }
  std::size_t read(std::span<std::byte> bytes) override {
    const zip_int64_t got = zip_fread(file_.get(), bytes.data(), bytes.size());
    if (got < 0) fail_input("{}: damaged archive: {}", place_, zip_file_strerror(file_.get()));
    return static_cast<std::size_t>(got);
  }
  std::shared_ptr<const RandomFile> random_access() override { return copy_(); }

 private:
  std::shared_ptr<zip> archive_;  // closed after the member
  Copy copy_;
  std::string place_;
  std::unique_ptr<zip_file_t, int (*)(zip_file_t*)> file_;
};

// Its checksum is verified on the way.
std::shared_ptr<const RandomFile> copy_member(ZipSource source,
                                              const std::filesystem::path& scratch,
                                              const std::string& place) {
  const auto copy = RandomFile::temporary(
      scratch.empty() ? std::filesystem::temp_directory_path() : scratch, place);
  std::vector<std::byte> bytes(std::size_t{1} << 18U);
  while (const std::size_t got = source.read(bytes)) copy->append(std::span(bytes).first(got));
  return copy;
}

}  // namespace

NpzArchive::NpzArchive(const std::filesystem::path& path, std::filesystem::path scratch)
    : path_(path),
      scratch_(std::move(scratch)),
      file_bytes_(static_cast<std::int64_t>(MappedFile(path).bytes().size())),
      copies_(std::make_shared<Copies>()) {
  int code = 0;
  zip_t* handle = zip_open(path.c_str(), ZIP_RDONLY, &code);
  if (handle == nullptr) {
    zip_error_t error;
    zip_error_init_with_code(&error, code);
    const std::string reason = zip_error_strerror(&error);
    zip_error_fini(&error);
    fail_input("{}: not a readable .npz archive: {}", path.string(), reason);
  }
  zip_ = std::shared_ptr<zip>(handle, &zip_discard);
}

bool NpzArchive::has(const std::string& name) const {
  return zip_name_locate(zip_.get(), (name + ".npy").c_str(), 0) >= 0;
}

std::vector<std::string> NpzArchive::members() const {
  std::vector<std::string> names;
  const zip_int64_t count = zip_get_num_entries(zip_.get(), 0);
  for (zip_int64_t i = 0; i < count && i < 30; ++i) {
    const char* member = zip_get_name(zip_.get(), static_cast<zip_uint64_t>(i), ZIP_FL_ENC_RAW);
    names.emplace_back(member == nullptr ? "?" : member);
    if (names.back().ends_with(".npy")) names.back().resize(names.back().size() - 4);
  }
  return names;
}

std::string NpzArchive::word(const std::string& name) const {
  const zip_int64_t index = zip_name_locate(zip_.get(), (name + ".npy").c_str(), 0);
  if (index < 0) return "";
  std::array<std::byte, 512> bytes{};
  const std::string place = path_.string() + "[" + name + "]";
  ZipSource source(zip_, static_cast<zip_uint64_t>(index), place);
  const std::size_t size = source.read(bytes);
  const NpyHeader header = parse_npy_header(std::span(bytes).first(size), place);
  const bool text = header.shape.empty() && (header.descr[1] == 'S' || header.descr[1] == 'U');
  if (!text || size != header.data_offset + header.item_bytes()) return "";
  const std::string_view file(reinterpret_cast<const char*>(bytes.data()), size);
  std::string word;
  for (const char c : file.substr(header.data_offset)) {
    if (c != '\0') word += c;
  }
  return word;
}

void NpzArchive::refuse_objects(const std::string& name) const {
  const zip_int64_t index = zip_name_locate(zip_.get(), (name + ".npy").c_str(), 0);
  if (index < 0) return;
  const std::string place = path_.string() + "[" + name + "]";
  std::array<std::byte, 128> head{};
  ZipSource(zip_, static_cast<zip_uint64_t>(index), place).read(head);
  if (!holds_objects(head)) return;
  std::string prefix = name;  // adj_matrix is read as adj_data, adj_indices, ...
  if (prefix.ends_with("_matrix")) prefix.resize(prefix.size() - 7);
  fail_input(
      "{}: a pickled Python object, which is not read, because unpickling can run code. If it is a "
      "SciPy matrix, two lines of Python save it as plain arrays: "
      "a = dict(numpy.load('{}', allow_pickle=True)); m = a.pop('{}').item().tocsr() and then "
      "numpy.savez('plain.npz', {}_data=m.data, {}_indices=m.indices, {}_indptr=m.indptr, "
      "{}_shape=m.shape, **a)",
      place, path_.filename().string(), name, prefix, prefix, prefix, prefix);
}

ArrayReader NpzArchive::open(const std::string& name) const {
  const std::string place = path_.string() + "[" + name + "]";
  const zip_int64_t index = zip_name_locate(zip_.get(), (name + ".npy").c_str(), 0);
  refuse_objects(name);
  if (index < 0) {
    const std::vector<std::string> names = members();
    for (const std::string& member : names) refuse_objects(member);
    fail_input("{}: there is no array '{}'; the archive holds: {}", path_.string(), name,
               fmt::join(names, ", "));
  }
  zip_stat_t stat;
  zip_stat_init(&stat);
  constexpr zip_uint64_t kNeeded = ZIP_STAT_SIZE | ZIP_STAT_COMP_SIZE;
  if (zip_stat_index(zip_.get(), static_cast<zip_uint64_t>(index), 0, &stat) != 0 ||
      (stat.valid & kNeeded) != kNeeded) {
    fail_input("{}: the archive doesn't say its size", place);
  }
  if (stat.comp_size > static_cast<std::uint64_t>(file_bytes_) ||
      stat.size > stat.comp_size * kDeflateLimit + 64) {
    fail_input("{}: {} bytes announced, more than the archive of {} bytes can hold", place,
               stat.size, file_bytes_);
  }
  const auto number = static_cast<zip_uint64_t>(index);
  const ZipSource::Copy copy = [zip = zip_, copies = copies_, scratch = scratch_, number, place] {
    std::shared_ptr<const RandomFile>& known = (*copies)[number];
    if (!known) known = copy_member(ZipSource(zip, number, place), scratch, place);
    return known;
  };
  return {std::make_unique<ZipSource>(zip_, number, place, copy), place,
          static_cast<std::int64_t>(stat.size)};
}

}  // namespace atl
