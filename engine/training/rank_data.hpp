// One rank's shard in the memory of its backend: what training reads and never writes.
#pragma once

#include <memory>
#include <optional>

#include "datasets/shard.hpp"
#include "engine/comm/transport.hpp"
#include "engine/exchange/part_group.hpp"
#include "engine/program/loss.hpp"
#include "engine/training/block_dealing.hpp"
#include "engine/training/label_spread.hpp"
#include "engine/training/link_share.hpp"
#include "engine/training/loss_options.hpp"

namespace atl {

class RankData {
 public:
  // The shard must outlive it, and gives back its features where they are copied; it is of a
  // dataset that Dataset::require_trainable (to predict: require_predictable) has passed.
  // Collective: counts the labelled nodes of all ranks. dtype: of the features here, f32 or bf16.
  // `model_outputs` > 0: only to be predicted, by a model with so many logits per node; throws
  // Error{kInput} if the labels need another number. group: the ranks that hold the part together,
  // each of which has the data of its share of rows; null: this rank has it alone. has_part: the
  // data of the whole part is kept, too, for of_part(); needs a group.
  RankData(Backend& backend, Queue& queue, Transport& transport, Shard& shard,
           std::int64_t split_index, DType dtype, const LossOptions& loss = {},
           std::int64_t model_outputs = 0, const PartGroup* group = nullptr, bool has_part = false);

  // Whether it is only to be predicted.
  bool is_predicted() const { return is_predicted_; }
  // The data of all rows of the part, as if this rank had it alone.
  const RankData& of_part() const { return part_ != nullptr ? *part_ : *this; }

  // The part, all of it.
  const LocalGraphView& graph() const { return graph_; }
  // Inner nodes of this rank, whose data follows: all of the part, or its share.
  std::int64_t rows() const { return std::ssize(host_ids_); }
  std::span<const GlobalId> host_ids() const { return host_ids_; }
  const DatasetInfo& dataset() const { return dataset_; }
  ConstMatrixView features() const { return features_; }
  // The same where they are read in place from a mapped file; else nothing.
  std::span<const std::byte> mapped_features() const { return mapped_features_; }
  std::span<const GlobalId> inner_ids() const { return inner_ids_.span(); }
  // Those of all nodes of the part.
  std::span<const GlobalId> part_ids() const {
    return group_ == nullptr ? inner_ids() : part_ids_.span();
  }
  std::span<const std::uint8_t> split() const { return split_.span(); }
  // The same on the host, and labels as the task has them: classes, several, or numbers.
  std::span<const std::uint8_t> host_split() const { return host_split_; }
  std::span<const std::int32_t> host_labels() const { return host_labels_; }
  std::span<const std::uint8_t> host_multi_labels() const { return host_multi_labels_; }
  std::span<const float> host_numbers() const { return host_numbers_; }
  const LabelSpread& label_spread() const { return label_spread_; }  // regression
  // Nodes of all ranks by class; with several labels per node those without and with each label, in
  // turn. Not of regression.
  std::span<const std::int64_t> label_counts(Split split) const {
    const std::size_t each = label_counts_.size() / 3;
    return std::span(label_counts_).subspan(static_cast<std::size_t>(split) * each, each);
  }
  // Labels of all ranks: one per node, or (node, output) pairs.
  std::int64_t labelled_in(Split split) const;
  // The divisor of a mean of losses over a split: these labels, or their weights.
  double loss_total(Split split) const;
  // The weights of --class-weights, empty without it.
  std::span<const float> host_class_weights() const { return host_class_weights_; }
  const LossTargets& targets() const { return targets_; }
  // The same with labels on the host; rows and weights stay where they are.
  LossTargets host_targets() const;
  std::int64_t outputs() const { return outputs_; }  // logits per node; 0: of links

  // The bytes of what training can't do without: features, and the graph in both directions. In a
  // group, also of copied features of the part.
  std::int64_t bytes() const;

  // The links of task link-prediction, once they were given; else null.
  const LinkShare* links() const { return links_ ? &*links_ : nullptr; }
  void set_links(LinkShare links) { links_ = std::move(links); }

