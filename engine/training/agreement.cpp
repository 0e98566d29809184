#include "engine/training/agreement.hpp"

#include <filesystem>
#include <new>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"

namespace atl {

namespace {

// The exception of `work`, as an Error whose kind gives the exit code.
std::optional<Error> error_of(const std::function<void()>& work, int rank) {
  try {
    work();
    return std::nullopt;
  } catch (const Error& thrown) {
    return thrown;
  } catch (const std::filesystem::filesystem_error& thrown) {
    return Error(ErrorKind::kInput, thrown.what());
  } catch (const std::bad_alloc&) {
    return Error(ErrorKind::kMemory, "out of memory: an allocation failed");
  } catch (const std::exception& thrown) {
    return Error(ErrorKind::kCommunication,
                 fmt::format("rank {} failed unexpectedly: {}", rank, thrown.what()));
  } catch (...) {
    return Error(ErrorKind::kCommunication,
                 fmt::format("rank {} failed unexpectedly, with an unknown exception", rank));
  }
}

}  // namespace

void on_all_ranks(Transport& transport, const std::function<void()>& work,
                  const OperationLabel& label) {
  const HeartbeatScope scope(transport, label);
  const std::optional<Error> error = error_of(work, transport.rank());
  const auto rank = static_cast<std::size_t>(transport.rank());
  std::vector<std::int64_t> failed(static_cast<std::size_t>(transport.size()), 0);
  if (error) failed[rank] = 1 + static_cast<std::int64_t>(error->kind());
  transport.all_reduce(std::span(failed), label);
  for (std::size_t root = 0; root < failed.size(); ++root) {
    if (failed[root] == 0) continue;
    std::string text = error ? error->what() : "";
    share_text(transport, text, {"error report"}, static_cast<int>(root));
    throw Error(static_cast<ErrorKind>(failed[root] - 1), text);
  }
}

}  // namespace atl
