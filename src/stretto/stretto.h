// Stretto's C++ interface: optimise a model, save it, load it, run it.
//
//   stretto::Model model = stretto::optimize("resnet50.onnx");
//   model.save("resnet50.stretto");
//
//   stretto::Session session(stretto::load("resnet50.stretto"));
//   std::vector<stretto::Tensor> y = session.run({x});
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stretto/base/error.h"
#include "stretto/tensor/any_value.h"
#include "stretto/tensor/shape_range.h"
#include "stretto/tensor/tensor.h"

namespace stretto {

namespace runtime {
struct Pictures;
}

// One input or output of a model.
struct TensorSpec {
  std::string name;
  DType dtype;
  Shape shape;
  // Of what is no tensor of numbers: "strings", "sequence" or "optional". Models that run in stages
  // have such inputs and outputs; of their tensors the shape is that of the first run, and -1
  // stands for what is not known.
  std::string other = {};
};

struct OptimizeOptions {
  // How far precision may be reduced. "lossless" (fp32 throughout) is the only level so far.
  std::string level = "lossless";
  // Which kernels may be used. "strict": those with the errors of plain fp32 sums. "default": also
  // Winograd F(4,3) and Strassen's products. "fast": also Winograd F(6,3).
  std::string accuracy = "default";
  // Threads a session of this model uses; 0: one per usable core (CpuInfo::cores).
  int threads = 0;
  // How long to search for the fastest kernels: "off" (tuning caches and built-in order),
  // "quick", "full", or a number of seconds.
  std::string tuning = "quick";
  // Dimensions for inputs whose file leaves them open, by input name. Inputs that are named neither
  // here nor in `ranges` stay open: the model is optimised for one size, and makes a program for
  // every other one that comes.
  std::map<std::string, Shape> shapes;
  // The same where sizes differ from run to run, as in parse_shape_range("1..8x3x224x224"). The
  // model is optimised for the largest sizes, or those of `inputs`.
  std::map<std::string, ShapeRange> ranges;
  // The input of shape [batch, length] that is 1 for the tokens of a sample and 0 for padding, as
  // "attention_mask". Each run then works on the tokens only, and what it makes per token is 0
  // where padding is (docs/howto/lengths.md). Empty: padding is computed like tokens.
  std::string lengths;
  // Steps by which the model's input takes pictures instead of tensors, as in "imagenet(224)":
  // 8-bit pixels of any size, or files (docs/howto/preprocess.md). Empty: it takes tensors. The
  // steps are a part of the model from then on, and of its artefact.
  std::string preprocess;
  // Data to check and time with, by input name. Without it data is made up, and the report says so.
  // The artefact keeps what is given here, up to 8 MiB, for LoadOptions::verify.
  std::map<std::string, Tensor> inputs;
  // Names of passes or rules not to apply; see list_passes().
  std::set<std::string> disable;
  // Kernel to use for an operator family ("conv2d") or a node, whatever was measured. It is an
  // error when that kernel does not fit.
  std::map<std::string, std::string> force;
  // File that remembers the fastest kernels; empty: $STRETTO_TUNING_CACHE, else a file of the
  // user's (see docs/options.md). "none": no file.
  std::string tuning_cache;
  // Compare the result with the double-precision reference on the inputs above. Throws
  // InternalError when an output is off by more than the accuracy class allows.
  bool verify = true;
  // Also time the unoptimised model, each operator, and memory, for the report.
  bool profile = true;
  // Called now and then with what is going on and how much of it is done (0 to 1).
  std::function<void(std::string_view stage, double fraction)> progress;
  // Called every tenth of a second or so, by the thread that called optimize(). What it throws ends
  // the work and comes out of optimize(). A single run of one kernel is not interrupted.
  std::function<void()> interrupt;
};

// An optimised model: immutable, cheap to copy, safe to share between threads.
class Model {
 public:
  struct State;
  explicit Model(std::shared_ptr<const State> state) : state_(std::move(state)) {}

  const std::string& name() const;
  // With the shapes that the model was optimised for.
  const std::vector<TensorSpec>& inputs() const;
  const std::vector<TensorSpec>& outputs() const;
  // The steps of OptimizeOptions::preprocess in full; empty where the model takes tensors only.
  const std::string& preprocess() const;
  // The shapes that a run may have, per input. More than those above where dimensions are open.
  std::vector<ShapeRange> input_ranges() const;
  bool open() const;  // whether any dimension is
  // Whether the model runs in stages, because parts of it depend on values (docs/howto/values.md).
  bool staged() const;
  int threads() const;           // that a session uses by default
  int64_t weight_bytes() const;  // of packed weights, shared by all sessions
  int64_t memory_bytes() const;  // of one session's activations and scratch

