// The stand-alone `stretto` program. The Python package calls the same cli::main.
#include <cstdlib>
#include <string>
#include <vector>

#include "verbs.h"

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + (argc > 0), argv + argc);
  const char* const python = std::getenv("STRETTO_PYTHON");
  return stretto::cli::main(arguments, {.python = python ? python : "python3"});
}
