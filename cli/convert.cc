// stretto convert m.pt2 -o m.onnx
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "model_options.h"
#include "stretto/export/onnx/export.h"
#include "stretto/import/onnx/import.h"
#include "table.h"
#include "verbs.h"
#include "worker_process.h"

namespace stretto::cli {
namespace {

using nlohmann::json;

// Tracing is done already, but PyTorch takes its time to read and decompose a large program.
constexpr double kPythonTimeout_s = 3600;

struct ConvertFlags {
  std::string source, output;
  ModelFlags model;  // its shapes
};

void check_files(const ConvertFlags& flags) {
  if (flags.output.ends_with(".stretto")) {
    throw_invalid("-o {}: an artefact is optimised for a machine: `stretto optimize {} -o {}`",
                  flags.output, flags.source, flags.output);
  }
  constexpr std::string_view kEndings[] = {".onnx"};
  check_ending({"-o", flags.output}, kEndings);
  const NamedFile outputs[] = {{"-o", flags.output}};
  check_outputs(outputs, input_files(flags.source, flags.model));
}

std::vector<std::string> convert_onnx(const ConvertFlags& flags, const Talk& talk) {
  const OptimizeOptions given = options(flags.model);
  if (!given.ranges.empty()) {
    throw_invalid("--shape {}: expected a fixed shape, because the file that is written has one",
                  given.ranges.begin()->first);
  }
  const ImportedModel model = onnx::import_onnx_file(flags.source, {.shapes = given.shapes});
  for (const std::string& note : model.notes) talk.note(flags.source + ": " + note);
  return onnx::write_onnx(model.graph, flags.output).files;
}

// By the Python that has PyTorch.
std::vector<std::string> convert_program(const ConvertFlags& flags, const Context& context) {
  if (!flags.model.shapes.empty()) {
    throw_invalid("--shape: a program of PyTorch has the shapes that it was exported with");
  }
  WorkerProcess process({context.python, "-m", "stretto._convert", flags.source, flags.output},
                        "/dev/null");
  const auto line = process.receive(kPythonTimeout_s);
  const json reply = line ? json::parse(*line, nullptr, false) : json();
  if (!reply.is_object()) throw no_package(context.python);
  for (const json& note : reply.value("notes", json::array())) {
    context.talk->note(note.get<std::string>());
  }
  if (const std::string text = reply.value("error", ""); !text.empty()) {
    const std::string kind = reply.value("kind", "");
    if (kind == "FormatError") throw FormatError(flags.source, -1, text);
    if (kind == "InvalidArgumentError") throw InvalidArgument(text);
    throw Unsupported(text);
  }
  return reply.value("files", std::vector<std::string>());
}

int run_convert(const ConvertFlags& flags, const Context& context) {
  const Talk& talk = *context.talk;
  const bool program = flags.source.ends_with(".pt2");
  if (!program && !flags.source.ends_with(".onnx")) {
    throw_invalid("convert: expected a file called *.onnx or *.pt2, got {}", flags.source);
  }
  check_files(flags);
  const std::vector<std::string> files =
      program ? convert_program(flags, context) : convert_onnx(flags, talk);
  if (talk.json) {
    print_json({{"source", flags.source}, {"files", files}});
  } else {
    for (const std::string& file : files) fmt::print("wrote {}\n", file);
  }
  return kOk;
}

}  // namespace

std::function<int()> set_up_convert(Command& command, const Context& context) {
  auto flags = std::make_shared<ConvertFlags>();
  add_option(command, "source", &flags->source, "FILE",
             "An ONNX file, or a .pt2 file of torch.export.save", {.required = true});
  add_option(command, "-o,--output", &flags->output, "FILE", "Write the model here: m.onnx",
             {.group = "Output", .required = true});
  add_option(command, "--shape", &flags->model.shapes, "NAME=SHAPE",
             "Shape of an input that the file leaves open: x=1x3x8x8", {.group = "Input"});
  return [flags, context] { return run_convert(*flags, context); };
}

}  // namespace stretto::cli
