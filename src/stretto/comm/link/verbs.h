// The calls of an RDMA card's library as values. The real ones are loaded from libibverbs.so.1 at
// run time; tests have mocks (verbs_testing.h).
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "stretto/comm/link/verbs_abi.h"

namespace stretto::comm::verbs {

// Each call is that of the same name with ibv_, which has a manual page.
struct Provider {
  std::function<Device**(int*)> get_device_list;
  std::function<void(Device**)> free_device_list;
  std::function<const char*(Device*)> get_device_name;
  std::function<Context*(Device*)> open_device;
  std::function<int(Context*)> close_device;
  std::function<int(Context*, uint8_t, PortAttr*)> query_port;
  std::function<int(Context*, uint8_t, int, Gid*)> query_gid;
  std::function<Pd*(Context*)> alloc_pd;
  std::function<int(Pd*)> dealloc_pd;
  std::function<Mr*(Pd*, void*, size_t, int)> reg_mr;
  std::function<int(Mr*)> dereg_mr;
  std::function<Channel*(Context*)> create_comp_channel;
  std::function<int(Channel*)> destroy_comp_channel;
  std::function<Cq*(Context*, int, void*, Channel*, int)> create_cq;
  std::function<int(Cq*)> destroy_cq;
  std::function<int(Channel*, Cq**, void**)> get_cq_event;
  std::function<void(Cq*, unsigned)> ack_cq_events;
  std::function<Qp*(Pd*, QpInit*)> create_qp;
  std::function<int(Qp*, QpAttr*, int)> modify_qp;
  std::function<int(Qp*)> destroy_qp;
  std::function<const char*(uint32_t)> wc_status_str;
  // In the library's header these are inline functions that call through the opened device.
  std::function<int(Cq*, int, Completion*)> poll_cq;
  std::function<int(Cq*, int)> req_notify_cq;
  std::function<int(Qp*, SendRequest*, SendRequest**)> post_send;
  std::function<int(Qp*, ReceiveRequest*, ReceiveRequest**)> post_recv;
  // Not a call of the library: the type that the kernel gives for entry `index` of a port's address
  // table ("RoCE v2"), or "".
  std::function<std::string(const std::string& device, int port, int index)> gid_type;
};

// Null with a reason when the library is not here, lacks a call or cannot be used by a process that
// forks. It is never unloaded.
std::shared_ptr<const Provider> load_provider(std::string* reason);

// The four that go through a device, as load_provider sets them.
void set_device_calls(Provider* provider);

}  // namespace stretto::comm::verbs
