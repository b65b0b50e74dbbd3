#include "stretto/comm/link/verbs.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <cstring>

#include "stretto/base/error.h"
#include "stretto/base/file.h"

namespace stretto::comm::verbs {
namespace {

constexpr const char* kLibrary = "libibverbs.so.1";

// Loads one call, or adds its name to the missing ones.
struct Loader {
  void* library;
  std::string missing;

  template <typename Result, typename... Arguments>
  void operator()(std::function<Result(Arguments...)>& call, const char* name) {
    // Where the library has a symbol in several versions, dlsym gives the newest, which is the one
    // that verbs_abi.h describes.
    void* found = dlsym(library, name);
    if (found) {
      call = reinterpret_cast<Result (*)(Arguments...)>(found);
    } else {
      missing += fmt::format("{}{}", missing.empty() ? "" : ", ", name);
    }
  }
};

std::string gid_type_of_kernel(const std::string& device, int port, int index) {
  try {
    std::string text = read_file(
        fmt::format("/sys/class/infiniband/{}/ports/{}/gid_attrs/types/{}", device, port, index));
    std::erase(text, '\n');
    return text;
  } catch (const FormatError&) {
    return "";
  }
}

}  // namespace

void set_device_calls(Provider* provider) {
  provider->poll_cq = [](Cq* cq, int most, Completion* out) {
    return cq->context->poll_cq(cq, most, out);
  };
  provider->req_notify_cq = [](Cq* cq, int solicited_only) {
    return cq->context->req_notify_cq(cq, solicited_only);
  };
  provider->post_send = [](Qp* qp, SendRequest* request, SendRequest** bad) {
    return qp->context->post_send(qp, request, bad);
  };
  provider->post_recv = [](Qp* qp, ReceiveRequest* request, ReceiveRequest** bad) {
    return qp->context->post_recv(qp, request, bad);
  };
}

std::shared_ptr<const Provider> load_provider(std::string* reason) {
  void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    *reason = fmt::format("{} cannot be loaded (install libibverbs1)", kLibrary);
    return nullptr;
  }
  auto provider = std::make_shared<Provider>();
  Loader load{library, {}};
  std::function<int()> fork_init;
  load(fork_init, "ibv_fork_init");
  load(provider->get_device_list, "ibv_get_device_list");
  load(provider->free_device_list, "ibv_free_device_list");
  load(provider->get_device_name, "ibv_get_device_name");
  load(provider->open_device, "ibv_open_device");
  load(provider->close_device, "ibv_close_device");
  load(provider->query_port, "ibv_query_port");
  load(provider->query_gid, "ibv_query_gid");
  load(provider->alloc_pd, "ibv_alloc_pd");
  load(provider->dealloc_pd, "ibv_dealloc_pd");
  load(provider->reg_mr, "ibv_reg_mr");
  load(provider->dereg_mr, "ibv_dereg_mr");
  load(provider->create_comp_channel, "ibv_create_comp_channel");
  load(provider->destroy_comp_channel, "ibv_destroy_comp_channel");
  load(provider->create_cq, "ibv_create_cq");
  load(provider->destroy_cq, "ibv_destroy_cq");
  load(provider->get_cq_event, "ibv_get_cq_event");
  load(provider->ack_cq_events, "ibv_ack_cq_events");
  load(provider->create_qp, "ibv_create_qp");
  load(provider->modify_qp, "ibv_modify_qp");
  load(provider->destroy_qp, "ibv_destroy_qp");
  load(provider->wc_status_str, "ibv_wc_status_str");
  if (!load.missing.empty()) {
    *reason = fmt::format("{} lacks {}", kLibrary, load.missing);
    return nullptr;
  }
  // Data loaders fork. Without this the parent would write to other pages than those the card
  // reads.
  if (fork_init() != 0) {
    *reason = fmt::format(
        "{} was used before, without regard to fork (IBV_FORK_SAFE=1 allows both)", kLibrary);
    return nullptr;
  }
  set_device_calls(provider.get());
  provider->gid_type = gid_type_of_kernel;
  return provider;
}

}  // namespace stretto::comm::verbs
