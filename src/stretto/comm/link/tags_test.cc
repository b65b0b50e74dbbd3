// Links whose frames carry tags, and somebody between them who changes bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "stretto/comm/link/link_script.h"

namespace stretto::comm {
namespace {

constexpr uint32_t kEpoch = 7;
constexpr std::string_view kWrongTag = "received a frame with a wrong tag";

// The bytes of one direction of a stream; `change` may alter what was written.
struct Cable {
  std::string bytes;
  bool closed = false;
  std::function<void(std::string&)> change = [](std::string&) {};
};

class CablePipe : public Pipe {
 public:
  CablePipe(Cable* out, Cable* in) : out_(out), in_(in) {}
  ~CablePipe() override { out_->closed = in_->closed = true; }
  int64_t write(std::span<const iovec> parts) override {
    if (out_->closed) return kBroken;
    std::string written;
    for (const iovec& part : parts)
      written.append(static_cast<const char*>(part.iov_base), part.iov_len);
    const auto taken = static_cast<int64_t>(written.size());
    out_->change(written);
    out_->bytes += written;
    return taken;
  }
  // At most 1000 bytes at once, so that headers, payloads and tags come in parts.
  int64_t read(std::span<const iovec> parts) override {
    const size_t some = std::min<size_t>({parts[0].iov_len, in_->bytes.size(), 1000});
    std::memcpy(parts[0].iov_base, in_->bytes.data(), some);
    in_->bytes.erase(0, some);
    return some == 0 && in_->closed ? kBroken : static_cast<int64_t>(some);
  }
  std::vector<int> descriptors() const override { return {}; }
  bool prepare_to_sleep() override { return !in_->bytes.empty() || in_->closed; }
  const std::string& name() const override { return name_; }
  const std::string& reason() const override { return name_; }

 private:
  Cable *const out_, *const in_;
  const std::string name_ = "cable";
};

struct Tags : ::testing::Test {
  Tags() {
    for (int s = 0; s < kStreams; ++s) {
      Proof proof{.secret = "secret"};
      proof.nonce[0] = static_cast<std::byte>(s);
      for (const Role role : {Role::kConnector, Role::kAcceptor}) {
        const int side = role == Role::kConnector ? 0 : 1;
        auto pipe = std::make_unique<CablePipe>(&cables[side][s], &cables[1 - side][s]);
        pipe->keys = frame_keys(proof, role);
        links[side].attach(s, kStreams, std::move(pipe));
      }
    }
  }

  // Sends a message of this length from side 0 to side 1; how many bytes of it are right at the
  // end, -1: it did not come.
  int64_t send(size_t size) {
    const std::string data(size, 'x');
    std::string got(size, ' ');
    const MessageKey key{.sequence = next++};
    links[1].expect(key, got.data(), size, 0, {&got, 0});
    links[0].send({.key = key, .data = data.data(), .bytes = size});
    bool done = false;
    for (int i = 0; i < 20'000 && !done; ++i) {
      for (Link& link : links) {
        link.flush();
        if (link.look(false)) link.run_ready();
      }
      for (const Ticket& ticket : std::exchange(events[1], {}).done) done |= ticket.owner == &got;
    }
    if (!done) return -1;
    return std::count(got.begin(), got.end(), 'x');
  }

  // Changes a bit of the byte at `place` of what stream 0 brings to side 1 from now on.
  void harm(size_t place) {
    cables[0][0].change = [place, seen = size_t{0}](std::string& written) mutable {
      if (place >= seen && place < seen + written.size()) written[place - seen] ^= 4;
      seen += written.size();
    };
  }

  void expect_caught(const char* what) {
    EXPECT_FALSE(links[1].streams()[0].alive) << what;
    EXPECT_EQ(links[1].streams()[0].reason.substr(0, kWrongTag.size()), kWrongTag) << what;
    EXPECT_TRUE(links[1].streams()[1].alive) << what;
  }

  Cable cables[2][kStreams];  // by the side that writes
  Events events[2];
  Link links[2]{Link({.rank = 1, .epoch = kEpoch}, &events[0]),
                Link({.rank = 0, .epoch = kEpoch}, &events[1])};
  uint64_t next = 1;
};

TEST_F(Tags, MessagesOfAllLengthsArrive) {
  for (const int64_t size : {0, 1, 1000, 4095, 4096, 4097, 10'000, 400'000, 3'000'000})
    EXPECT_EQ(send(static_cast<size_t>(size)), size);
  for (const Link& link : links) {
    for (const auto& stream : link.streams()) EXPECT_TRUE(stream.alive) << stream.reason;
  }
}

// Side 1 closes the stream, and the chunk is sent again over the other.
TEST_F(Tags, AChangedPayloadIsSentAgainOverAnotherStream) {
  harm(kFrameBytes + kTagBytes + 5000);
  EXPECT_EQ(send(100'000), 100'000);
  expect_caught("large");
}

TEST_F(Tags, AChangedPayloadOfASmallFrameIsSentAgain) {
  harm(kFrameBytes + 50);
  EXPECT_EQ(send(100), 100);
  expect_caught("small");
}

TEST_F(Tags, AChangedTagClosesTheStream) {
  harm(kFrameBytes + kTagBytes + 100'000 + 3);
  EXPECT_EQ(send(100'000), 100'000);
  expect_caught("tag");
}

// A header with a correct checksum is not believed: this one acknowledges what was never received,
// and would end the sending of chunks that are lost.
TEST_F(Tags, AnAcknowledgementOfSomebodyElseIsNotBelieved) {
  links[0].send({.key = {.sequence = next++}, .data = "x", .bytes = 1});
  links[0].flush();
  ASSERT_FALSE(links[0].idle());
  const FrameBytes ack = encode_frame({.type = FrameType::kAck, .epoch = kEpoch, .received = 1});
  cables[1][0].bytes.append(reinterpret_cast<const char*>(ack.data()), ack.size());
  cables[1][0].bytes.append(kTagBytes, '\0');
  links[0].on_readable(0, false);
  EXPECT_FALSE(links[0].streams()[0].alive);
  EXPECT_EQ(links[0].streams()[0].reason.substr(0, kWrongTag.size()), kWrongTag);
  EXPECT_FALSE(links[0].idle());
}

TEST_F(Tags, AFrameThatComesTwiceIsNotBelieved) {
  cables[0][0].change = [](std::string& written) { written += written; };
  EXPECT_EQ(send(100), 100);
  for (int i = 0; i < 10; ++i) {
    if (links[1].look(false)) links[1].run_ready();
  }
  expect_caught("repeated");
}

}  // namespace
}  // namespace stretto::comm
