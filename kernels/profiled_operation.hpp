// Records operations of a backend while somebody wants a profile.
#pragma once

#include <optional>

#include "base/trace.hpp"

namespace atl {

// `work` says what the operation has to do, and is only asked when there is a recorder. request:
// see TraceSpan.
class ProfiledOperation {
 public:
  template <typename Work>
  ProfiledOperation(TraceRecorder* recorder, const char* name, const char* request,
                    const Work& work) {
    if (recorder == nullptr) return;
    span_.emplace(*recorder, name);
    span_->set_work(work());
    span_->set_request(request);
  }

  bool recorded() const { return span_.has_value(); }
  // Says which of several things with this name ran; `what` lives as long as the recorder. Only if
  // recorded.
  void set_what(const char* what) { span_->set_what(what); }

 private:
  std::optional<ScopedSpan> span_;
};

}  // namespace atl
