// What libibverbs.so.1 takes and returns, as memory: the parts of its binary interface (symbol
// version IBVERBS_1.1) that an RDMA rail needs. Written out here so that neither the build nor the
// package needs its headers; verbs_test.cc compares every size, offset and number with those of
// <infiniband/verbs.h> where that is installed. 64-bit Linux.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace stretto::comm::verbs {

// Rails only pass pointers to these two on, so their members are not needed.
struct Device;
struct Pd;

struct Cq;
struct Qp;
struct SendRequest;
struct ReceiveRequest;
struct Completion;

// An opened device. What the library's inline functions call is in here.
struct Context {
  Device* device;
  void* other_calls[11];
  int (*poll_cq)(Cq*, int, Completion*);
  int (*req_notify_cq)(Cq*, int);
  void* more_calls[12];
  int (*post_send)(Qp*, SendRequest*, SendRequest**);
  int (*post_recv)(Qp*, ReceiveRequest*, ReceiveRequest**);
  void* last_calls[5];
};

// The beginnings of objects that the library makes.
struct Mr {
  Context* context;
  Pd* pd;
  void* address;
  size_t length;
  uint32_t handle, local_key, remote_key;
};
struct Channel {  // of completion events
  Context* context;
  int fd;
};
struct Cq {
  Context* context;
};
struct Qp {
  Context* context;
  void* user;
  Pd* pd;
  Cq *send_cq, *recv_cq;
  void* srq;
  uint32_t handle, number;
};

using Gid = std::array<uint8_t, 16>;

inline constexpr uint32_t kPortActive = 4;
inline constexpr uint8_t kLinkInfiniband = 1, kLinkEthernet = 2;

struct PortAttr {
  uint32_t state, max_mtu, active_mtu;  // mtu: 1 for 256 bytes to 5 for 4096
  int32_t gid_count;
  uint32_t capabilities, max_message_bytes, bad_pkeys, bad_qkeys;
  uint16_t pkey_count, lid, manager_lid;
  uint8_t lid_mask, virtual_lanes, manager_level, subnet_timeout, init_reply;
  uint8_t width, speed, physical_state, link_layer, flags;
  uint16_t more_capabilities;
};

struct QueueSizes {
  uint32_t send_requests, receive_requests, send_pieces, receive_pieces, inline_bytes;
};

inline constexpr uint32_t kReliableConnected = 2;  // kind of a queue pair

struct QpInit {
  void* user;
  Cq *send_cq, *recv_cq;
  void* srq;
  QueueSizes sizes;
  uint32_t kind;
  int32_t signal_all;  // a completion for every send, wanted or not
};

struct Path {
  Gid gid;
  uint32_t flow_label;
  uint8_t gid_index, hop_limit, traffic_class;
  alignas(8) uint16_t lid;
  uint8_t service_level, source_bits, rate, has_gid, port;
};

// States of a queue pair.
inline constexpr uint32_t kInit = 1, kReadyToReceive = 2, kReadyToSend = 3, kError = 6;

struct QpAttr {
  uint32_t state, current_state, mtu, migration, qkey;
  uint32_t receive_psn, send_psn, remote_qp, access;
  QueueSizes sizes;
  alignas(8) Path path;
  Path other_path;
  uint16_t pkey_index, other_pkey_index;
  uint8_t drain_notify, draining, max_reads, max_remote_reads, min_rnr_timer, port;
  uint8_t timeout, retries, rnr_retries, other_port, other_timeout;
  uint32_t rate_limit;
};

// Which members of QpAttr modify_qp shall look at.
inline constexpr int kSetState = 1 << 0, kSetAccess = 1 << 3, kSetPkeyIndex = 1 << 4,
                     kSetPort = 1 << 5, kSetPath = 1 << 7, kSetMtu = 1 << 8, kSetTimeout = 1 << 9,
                     kSetRetries = 1 << 10, kSetRnrRetries = 1 << 11, kSetReceivePsn = 1 << 12,
                     kSetReads = 1 << 13, kSetMinRnrTimer = 1 << 15, kSetSendPsn = 1 << 16,
                     kSetRemoteReads = 1 << 17, kSetRemoteQp = 1 << 20;

struct Piece {  // of registered memory
  uint64_t address;
  uint32_t length, local_key;
};

inline constexpr uint32_t kOpSend = 2;
inline constexpr uint32_t kSignalled = 1 << 1;

struct SendRequest {
  uint64_t id;
  SendRequest* next;
  Piece* pieces;
  int32_t count;
  uint32_t op, flags, immediate;
  uint64_t of_other_ops[11];
};

struct ReceiveRequest {
  uint64_t id;
  ReceiveRequest* next;
  Piece* pieces;
  int32_t count;
};

// Statuses of a completion: those that this code has something to say about.
inline constexpr uint32_t kSuccess = 0, kLocalLengthError = 1, kLocalProtectionError = 4,
                          kFlushed = 5, kRemoteInvalidRequest = 9, kRetriesExceeded = 12,
                          kRnrRetriesExceeded = 13, kGeneralError = 21;
inline constexpr uint32_t kReceived = 1 << 7;  // Completion::op of a receive

struct Completion {
  uint64_t id;
  uint32_t status, op, vendor_error, byte_count, immediate, qp, source_qp, flags;
  uint16_t pkey_index, source_lid;
  uint8_t service_level, path_bits;
};

inline constexpr int kLocalWrite = 1;  // access to registered memory

static_assert(sizeof(void*) != 8 ||
                  (offsetof(Context, poll_cq) == 96 && offsetof(Context, post_send) == 208 &&
                   offsetof(Mr, local_key) == 36 && offsetof(Channel, fd) == 8 &&
                   offsetof(Qp, number) == 52 && sizeof(PortAttr) == 52 && sizeof(QpInit) == 64 &&
                   sizeof(Path) == 32 && sizeof(QpAttr) == 144 && sizeof(SendRequest) == 128 &&
                   sizeof(ReceiveRequest) == 32 && sizeof(Completion) == 48),
              "not the layout that libibverbs.so.1 has on 64-bit Linux");

}  // namespace stretto::comm::verbs
