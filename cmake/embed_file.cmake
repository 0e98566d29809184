# cmake -P: writes OUTPUT, a source that defines atl::FUNCTION() of HEADER as the bytes of INPUT.
file(READ ${INPUT} bytes HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n" bytes "${bytes}")
file(WRITE ${OUTPUT} "#include \"${HEADER}\"

namespace atl {

alignas(16) static constexpr unsigned char kBytes[] = {
${bytes}
};

std::span<const std::byte> ${FUNCTION}() { return std::as_bytes(std::span(kBytes)); }

}  // namespace atl
")
