// Bytes that stand one behind the other in a file, and nowhere else: weights are not copied to be
// written.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace stretto {

class Pieces {
 public:
  Pieces() = default;
  Pieces(Pieces&&) = default;
  Pieces& operator=(Pieces&&) = default;
  Pieces(const Pieces&) = delete;
  Pieces& operator=(const Pieces&) = delete;

  void add(std::string text);
  void add(Pieces others);
  // Of somebody else, who keeps them as long as the pieces are used.
  void add_view(std::span<const std::byte> bytes);
  void add_views(const Pieces& others);
  // Adds zeros up to a multiple of `alignment`.
  void align(size_t alignment);

  size_t size() const { return size_; }  // in bytes
  std::span<const std::string_view> views() const { return views_; }
  std::string joined() const;

 private:
  void append(std::string_view view);

  std::vector<std::unique_ptr<const std::string>> own_;
  std::vector<std::string_view> views_;
  size_t size_ = 0;
};

}  // namespace stretto
