// The CUDA functions for graphs, and the replay of a graph as one operation.
#include <cuda_runtime.h>

#include <memory>
#include <utility>
#include <vector>

#include "tests/support/cuda_emulation/capture.hpp"
#include "tests/support/cuda_emulation/environment.hpp"
#include "tests/support/cuda_emulation/runtime.hpp"
#include "tests/support/cuda_emulation/stream.hpp"

using namespace atl::cuda_emulation;

struct CUgraph_st {
  std::shared_ptr<const std::vector<GraphNode>> nodes;
};
struct CUgraphExec_st {
  std::shared_ptr<const std::vector<GraphNode>> nodes;
};

namespace {

// Runs the nodes in an order drawn from the seed among those that their dependencies allow.
class GraphOperation : public Operation {
 public:
  explicit GraphOperation(std::shared_ptr<const std::vector<GraphNode>> nodes)
      : nodes_(std::move(nodes)), successors_(nodes_->size()), missing_(nodes_->size(), 0) {
    for (std::size_t node = 0; node < nodes_->size(); ++node) {
      operations_.push_back((*nodes_)[node].operation->copy_for_replay());
      for (const std::size_t earlier : (*nodes_)[node].dependencies) {
        successors_[earlier].push_back(node);
        ++missing_[node];
      }
      if (missing_[node] == 0) ready_.push_back(node);
    }
  }

  void start(Stream& stream, std::uint64_t item) override {
    for (const auto& operation : operations_) operation->start(stream, item);
  }

  bool run(Lock& lock) override {
    std::vector<std::size_t> waiting;
    while (!ready_.empty()) {
      static std::uint64_t random = environment_number("ATOLL_EMULATION_SEED", 1);
      random = random * 6364136223846793005u + 1442695040888963407u;
      std::swap(ready_[(random >> 33) % ready_.size()], ready_.back());
      const std::size_t node = ready_.back();
      ready_.pop_back();
      if (!operations_[node]->run(lock)) {
        waiting.push_back(node);
        continue;
      }
      ++done_;
      for (const std::size_t later : successors_[node]) {
        if (--missing_[later] == 0) ready_.push_back(later);
      }
    }
    ready_ = std::move(waiting);
    return done_ == operations_.size();
  }

 private:
  std::shared_ptr<const std::vector<GraphNode>> nodes_;
  std::vector<std::shared_ptr<Operation>> operations_;
  std::vector<std::vector<std::size_t>> successors_;
  std::vector<std::size_t> missing_;  // dependencies that have not run
  std::vector<std::size_t> ready_;
  std::size_t done_ = 0;
};

}  // namespace

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  return api([&](Lock&) {
    Stream* const stream = find_stream(handle);
    return stream == nullptr ? cudaErrorInvalidResourceHandle : begin_capture(*stream, mode);
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  return api([&](Lock&) {
    *graph = nullptr;
    Stream* const stream = find_stream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    std::vector<GraphNode> nodes;
    const cudaError_t error = end_capture(*stream, nodes);
    if (error != cudaSuccess) return error;
    *graph = new CUgraph_st{std::make_shared<const std::vector<GraphNode>>(std::move(nodes))};
    return cudaSuccess;
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  return api([&](Lock&) {
    const Stream* const stream = find_stream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    *status = !stream->capture           ? cudaStreamCaptureStatusNone
              : stream->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                         : cudaStreamCaptureStatusActive;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                 unsigned long long flags) {
  return api([&](Lock&) {
    if (graph == nullptr || flags != 0) return cudaErrorInvalidValue;
    if (const cudaError_t failure = injected_error("cudaGraphInstantiate")) return failure;
    *executable = new CUgraphExec_st{graph->nodes};
    return cudaSuccess;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t handle) {
  return api([&](Lock& lock) {
    Stream* const stream = find_stream(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (executable == nullptr) return cudaErrorInvalidValue;
    if (stream->capture) return invalidate(*stream->capture, cudaErrorStreamCaptureUnsupported);
    return enqueue(*stream, std::make_shared<GraphOperation>(executable->nodes), lock);
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  return api([&](Lock&) {
    delete executable;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return api([&](Lock&) {
    delete graph;
    return cudaSuccess;
  });
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, size_t* count) {
  return api([&](Lock&) {
    if (graph == nullptr) return cudaErrorInvalidValue;
    // Nodes have no properties here; any distinct handles do.
    if (nodes != nullptr) {
      for (size_t i = 0; i < *count; ++i) {
        nodes[i] = i < graph->nodes->size() ? reinterpret_cast<cudaGraphNode_t>(
                                                  const_cast<GraphNode*>(graph->nodes->data() + i))
                                            : nullptr;
      }
    }
    *count = graph->nodes->size();
    return cudaSuccess;
  });
}