  // What the caller may want to know. Of optimize(): that a batch of 1 was assumed, or that a given
  // input was rounded to float32. Of load(): that fewer threads run than the file asks for, or that
  // the file was made for another instruction set. One sentence each, mostly none.
  const std::vector<std::string>& notes() const;

  // Writes the artefact (docs/formats/artefact.md). Throws FormatError naming the file, and
  // InvalidArgument where `path` is the ONNX file, or external data, that it was optimised from.
  void save(const std::string& path) const;

  // How it was made and what was measured, as JSON (docs/formats/report.md) and as one
  // self-contained HTML page. A model that was loaded carries the report of its making.
  std::string report_json() const;
  std::string report_html() const;

  const State& state() const { return *state_; }

 private:
  std::shared_ptr<const State> state_;
};

// Reads an ONNX file and optimises it for this machine. Throws FormatError, Unsupported,
// InvalidArgument; the text names node and file.
Model optimize(const std::string& path, const OptimizeOptions& options = {});
// The same for a serialised ONNX model in memory; `name` stands for the file in messages, and
// external data is looked for in `folder` (none when empty).
Model optimize(std::span<const std::byte> onnx, const std::string& name, const std::string& folder,
               const OptimizeOptions& options = {});

struct LoadOptions {
  // Threads a session of this model uses, 1 to 1024; 0: what the model was optimised for, but not
  // more than this machine has usable cores (CpuInfo::cores).
  int threads = 0;
  // Run the model on the sample inputs it was optimised with, and compare with the sample outputs
  // in the file. Throws InternalError naming the output and its error when one is off by more than
  // was allowed then; Unsupported when the file holds none.
  bool verify = false;
};

// Maps an artefact. When it was made for another instruction set or another number of threads, the
// graph inside is compiled for those of this machine with remembered choices and the built-in
// order, and its weights are packed anew. Throws FormatError for a truncated or altered file.
Model load(const std::string& path, const LoadOptions& options = {});

struct ContextOptions {
  int64_t batch = 1;
  // Places (tokens) that a sample may get; 0: any number. Memory grows with what is used.
  int64_t max_length = 0;
  // Output that becomes an input of the next run, by input. Empty: found by their names, such as
  // past_key_values.0.key and present.0.key.
  std::map<std::string, std::string> state;
};

// What a model keeps from one run to the next: caches of keys and values that grow, and the state
// of recurrent layers. It belongs to its caller. Runs with one context must not overlap; runs with
// different ones are independent.
class Context {
 public:
  // Empty. Of a model whose caches grow, their lengths must be open dimensions. Throws
  // InvalidArgument naming the input or output at fault.
  explicit Context(const Model& model, const ContextOptions& options = {});
  ~Context();
  Context(Context&&) noexcept;
  Context& operator=(Context&&) noexcept;

  // A copy that goes its own way.
  Context fork() const;
  // Empty again; the memory is kept.
  void reset();
  // Sample i becomes what sample from[i] is, as beam search needs it.
  void reorder(std::span<const int64_t> from);

  int64_t batch() const;
  int64_t length() const;                // places of the longest sample
  std::vector<int64_t> lengths() const;  // per sample, without those that its mask hides
  int64_t capacity() const;              // places until memory grows and programs are made anew
  int64_t memory_bytes() const;

  // Inputs that a run needs, those that it may have besides, and the outputs that it gives.
  const std::vector<std::string>& inputs() const;
  const std::vector<std::string>& optional_inputs() const;
  const std::vector<std::string>& outputs() const;

  // All of it as dense tensors, by name of input, with the mask of its places; and back into a
  // context of the same model and batch. Throws InvalidArgument naming what does not fit.
  std::map<std::string, Tensor> save() const;
  void restore(const std::map<std::string, Tensor>& saved);

  struct State;
  State& state() { return *state_; }

