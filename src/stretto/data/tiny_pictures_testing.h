// Pictures of one pixel, for tests and fuzzers.
#pragma once

#include <string>

namespace stretto::data {

inline std::string tiny_png() {
  return {
      "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\2\0\0\0\x90wS\xde\0\0\0\x0c"
      "IDATx\x9c\x63\xf8\xcf\xc0\0\0\3\1\1\0\xc9\xfe\x92\xef\0\0\0\0IEND\xae\x42\x60\x82",
      69};
}
inline std::string tiny_webp() {
  return {"RIFF\x1a\0\0\0WEBPVP8L\x0d\0\0\0/\0\0\0\x10\x07\x10\x11\x11\x88\x88\xfe\x07\0", 34};
}

}  // namespace stretto::data
