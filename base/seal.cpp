#include "base/seal.hpp"

#include "base/checksum.hpp"

namespace atl {

namespace {

constexpr const char* kField = "seal";

// The seal of the values, not of the text: blanks may change.
std::string seal_of(Json object) {
  object.erase(kField);
  return to_hex(checksum(object.dump(-1, ' ', false, Json::error_handler_t::replace)));
}

}  // namespace

void add_seal(Json& object) { object[kField] = seal_of(object); }

void check_seal(const Json& object, const std::filesystem::path& file) {
  const auto stated = json_field<std::string>(object, kField, file);
  const std::string found = seal_of(object);
  if (found != stated) {
    fail_input("{}: damaged or changed by hand: field 'seal' is {}, the other fields give {}",
               file.string(), object.at(kField).dump(), found);
  }
}

}  // namespace atl
