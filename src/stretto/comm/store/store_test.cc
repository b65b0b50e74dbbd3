#include "stretto/comm/store/store.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <ctime>
#include <filesystem>
#include <future>
#include <random>
#include <thread>

#include "stretto/base/clock.h"
#include "stretto/base/error.h"
#include "stretto/comm/system/fd.h"

namespace stretto::comm {
namespace {

void expect_store_works(Store& store) {
  std::thread setter([&] { store.set("a/b", std::string("x\0y", 3)); });
  EXPECT_EQ(store.get("a/b", 60), std::string("x\0y", 3));
  setter.join();
  EXPECT_THROW(store.get("never", 0.01), CommError);
}

TEST(Store, WaitsForAKeyAndNamesAMissingOne) {
  expect_store_works(*memory_store());
  expect_store_works(*prefix_store(memory_store(), "job/"));
  std::string folder = std::filesystem::temp_directory_path() / "stretto-store-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  expect_store_works(*file_store(folder));
  std::filesystem::remove_all(folder);
}

double processor_s() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

int free_port() {
  const Fd fd(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  socklen_t length = sizeof address;
  EXPECT_EQ(bind(fd.get(), reinterpret_cast<sockaddr*>(&address), length), 0);
  EXPECT_EQ(getsockname(fd.get(), reinterpret_cast<sockaddr*>(&address), &length), 0);
  return ntohs(address.sin_port);
}

TEST(TcpStore, ServesThoseWhoComeFirst) {
  const std::string address = fmt::format("127.0.0.1:{}", free_port());
  std::vector<std::thread> clients;
  for (int i = 0; i < 8; ++i) {
    clients.emplace_back([&, i] {
      const auto store = open_store(address, false);
      EXPECT_EQ(store->get("long", 60), std::string(300'000, 'x'));
      store->set(fmt::format("from/{}", i), std::to_string(i));
      EXPECT_EQ(store->get(fmt::format("from/{}", (i + 1) % 8), 60), std::to_string((i + 1) % 8));
      EXPECT_THROW(store->get("never", 0.01), CommError);
      EXPECT_EQ(store->get("from/0", 60), "0");  // as good as before
    });
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  const auto server = open_store(address, true);
  expect_store_works(*server);
  server->set("long", std::string(300'000, 'x'));
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(server->get("from/7", 60), "7");
}

TEST(TcpStore, NamesWhatIsWrong) {
  EXPECT_THROW(tcp_store("nowhere", false), InvalidArgument);
  EXPECT_THROW(tcp_store(":80", true), InvalidArgument);
  const std::string address = fmt::format("127.0.0.1:{}", free_port());
  EXPECT_THROW(tcp_store(address, false)->get("x", 0.05), CommError);  // nobody is there
  const auto server = tcp_store(address, true);
  EXPECT_THROW(tcp_store(address, true), CommError);
  EXPECT_THROW(server->set("x", std::string(2 << 20, 'x')), InvalidArgument);
}

TEST(TcpStore, StrangersDoNoHarm) {
  const int port = free_port();
  const std::string address = fmt::format("127.0.0.1:{}", port);
  const auto server = tcp_store(address, true);
  std::vector<Fd> strangers;
  std::mt19937 random(1);
  for (int i = 0; i < 20; ++i) {
    Fd fd(socket(AF_INET, SOCK_STREAM, 0));
    const sockaddr_in at{.sin_family = AF_INET,
                         .sin_port = htons(static_cast<uint16_t>(port)),
                         .sin_addr = {htonl(INADDR_LOOPBACK)}};
    ASSERT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
    std::string text(random() % 100, i % 2 ? 'G' : '\0');
    for (size_t j = 1; j < text.size(); ++j) text[j] = static_cast<char>(random());
    send(fd.get(), text.data(), text.size(), MSG_NOSIGNAL);
    strangers.push_back(std::move(fd));
  }
  tcp_store(address, false)->set("k", "v");
  EXPECT_EQ(server->get("k", 60), "v");
}

// A guest that asks for a key which does not exist, and then sends more than the server keeps.
TEST(TcpStore, AGuestThatNeverStopsTalkingCostsNoProcessorTime) {
  const int port = free_port();
  const auto store = tcp_store(fmt::format("127.0.0.1:{}", port), true);
  const Fd guest(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const sockaddr_in at{.sin_family = AF_INET,
                       .sin_port = htons(static_cast<uint16_t>(port)),
                       .sin_addr = {htonl(INADDR_LOOPBACK)},
                       .sin_zero = {}};
  connect(guest.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at);
  std::string text{'G', 1, 0, 0, 0, 0, 0, 0, 0, 'k'};
  text.resize(16 << 20, 'x');
  const double deadline = now_s() + 60;
  size_t sent = 0;
  for (int idle = 0; idle < 20 && sent < text.size() && now_s() < deadline;) {
    const ssize_t step = send(guest.get(), text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (step > 0) sent += static_cast<size_t>(step);
    idle = step > 0 ? 0 : idle + 1;
    if (step <= 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_GT(sent, 1u << 20);
  EXPECT_LT(sent, text.size()) << "the server keeps no more than one request";
  const double before = processor_s();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_LT(processor_s() - before, 0.25);
  expect_store_works(*store);
}

TEST(TcpStore, ServesAgainWhenDescriptorsWereShort) {
  const int port = free_port();
  const auto store = tcp_store(fmt::format("127.0.0.1:{}", port), true);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const auto client = tcp_store(fmt::format("127.0.0.1:{}", port), false);
  // A sanitizer needs descriptors to start a thread, to end it, and for the first call of a method.
  tcp_store(fmt::format("127.0.0.1:{}", port), false)->set("early", "x");
  std::promise<void> running, restored;
  std::thread late([&] {
    running.set_value();
    client->set("late", "x");  // its socket is made before or after
    restored.get_future().wait();
  });
  running.get_future().wait();
  std::vector<Fd> files;
  const rlimit few{.rlim_cur = 64, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  while (true) {
    Fd fd(open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!fd) break;
    files.push_back(std::move(fd));
  }
  files.pop_back();  // one for a guest, none to accept it
  const Fd guest(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in at{.sin_family = AF_INET,
                       .sin_port = htons(static_cast<uint16_t>(port)),
                       .sin_addr = {htonl(INADDR_LOOPBACK)},
                       .sin_zero = {}};
  connect(guest.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at);
  const double from = processor_s();
  std::this_thread::sleep_for(std::chrono::milliseconds(500));
  EXPECT_LT(processor_s() - from, 0.25) << "it was busy accepting in vain";
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  files.clear();
  restored.set_value();
  late.join();
  EXPECT_EQ(store->get("late", 60), "x");
}

}  // namespace
}  // namespace stretto::comm
