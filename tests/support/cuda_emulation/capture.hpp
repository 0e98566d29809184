// Graphs: what a capture collects, and its replay. All functions want the emulator's lock held.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <memory>
#include <set>
#include <thread>
#include <vector>

#include "tests/support/cuda_emulation/stream.hpp"

namespace atl::cuda_emulation {

struct GraphNode {
  std::shared_ptr<Operation> operation;
  std::vector<std::size_t> dependencies;  // earlier nodes
};

struct Capture {
  std::vector<GraphNode> nodes;
  Stream* origin = nullptr;
  std::set<Stream*> members;  // the origin and the streams that joined it
  std::thread::id thread;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  bool invalid = false;
  bool ended = false;
};

// Makes the stream's capture invalid, as an operation that can't be captured does.
cudaError_t invalidate(Capture& capture, cudaError_t error);

cudaError_t begin_capture(Stream& stream, cudaStreamCaptureMode mode);
// Ends the capture that `stream` began, in any case; `nodes` receives what it collected.
cudaError_t end_capture(Stream& stream, std::vector<GraphNode>& nodes);

// Appends a node after everything that the stream captured so far.
cudaError_t capture_operation(Stream& stream, std::shared_ptr<Operation> operation);
// Remembers in the event how far the stream's capture has come.
cudaError_t capture_record(Stream& stream, CUevent_st& event);
// The stream's next node depends on the event; a stream that does not capture yet joins.
cudaError_t capture_wait(Stream& stream, CUevent_st& event);

}  // namespace atl::cuda_emulation
