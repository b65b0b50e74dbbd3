#include "stretto/comm/link/conversation.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

namespace stretto::comm {

Conversation::Conversation(Fd socket, std::string_view secret, Wait wait)
    : socket_(std::move(socket)), secret_(secret), wait_(wait) {}

Conversation Conversation::connector(Fd socket, std::string_view secret, const Hello& hello) {
  Conversation c(std::move(socket), secret, Wait::kConnect);
  c.hello_ = hello;
  c.hello_bytes_ = encode_hello(hello);
  return c;
}

Conversation Conversation::acceptor(Fd socket, std::string_view secret,
                                    std::function<bool(const Hello&)> welcome) {
  Conversation c(std::move(socket), secret, Wait::kHello);
  c.welcome_ = std::move(welcome);
  return c;
}

Conversation::State Conversation::fail(std::string reason) {
  reason_ = std::move(reason);
  return State::kFailed;
}

Conversation::State Conversation::fail(int error) {
  error_ = error;
  return fail(std::strerror(error));
}

// The messages of the handshake fit into any socket's buffer, so a short write means an error.
bool Conversation::say(std::span<const std::byte> bytes) {
  const ssize_t sent =
      ::send(socket_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  return sent == static_cast<ssize_t>(bytes.size());
}

size_t Conversation::awaited_bytes() const {
  switch (wait_) {
    case Wait::kHello:
      return kHelloBytes;
    case Wait::kChallenge:
      return kChallengeBytes;
    case Wait::kProof:
      return kProofBytes;
    default:
      return 1;
  }
}

Conversation::State Conversation::advance() {
  if (wait_ == Wait::kConnect) {
    int error = 0;
    socklen_t size = sizeof error;
    getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) return fail(error);
    sockaddr_storage other;
    socklen_t length = sizeof other;
    if (getpeername(socket_.get(), reinterpret_cast<sockaddr*>(&other), &length) != 0)
      return State::kTalking;  // not connected yet
    if (!say(hello_bytes_)) return fail("cannot send the handshake");
    wait_ = Wait::kChallenge;
  }
  while (true) {
    const size_t awaited = awaited_bytes();
    const ssize_t got =
        recv(socket_.get(), heard_.data() + heard_bytes_, awaited - heard_bytes_, MSG_DONTWAIT);
    if (got == 0)
      return fail(
          "the remote rank closed the connection during the handshake; do both ranks have the "
          "same STRETTO_SECRET and epoch?");
    if (got < 0) {
      if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return State::kTalking;
      return fail(errno);
    }
    heard_bytes_ += static_cast<size_t>(got);
    if (heard_bytes_ < awaited) continue;
    heard_bytes_ = 0;
    const State state = answer();
    if (state != State::kTalking) return state;
  }
}

Conversation::State Conversation::answer() {
  const std::span<const std::byte> heard(heard_);
  switch (wait_) {
    case Wait::kHello: {
      std::memcpy(hello_bytes_.data(), heard_.data(), kHelloBytes);
      const auto hello = parse_hello(hello_bytes_);
      if (!hello || !welcome_(*hello)) return fail("not a rank of this job, or not expected now");
      hello_ = *hello;
      nonce_ = random_nonce();
      const Mac mac = authenticate(secret_, Role::kAcceptor, hello_bytes_, nonce_);
      std::array<std::byte, kChallengeBytes> challenge;
      std::memcpy(challenge.data(), nonce_.data(), nonce_.size());
      std::memcpy(challenge.data() + nonce_.size(), mac.data(), mac.size());
      wait_ = Wait::kProof;
      return say(challenge) ? State::kTalking : fail("cannot send the handshake");
    }
    case Wait::kChallenge: {
      std::memcpy(nonce_.data(), heard_.data(), nonce_.size());
      const Mac expected = authenticate(secret_, Role::kAcceptor, hello_bytes_, nonce_);
      if (!equal(heard.subspan(sizeof(Nonce), sizeof(Mac)), expected))
        return fail("the remote rank has another secret; set the same STRETTO_SECRET on all ranks");
      wait_ = Wait::kWelcome;
      return say(authenticate(secret_, Role::kConnector, hello_bytes_, nonce_))
                 ? State::kTalking
                 : fail("cannot send the handshake");
    }
    case Wait::kProof:
      if (!equal(heard.first(sizeof(Mac)),
                 authenticate(secret_, Role::kConnector, hello_bytes_, nonce_)))
        return fail("the remote rank has another secret; set the same STRETTO_SECRET on all ranks");
      return say({&kWelcome, 1}) ? State::kDone : fail("cannot send the handshake");
    case Wait::kWelcome:
      return heard_[0] == kWelcome ? State::kDone : fail("the remote rank broke the handshake");
    case Wait::kConnect:
      break;
  }
  return fail("the handshake is out of order");
}

}  // namespace stretto::comm
