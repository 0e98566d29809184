#include "tests/support/cuda_emulation/capture.hpp"

#include <algorithm>
#include <utility>

namespace atl::cuda_emulation {
namespace {

// Captures that the calling thread began and has not ended.
thread_local std::vector<std::shared_ptr<Capture>> captures_of_thread;

void merge_into(std::vector<std::size_t>& frontier, const std::vector<std::size_t>& other) {
  for (const std::size_t node : other) {
    if (std::find(frontier.begin(), frontier.end(), node) == frontier.end()) {
      frontier.push_back(node);
    }
  }
}

// Whether every node comes before the end of the stream that began the capture.
bool all_joined(const Capture& capture) {
  std::vector<bool> reached(capture.nodes.size(), false);
  for (const std::size_t node : capture.origin->frontier) reached[node] = true;
  for (std::size_t node = capture.nodes.size(); node-- > 0;) {
    if (!reached[node]) return false;
    for (const std::size_t earlier : capture.nodes[node].dependencies) reached[earlier] = true;
  }
  return true;
}

void end_capture(const std::shared_ptr<Capture>& capture) {
  capture->ended = true;
  for (Stream* member : capture->members) {
    member->capture = nullptr;
    member->frontier.clear();
  }
  std::erase(captures_of_thread, capture);
}

}  // namespace

cudaError_t invalidate(Capture& capture, cudaError_t error) {
  capture.invalid = true;
  return error;
}

cudaError_t refuse_in_capture() {
  bool refused = false;
  for (const auto& capture : captures_of_thread) {
    if (capture->mode == cudaStreamCaptureModeRelaxed) continue;
    capture->invalid = true;
    refused = true;
  }
  return refused ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

cudaError_t capture_operation(Stream& stream, std::shared_ptr<Operation> operation) {
  Capture& capture = *stream.capture;
  if (capture.invalid) return cudaErrorStreamCaptureInvalidated;
  capture.nodes.push_back({std::move(operation), stream.frontier});
  stream.frontier = {capture.nodes.size() - 1};
  return cudaSuccess;
}

cudaError_t capture_record(Stream& stream, CUevent_st& event) {
  if (stream.capture->invalid) return cudaErrorStreamCaptureInvalidated;
  event.capture = stream.capture;
  event.frontier = stream.frontier;
  return cudaSuccess;
}

cudaError_t capture_wait(Stream& stream, CUevent_st& event) {
  if (!event.capture) {
    // The event was recorded outside the capture that the stream belongs to.
    if (!event.record) return cudaSuccess;
    return invalidate(*stream.capture, cudaErrorStreamCaptureIsolation);
  }
  if (event.capture->ended) return cudaErrorCapturedEvent;
  if (event.capture->invalid) return cudaErrorStreamCaptureInvalidated;
  if (!stream.capture) {
    stream.capture = event.capture;
    stream.capture->members.insert(&stream);
  } else if (stream.capture != event.capture) {
    invalidate(*event.capture, cudaSuccess);
    return invalidate(*stream.capture, cudaErrorStreamCaptureMerge);
  }
  merge_into(stream.frontier, event.frontier);
  return cudaSuccess;
}

cudaError_t begin_capture(Stream& stream, cudaStreamCaptureMode mode) {
  if (stream.capture) return invalidate(*stream.capture, cudaErrorIllegalState);
  if (&stream == stream.device->null_stream.get()) return cudaErrorStreamCaptureUnsupported;
  auto capture = std::make_shared<Capture>();
  capture->origin = &stream;
  capture->members = {&stream};
  capture->thread = std::this_thread::get_id();
  capture->mode = mode;
  stream.capture = capture;
  captures_of_thread.push_back(capture);
  return cudaSuccess;
}

cudaError_t end_capture(Stream& stream, std::vector<GraphNode>& nodes) {
  const auto capture = stream.capture;
  if (!capture) return cudaErrorIllegalState;
  if (capture->origin != &stream) {
    return invalidate(*capture, cudaErrorStreamCaptureUnmatched);
  }
  if (capture->mode != cudaStreamCaptureModeRelaxed &&
      capture->thread != std::this_thread::get_id()) {
    return cudaErrorStreamCaptureWrongThread;
  }
  const bool joined = all_joined(*capture);
  end_capture(capture);
  // Events may still know the capture; what it held is gone as of now.
  nodes = std::exchange(capture->nodes, {});
  if (capture->invalid || !joined) nodes.clear();
  if (capture->invalid) return cudaErrorStreamCaptureInvalidated;
  return joined ? cudaSuccess : cudaErrorStreamCaptureUnjoined;
}

}  // namespace atl::cuda_emulation
