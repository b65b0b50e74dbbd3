// A SharedLoader whose other end is played by the test.
#include "stretto/data/share_wire.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "stretto/data/loader_testing.h"
#include "stretto/data/share.h"

namespace stretto::data {
namespace {

// One end by hand: what it says is there before it is asked for.
class ByHand {
 public:
  ByHand(const Dataset& dataset, const LoaderOptions& options) {
    int ends[2];
    STRETTO_CHECK(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "socketpair");
    wire_ = std::make_unique<Wire>(ends[0]);
    shared = std::make_unique<SharedLoader>(dataset, options, ends[1], "process 123");
  }

  // A batch of one picture, alone in its slot.
  static Reply batch(uint64_t slot) {
    return {.brings = kBringsSlot,
            .position = {.seed = 17, .place = 4},
            .slot = slot,
            .slot_bytes = 4096,
            .count = 1,
            .height = 2,
            .width = 2};
  }
  void say(const Reply& reply, bool with_memory, std::vector<std::byte> rows = {}) const {
    rows.resize(static_cast<size_t>(reply_rows(reply).bytes));
    const int file =
        with_memory ? ::memfd_create("stretto batch", MFD_CLOEXEC | MFD_ALLOW_SEALING) : -1;
    if (file >= 0) STRETTO_CHECK(::ftruncate(file, reply.slot_bytes) == 0, "ftruncate");
    if (file >= 0) STRETTO_CHECK(::fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK) == 0, "fcntl");
    STRETTO_CHECK(
        wire_->send(std::as_bytes(std::span(&reply, 1)), rows, std::span(&file, file >= 0 ? 1 : 0)),
        "send");
    if (file >= 0) ::close(file);
  }
  // How many batches the next request gives back.
  uint32_t given_back() const {
    Request request;
    read(std::as_writable_bytes(std::span(&request, 1)));
    std::vector<uint64_t> numbers(request.given_back);
    read(std::as_writable_bytes(std::span(numbers)));
    return request.given_back;
  }

  std::unique_ptr<SharedLoader> shared;

 private:
  void read(std::span<std::byte> bytes) const {
    while (!bytes.empty()) {
      bytes = bytes.subspan(static_cast<size_t>(wire_->receive(bytes)));
    }
  }
  std::unique_ptr<Wire> wire_;
};

TEST(Share, ABatchWithoutMemoryIsNotInTheState) {
  const TestPictures pictures(32);
  ByHand end(pictures.as_folder(), small_options());
  const Position before = end.shared->position();
  end.say(ByHand::batch(1), false);
  for (int i = 0; i < 2; ++i) {
    try {
      end.shared->next();
      FAIL();
    } catch (const CommError& e) {
      EXPECT_TRUE(says(e.what(), "too many open files")) << e.what();
    }
    EXPECT_EQ(end.shared->position().place, before.place);
  }
}

TEST(Share, BatchesGoBackInRequestsThatFindRoom) {
  const TestPictures pictures(32);
  ByHand end(pictures.as_folder(), small_options());
  std::vector<Batch> held;
  for (uint64_t slot = 1; slot <= 5000; ++slot) {
    end.say(ByHand::batch(slot), true);
    held.push_back(*end.shared->next());
    EXPECT_EQ(end.given_back(), 0u);
  }
  held.clear();
  uint32_t all = 0;
  for (uint64_t slot = 5001; slot <= 5003; ++slot) {
    end.say(ByHand::batch(slot), true);
    held.push_back(*end.shared->next());
    const uint32_t count = end.given_back();
    EXPECT_LE(count, 4096u);
    all += count;
  }
  EXPECT_EQ(all, 5000u);
}

TEST(Share, BatchesThatLieBesideTheirMemoryAreRefused) {
  const TestPictures pictures(32);
  LoaderOptions o = small_options();
  o.dtype = DType::kUInt8;
  const auto refused = [&](const Reply& reply, std::vector<std::byte> rows = {}) {
    ByHand end(pictures.as_folder(), o);
    end.say(reply, true, std::move(rows));
    try {
      end.shared->next();
    } catch (const CommError& e) {
      return std::string(e.what());
    }
    return std::string();
  };
  Reply reply = ByHand::batch(1);
  EXPECT_EQ(refused(reply), "");
  reply.masks_at = 4096 - 3;
  EXPECT_TRUE(says(refused(reply), "lies beside its memory"));
  reply.masks_at = 4096 - 4;
  EXPECT_EQ(refused(reply), "");
  reply.targets_at = 4096 - 8;
  reply.classes = 3;
  EXPECT_TRUE(says(refused(reply), "lies beside its memory"));
  reply.classes = 2;
  EXPECT_EQ(refused(reply), "");
  reply.height = 40;
  reply.width = 40;
  EXPECT_TRUE(says(refused(reply), "lies beside its memory"));
  reply = ByHand::batch(1);
  reply.boxes = 0;
  EXPECT_EQ(refused(reply), "");
  const ReplyRows at = reply_rows(reply);
  for (const int64_t start : {at.starts, at.starts + 8}) {
    std::vector<std::byte> rows(static_cast<size_t>(at.bytes));
    rows[static_cast<size_t>(start)] = std::byte{5};
    EXPECT_TRUE(says(refused(reply, rows), "boxes of no pictures"));
  }
}

}  // namespace
}  // namespace stretto::data
