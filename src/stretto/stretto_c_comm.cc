// The C interface of the gradient engine.
#include <charconv>
#include <cstdlib>
#include <string_view>

#include "stretto/comm/engine/engine.h"
#include "stretto/stretto_c_guard.h"

using stretto::c::guarded;
using stretto::c::require;
using stretto::comm::Kind;
using stretto::comm::Operation;
using stretto::comm::ReduceOp;

static_assert(static_cast<int>(ReduceOp::kSum) == STRETTO_SUM &&
              static_cast<int>(ReduceOp::kAverage) == STRETTO_AVERAGE &&
              static_cast<int>(ReduceOp::kProduct) == STRETTO_PRODUCT &&
              static_cast<int>(ReduceOp::kMin) == STRETTO_MIN &&
              static_cast<int>(ReduceOp::kMax) == STRETTO_MAX &&
              stretto::comm::kAnyPeer == STRETTO_ANY_RANK);

struct stretto_comm {
  std::shared_ptr<stretto::comm::Store> store;  // rank 0 answers the others as long as it lives
  std::unique_ptr<stretto::comm::Engine> engine;
};

namespace {

stretto_comm* make(const char* address, int32_t rank, int32_t size, uint32_t epoch) {
  require(address, "address");
  auto comm = std::make_unique<stretto_comm>();
  comm->store = stretto::comm::open_store(address, rank == 0);
  comm->engine =
      stretto::comm::Engine::create(comm->store, {.rank = rank, .size = size, .epoch = epoch},
                                    stretto::comm::Options::from_environment());
  return comm.release();
}

int32_t number_of(const char* variable, const char* otherwise) {
  const char* given = std::getenv(variable);
  if (!given) given = otherwise;
  if (!given) stretto::throw_invalid("{} is not set", variable);
  const std::string_view text(given);
  int32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0)
    stretto::throw_invalid("{}: '{}' is no number from 0 on", variable, text);
  return value;
}

stretto::DType dtype_of(const char* name) {
  require(name, "dtype");
  return stretto::parse_dtype(name);
}

ReduceOp reduction_of(stretto_reduction reduction) {
  if (reduction < STRETTO_SUM || reduction > STRETTO_MAX)
    stretto::throw_invalid("reduction: expected STRETTO_SUM to STRETTO_MAX, 0 to 4, got {}",
                           static_cast<int>(reduction));
  return static_cast<ReduceOp>(reduction);
}

// Starts what `describe` returns, and waits for it unless the caller wants to.
template <typename Describe>
stretto_status submit(stretto_comm* comm, stretto_handle* handle, Describe&& describe) {
  return guarded([&] {
    require(comm, "comm");
    const Operation operation = describe();
    const auto started = comm->engine->submit(stretto::comm::kWorld, operation);
    if (handle) {
      *handle = started;
    } else {
      comm->engine->wait(started);
    }
  });
}

}  // namespace

extern "C" {

stretto_comm* stretto_comm_new(const char* address, int32_t rank, int32_t size, uint32_t epoch) {
  stretto_comm* result = nullptr;
  guarded([&] { result = make(address, rank, size, epoch); });
  return result;
}

stretto_comm* stretto_comm_from_environment(void) {
  stretto_comm* result = nullptr;
  guarded([&] {
    const int32_t rank = number_of("STRETTO_RANK", nullptr);
    const int32_t size = number_of("STRETTO_SIZE", nullptr);
    const char* address = std::getenv("STRETTO_ADDRESS");
    if (!address)
      stretto::throw_invalid("STRETTO_ADDRESS is not set: HOST:PORT of rank 0, or a shared folder");
    result = make(address, rank, size, static_cast<uint32_t>(number_of("STRETTO_EPOCH", "0")));
  });
  return result;
}

void stretto_comm_free(stretto_comm* comm) { delete comm; }

int32_t stretto_comm_rank(const stretto_comm* comm) {
  return comm ? comm->engine->membership().rank : -1;
}

int32_t stretto_comm_size(const stretto_comm* comm) {
  return comm ? comm->engine->membership().size : 0;
}

stretto_status stretto_all_reduce(stretto_comm* comm, const char* name, const char* dtype,
                                  stretto_reduction reduction, const void* input, void* output,
                                  int64_t count, stretto_handle* handle) {
  return submit(comm, handle, [&] {
    return Operation{.kind = Kind::kAllReduce,
                     .dtype = dtype_of(dtype),
                     .reduction = reduction_of(reduction),
                     .count = count,
                     .input = input,
                     .output = output,
                     .name = name ? name : ""};
  });
}

stretto_status stretto_broadcast(stretto_comm* comm, const char* dtype, int32_t root, void* data,
                                 int64_t count, stretto_handle* handle) {
  return submit(comm, handle, [&] {
    return Operation{.kind = Kind::kBroadcast,
                     .dtype = dtype_of(dtype),
                     .root = root,
                     .count = count,
                     .input = data,
                     .output = data};
  });
}

stretto_status stretto_all_gather(stretto_comm* comm, const char* dtype, const void* input,
                                  void* output, int64_t count, stretto_handle* handle) {
  return submit(comm, handle, [&] {
    return Operation{.kind = Kind::kAllGather,
                     .dtype = dtype_of(dtype),
                     .count = count,
                     .input = input,
                     .output = output};
  });
}

stretto_status stretto_reduce_scatter(stretto_comm* comm, const char* dtype,
                                      stretto_reduction reduction, const void* input, void* output,
                                      int64_t count, stretto_handle* handle) {
  return submit(comm, handle, [&] {
    return Operation{.kind = Kind::kReduceScatter,
                     .dtype = dtype_of(dtype),
                     .reduction = reduction_of(reduction),
                     .count = count,
                     .input = input,
                     .output = output};
  });
}

stretto_status stretto_barrier(stretto_comm* comm, stretto_handle* handle) {
  return submit(comm, handle, [] { return Operation{.kind = Kind::kBarrier}; });
}

stretto_status stretto_send(stretto_comm* comm, const char* dtype, const void* data, int64_t count,
                            int32_t rank, uint32_t tag, stretto_handle* handle) {
  return submit(comm, handle, [&] {
    return Operation{.kind = Kind::kSend,
                     .dtype = dtype_of(dtype),
                     .peer = rank,
                     .tag = tag,
                     .count = count,
                     .input = data};
  });
}

stretto_status stretto_recv(stretto_comm* comm, const char* dtype, void* data, int64_t count,
                            int32_t rank, uint32_t tag, stretto_handle* handle) {
  return submit(comm, handle, [&] {
    return Operation{.kind = Kind::kRecv,
                     .dtype = dtype_of(dtype),
                     .peer = rank,
                     .tag = tag,
                     .count = count,
                     .output = data};
  });
}

stretto_status stretto_wait(stretto_comm* comm, stretto_handle handle, int32_t* source) {
  return guarded([&] {
    require(comm, "comm");
    int from = -1;
    comm->engine->wait(handle, -1, &from);
    if (source) *source = from;
  });
}

int32_t stretto_done(stretto_comm* comm, stretto_handle handle) {
  int32_t done = -1;
  guarded([&] {
    require(comm, "comm");
    done = comm->engine->poll(handle) ? 1 : 0;
  });
  return done;
}

int32_t stretto_last_rank(void) { return stretto::c::last_rank; }

}  // extern "C"
