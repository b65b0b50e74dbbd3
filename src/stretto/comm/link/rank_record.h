// What a rank publishes about itself in the store.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stretto/comm/link/addresses.h"
#include "stretto/comm/link/rdma_port.h"

namespace stretto::comm {

struct RankRecord {
  std::vector<Address> addresses;
  int port = 0;
  bool listens_everywhere = true;  // also at the loopback device
  std::string host, rack, machine, local_name;
  std::vector<std::pair<std::string, std::string>> agreement;  // names and values
  RdmaRails rdma;
};

std::string encode_record(const RankRecord& record);

// Parses any bytes, and takes no more memory than a small multiple of kMaxRecord. Empty, with a
// reason, unless encode_record() could have made them.
std::optional<RankRecord> parse_record(std::string_view text, std::string* reason);

inline constexpr size_t kMaxRecord = 64 << 10;  // bytes

}  // namespace stretto::comm
