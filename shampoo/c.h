/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SHAMPOO_C_H
#define SHAMPOO_C_H

#include <stddef.h>
#include <stdint.h>

/* The library for C99, and for C++ below 20:
 *     cc -std=c99 train.c $(pkg-config --cflags-only-I --libs --static shampoo)
 *
 * Functions that can fail return a shampoo_status, or NULL in place of a text, and change nothing
 * where C++ would have changed nothing; shampoo_last_error() says what was wrong. No exception
 * leaves a function. Handles are made by functions with a last argument `made`, which they leave
 * alone on failure, belong to the caller, and are freed once by the function of their name with
 * `_free`, which takes NULL. What a handle was made with has to outlive it where its function says
 * so. A handle is used by one thread at a time. Texts that are passed in are copied, and end with
 * 0. Each function does what that of the C++ headers does which its comment names: errors, waiting
 * and what is collective are said there. Names and values of what is declared here stay. */

#ifdef __cplusplus
extern "C" {
#endif

typedef enum shampoo_status {
  SHAMPOO_OK = 0,
  SHAMPOO_INVALID_ARGUMENT = 1,    /* also a NULL that is not allowed; nothing has changed */
  SHAMPOO_LOGIC_ERROR = 2,         /* called where it may not be */
  SHAMPOO_DEVICE_ERROR = 3,        /* DeviceError */
  SHAMPOO_COMMUNICATION_ERROR = 4, /* CommunicationError */
  SHAMPOO_NUMERICAL_ERROR = 5,     /* NumericalError */
  SHAMPOO_CHECKPOINT_ERROR = 6,    /* CheckpointError */
  SHAMPOO_SYSTEM_ERROR = 7,        /* a full disk, a folder that may not be written */
  SHAMPOO_OUT_OF_MEMORY = 8,
  SHAMPOO_ERROR = 9 /* anything else */
} shampoo_status;

/* What was wrong with the last call on this thread that failed; "" before the first. Valid until
 * the next one fails. */
const char* shampoo_last_error(void);

typedef enum shampoo_type {
  SHAMPOO_FLOAT64 = 0,
  SHAMPOO_FLOAT32 = 1,
  SHAMPOO_BFLOAT16 = 2,
  SHAMPOO_FLOAT16 = 3
} shampoo_type;

/* Elements in the backend's memory: the first one, and how far apart neighbours of each dimension
 * are, in elements; strides NULL: row-major. The elements are borrowed, the strides copied. */
typedef struct shampoo_tensor {
  void* data;
  shampoo_type type;
  const int64_t* strides;
} shampoo_tensor;

/* -- Backends and ranks -- */

typedef struct shampoo_backend shampoo_backend;
typedef struct shampoo_communicator shampoo_communicator;

/* cpu_backend(). threads: 0 for default_threads(). */
shampoo_status shampoo_cpu_backend(int threads, shampoo_backend** made);
/* cuda_backend(). device: -1 for the current one; stream: a cudaStream_t, borrowed, which outlives
 * the backend, or NULL for the default one. */
shampoo_status shampoo_cuda_backend(int device, void* stream, shampoo_backend** made);
/* local_rank_of_launcher(): the device of this rank, before there is a backend. */
shampoo_status shampoo_local_rank(int* local_rank);
/* Waits for its work. */
void shampoo_backend_free(shampoo_backend* backend);

/* join(): the ranks of torchrun, shampoorun, mpirun, srun, or one. Collective. The backend must
 * outlive the ranks. */
shampoo_status shampoo_join(shampoo_backend* backend, shampoo_communicator** made);
/* single_rank_communicator(), whatever launched this process. */
shampoo_status shampoo_single_rank(shampoo_backend* backend, shampoo_communicator** made);
void shampoo_communicator_free(shampoo_communicator* ranks);
/* -1 for NULL. */
int shampoo_rank(const shampoo_communicator* ranks);
int shampoo_size(const shampoo_communicator* ranks);

/* Contiguous elements of one type. Borrowed. */
typedef struct shampoo_span {
  void* data;
  int64_t count;
  shampoo_type type;
} shampoo_span;

/* Communicator::average(): each element <- its mean over ranks. stream: the backend's; NULL on the
 * CPU. Collective; waits on the CPU. */
shampoo_status shampoo_average(shampoo_communicator* ranks, const shampoo_span* spans, size_t count,
                               void* stream);
/* Communicator::broadcast(): the elements of rank `root` to all, as initial values. Collective;
 * waits on the CPU. */
shampoo_status shampoo_broadcast(shampoo_communicator* ranks, shampoo_span span, int root,
                                 void* stream);

/* -- What is trained, and how -- */

/* Groups and options of an optimizer to be made. */
typedef struct shampoo_setup shampoo_setup;

shampoo_status shampoo_setup_create(shampoo_setup** made);
void shampoo_setup_free(shampoo_setup* setup);

/* Begins a group, whose index is the number of groups before. Tensors, rates and schedules that
 * follow are its own. Those before any group, or behind a shampoo_route(), are for the
 * shampoo_route() that follows.
 * label: for logs and errors; NULL or "": "group 0".
 * recipe: NULL or "": the default, Shampoo. A name: "shampoo", "soap", "kl_shampoo", "muon",
 * "adamw", "lion", "sgd", "schedule_free_adamw", "gpa_adamw", ..., which sets the rates that belong
 * to it, too. Or the canonical text of a recipe, of which any field may be left out:
 * "recipe(refresh=refresh(every=20), blocking=blocking(size=256))"; see recipe_from_text(). */
shampoo_status shampoo_begin_group(shampoo_setup* setup, const char* label, const char* recipe);
/* Sets a rate: "learning_rate", "weight_decay", ...: the fields of Rates. Values are checked when
 * the optimizer is made. */
shampoo_status shampoo_setup_rate(shampoo_setup* setup, const char* rate, double value);
/* schedules::Function: in each step, counted from 0 without those that are skipped, the rate is
 * factor(step, context) times what it was set to, and shampoo_set_rate() refuses it. The same on
 * all ranks; a resume may call it for all steps before, and a step that was refused calls it
 * again. The context is borrowed, and must outlive the optimizer. */
shampoo_status shampoo_setup_schedule(shampoo_setup* setup, const char* rate,
                                      double (*factor)(int64_t step, void* context), void* context);
/* schedules::WarmUpStableDecay: from a tenth to all of the rate, all of it, down to 0; so many
 * steps each. */
shampoo_status shampoo_setup_warm_up_stable_decay(shampoo_setup* setup, const char* rate,
                                                  int64_t warm_up, int64_t stable, int64_t decay);

/* Adds a tensor. The name is unique, and UTF-8. shape: `sides` lengths. gradient.data NULL: absent,
 * until shampoo_set_gradient(). Values and gradients are borrowed, and must outlive the optimizer.
 */
shampoo_status shampoo_add_tensor(shampoo_setup* setup, const char* name, int sides,
                                  const int64_t* shape, shampoo_tensor value,
                                  shampoo_tensor gradient);

/* All parameters, and all gradients in the same places, as the trainer likes: the first elements of
 * both. gradients NULL: absent, until shampoo_set_gradients(). Copied. */
typedef struct shampoo_slab {
  void* values;
  shampoo_type value_type;
  void* gradients;
  shampoo_type gradient_type;
} shampoo_slab;

/* What lies in a slab: a row-major tensor; or, with layers > 0, those of layers 0, 1, ..., each of
 * this shape, back to back, whose names have the layer in place of the one "%d". */
typedef struct shampoo_entry {
  const char* name;
  int sides;
  int64_t shape[4];
  int64_t layers;
} shampoo_entry;

/* Adds the tensors of `count` entries, which lie back to back in the slab, from its first element
 * on. llm.c's wte and qkvw are {"wte.weight", 2, {Vp, C}, 0} and {"h.%d.attn.weight", 2, {3 * C,
 * C}, L}. elements: those of all entries, to be compared with the slab's; may be NULL. As one
 * tensor of shape {L, 3 * C, C} qkvw would be accepted, too, but get blocks that mix layers, and a
 * factor across them; shampoo_describe() lists those that the cut leaves with more than two sides.
 */
shampoo_status shampoo_add_slab(shampoo_setup* setup, const shampoo_slab* slab,
                                const shampoo_entry* entries, size_t count, int64_t* elements);
/* For other layouts: the row-major tensor that begins with element `offset` of the slab. */
shampoo_status shampoo_add_from_slab(shampoo_setup* setup, const char* name, int sides,
                                     const int64_t* shape, const shampoo_slab* slab,
                                     int64_t offset);
/* stacked(): the same for `count` layers, of which layer i begins with element first + i * stride.
 * shape: of one layer. */
shampoo_status shampoo_add_stacked(shampoo_setup* setup, const char* pattern, int sides,
                                   const int64_t* shape, const shampoo_slab* slab, int64_t first,
                                   int64_t stride, int64_t count);

/* Puts the tensors that are in no group into groups, behind those that there are. `how` is JSON:
 * Routes::from_json(), which has rates of its own; or a recipe as for shampoo_begin_group():
 * routes::language_model() with that, and with the rates that were set. A schedule is for those of
 * these groups whose recipe reads its rate; one has to. */
shampoo_status shampoo_route(shampoo_setup* setup, const char* how);

/* The ranges of what shampoo_clip(), shampoo_scale_loss() and shampoo_guard_spikes() are given are
 * checked by shampoo_optimizer_create(). */
typedef enum shampoo_clipping {
  SHAMPOO_CLIP_NONE = 0,           /* NoClipping; the default. limit: 0 */
  SHAMPOO_CLIP_GLOBAL_NORM = 1,    /* ClipGlobalNorm */
  SHAMPOO_CLIP_PARAMETER_NORM = 2, /* ClipParameterNorm */
  SHAMPOO_CLIP_VALUE = 3           /* ClipValue */
} shampoo_clipping;

/* OptimizerOptions::gradients: gradients are clipped as steps read them, without another pass. */
shampoo_status shampoo_clip(shampoo_setup* setup, shampoo_clipping clipping, double limit);

typedef enum shampoo_loss_scaling {
  SHAMPOO_LOSS_SCALE_NONE = 0,   /* NoLossScale; the default; scale is not read */
  SHAMPOO_LOSS_SCALE_FIXED = 1,  /* FixedLossScale */
  SHAMPOO_LOSS_SCALE_DYNAMIC = 2 /* DynamicLossScale, which begins with `scale` */
} shampoo_loss_scaling;

/* OptimizerOptions::gradients: gradients are those of the loss times a scale, a power of two, which
 * steps divide out as they read them. The dynamic one is shampoo_loss_scale() of the optimizer. */
shampoo_status shampoo_scale_loss(shampoo_setup* setup, shampoo_loss_scaling scaling, double scale);
/* OptimizerOptions::gradients: SpikeGuard. */
shampoo_status shampoo_guard_spikes(shampoo_setup* setup, double deviations, int window);

/* -- Training -- */

typedef struct shampoo_optimizer shampoo_optimizer;

/* Optimizer(). Collective. Backend and ranks must outlive it, as must values and gradients; the
 * setup may be freed. NULL: a cpu_backend(), and join(), of its own. */
shampoo_status shampoo_optimizer_create(shampoo_backend* backend, shampoo_communicator* ranks,
                                        const shampoo_setup* setup, shampoo_optimizer** made);
/* Waits for its work. */
void shampoo_optimizer_free(shampoo_optimizer* optimizer);
/* The ranks that it was made with, or its own, which are freed with it. NULL for NULL. */
shampoo_communicator* shampoo_optimizer_ranks(shampoo_optimizer* optimizer);

/* Optimizer::step(). Collective. On a device it only queues. */
shampoo_status shampoo_step(shampoo_optimizer* optimizer);
/* Optimizer::latest_result(). Waits for the step. Each of the pointers may be NULL. applied: 0 for
 * a step that was skipped. gradient_norm: before clipping. clip_factor: 1 where nothing was
 * clipped. */
shampoo_status shampoo_latest_step(shampoo_optimizer* optimizer, int* applied,
                                   double* gradient_norm, double* clip_factor);
/* StepResult::non_finite_gradient() and non_finite_direction() of the latest step: names that live
 * as long as the optimizer, "" for none. Waits for the step. Each of the pointers may be NULL. */
shampoo_status shampoo_non_finite(shampoo_optimizer* optimizer, const char** gradient,
                                  const char** direction);

/* Optimizer::loss_scale(): what the next loss is to be multiplied by. Waits for the step before. */
shampoo_status shampoo_loss_scale(const shampoo_optimizer* optimizer, double* scale);

/* Group::rates, from the next step on, the same on all ranks; beta3 and peak_learning_rate are NaN
 * where they are unset, and become so by NaN. SHAMPOO_INVALID_ARGUMENT for a rate with a schedule,
 * whose factor may change it instead. */
shampoo_status shampoo_set_rate(shampoo_optimizer* optimizer, int group, const char* rate,
                                double value);
shampoo_status shampoo_get_rate(shampoo_optimizer* optimizer, int group, const char* rate,
                                double* value);
/* Group::set_rate(): of one parameter, whatever the group's rate and its schedule say. NaN:
 * Group::clear_rate(), it follows the group's again. */
shampoo_status shampoo_set_parameter_rate(shampoo_optimizer* optimizer, int group,
                                          const char* parameter, const char* rate, double value);

/* Group::set_gradient(): where the gradient lies from the next step on, with type and strides as
 * they were; NULL: absent. Borrowed. */
shampoo_status shampoo_set_gradient(shampoo_optimizer* optimizer, int group, const char* parameter,
                                    void* data);
/* The same for all tensors that were added from a slab, which is known by slab->values: from the
 * next step on their gradients lie in slab->gradients, or are absent for NULL. The type is the one
 * of before. Nothing has changed where one of them is refused. */
shampoo_status shampoo_set_gradients(shampoo_optimizer* optimizer, const shampoo_slab* slab);
/* Optimizer::average_gradients(): all gradients <- their mean over ranks; one that is absent on
 * some counts as zeros there. Collective; waits. */
shampoo_status shampoo_average_gradients(shampoo_optimizer* optimizer);
/* Optimizer::zero_gradients(). */
shampoo_status shampoo_zero_gradients(shampoo_optimizer* optimizer);
/* Optimizer::read_values(): after values were overwritten, as by a broadcast. */
shampoo_status shampoo_read_values(shampoo_optimizer* optimizer);

/* Optimizer::evaluate(): evaluation values in place, until shampoo_end_evaluation(). Collective. */
shampoo_status shampoo_evaluate(shampoo_optimizer* optimizer);
shampoo_status shampoo_end_evaluation(shampoo_optimizer* optimizer);

/* Optimizer::steps(). */
shampoo_status shampoo_steps(const shampoo_optimizer* optimizer, const char* parameter,
                             int64_t* steps);
/* -1 for NULL. */
int shampoo_group_count(const shampoo_optimizer* optimizer);

/* Optimizer::describe(), Group::label(), and the canonical text of Group::recipe(). NULL on
 * failure. The optimizer's own, until the next call of one of these three. */
const char* shampoo_describe(shampoo_optimizer* optimizer);
const char* shampoo_group_label(shampoo_optimizer* optimizer, int group);
const char* shampoo_group_recipe(shampoo_optimizer* optimizer, int group);

/* -- Checkpoints -- */

/* UserState: what the trainer saves along with the optimizer. */
typedef struct shampoo_user_state shampoo_user_state;

shampoo_status shampoo_user_state_create(shampoo_user_state** made);
void shampoo_user_state_free(shampoo_user_state* user);
/* The values of all parameters, by their names. They must be row-major. */
shampoo_status shampoo_user_state_add_values(shampoo_user_state* user,
                                             shampoo_optimizer* optimizer);
/* A row-major tensor in the backend's memory, equal on all ranks. Borrowed, until the user state is
 * freed. */
shampoo_status shampoo_user_state_add_tensor(shampoo_user_state* user, const char* name, int sides,
                                             const int64_t* shape, shampoo_tensor tensor);
/* Bytes in the backend's memory, borrowed likewise. per_rank: 0 if they are equal on all ranks,
 * else each rank has its own, as of a random number generator. */
shampoo_status shampoo_user_state_add_bytes(shampoo_user_state* user, const char* name, void* data,
                                            int64_t count, int per_rank);
/* CheckpointOptions::other_ranks: what a resume does with bytes per rank that another number of
 * ranks saved. keep: 0, as when made: it is refused; else they stay as they are on all ranks, so
 * that what was in them before tells the caller. */
shampoo_status shampoo_user_state_other_ranks(shampoo_user_state* user, int keep);
/* Values by name, equal on all ranks. A resume wants those that were saved to be there. */
shampoo_status shampoo_user_state_set_integer(shampoo_user_state* user, const char* name,
                                              int64_t value);
shampoo_status shampoo_user_state_set_number(shampoo_user_state* user, const char* name,
                                             double value);
shampoo_status shampoo_user_state_get_integer(const shampoo_user_state* user, const char* name,
                                              int64_t* value);
shampoo_status shampoo_user_state_get_number(const shampoo_user_state* user, const char* name,
                                             double* value);

/* save(): writes `directory`/step-N. user: NULL for none. keep_last: 0 keeps all older ones.
 * Collective; waits for the disk. */
shampoo_status shampoo_save(shampoo_optimizer* optimizer, const char* directory,
                            const shampoo_user_state* user, int keep_last);
/* resume(): from the latest good checkpoint of the directory, if there is one. user: what was saved
 * with it, whose tensors are overwritten and whose values replaced; NULL leaves it all out. Of the
 * options of C++ that errors name C has shampoo_user_state_other_ranks(), the others are at their
 * defaults. step: the N of step-N, or -1 where the directory has no checkpoint; may be NULL.
 * Collective. */
shampoo_status shampoo_resume(shampoo_optimizer* optimizer, const char* directory,
                              shampoo_user_state* user, int64_t* step);
/* load(): the folder of a checkpoint, `directory`/step-N, or of a directory the one that
 * shampoo_resume() would load; without one it is SHAMPOO_CHECKPOINT_ERROR. Otherwise the same. */
shampoo_status shampoo_load(shampoo_optimizer* optimizer, const char* path,
                            shampoo_user_state* user, int64_t* step);

#ifdef __cplusplus
}
#endif

#endif
