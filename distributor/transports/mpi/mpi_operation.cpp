// SPDX-License-Identifier: Apache-2.0
#include "distributor/transports/mpi/mpi_operation.h"

#include <array>
#include <numeric>
#include <string>

#include "distributor/communicator.h"

namespace shampoo {

void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(code, text.data(), &length);
  throw CommunicationError(std::string(call) + ": " + text.data());
}

MpiOperation::MpiOperation(int rank, int size, std::int64_t max_count)
    : max_count_(max_count), rank_(rank), size_(size) {
  const auto ranks = static_cast<std::size_t>(size_);
  for (Side* side : {&send_, &receive_}) {
    side->counts.resize(ranks);
    side->offsets.resize(ranks);
    side->types.resize(ranks, MPI_BYTE);
  }
}

void MpiOperation::all_gather(void* data, Counts counts) {
  place_all(counts, receive_);
  if (datatypes_.empty()) {
    check_mpi(MPI_Iallgatherv(MPI_IN_PLACE, 0, MPI_DATATYPE_NULL, data, receive_.counts.data(),
                              receive_.offsets.data(), MPI_BYTE, comm_, &request_),
              "MPI_Iallgatherv");
    return;
  }
  // All ranks know all counts, so all take this branch. Open MPI treats equal send and receive
  // addresses as MPI_IN_PLACE, which is a different exchange here; so the address of this rank's
  // part is in the datatype.
  MPI_Aint own = 0;
  check_mpi(MPI_Get_address(data, &own), "MPI_Get_address");
  own += std::accumulate(counts.begin(), counts.begin() + rank_, std::int64_t{0});
  const MPI_Datatype part = counts[rank_] > 0 ? datatype(own, counts[rank_]) : MPI_BYTE;
  for (int r = 0; r < size_; ++r) {
    send_.counts[r] = r != rank_ && counts[rank_] > 0;
    send_.offsets[r] = 0;
    send_.types[r] = part;
  }
  place(0, 0, receive_, rank_);
  exchange(MPI_BOTTOM, data);
}

void MpiOperation::all_to_all(const void* send, Counts send_counts, void* receive,
                              Counts receive_counts) {
  // A rank does not know whether others exceed int, and all must make the same call.
  place_all(send_counts, send_);
  place_all(receive_counts, receive_);
  exchange(send, receive);
}

void MpiOperation::broadcast(void* data, std::int64_t bytes, int root) {
  place(0, bytes, receive_, 0);
  check_mpi(MPI_Ibcast(data, receive_.counts[0], receive_.types[0], root, comm_, &request_),
            "MPI_Ibcast");
}

void MpiOperation::barrier() { check_mpi(MPI_Ibarrier(comm_, &request_), "MPI_Ibarrier"); }

bool MpiOperation::test() {
  int completed = 0;
  check_mpi(MPI_Test(&request_, &completed, MPI_STATUS_IGNORE), "MPI_Test");
  if (completed && !datatypes_.empty()) free_types();
  return completed;
}

void MpiOperation::place_all(Counts bytes, Side& side) {
  std::int64_t offset = 0;
  for (int r = 0; r < size_; offset += bytes[r++]) place(offset, bytes[r], side, r);
}

void MpiOperation::place(std::int64_t offset, std::int64_t bytes, Side& side, int rank) {
  const bool fits = offset + bytes <= max_count_ || bytes == 0;
  side.counts[rank] = fits ? static_cast<int>(bytes) : 1;
  side.offsets[rank] = fits && bytes > 0 ? static_cast<int>(offset) : 0;
  side.types[rank] = fits ? MPI_BYTE : datatype(offset, bytes);
}

/// `bytes` from `offset` on: whole chunks of max_count_, and the rest.
MPI_Datatype MpiOperation::datatype(std::int64_t offset, std::int64_t bytes) {
  const std::int64_t whole = bytes / max_count_;
  MPI_Datatype chunk = MPI_DATATYPE_NULL, all = MPI_DATATYPE_NULL;
  check_mpi(MPI_Type_contiguous(static_cast<int>(max_count_), MPI_BYTE, &chunk),
            "MPI_Type_contiguous");
  datatypes_.push_back(chunk);
  const std::array<int, 2> lengths{static_cast<int>(whole), static_cast<int>(bytes % max_count_)};
  const std::array<MPI_Aint, 2> offsets{offset, offset + whole * max_count_};
  const std::array<MPI_Datatype, 2> types{chunk, MPI_BYTE};
  check_mpi(MPI_Type_create_struct(2, lengths.data(), offsets.data(), types.data(), &all),
            "MPI_Type_create_struct");
  datatypes_.push_back(all);
  check_mpi(MPI_Type_commit(&datatypes_.back()), "MPI_Type_commit");
  return all;
}

void MpiOperation::exchange(const void* send, void* receive) {
  check_mpi(MPI_Ialltoallw(send, send_.counts.data(), send_.offsets.data(), send_.types.data(),
                           receive, receive_.counts.data(), receive_.offsets.data(),
                           receive_.types.data(), comm_, &request_),
            "MPI_Ialltoallw");
}

void MpiOperation::free_types() noexcept {
  for (MPI_Datatype& type : datatypes_) MPI_Type_free(&type);
  datatypes_.clear();
}

}  // namespace shampoo
