// A network card for tests of what a link writes: the test says how much it takes, and what it
// still holds.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "stretto/comm/link/pipe.h"

namespace stretto::comm {

struct Card {
  int64_t written = 0, held = 0;
  int64_t room = int64_t{1} << 40;
  bool takes_all = false;       // nothing of what was written waits
  std::vector<int64_t> writes;  // the bytes of each
};

class CardPipe : public Pipe {
 public:
  explicit CardPipe(Card* card) : card_(card) {}
  int64_t write(std::span<const iovec> parts) override {
    int64_t bytes = 0;
    for (const iovec& part : parts) bytes += static_cast<int64_t>(part.iov_len);
    bytes = std::min(bytes, card_->room);
    card_->written += bytes;
    card_->held += bytes;
    card_->room -= bytes;
    if (bytes > 0) card_->writes.push_back(bytes);
    return bytes;
  }
  int64_t read(std::span<const iovec>) override { return kWouldBlock; }
  std::vector<int> descriptors() const override { return {}; }
  bool prepare_to_sleep() override { return false; }
  int64_t held_bytes() const override { return card_->held; }
  bool network_took_all() const override { return card_->takes_all; }
  const std::string& name() const override { return name_; }
  const std::string& reason() const override { return name_; }

 private:
  Card* const card_;
  const std::string name_ = "card";
};

}  // namespace stretto::comm
