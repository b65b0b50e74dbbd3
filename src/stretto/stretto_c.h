/* Stretto's C interface: optimise, save, load and run a model, and train on several ranks. Plain
 * C11, no other header of Stretto.
 *
 *   stretto_model* model = stretto_load("resnet50.stretto", NULL);
 *   stretto_session* session = model ? stretto_session_new(model, 0) : NULL;
 *   if (!session || stretto_run(session, inputs, outputs) != STRETTO_OK)
 *     fprintf(stderr, "%s\n", stretto_last_error());
 *
 * A function that returns a pointer returns NULL on failure, one that returns a status returns
 * anything but STRETTO_OK; stretto_last_error() then says why. Every function may be called from
 * any thread; a model may be freed while sessions of it live. */
#ifndef STRETTO_C_H
#define STRETTO_C_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define STRETTO_API __attribute__((visibility("default")))
#else
#define STRETTO_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef enum stretto_status {
  STRETTO_OK = 0,
  STRETTO_INVALID_ARGUMENT = 1, /* the caller passed something wrong */
  STRETTO_UNSUPPORTED = 2,      /* legal, but not possible here */
  STRETTO_FORMAT_ERROR = 3,     /* a file is missing, truncated, altered or of another kind */
  STRETTO_INTERNAL_ERROR = 4,   /* a promise of Stretto was broken, or memory ran out */
  STRETTO_COMM_ERROR = 5        /* a rank or a link is lost or does not answer in time */
} stretto_status;

typedef struct stretto_model stretto_model;
typedef struct stretto_session stretto_session;

/* One input or output. The pointers stay valid as long as the model. */
typedef struct stretto_tensor_spec {
  const char* name;
  const char* dtype;    /* NumPy's name: "float32", "int64", "bool", ... */
  const int64_t* shape; /* `rank` dimensions, outermost first */
  int32_t rank;
  int64_t bytes; /* of the whole dense tensor; -1: only a run knows (docs/howto/values.md) */
} stretto_tensor_spec;

/* How to optimise. A zero-initialised struct, or NULL, means the defaults. */
typedef struct stretto_optimize_options {
  const char* level;    /* "lossless" */
  const char* accuracy; /* "strict", "default" (also NULL), "fast" */
  const char* tuning;   /* "off", "quick" (also NULL), "full" or a number of seconds */
  int32_t threads;      /* 0: one per core this process may use */
  const char* lengths;  /* input that is 1 for tokens and 0 for padding (docs/howto/lengths.md) */
} stretto_optimize_options;

/* Reads an ONNX file and optimises it for this machine. Free with stretto_model_free. */
STRETTO_API stretto_model* stretto_optimize(const char* onnx_path,
                                            const stretto_optimize_options* options);

/* How to load. A zero-initialised struct, or NULL, means the defaults. */
typedef struct stretto_load_options {
  int32_t threads; /* 0: as optimised, but not more than this machine has usable cores */
  int32_t verify;  /* not 0: compare with the sample outputs in the file; an error if one is off */
} stretto_load_options;

/* Reads an artefact. Free with stretto_model_free. */
STRETTO_API stretto_model* stretto_load(const char* path, const stretto_load_options* options);
/* What the caller of stretto_load may want to know, for example that fewer threads run than the
 * file asks for: one sentence per index. NULL beyond the last. Valid as long as the model. */
STRETTO_API int32_t stretto_note_count(const stretto_model* model);
STRETTO_API const char* stretto_note(const stretto_model* model, int32_t index);
STRETTO_API stretto_status stretto_save(const stretto_model* model, const char* path);
STRETTO_API void stretto_model_free(stretto_model* model); /* NULL is fine */

STRETTO_API int32_t stretto_input_count(const stretto_model* model);
STRETTO_API int32_t stretto_output_count(const stretto_model* model);
STRETTO_API stretto_status stretto_input(const stretto_model* model, int32_t index,
                                         stretto_tensor_spec* spec);
STRETTO_API stretto_status stretto_output(const stretto_model* model, int32_t index,
                                          stretto_tensor_spec* spec);
/* The report of the model's making as JSON; valid as long as the model. */
STRETTO_API const char* stretto_report_json(stretto_model* model);

/* threads 0: those that the model was optimised or loaded for. Free with stretto_session_free. */
STRETTO_API stretto_session* stretto_session_new(const stretto_model* model, int32_t threads);
STRETTO_API void stretto_session_free(stretto_session* session); /* NULL is fine */

/* Runs the model on dense row-major tensors of the caller, in the model's order: `inputs` has
 * stretto_input_count pointers, `outputs` stretto_output_count. Several threads may run one session
 * at once; each gets its own activations. */
STRETTO_API stretto_status stretto_run(stretto_session* session, const void* const* inputs,
                                       void* const* outputs);

