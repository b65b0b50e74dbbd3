// What every importer makes of a model, whatever it was written in.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stretto/ir/graph.h"

namespace stretto {

struct ImportedModel {
  std::string format;              // what it was made from: "onnx" or "pytorch"
  std::string source;              // its file, or what stands for it in messages
  ir::Graph graph;                 // sorted, infer()ed, verify()ed
  int64_t opset = 0;               // of ONNX's default domain; 0 for other formats
  std::string producer;            // "pytorch 2.3.0"; empty when the file does not say
  std::vector<std::string> notes;  // what the importer assumed, for the report
  std::vector<std::string> files;  // what was read: the model's file and its external data
  // Constants of the graph are memory that its owner may change later, such as the parameters of a
  // module. Until the model is optimised nobody may; whoever keeps the graph copies them.
  bool borrows = false;
  // Names of inputs that are constants, because the file has a value for them and nobody asked to
  // give others (onnx::Reader::feed).
  std::vector<std::string> constant_inputs = {};
};

}  // namespace stretto