  // How nodes are dealt to blocks, once it was given; else null: training is on the whole graph.
  const BlockDealing* dealing() const { return dealing_ ? &*dealing_ : nullptr; }
  void set_dealing(BlockDealing dealing) { dealing_ = std::move(dealing); }

  // Weights of the inner nodes in the loss of training, once they were given; else empty: all 1.
  const std::vector<float>& node_weights() const { return node_weights_; }
  void set_node_weights(std::vector<float> weights) { node_weights_ = std::move(weights); }

  // Rows of this rank in a split that have a label.
  std::vector<LocalId> labelled_rows(Split split) const;

  // Another split of this rank's rows from now on: who is trained on, and who is measured. Ends
  // targets(), and what was made of it. of_part() keeps its own. Collective.
  void set_split(Backend& backend, Queue& queue, Transport& transport,
                 std::vector<std::uint8_t> split);
  // The same for of_part(), which must be another object.
  void set_split_of_part(Backend& backend, Queue& queue, std::vector<std::uint8_t> split) {
    part_->set_split(backend, queue, group_->slice(), std::move(split));
  }

  // The share of an inner node in loss_total(): its labels, or their weights.
  double loss_weight(LocalId row) const;

  bool labelled() const { return dataset_.classes > 0 && dataset_.splits > 0; }

 private:
  void take_labels(Backend& backend, Queue& queue, const Shard& shard);
  // Makes all that follows from labels and host_split_. Collective.
  void take_split(Backend& backend, Queue& queue, Transport& transport);
  void count_labels(Transport& transport);
  void copy_features(Backend& backend, Queue& queue, std::span<const float> of_part);

  // The entries of this rank's rows among all, so many for each row of the part; `copy` keeps them
  // where they are not all.
  template <typename T>
  std::span<const T> own_rows(std::span<const T> all, std::int64_t entries,
                              std::vector<T>& copy) const {
    if (group_ == nullptr) return all;
    copy = group_->of_own_rows(all, graph_.central, entries);
    return copy;
  }

  const DatasetInfo& dataset_;
  bool is_predicted_;
  LocalGraphView graph_;
  const PartGroup* group_;
  LossOptions loss_;  // of predictions: without weights of classes
  ConstMatrixView features_;
  std::span<const std::byte> mapped_features_;
  Tensor feature_memory_;  // where the shard's features can't be read in place
  std::span<const GlobalId> host_ids_;
  ConstDeviceArray<GlobalId> inner_ids_;
  ConstDeviceArray<GlobalId> part_ids_;  // in a group
  ConstDeviceArray<std::uint8_t> split_;
  std::span<const std::uint8_t> host_split_;
  std::span<const std::int32_t> host_labels_;
  std::span<const std::uint8_t> host_multi_labels_;
  std::vector<std::int64_t> label_counts_;
  ConstDeviceArray<std::int32_t> labels_;
  ConstDeviceArray<std::uint8_t> multi_labels_;
  std::vector<std::uint8_t> binary_targets_;  // on the host, of a binary task
  std::span<const float> host_numbers_;
  LabelSpread label_spread_;
  ConstDeviceArray<float> numbers_;
  std::vector<float> host_class_weights_;
  ConstDeviceArray<float> class_weights_;
  ConstDeviceArray<LocalId> training_rows_;
  LossTargets targets_;
  std::int64_t outputs_ = 0;
  std::optional<LinkShare> links_;
  std::optional<BlockDealing> dealing_;
  std::vector<float> node_weights_;
  std::unique_ptr<RankData> part_;  // null: of this rank's rows, or not needed
  // Storage behind the spans above in a group; the split's also where it was set.
  struct Share {
    std::vector<GlobalId> ids;
    std::vector<std::uint8_t> split;
    std::vector<std::int32_t> labels;
    std::vector<std::uint8_t> multi_labels;
    std::vector<float> numbers;
  };
  Share share_;
};

}  // namespace atl
