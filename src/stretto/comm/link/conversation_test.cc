#include "stretto/comm/link/conversation.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

namespace stretto::comm {
namespace {

using State = Conversation::State;

struct Pair {
  Pair() {
    int fds[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds), 0);
    ours = Fd(fds[0]);
    theirs = Fd(fds[1]);
  }
  Fd ours, theirs;  // what the conversation has, what the test has
};

std::string take(const Fd& fd) {
  char bytes[1000];
  const ssize_t got = recv(fd.get(), bytes, sizeof bytes, MSG_DONTWAIT);
  return std::string(bytes, got > 0 ? static_cast<size_t>(got) : 0);
}

void give(const Fd& fd, const std::string& bytes) {
  EXPECT_EQ(send(fd.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
            static_cast<ssize_t>(bytes.size()));
}

bool anybody(const Hello&) { return true; }

Hello fresh() { return {.epoch = 1, .from = 1, .to = 0, .nonce = random_nonce()}; }

// The test carries the bytes between both sides, as a listener on the wire could.
struct Talk {
  Talk(std::string_view connector_secret, std::string_view acceptor_secret)
      : connector(Conversation::connector(std::move(a.ours), connector_secret, fresh())),
        acceptor(Conversation::acceptor(std::move(b.ours), acceptor_secret, anybody)) {}

  void run() {
    for (int i = 0; i < 4; ++i) {
      if (connected == State::kTalking) connected = connector.advance();
      const std::string said = take(a.theirs);
      recorded += said;
      if (!said.empty()) give(b.theirs, said);
      if (accepted == State::kTalking) accepted = acceptor.advance();
      const std::string answer = take(b.theirs);
      if (!answer.empty()) give(a.theirs, answer);
    }
  }

  Pair a, b;
  Conversation connector, acceptor;
  State connected = State::kTalking, accepted = State::kTalking;
  std::string recorded;  // what the connector said
};

TEST(Conversation, BothSidesOfOneJobAgree) {
  Talk talk("secret", "secret");
  talk.run();
  EXPECT_EQ(talk.connected, State::kDone);
  EXPECT_EQ(talk.accepted, State::kDone);
  EXPECT_EQ(talk.acceptor.hello().from, 1);
}

TEST(Conversation, AnotherSecretIsRefused) {
  Talk talk("secret", "secrets");
  talk.run();
  EXPECT_EQ(talk.connected, State::kFailed);
  EXPECT_NE(talk.accepted, State::kDone);
}

TEST(Conversation, AReplayIsRefused) {
  Talk talk("secret", "secret");
  talk.run();
  ASSERT_EQ(talk.accepted, State::kDone);
  Pair again;
  Conversation acceptor = Conversation::acceptor(std::move(again.ours), "secret", anybody);
  give(again.theirs, talk.recorded);
  EXPECT_EQ(acceptor.advance(), State::kFailed);
}

TEST(Conversation, UnwelcomeAndBrokenOffOnesFail) {
  Pair pair;
  Conversation acceptor =
      Conversation::acceptor(std::move(pair.ours), "secret", [](const Hello&) { return false; });
  const HelloBytes hello = encode_hello(fresh());
  give(pair.theirs, std::string(reinterpret_cast<const char*>(hello.data()), hello.size()));
  EXPECT_EQ(acceptor.advance(), State::kFailed);
  Pair broken;
  Conversation other = Conversation::acceptor(std::move(broken.ours), "secret", anybody);
  give(broken.theirs, "STRE");
  EXPECT_EQ(other.advance(), State::kTalking);
  broken.theirs = Fd();
  EXPECT_EQ(other.advance(), State::kFailed);
}

}  // namespace
}  // namespace stretto::comm