 private:
  explicit Context(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// What a run with a context leaves out.
struct ContextRunOptions {
  // An output of [batch, places, ...] that is wanted for the last place only, as the logits of a
  // prompt are: it is then [batch, 1, ...], and mostly computed for that place only. Empty: none.
  std::string last_place_of;
};

// Runs a model. run() may be called from any number of threads at once. As many callers run at the
// same time as their threads fit on this machine's usable cores, each with activations and a thread
// team of its own, made on first use and kept; the others sleep until one is done. Weights are
// shared.
class Session {
 public:
  // threads 0: model.threads().
  explicit Session(Model model, int threads = 0);
  ~Session();
  Session(Session&&) noexcept;

  const Model& model() const;

  // An input that takes pictures (OptimizeOptions::preprocess) is given uint8: pixels of H x W x 3,
  // H x W x 1, or a batch of either, N x H x W x 3; or the bytes of a JPEG, PNG or WebP file in one
  // dimension. Or what prepare() made of them. Throws FormatError for a damaged file.
  //
  // Copies in, runs, copies out. Throws InvalidArgument naming the input on a wrong type or shape.
  // Of a model with open dimensions, the first run with new shapes makes a program for them, which
  // takes some milliseconds; the last sixteen are kept. Of a model with lengths, whose mask must
  // hold 0 and 1 only, so does a new number of tokens; about 32 differ between a batch and one
  // twice as full, and more are kept.
  std::vector<Tensor> run(std::span<const Tensor> inputs);
  std::vector<Tensor> run(std::initializer_list<Tensor> inputs) {
    return run(std::span<const Tensor>(inputs.begin(), inputs.size()));
  }

  // The same for models that take or give strings, sequences or optional values.
  std::vector<AnyValue> run_values(std::span<const AnyValue> inputs);

  // The same on dense row-major memory of the caller, in model order, with the shapes of
  // model().inputs(). After the first call it allocates nothing but for pictures, and takes a lock
  // only when it has to wait for another caller. Of a model that runs in stages, throws
  // InvalidArgument when an output has another shape in this run.
  void run(std::span<const void* const> inputs, std::span<void* const> outputs);

  // Runs on from where `context` is, and leaves it behind the new places. `inputs` are by name and
  // hold neither state nor, unless the caller wants so, the inputs that follow from the context:
  // attention_mask (here of the new places only; 0 hides one) and position_ids. In the first run
  // samples may have different lengths, by a mask: each then runs alone, and its outputs stand
  // where its tokens do, zeros elsewhere. Returns Context::outputs(). A step makes no copy of
  // caches whose output is Concat(past, new). Throws InvalidArgument naming the input.
  std::vector<Tensor> run(const std::map<std::string, Tensor>& inputs, Context& context,
                          const ContextRunOptions& options = {});

 private:
  struct State;
  Tensor prepared_input(const runtime::Pictures& pictures, const Tensor& given) const;
  void run_tensors(std::span<const void* const> inputs, std::span<void* const> outputs);
  void run_staged(std::span<const void* const> inputs, std::span<void* const> outputs);
  std::unique_ptr<State> state_;
};

// What the steps of model.preprocess() make of a picture, or of a batch, that Session::run() takes:
// the tensor that the model's program takes, with the bits that the loader of pictures
// (stretto/data.h) has in validation. Rows of several can stand in one batch. Throws
// InvalidArgument where the model takes no pictures, and as Session::run() does.
Tensor prepare(const Model& model, const Tensor& pictures);
// The same of one JPEG, PNG or WebP file. Throws FormatError and Unsupported naming it.
Tensor prepare_file(const Model& model, const std::string& path);

// Runs the model as the reference does: node by node, in double precision. Slow.
std::vector<Tensor> run_reference(const std::string& onnx_path, const OptimizeOptions& options,
                                  std::span<const Tensor> inputs);

// Passes in the order they run: name and one line of what each does.
std::vector<std::pair<std::string, std::string>> list_passes();

// The model before and after the passes in Stretto's text form, and which rule fired where.
struct Inspection {
  std::string before, after;
  struct Fired {
    std::string pass, rule, node;
  };
  std::vector<Fired> fired;
};
Inspection inspect(const std::string& onnx_path, const OptimizeOptions& options = {});

// How the steps of a model would run on this machine, without optimising it.
struct Coverage {
  struct Step {
    std::string op;      // of the optimised graph: "stretto.Conv"
    std::string kernel;  // "conv2d"; empty: interpreted by the reference on plain memory, slowly
    int count = 0;
    double flops = 0;
    std::string first;  // node
  };
  std::vector<Step> steps;         // those with the most flops first, interpreted ones before
  std::vector<std::string> notes;  // what was assumed
};
// Throws what optimize() throws; of operators that are missing the text names all.
Coverage check(const std::string& onnx_path, const OptimizeOptions& options = {});

// Finds the rewrite that changes the result: applies the passes one rule application at a time and
// compares with the reference. Returns a text for people; empty when no rewrite moves any output by
// more than `tolerance` of its largest value.
std::string bisect(const std::string& onnx_path, const OptimizeOptions& options, double tolerance);

// Seeds the random numbers that models of this process draw (RandomNormal and the like): the same
// runs in the same order give the same results. Without it every process draws others. Operators
// with a seed of their own draw the same in every run.
void manual_seed(uint64_t seed);

std::string_view version();  // "0.1.0"

}  // namespace stretto
