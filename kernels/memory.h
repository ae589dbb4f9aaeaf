// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "kernels/backend.h"

namespace shampoo::kernels {

/// Memory that a backend uses in addition to what its callers allocate, in bytes.
struct MemoryUse {
  std::int64_t scratch = 0;  ///< scratch memory of kernels and of the libraries that they call
  std::int64_t host = 0;     ///< memory of allocate_host(), where uploads and downloads need it
  std::int64_t pool = 0;     ///< memory reserved by the backend's own pool, in use or not
};

/// A point in the queue of a backend, which must outlive it.
class Mark {
 public:
  virtual ~Mark() = default;
  /// Moves the mark behind all work that has been queued so far.
  virtual void set() = 0;
  /// Waits until the work before the last set() is done; not at all if it was never set.
  virtual void wait() = 0;
};

/// When points of the queue of a backend were reached, which must outlive it. Works in captures: a
/// replay reaches their points again.
class Timeline {
 public:
  virtual ~Timeline() = default;
  /// Moves the point behind all work that has been queued so far. Does not wait, nor allocate.
  virtual void mark(std::size_t point) = 0;
  /// From the last time that one point was reached to that of the other, negative where that was
  /// before; empty where one has not been reached. Does not wait: the caller has.
  virtual std::optional<double> seconds(std::size_t from, std::size_t to) = 0;
};

/// Arrays of a backend and the queue of its work. Functions do not wait unless they say so.
class Memory : public shampoo::Backend {
 public:
  /// True if the work of a call is done when it returns. Otherwise the host memory of upload() and
  /// download() must stay unchanged until a Mark that was set after the call has been waited for.
  virtual bool is_immediate() const { return true; }

  /// Returns released memory, which a device's pool keeps for later allocations, to the system.
  /// Waits there.
  virtual void trim() {}

  /// Host memory that upload() and download() reach without an intermediate copy; zeroed, 64-byte
  /// aligned. Throws std::bad_alloc.
  virtual void* allocate_host(std::size_t bytes);
  /// Frees memory of allocate_host(). Null has no effect.
  virtual void release_host(void* memory) noexcept;
  /// Current use by all users of the backend.
  virtual MemoryUse memory_use() const { return {}; }

  /// Makes a mark that has not been set. The backend must outlive it.
  virtual std::unique_ptr<Mark> make_mark();
  /// Makes a timeline with so many points, none of which has been reached.
  virtual std::unique_ptr<Timeline> make_timeline(std::size_t points);
  /// True if all queued work, including the caller's on this stream, is done.
  virtual bool is_idle() { return true; }
  /// True while calls are recorded for replay instead of queued. Marks and waits are not
  /// allowed meanwhile.
  virtual bool is_capturing() const { return false; }

  /// Name the work of the calls between them for profilers; see Range. Ranges nest.
  virtual void begin_range(const char* /*name*/) {}
  virtual void end_range() {}
};

}  // namespace shampoo::kernels
