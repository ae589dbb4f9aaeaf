// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "kernels/solvers/products.h"
#include "kernels/step_records.h"
#include "kernels/views.h"

namespace shampoo {

/// Where arrays of a backend lie.
enum class Memory : std::uint8_t { host, cuda };

namespace kernels {

/// What the elementwise kernels of one virtual group share.
struct PassContext {
  const TileTable& elements;
  const Mode* modes;                 ///< [backend] per block
  const Coefficients* coefficients;  ///< [backend] per block
  const double* gradient_scale;      ///< [backend] one number; 1 is exact
  const std::int32_t* proceed;       ///< [backend] one flag; 0: nothing is written
};

/// How the filter computes the grafted gradient from the filtered one, F.
enum class Graft : std::uint8_t {
  none,
  identity,  ///< F
  diagonal   ///< F / (sqrt(V graft_scale) + graft_epsilon)
};

/// Flat slots of the filter; each holds the elements of all blocks in the arithmetic type.
struct Filter {
  Graft graft = Graft::none;
  const void* masters = nullptr;  ///< [backend] float32, read for decay where a block has one
  void* first_moment = nullptr;   ///< [backend] M
  void* graft_moment = nullptr;   ///< [backend] V; null unless diagonal
  void* direction = nullptr;      ///< [backend] out: F, or the grafted gradient
  double* graft_norms =
      nullptr;  ///< [backend] out, per block: squared norm of the grafted gradient
};

struct Update {
  bool has_momentum = false;
  bool nesterov = false;
  const void* direction = nullptr;          ///< [backend]
  const double* graft_norms = nullptr;      ///< [backend] squared
  const double* direction_norms = nullptr;  ///< [backend] squared
  void* masters = nullptr;                  ///< [backend] float32
  void* momentum = nullptr;                 ///< [backend] B
  void* segment = nullptr;                  ///< [backend] out
};

/// How loaded factors become the matrices to take roots of.
struct Loading {
  const double* scales = nullptr;  ///< [backend] per matrix: 1 / bias correction
  const double* shifts = nullptr;  ///< [backend] per matrix: added to the diagonal
  const double* floors = nullptr;  ///< [backend] per matrix: least trace, with trace scaling
  double trace_exponent = 0;       ///< A <- A max(trace(A), floor)^-exponent; 0: none
};

/// How eigenvalues become eigenvalues of the root.
struct Spectrum {
  enum class Rule : std::uint8_t {
    shift_to_epsilon,  ///< if min < epsilon: L <- (L - min) + epsilon
    shift_and_add,     ///< L <- (L - min(min, 0)) + epsilon
    cut                ///< L <= max(relative max(L, 0), absolute): the root's eigenvalue is 0
  };
  Rule rule = Rule::shift_to_epsilon;
  double relative_floor = 0;  ///< then L <- max(L, relative_floor max(L)); 0: none
  double cut_relative = 0;    ///< below 0: side times the type's epsilon
  double cut_absolute = 0;
  const double* epsilons = nullptr;   ///< [backend] per matrix
  const double* exponents = nullptr;  ///< [backend] per matrix: L <- L^-exponent
  /// [backend] out, per matrix: eigenvalues that a shift or floor raised by more than 4 machine
  /// epsilons of themselves; what a rule adds to every matrix does not count. May be null.
  double* raised = nullptr;
};

enum class Eigensolver : std::uint8_t { divide_and_conquer, jacobi };

/// Number of one matrix, for iterations that decide on the host.
enum class Measure : std::uint8_t {
  frobenius,        ///< sqrt of the sum of squares
  largest_row_sum,  ///< max over rows of the sum of absolute values
  trace,
  distance_from_identity  ///< max over elements of |A - I|
};

/// What a solver calls.
struct SolverCalls {
  std::int64_t largest_side = 0;
  bool decompositions = true;      ///< eigh()
  bool symmetric_products = true;  ///< multiply_symmetric()
};

/// Bytes that a backend uses beside what was allocated by its callers.
struct MemoryUse {
  std::int64_t scratch = 0;  ///< of kernels and of the libraries that they call
  std::int64_t host = 0;     ///< of allocate_host(), where uploads and downloads need it
  std::int64_t pool = 0;     ///< that a pool of its own holds for all of it, in use or not
};

/// A place in the work of a backend, which must outlive it.
class Mark {
 public:
  virtual ~Mark() = default;
  /// Moves the mark behind all work that has been queued so far.
  virtual void set() = 0;
  /// Waits until the work before the last set() is done; not at all if it was never set.
  virtual void wait() = 0;
};

/// Where arrays live and arithmetic runs: the host, or one stream of one GPU.
///
/// Every member function is asynchronous and runs in call order, behind the work that the caller
/// has queued on the backend's stream; only what says so waits. Results of one block or matrix have
/// the same bits whatever else is in the call and on any number of threads. After reserve() no call
/// allocates. Calls of one backend are not concurrent.
class Backend {
 public:
  virtual ~Backend() = default;

