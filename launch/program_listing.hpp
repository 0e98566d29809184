// The program of a model with what each operation takes on one rank, as text and as JSON.
#pragma once

#include <string>
#include <vector>

#include "base/json.hpp"
#include "engine/models/model.hpp"
#include "engine/program/work.hpp"

namespace atl {

class ProgramListing {
 public:
  // One pass of the model on a rank of this shape. bits: per value of quantized messages, by layer;
  // none: all messages are exact.
  ProgramListing(const ModelConfig& model, Pass pass, const RankShape& shape,
                 std::vector<int> bits);

  std::string to_text() const;
  // Exact counts: flops, bytes, and elements of parameters.
  Json to_json() const;

 private:
  // Messages that an operation waits for.
  struct Messages {
    std::int64_t columns = 0;  // of each halo row; 0: none
    std::int64_t rows = 0;     // received
    Direction direction = Direction::kForward;
    int bits = 0;                // per value; 0: exact, as stored
    std::int64_t row_bytes = 0;  // of one message
  };
  Messages messages_of(Value value) const;
  std::int64_t rows_of(const Operation& op) const;
  std::int64_t place_bytes(Value value) const;
  std::string figures(Value value) const;
  Json operation_json(Value value, const std::string& scope) const;
  // Columns of all messages of an epoch, which kept aggregates have none of.
  std::int64_t columns_per_halo_row() const;
  std::int64_t validation_loss_bytes() const;
  std::int64_t bytes_per_halo_row() const;
  std::int64_t bytes(std::int64_t elements) const { return elements * bytes_of(dtype_); }

  DType dtype_;
  RankShape shape_;
  std::vector<int> bits_;
  Program program_;
  Schedule schedule_;
  Layout layout_;
  std::int64_t apart_elements_ = 0;  // of the block if no two values shared a place
  std::vector<SpanWork> work_;       // by value
  ParameterSizes parameters_;
};

}  // namespace atl
