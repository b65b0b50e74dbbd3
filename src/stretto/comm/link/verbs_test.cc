#include "stretto/comm/link/verbs.h"

#include <gtest/gtest.h>

#if __has_include(<infiniband/verbs.h>)
#include <infiniband/verbs.h>
#endif

namespace stretto::comm::verbs {
namespace {

// What the library's inline functions do: find the call in the device that the object belongs to.
TEST(Verbs, CallsOfADeviceGoThroughIt) {
  Context context{};
  static int called;
  called = 0;
  context.poll_cq = [](Cq*, int most, Completion*) { return called += 1, most; };
  context.req_notify_cq = [](Cq*, int) { return called += 10, 0; };
  context.post_send = [](Qp*, SendRequest*, SendRequest**) { return called += 100, 0; };
  context.post_recv = [](Qp*, ReceiveRequest*, ReceiveRequest**) { return called += 1000, 12; };
  Cq cq{&context};
  Qp qp{};
  qp.context = &context;
  Provider provider;
  set_device_calls(&provider);
  EXPECT_EQ(provider.poll_cq(&cq, 7, nullptr), 7);
  EXPECT_EQ(provider.req_notify_cq(&cq, 0), 0);
  EXPECT_EQ(provider.post_send(&qp, nullptr, nullptr), 0);
  EXPECT_EQ(provider.post_recv(&qp, nullptr, nullptr), 12);
  EXPECT_EQ(called, 1111);
}

TEST(Verbs, TheRealLibraryLoadsOrSaysWhyNot) {
  std::string reason;
  const auto provider = load_provider(&reason);
  if (!provider) {
    EXPECT_NE(reason.find("libibverbs.so.1"), reason.npos) << reason;
    GTEST_SKIP() << reason;
  }
  EXPECT_EQ(reason, "");
  EXPECT_STREQ(provider->wc_status_str(kRetriesExceeded), "transport retry counter exceeded");
  int count = -1;
  Device** devices = provider->get_device_list(&count);
  if (!devices) GTEST_SKIP() << "no RDMA in this kernel";
  EXPECT_GE(count, 0);
  provider->free_device_list(devices);
}

#if __has_include(<infiniband/verbs.h>)

#define SAME_PLACE(ours, member, theirs, other)               \
  EXPECT_EQ(offsetof(ours, member), offsetof(theirs, other)); \
  EXPECT_EQ(sizeof(std::declval<ours>().member), sizeof(std::declval<theirs>().other))

TEST(Verbs, RequestsAndCompletionsAreLaidOutAsInTheHeader) {
  EXPECT_EQ(sizeof(Piece), sizeof(ibv_sge));
  SAME_PLACE(Piece, address, ibv_sge, addr);
  SAME_PLACE(Piece, length, ibv_sge, length);
  SAME_PLACE(Piece, local_key, ibv_sge, lkey);
  EXPECT_EQ(sizeof(SendRequest), sizeof(ibv_send_wr));
  SAME_PLACE(SendRequest, id, ibv_send_wr, wr_id);
  SAME_PLACE(SendRequest, next, ibv_send_wr, next);
  SAME_PLACE(SendRequest, pieces, ibv_send_wr, sg_list);
  SAME_PLACE(SendRequest, count, ibv_send_wr, num_sge);
  SAME_PLACE(SendRequest, op, ibv_send_wr, opcode);
  SAME_PLACE(SendRequest, flags, ibv_send_wr, send_flags);
  SAME_PLACE(SendRequest, immediate, ibv_send_wr, imm_data);
  EXPECT_EQ(sizeof(ReceiveRequest), sizeof(ibv_recv_wr));
  SAME_PLACE(ReceiveRequest, id, ibv_recv_wr, wr_id);
  SAME_PLACE(ReceiveRequest, next, ibv_recv_wr, next);
  SAME_PLACE(ReceiveRequest, pieces, ibv_recv_wr, sg_list);
  SAME_PLACE(ReceiveRequest, count, ibv_recv_wr, num_sge);
  EXPECT_EQ(sizeof(Completion), sizeof(ibv_wc));
  SAME_PLACE(Completion, id, ibv_wc, wr_id);
  SAME_PLACE(Completion, status, ibv_wc, status);
  SAME_PLACE(Completion, op, ibv_wc, opcode);
  SAME_PLACE(Completion, byte_count, ibv_wc, byte_len);
  SAME_PLACE(Completion, immediate, ibv_wc, imm_data);
  SAME_PLACE(Completion, qp, ibv_wc, qp_num);
}

TEST(Verbs, ObjectsAreLaidOutAsInTheHeader) {
  const auto call = [](size_t place) { return offsetof(ibv_context, ops) + place; };
  EXPECT_EQ(offsetof(Context, poll_cq), call(offsetof(ibv_context_ops, poll_cq)));
  EXPECT_EQ(offsetof(Context, req_notify_cq), call(offsetof(ibv_context_ops, req_notify_cq)));
  EXPECT_EQ(offsetof(Context, post_send), call(offsetof(ibv_context_ops, post_send)));
  EXPECT_EQ(offsetof(Context, post_recv), call(offsetof(ibv_context_ops, post_recv)));
  EXPECT_EQ(sizeof(Context), offsetof(ibv_context, cmd_fd));
  SAME_PLACE(Mr, local_key, ibv_mr, lkey);
  SAME_PLACE(Mr, remote_key, ibv_mr, rkey);
  SAME_PLACE(Channel, fd, ibv_comp_channel, fd);
  SAME_PLACE(Cq, context, ibv_cq, context);
  SAME_PLACE(Qp, context, ibv_qp, context);
  SAME_PLACE(Qp, number, ibv_qp, qp_num);
  EXPECT_EQ(sizeof(Gid), sizeof(ibv_gid));
}

TEST(Verbs, AttributesAreLaidOutAsInTheHeader) {
  EXPECT_EQ(sizeof(PortAttr), sizeof(ibv_port_attr));
  SAME_PLACE(PortAttr, state, ibv_port_attr, state);
  SAME_PLACE(PortAttr, active_mtu, ibv_port_attr, active_mtu);
  SAME_PLACE(PortAttr, gid_count, ibv_port_attr, gid_tbl_len);
  SAME_PLACE(PortAttr, lid, ibv_port_attr, lid);
  SAME_PLACE(PortAttr, link_layer, ibv_port_attr, link_layer);
  EXPECT_EQ(sizeof(QpInit), sizeof(ibv_qp_init_attr));
  SAME_PLACE(QpInit, send_cq, ibv_qp_init_attr, send_cq);
  SAME_PLACE(QpInit, recv_cq, ibv_qp_init_attr, recv_cq);
  SAME_PLACE(QpInit, sizes, ibv_qp_init_attr, cap);
  SAME_PLACE(QpInit, kind, ibv_qp_init_attr, qp_type);
  SAME_PLACE(QpInit, signal_all, ibv_qp_init_attr, sq_sig_all);
  SAME_PLACE(QueueSizes, send_requests, ibv_qp_cap, max_send_wr);
  SAME_PLACE(QueueSizes, receive_requests, ibv_qp_cap, max_recv_wr);
  SAME_PLACE(QueueSizes, send_pieces, ibv_qp_cap, max_send_sge);
  SAME_PLACE(QueueSizes, receive_pieces, ibv_qp_cap, max_recv_sge);
  EXPECT_EQ(sizeof(Path), sizeof(ibv_ah_attr));
  SAME_PLACE(Path, gid, ibv_ah_attr, grh.dgid);
  SAME_PLACE(Path, gid_index, ibv_ah_attr, grh.sgid_index);
  SAME_PLACE(Path, hop_limit, ibv_ah_attr, grh.hop_limit);
  SAME_PLACE(Path, lid, ibv_ah_attr, dlid);
  SAME_PLACE(Path, has_gid, ibv_ah_attr, is_global);
  SAME_PLACE(Path, port, ibv_ah_attr, port_num);
  EXPECT_EQ(sizeof(QpAttr), sizeof(ibv_qp_attr));
  SAME_PLACE(QpAttr, state, ibv_qp_attr, qp_state);
  SAME_PLACE(QpAttr, mtu, ibv_qp_attr, path_mtu);
  SAME_PLACE(QpAttr, receive_psn, ibv_qp_attr, rq_psn);
  SAME_PLACE(QpAttr, send_psn, ibv_qp_attr, sq_psn);
  SAME_PLACE(QpAttr, remote_qp, ibv_qp_attr, dest_qp_num);
  SAME_PLACE(QpAttr, access, ibv_qp_attr, qp_access_flags);
  SAME_PLACE(QpAttr, path, ibv_qp_attr, ah_attr);
  SAME_PLACE(QpAttr, pkey_index, ibv_qp_attr, pkey_index);
  SAME_PLACE(QpAttr, max_reads, ibv_qp_attr, max_rd_atomic);
  SAME_PLACE(QpAttr, max_remote_reads, ibv_qp_attr, max_dest_rd_atomic);
  SAME_PLACE(QpAttr, min_rnr_timer, ibv_qp_attr, min_rnr_timer);
  SAME_PLACE(QpAttr, port, ibv_qp_attr, port_num);
  SAME_PLACE(QpAttr, timeout, ibv_qp_attr, timeout);
  SAME_PLACE(QpAttr, retries, ibv_qp_attr, retry_cnt);
  SAME_PLACE(QpAttr, rnr_retries, ibv_qp_attr, rnr_retry);
}

TEST(Verbs, NumbersAreThoseOfTheHeader) {
  EXPECT_EQ(kPortActive, IBV_PORT_ACTIVE);
  EXPECT_EQ(kLinkInfiniband, IBV_LINK_LAYER_INFINIBAND);
  EXPECT_EQ(kLinkEthernet, IBV_LINK_LAYER_ETHERNET);
  EXPECT_EQ(kReliableConnected, static_cast<uint32_t>(IBV_QPT_RC));
  EXPECT_EQ(kInit, IBV_QPS_INIT);
  EXPECT_EQ(kReadyToReceive, IBV_QPS_RTR);
  EXPECT_EQ(kReadyToSend, IBV_QPS_RTS);
  EXPECT_EQ(kError, IBV_QPS_ERR);
  EXPECT_EQ(kSetState, IBV_QP_STATE);
  EXPECT_EQ(kSetAccess, IBV_QP_ACCESS_FLAGS);
  EXPECT_EQ(kSetPkeyIndex, IBV_QP_PKEY_INDEX);
  EXPECT_EQ(kSetPort, IBV_QP_PORT);
  EXPECT_EQ(kSetPath, IBV_QP_AV);
  EXPECT_EQ(kSetMtu, IBV_QP_PATH_MTU);
  EXPECT_EQ(kSetTimeout, IBV_QP_TIMEOUT);
  EXPECT_EQ(kSetRetries, IBV_QP_RETRY_CNT);
  EXPECT_EQ(kSetRnrRetries, IBV_QP_RNR_RETRY);
  EXPECT_EQ(kSetReceivePsn, IBV_QP_RQ_PSN);
  EXPECT_EQ(kSetReads, IBV_QP_MAX_QP_RD_ATOMIC);
  EXPECT_EQ(kSetMinRnrTimer, IBV_QP_MIN_RNR_TIMER);
  EXPECT_EQ(kSetSendPsn, IBV_QP_SQ_PSN);
  EXPECT_EQ(kSetRemoteReads, IBV_QP_MAX_DEST_RD_ATOMIC);
  EXPECT_EQ(kSetRemoteQp, IBV_QP_DEST_QPN);
  EXPECT_EQ(kOpSend, IBV_WR_SEND);
  EXPECT_EQ(kSignalled, IBV_SEND_SIGNALED);
  EXPECT_EQ(kSuccess, IBV_WC_SUCCESS);
  EXPECT_EQ(kLocalLengthError, IBV_WC_LOC_LEN_ERR);
  EXPECT_EQ(kLocalProtectionError, IBV_WC_LOC_PROT_ERR);
  EXPECT_EQ(kFlushed, IBV_WC_WR_FLUSH_ERR);
  EXPECT_EQ(kRemoteInvalidRequest, IBV_WC_REM_INV_REQ_ERR);
  EXPECT_EQ(kRetriesExceeded, IBV_WC_RETRY_EXC_ERR);
  EXPECT_EQ(kRnrRetriesExceeded, IBV_WC_RNR_RETRY_EXC_ERR);
  EXPECT_EQ(kGeneralError, IBV_WC_GENERAL_ERR);
  EXPECT_EQ(kReceived, IBV_WC_RECV);
  EXPECT_EQ(kLocalWrite, IBV_ACCESS_LOCAL_WRITE);
}

#endif

}  // namespace
}  // namespace stretto::comm::verbs
