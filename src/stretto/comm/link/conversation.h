// The handshake of one stream over a socket that does not block (see handshake.h).
#pragma once

#include <functional>
#include <string>

#include "stretto/comm/link/handshake.h"
#include "stretto/comm/link/pipe.h"

namespace stretto::comm {

class Conversation {
 public:
  enum class State : uint8_t { kTalking, kDone, kFailed };

  // Speaks first; the socket may still be connecting.
  static Conversation connector(Fd socket, std::string_view secret, const Hello& hello);
  // Answers a stranger. `welcome` decides whether a well-formed hello may go on.
  static Conversation acceptor(Fd socket, std::string_view secret,
                               std::function<bool(const Hello&)> welcome);

  // To be called when the socket is readable or writable. Reads not a byte more than the handshake,
  // so what follows belongs to the stream.
  State advance();

  const Hello& hello() const { return hello_; }          // valid for an acceptor when done
  const std::string& reason() const { return reason_; }  // of kFailed
  int descriptor() const { return socket_.get(); }
  // Valid when done.
  Proof proof() const { return {.secret = secret_, .hello = hello_bytes_, .nonce = nonce_}; }
  Fd take_socket() { return std::move(socket_); }

 private:
  enum class Wait : uint8_t { kConnect, kHello, kChallenge, kProof, kWelcome };
  Conversation(Fd socket, std::string_view secret, Wait wait);
  State fail(std::string reason);
  State answer();
  bool say(std::span<const std::byte> bytes);
  size_t awaited_bytes() const;

  Fd socket_;
  std::string secret_;
  Wait wait_;
  Hello hello_;
  HelloBytes hello_bytes_{};
  Nonce nonce_{};  // the acceptor's
  std::function<bool(const Hello&)> welcome_;
  std::array<std::byte, 64> heard_{};
  size_t heard_bytes_ = 0;
  std::string reason_;
};

}  // namespace stretto::comm
