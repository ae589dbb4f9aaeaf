// SPDX-License-Identifier: Apache-2.0
#include "shampoo/protocol/transferable_error.h"

#include <cstdlib>
#include <stdexcept>
#include <system_error>

#include "distributor/communicator.h"
#include "distributor/system/system_error.h"
#include "kernels/backend.h"
#include "shampoo/checkpoint_directory.h"
#include "shampoo/step_result.h"

namespace shampoo {

TransferableError current_error() {
  using enum TransferableError::Kind;
  try {
    throw;
  } catch (const std::invalid_argument& error) {
    return {argument, error.what()};
  } catch (const std::logic_error& error) {
    return {logic, error.what()};
  } catch (const NumericalError& error) {
    return {numerical, error.what()};
  } catch (const CommunicationError& error) {
    return {communication, error.what()};
  } catch (const DeviceError& error) {
    return {device, error.what()};
  } catch (const CheckpointError& error) {
    return {checkpoint, error.what()};
  } catch (const std::system_error& error) {
    return {system, error.what(), error.code().value()};
  } catch (const std::exception& error) {
    return {other, error.what()};
  } catch (...) {
    return {other, "something that is no std::exception was thrown"};
  }
}

void rethrow(const TransferableError& error) {
  switch (error.kind) {
    case TransferableError::Kind::argument:
      throw std::invalid_argument(error.message);
    case TransferableError::Kind::logic:
      throw std::logic_error(error.message);
    case TransferableError::Kind::numerical:
      throw NumericalError(error.message);
    case TransferableError::Kind::communication:
      throw CommunicationError(error.message);
    case TransferableError::Kind::device:
      throw DeviceError(error.message);
    case TransferableError::Kind::checkpoint:
      throw CheckpointError(error.message);
    case TransferableError::Kind::system:
      throw system_error({error.code, std::generic_category()}, error.message);
    case TransferableError::Kind::other:
      break;
  }
  throw std::runtime_error(error.message);
}

}  // namespace shampoo