/* The gradient engine: sums and messages among the ranks of a job, one process each.
 *
 *   stretto_comm* comm = stretto_comm_from_environment();
 *   if (!comm || stretto_all_reduce(comm, NULL, "float32", STRETTO_AVERAGE, x, x, n, NULL))
 *     fprintf(stderr, "%s\n", stretto_last_error());
 *   stretto_comm_free(comm);
 *
 * All ranks call the same collectives in the same order. Element types have NumPy's names
 * ("float32", "bfloat16", "int64", ...); counts are in elements. The last argument of every
 * operation is a pointer to a handle. NULL: the call returns when the operation is done. Otherwise
 * it returns at once, the buffers must not change, and the handle must be given to stretto_wait.
 * Settings come from STRETTO_* variables (docs/options.md). If a rank dies, every other rank gets a
 * STRETTO_COMM_ERROR that names it; then the comm can only be freed, and the ranks that are left
 * may make a new one with the next epoch. All functions may be called from any thread. */
typedef struct stretto_comm stretto_comm;
typedef uint64_t stretto_handle;

typedef enum stretto_reduction {
  STRETTO_SUM = 0,
  STRETTO_AVERAGE = 1,
  STRETTO_PRODUCT = 2,
  STRETTO_MIN = 3,
  STRETTO_MAX = 4
} stretto_reduction;

#define STRETTO_ANY_RANK (-1)

/* Connects to the other ranks. `address` is HOST:PORT, where rank 0 listens until it frees its
 * comm, or a folder that every rank sees (with a '/'), one per job. NULL on failure: see
 * stretto_last_error. Free with stretto_comm_free. */
STRETTO_API stretto_comm* stretto_comm_new(const char* address, int32_t rank, int32_t size,
                                           uint32_t epoch);
/* The same from STRETTO_ADDRESS, STRETTO_RANK, STRETTO_SIZE, and STRETTO_EPOCH (0). */
STRETTO_API stretto_comm* stretto_comm_from_environment(void);
/* Leaves the job. Operations that are not over fail. NULL is allowed. */
STRETTO_API void stretto_comm_free(stretto_comm* comm);
STRETTO_API int32_t stretto_comm_rank(const stretto_comm* comm);
STRETTO_API int32_t stretto_comm_size(const stretto_comm* comm);

/* output = all ranks' inputs combined; may be the same memory. `name` (may be NULL) appears in
 * errors and reports. A codec with error feedback adds what it lost to the next operation of the
 * same name and count. */
STRETTO_API stretto_status stretto_all_reduce(stretto_comm* comm, const char* name,
                                              const char* dtype, stretto_reduction reduction,
                                              const void* input, void* output, int64_t count,
                                              stretto_handle* handle);
STRETTO_API stretto_status stretto_broadcast(stretto_comm* comm, const char* dtype, int32_t root,
                                             void* data, int64_t count, stretto_handle* handle);
/* output = every rank's `count` elements, in rank order. */
STRETTO_API stretto_status stretto_all_gather(stretto_comm* comm, const char* dtype,
                                              const void* input, void* output, int64_t count,
                                              stretto_handle* handle);
/* `input` has size * count elements; output = this rank's `count` elements of the combination. */
STRETTO_API stretto_status stretto_reduce_scatter(stretto_comm* comm, const char* dtype,
                                                  stretto_reduction reduction, const void* input,
                                                  void* output, int64_t count,
                                                  stretto_handle* handle);
STRETTO_API stretto_status stretto_barrier(stretto_comm* comm, stretto_handle* handle);
/* `rank` is the other rank; for stretto_recv it may be STRETTO_ANY_RANK. Messages of one sender
 * with one tag arrive in order. */
STRETTO_API stretto_status stretto_send(stretto_comm* comm, const char* dtype, const void* data,
                                        int64_t count, int32_t rank, uint32_t tag,
                                        stretto_handle* handle);
STRETTO_API stretto_status stretto_recv(stretto_comm* comm, const char* dtype, void* data,
                                        int64_t count, int32_t rank, uint32_t tag,
                                        stretto_handle* handle);

/* Blocks until the operation is over, releases its handle and returns its status. *source (unless
 * NULL) becomes the sender for stretto_recv, -1 for others. */
STRETTO_API stretto_status stretto_wait(stretto_comm* comm, stretto_handle handle, int32_t* source);
/* 1: it is over, and stretto_wait will not block; 0: not yet; -1: unknown handle. */
STRETTO_API int32_t stretto_done(stretto_comm* comm, stretto_handle handle);

/* The rank that the last STRETTO_COMM_ERROR of this thread names; -1: none. */
STRETTO_API int32_t stretto_last_rank(void);

/* Seeds the random numbers that models of this process draw (RandomNormal and the like): the same
 * runs in the same order give the same results. Without it every process draws others. */
STRETTO_API void stretto_manual_seed(uint64_t seed);

/* What went wrong in this thread's last failing call; "" before any. Valid until the next failure.
 */
STRETTO_API const char* stretto_last_error(void);
STRETTO_API stretto_status stretto_last_status(void); /* the status that goes with it */
STRETTO_API const char* stretto_version(void);        /* "0.1.0" */

#ifdef __cplusplus
}
#endif

#endif
