// Descriptors that run out, in forked children, whose limits are their own.
#include "stretto/comm/system/descriptors.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <ctime>
#include <nlohmann/json.hpp>

#include "stretto/base/error.h"
#include "stretto/comm/link/links_testing.h"

namespace stretto::comm {
namespace {

using testing::form_job;
using testing::kPatience_s;
using testing::patient;

// Runs `body`, which returns what went wrong, in a child.
template <typename Body>
std::string in_a_child(const Body& body) {
  int ends[2];
  EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const pid_t pid = fork();
  if (pid == 0) {
    std::string text;
    try {
      text = body();
    } catch (const std::exception& e) {
      text = fmt::format("thrown: {}", e.what());
    }
    [[maybe_unused]] const ssize_t wrote = write(ends[1], text.data(), text.size());
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char part[1000];
  ssize_t got;
  while ((got = read(ends[0], part, sizeof part)) > 0) text.append(part, static_cast<size_t>(got));
  close(ends[0]);
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? text : text + " (it crashed)";
}

void set_limit(rlim_t soft, rlim_t hard) {
  const rlimit limit{.rlim_cur = soft, .rlim_max = hard};
  STRETTO_CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0, "cannot set the limit");
}

TEST(Descriptors, TheLimitIsRaisedOnlyWhereMoreAreNeeded) {
  EXPECT_EQ(in_a_child([] {
              set_limit(64, 256);
              raise_descriptor_limit(64);
              const int64_t before = descriptor_limit();
              raise_descriptor_limit(65);
              return fmt::format("{} {}", before, descriptor_limit());
            }),
            "64 256");
}

TEST(Descriptors, ALargeJobRaisesTheLimit) {
  EXPECT_EQ(in_a_child([] {
              set_limit(200, 1000);
              const auto store = memory_store();
              form_job(*store, 2, 0, patient(8, 1));
              return std::to_string(descriptor_limit());
            }),
            "1000");
}

double processor_s() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// A guest knocks when no descriptor is left: the listener stays readable, and accept() fails.
std::string knock_without_descriptors(bool relief) {
  const auto store = memory_store();
  auto nodes = form_job(*store, 2, 0, patient(1, 1));
  nodes[0]->options.connect_timeout_s = 4;  // of which half is given to the shortage
  std::vector<Fd> files;
  set_limit(static_cast<rlim_t>(100), 100);
  while (true) {
    Fd fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!fd) break;
    files.push_back(std::move(fd));
  }
  files.pop_back();
  const int port = nlohmann::json::parse(store->get("stretto/0/rank/0", 1)).at("port");
  Fd guest(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address{.sin_family = AF_INET,
                            .sin_port = htons(static_cast<uint16_t>(port)),
                            .sin_addr = {htonl(INADDR_LOOPBACK)},
                            .sin_zero = {}};
  if (connect(guest.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    return "the guest cannot connect";
  const double busy_from = processor_s(), until = now_s() + 0.5;
  while (now_s() < until) nodes[0]->poll(0.1);
  if (const double busy_s = processor_s() - busy_from; busy_s > 0.25)
    return fmt::format("the rank was busy for {:.2f} of 0.5 s", busy_s);
  if (relief) files.clear();
  const char byte = 'x';  // no handshake: an accepted guest is thrown out
  [[maybe_unused]] const ssize_t wrote = send(guest.get(), &byte, 1, MSG_NOSIGNAL);
  shutdown(guest.get(), SHUT_WR);
  try {
    char answer;
    for (const double end = now_s() + kPatience_s; now_s() < end;) {
      nodes[0]->poll(0.1);
      if (recv(guest.get(), &answer, 1, MSG_DONTWAIT) == 0) return "thrown out";
    }
  } catch (const CommError& e) {
    return fmt::format("rank {}: {}", e.rank(), e.what());
  }
  return "nothing happened";
}

TEST(Descriptors, AListenerRestsWhileNoneIsLeft) {
  EXPECT_EQ(in_a_child([] { return knock_without_descriptors(true); }), "thrown out");
}

TEST(Descriptors, AnErrorSaysHowManyAreNeeded) {
  EXPECT_EQ(in_a_child([] { return knock_without_descriptors(false); }),
            "rank 0: rank 0 cannot open another connection: this process may open 100 files "
            "(ulimit -n) and needs about 136; raise the limit");
}

}  // namespace
}  // namespace stretto::comm