  /// For people: device, threads, instruction set level, BLAS and its core type.
  virtual std::string description() const = 0;
  /// What the bits of results depend on, for ranks and checkpoints to compare: instruction set
  /// level, BLAS and its core type.
  virtual std::string arithmetic() const = 0;
  virtual Memory memory() const = 0;
  /// Whether the work of a call is done when it returns. Otherwise the host memory of upload() and
  /// download() must stay as it is until a Mark, set behind the call, was waited for.
  virtual bool is_immediate() const { return true; }
  /// The stream on which work is queued, for communicators; null on the host.
  virtual void* stream() const { return nullptr; }
  /// Whether products are so much faster here than decompositions that Automatic takes Minimax in
  /// float32.
  virtual bool prefers_products() const = 0;

  // Memory.
  virtual void* allocate(
      std::size_t bytes) = 0;  ///< zeroed, 64-byte aligned; throws std::bad_alloc
  virtual void release(void* memory) noexcept = 0;
  virtual void upload(void* to, const void* from_host, std::size_t bytes) = 0;
  virtual void download(void* to_host, const void* from, std::size_t bytes) = 0;
  virtual void copy(void* to, const void* from, std::size_t bytes) = 0;
  /// Memory of the host that upload() and download() reach without an intermediate copy; zeroed,
  /// 64-byte aligned. Throws std::bad_alloc.
  virtual void* allocate_host(std::size_t bytes);
  virtual void release_host(void* memory) noexcept;

  /// What all users of the backend have made it get so far. Does not wait.
  virtual MemoryUse memory_use() const { return {}; }

  virtual std::unique_ptr<Mark> make_mark();
  /// Whether all queued work, the caller's on this stream included, is done.
  virtual bool is_idle() { return true; }
  virtual void synchronize() = 0;  ///< waits for all queued work
  /// Whether calls are being recorded, to run later and repeatedly, in place of being queued. Marks
  /// and waits are not allowed then.
  virtual bool is_capturing() const { return false; }

  /// Name the work of the calls between them for profilers; see Range. Ranges nest.
  virtual void begin_range(const char* /*name*/) {}
  virtual void end_range() {}

  /// Gets all scratch memory that calls with these stacks, and of solvers, will ever need.
  virtual void reserve(std::span<const Stack> stacks, Type arithmetic,
                       const SolverCalls& calls) = 0;

  // The step.

  /// Looks at every gradient once: the norm of all, and whether every element is finite. A
  /// non-finite one refuses the step if `refuses`.
  virtual void scan(const TileTable& gradients, const double* gradient_scale, bool refuses,
                    ScanResult* verdict) = 0;

  /// Counts the step in *runs. Refuses it where its ticket was the last one, too, unless it is
  /// permitted, and unless `offers` has all the bits that it needs; first_bad is unfit_step then.
  virtual void admit(const StepPermit* admission, std::int32_t offers, ReplayCounter* runs,
                     ScanResult* verdict) = 0;

  /// gathered <- all records, back to back; *proceed <- 0 unless they agree.
  virtual void compare(const RecordArray& records, void* gathered, std::int32_t* proceed) = 0;

  /// masters <- values, for blocks that have one.
  virtual void read_values(const TileTable& elements, void* masters) = 0;

  /// L_k <- keep L_k + add C_k, with C_k = G contracted with itself over all dimensions but k;
  /// lower triangles only. G is the scaled gradient plus l2 times the value (`masters`: see
  /// Filter). `selected` lists the blocks whose mode is not `absent`, as the modes say too.
  virtual void accumulate_factors(const PassContext& phase, std::span<const Stack> stacks,
                                  std::span<const Selection> selected, const void* masters) = 0;

  /// V, M and F of Shampoo's step, in one pass over the gradients.
  virtual void filter(const PassContext& phase, const Filter& filter) = 0;

  /// direction <- direction contracted with the root of every dimension, in place; then the squared
  /// norms of the selected blocks: those whose mode is `preconditioned` or `grafted`, as the modes
  /// say too.
  virtual void precondition(const PassContext& phase, std::span<const Stack> stacks,
                            std::span<const Selection> selected, void* direction,
                            double* direction_norms) = 0;

