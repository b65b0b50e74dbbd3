// A loader in one process, and whoever takes its batches in another: what they say to each other
// goes over a connected socket, and batches lie in memory that both have mapped
// (docs/design/loader.md). How the two find each other is not said here.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "stretto/data/loader.h"

namespace stretto::data {

// Gives the batches of `loader`, whose options have BatchMemory::kShared, to the SharedLoader at
// the other end of `socket`, a stream socket, until that end is closed. `process`: a descriptor of
// pidfd_open() for the process there, or -1; when it ends this call returns, whoever else holds its
// end of the socket. Closes both descriptors. Errors of the loader go to the other end. The loader
// is to end then: it keeps no memory for more batches.
void serve(Loader& loader, int socket, int process);

// The loader at the other end of a socket. Its calls and what they throw are those of Loader, and
// so are its batches, which stay valid when both loaders are gone; in a child of fork() they show
// what comes into their memory when the parent has given them back.
//
// When the process at the other end ends, next(), set_epoch() and load() throw CommError, naming
// it. position() and what else needs no batch goes on.
class SharedLoader {
 public:
  // `dataset` and `options` are those of the loader at the other end. `server` names that process
  // in errors. Closes `socket` at its end.
  SharedLoader(Dataset dataset, LoaderOptions options, int socket, std::string server);
  ~SharedLoader();
  SharedLoader(const SharedLoader&) = delete;
  SharedLoader& operator=(const SharedLoader&) = delete;

  std::optional<Batch> next();
  void set_epoch(int64_t epoch);
  int64_t epoch() const { return position().epoch; }
  int64_t batches(int64_t epoch) const;
  std::vector<int64_t> indices(int64_t epoch) const;
  Position position() const;
  void load(const Position& position);
  int64_t pinned_bytes() const;  // of batches, as in Stats

 private:
  struct Impl;
  Impl& impl() const;
  std::unique_ptr<Impl> impl_;
};

// Throws InvalidArgument for options that a Loader of the dataset would refuse.
void check_loader(const LoaderOptions& options, const Dataset& dataset);

}  // namespace stretto::data
