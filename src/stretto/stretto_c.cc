#include "stretto/stretto_c.h"

#include <mutex>
#include <string>

#include "stretto/stretto.h"
#include "stretto/stretto_c_guard.h"

using stretto::c::fail;
using stretto::c::guarded;
using stretto::c::require;

struct stretto_model {
  explicit stretto_model(stretto::Model m) : model(std::move(m)) {}
  stretto::Model model;
  std::once_flag report_made;
  std::string report;
};

struct stretto_session {
  stretto_session(const stretto::Model& model, int threads) : session(model, threads) {}
  stretto::Session session;
};

namespace {

// -1 where only a run knows it.
int64_t bytes_of(const stretto::TensorSpec& spec) {
  for (const int64_t size : spec.shape) {
    if (size < 0) return -1;
  }
  if (!spec.other.empty() || spec.dtype == stretto::DType::kUndefined) return -1;
  return stretto::element_count(spec.shape) *
         static_cast<int64_t>(stretto::dtype_bytes(spec.dtype));
}

stretto_status describe(const std::vector<stretto::TensorSpec>& specs, int32_t index,
                        const char* what, stretto_tensor_spec* out) {
  return guarded([&] {
    require(out, "spec");
    if (index < 0 || index >= static_cast<int32_t>(specs.size())) {
      stretto::throw_invalid("{} {}: the model has {}", what, index, specs.size());
    }
    const stretto::TensorSpec& spec = specs[index];
    *out = {
        .name = spec.name.c_str(),
        // dtype_name returns views of literals, which end in a zero.
        .dtype = spec.other.empty() ? stretto::dtype_name(spec.dtype).data() : spec.other.c_str(),
        .shape = spec.shape.data(),
        .rank = static_cast<int32_t>(spec.shape.size()),
        .bytes = bytes_of(spec)};
  });
}

}  // namespace

extern "C" {

stretto_model* stretto_optimize(const char* onnx_path, const stretto_optimize_options* options) {
  stretto_model* result = nullptr;
  guarded([&] {
    require(onnx_path, "onnx_path");
    stretto::OptimizeOptions o;
    if (options) {
      if (options->level) o.level = options->level;
      if (options->accuracy) o.accuracy = options->accuracy;
      if (options->tuning) o.tuning = options->tuning;
      o.threads = options->threads;
      if (options->lengths) o.lengths = options->lengths;
    }
    result = new stretto_model(stretto::optimize(std::string(onnx_path), o));
  });
  return result;
}

stretto_model* stretto_load(const char* path, const stretto_load_options* options) {
  stretto_model* result = nullptr;
  guarded([&] {
    require(path, "path");
    stretto::LoadOptions o;
    if (options) o = {.threads = options->threads, .verify = options->verify != 0};
    result = new stretto_model(stretto::load(path, o));
  });
  return result;
}

int32_t stretto_note_count(const stretto_model* model) {
  return model ? static_cast<int32_t>(model->model.notes().size()) : 0;
}

const char* stretto_note(const stretto_model* model, int32_t index) {
  if (index < 0 || index >= stretto_note_count(model)) return nullptr;
  return model->model.notes()[index].c_str();
}

stretto_status stretto_save(const stretto_model* model, const char* path) {
  return guarded([&] {
    require(model, "model");
    require(path, "path");
    model->model.save(path);
  });
}

void stretto_model_free(stretto_model* model) { delete model; }

int32_t stretto_input_count(const stretto_model* model) {
  return model ? static_cast<int32_t>(model->model.inputs().size()) : 0;
}

int32_t stretto_output_count(const stretto_model* model) {
  return model ? static_cast<int32_t>(model->model.outputs().size()) : 0;
}

stretto_status stretto_input(const stretto_model* model, int32_t index, stretto_tensor_spec* spec) {
  if (!model) return fail(STRETTO_INVALID_ARGUMENT, "model: expected a pointer, got NULL");
  return describe(model->model.inputs(), index, "input", spec);
}

stretto_status stretto_output(const stretto_model* model, int32_t index,
                              stretto_tensor_spec* spec) {
  if (!model) return fail(STRETTO_INVALID_ARGUMENT, "model: expected a pointer, got NULL");
  return describe(model->model.outputs(), index, "output", spec);
}

const char* stretto_report_json(stretto_model* model) {
  const char* result = nullptr;
  guarded([&] {
    require(model, "model");
    std::call_once(model->report_made, [&] { model->report = model->model.report_json(); });
    result = model->report.c_str();
  });
  return result;
}

stretto_session* stretto_session_new(const stretto_model* model, int32_t threads) {
  stretto_session* result = nullptr;
  guarded([&] {
    require(model, "model");
    result = new stretto_session(model->model, threads);
  });
  return result;
}

void stretto_session_free(stretto_session* session) { delete session; }

stretto_status stretto_run(stretto_session* session, const void* const* inputs,
                           void* const* outputs) {
  return guarded([&] {
    require(session, "session");
    const stretto::Model& model = session->session.model();
    if (!model.inputs().empty()) require(inputs, "inputs");
    if (!model.outputs().empty()) require(outputs, "outputs");
    const std::span in(inputs, model.inputs().size());
    const std::span out(outputs, model.outputs().size());
    for (size_t i = 0; i < in.size(); ++i) require(in[i], model.inputs()[i].name.c_str());
    for (size_t i = 0; i < out.size(); ++i) require(out[i], model.outputs()[i].name.c_str());
    session->session.run(in, out);
  });
}

void stretto_manual_seed(uint64_t seed) { stretto::manual_seed(seed); }

const char* stretto_last_error(void) { return stretto::c::last_error.c_str(); }
stretto_status stretto_last_status(void) { return stretto::c::last_status; }
const char* stretto_version(void) { return stretto::version().data(); }

}  // extern "C"