  /// Scaling to the grafted norm, decay, momentum, step length; written into the segment.
  virtual void update(const PassContext& phase, const Update& update) = 0;

  /// Adds or assigns received segments to the values. `tiles[].flat` counts elements of the
  /// block's own part of the segment.
  virtual void apply(const TileTable& elements, const Mode* modes, const void* segments,
                     const std::int32_t* proceed) = 0;

  // Solvers. `active` holds one flag per matrix, null for all; others are left untouched.

  /// A <- factor, full and symmetric, scaled and shifted.
  virtual void load(std::span<const FactorBatch> factors, const Loading& loading,
                    std::span<const SquareMatrixBatch> a) = 0;

  /// A <- its eigenvectors, row j of memory is the one of value j; values ascending.
  /// `failed` gets, per matrix, 0, the library's code, or non_finite_root for an A that is not
  /// finite; what A then holds is not specified.
  virtual void eigh(std::span<const SquareMatrixBatch> a, Eigensolver solver,
                    std::int32_t* failed) = 0;

  /// values <- eigenvalues of the root.
  virtual void root_spectrum(std::span<const SquareMatrixBatch> a, const Spectrum& spectrum) = 0;

  /// X <- sum over j of values_j q_j q_j^T for the eigenvectors and values (>= 0) that `q` holds;
  /// q's matrices are overwritten.
  virtual void assemble(std::span<const SquareMatrixBatch> q,
                        std::span<const SquareMatrixBatch> x) = 0;

  /// The roots of `pairs` <- X, symmetric, where X is finite and its flag in `failed` is 0; where X
  /// is not finite the flag becomes non_finite_root.
  virtual void store(std::span<const SquareMatrixBatch> x, std::span<const FactorBatch> roots,
                     std::int32_t* failed) = 0;

  /// C <- A B.
  virtual void multiply(std::span<const SquareMatrixBatch> a, std::span<const SquareMatrixBatch> b,
                        std::span<const SquareMatrixBatch> c, const std::uint8_t* active) = 0;

  /// Y <- scale X + shift I, with one scale and shift per matrix; X and Y may be the same.
  virtual void combine(const double* scales, std::span<const SquareMatrixBatch> x,
                       const double* shifts, std::span<const SquareMatrixBatch> y,
                       const std::uint8_t* active) = 0;

  /// One number per matrix.
  virtual void measure(std::span<const SquareMatrixBatch> a, Measure what, double* numbers,
                       const std::uint8_t* active) = 0;

  // Solvers without host steps: every number stays in the backend's memory. Matrices are dense and
  // symmetric bit for bit, and stay so.

  /// A <- A / scale, exactly but for what underflows: scale is the power of two for which the
  /// largest |a_ij| of A / scale lies in [1/2, 1); 1 for a matrix of zeros or one that is not
  /// finite. `scales` gets one number per matrix.
  virtual void normalize(std::span<const SquareMatrixBatch> a, double* scales) = 0;

  /// A <- M, `squared` <- N; see Damping. `squared` holds A A on entry.
  virtual void damp(std::span<const SquareMatrixBatch> a,
                    std::span<const SquareMatrixBatch> squared, const Damping& damping) = 0;

  /// C <- weights.product A B + weights.first A + weights.identity I for A and B that commute: both
  /// are polynomials of one matrix, or the same. C is no operand. C is symmetric bit for bit: of
  /// the elements of A B at (i, j) and (j, i), one stands for both, or their mean.
  virtual void multiply_symmetric(std::span<const SquareMatrixBatch> a,
                                  std::span<const SquareMatrixBatch> b, const Weights& weights,
                                  Precision precision, std::span<const SquareMatrixBatch> c) = 0;

  /// failed <- 0 where max over elements of |M - I| <= limit, otherwise (NaN too) non_finite_root;
  /// refused_root for all if *proceed ([backend]; null: 1) is 0, and for those that are not active.
  /// One flag per matrix.
  virtual void check_identity(std::span<const SquareMatrixBatch> m, double limit,
                              const std::int32_t* proceed, const std::uint8_t* active,
                              std::int32_t* failed) = 0;

  /// X <- scales^exponent X, with one scale (> 0) per matrix; the power is computed in double and
  /// rounded once.
  virtual void rescale(std::span<const SquareMatrixBatch> x, const double* scales,
                       double exponent) = 0;

  /// Writes a new identity into roots: the state before the first refresh.
  virtual void identity_roots(std::span<const FactorBatch> roots) = 0;
};

inline constexpr std::int32_t non_finite_root = 1 << 30;
inline constexpr std::int32_t refused_root = 1 << 29;

}  // namespace kernels

using kernels::Backend;

}  // namespace shampoo
