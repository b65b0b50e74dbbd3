// The handshake of one stream over a non-blocking socket, as handshake.h describes it.
#pragma once

#include <functional>
#include <string>

#include "stretto/comm/link/handshake.h"
#include "stretto/comm/system/fd.h"

namespace stretto::comm {

class Conversation {
 public:
  enum class State : uint8_t { kTalking, kDone, kFailed };

  // The connecting side, which sends first. The socket may still be connecting.
  static Conversation connector(Fd socket, std::string_view secret, const Hello& hello);
  // The accepting side. `welcome` decides whether the handshake goes on after a well-formed hello.
  static Conversation acceptor(Fd socket, std::string_view secret,
                               std::function<bool(const Hello&)> welcome);

  // Called when the socket is readable or writable. Reads only the bytes of the handshake; what
  // follows belongs to the stream.
  State advance();

  // For an acceptor: whether hello() is valid. It is proven only when the state is kDone.
  bool greeted() const { return wait_ != Wait::kHello; }
  const Hello& hello() const { return hello_; }
  const std::string& reason() const { return reason_; }  // why the state is kFailed
  int error() const { return error_; }                   // its errno; 0: it was not the system
  int descriptor() const { return socket_.get(); }
  // Valid when the state is kDone.
  Proof proof() const { return {.secret = secret_, .hello = hello_bytes_, .nonce = nonce_}; }
  Fd take_socket() { return std::move(socket_); }

 private:
  enum class Wait : uint8_t { kConnect, kHello, kChallenge, kProof, kWelcome };
  Conversation(Fd socket, std::string_view secret, Wait wait);
  State fail(std::string reason);
  State fail(int error);
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
  int error_ = 0;
};

}  // namespace stretto::comm
