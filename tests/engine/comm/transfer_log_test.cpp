// On a device whose queue runs only when it is waited for: what is queued stays under way.
#include "engine/comm/transfer_log.hpp"

#include <gtest/gtest.h>

#include "kernels/registry.hpp"

namespace atl {
namespace {

constexpr OperationLabel kForward{
    .operation = "halo exchange", .direction = "forward", .layer = 1, .epoch = 4};
constexpr OperationLabel kBackward{.operation = "halo exchange", .direction = "backward"};

class TransferLogTest : public testing::Test {
 protected:
  void TearDown() override { backend_->synchronize(*queue_); }

  void add(const OperationLabel& label, std::vector<int> peers, bool recorded) {
    log_.add(job_, label, std::move(peers), recorded);
  }

  std::shared_ptr<const RankGroup> job_ = RankGroup::whole_job(4);
  std::unique_ptr<Backend> backend_ = make_backend("cuda", {.threads = 1, .device = 0});
  std::unique_ptr<Queue> queue_ = backend_->make_queue();
  TransferLog log_{*backend_, *queue_};
};

TEST_F(TransferLogTest, NamesTheFirstThatHasNotEnded) {
  EXPECT_EQ(log_.last_ended(), -1);
  EXPECT_FALSE(log_.under_way());
  EXPECT_EQ(log_.oldest(), "the first transfer");
  add(kForward, {1, 2}, false);
  add(kBackward, {2}, false);
  EXPECT_TRUE(log_.under_way());
  EXPECT_EQ(log_.oldest(), "layer 1 forward halo exchange of epoch 4 with ranks 1 and 2");
  backend_->synchronize(*queue_);
  EXPECT_EQ(log_.last_ended(), 1);
  EXPECT_FALSE(log_.under_way());
  EXPECT_EQ(log_.oldest(), "what follows backward halo exchange with rank 2");
}

TEST_F(TransferLogTest, NamesTheGroup) {
  log_.add(std::make_shared<RankGroup>(RankGroup{"stage 1", {1, 3}}), kForward, {3}, false);
  EXPECT_EQ(log_.oldest(),
            "layer 1 forward halo exchange of epoch 4 in stage 1 (ranks 1 and 3) with rank 3");
}

TEST_F(TransferLogTest, NumbersComeRoundAgain) {
  for (int i = 0; i < 1000; ++i) {
    add(kForward, {1}, false);
    EXPECT_TRUE(log_.under_way()) << i;
    backend_->synchronize(*queue_);
    EXPECT_FALSE(log_.under_way()) << i;
  }
  add(kBackward, {2}, false);
  EXPECT_EQ(log_.oldest(), "backward halo exchange with rank 2");
}

TEST_F(TransferLogTest, RecordedTransfersKeepTheirNames) {
  const auto recording = backend_->record(*queue_, [&] {
    add(kForward, {1}, true);
    add(kBackward, {2}, true);
  });
  ASSERT_NE(recording, nullptr);
  EXPECT_TRUE(log_.under_way());  // may be replayed at any time
  EXPECT_EQ(log_.oldest(), "the first transfer");
  for (int i = 0; i < 1000; ++i) add(kBackward, {3}, false);
  backend_->synchronize(*queue_);
  EXPECT_EQ(log_.oldest(), "what follows backward halo exchange with rank 3");
  backend_->replay(*queue_, *recording);
  backend_->synchronize(*queue_);
  EXPECT_EQ(log_.oldest(), "what follows backward halo exchange with rank 2");
}

TEST_F(TransferLogTest, MoreRecordedTransfersThanNumbersDoNoHarm) {
  const auto recording = backend_->record(*queue_, [&] {
    for (int i = 0; i < 2000; ++i) add(kForward, {1}, true);
  });
  backend_->replay(*queue_, *recording);
  backend_->synchronize(*queue_);
  EXPECT_TRUE(log_.under_way());
  EXPECT_EQ(log_.oldest(), "what follows layer 1 forward halo exchange of epoch 4 with rank 1");
}

}  // namespace
}  // namespace atl
