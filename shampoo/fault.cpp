// SPDX-License-Identifier: Apache-2.0
#include "shampoo/fault.h"

#include <stdexcept>

#include "distributor/error.h"
#include "kernels/error.h"

namespace shampoo {

Fault caught() {
  using enum Fault::Kind;
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
  } catch (const std::exception& error) {
    return {other, error.what()};
  } catch (...) {
    return {other, "something that is no std::exception was thrown"};
  }
}

void raise(const Fault& fault) {
  switch (fault.kind) {
    case Fault::Kind::argument:
      throw std::invalid_argument(fault.message);
    case Fault::Kind::logic:
      throw std::logic_error(fault.message);
    case Fault::Kind::numerical:
      throw NumericalError(fault.message);
    case Fault::Kind::communication:
      throw CommunicationError(fault.message);
    case Fault::Kind::device:
      throw DeviceError(fault.message);
    case Fault::Kind::other:
      break;
  }
  throw std::runtime_error(fault.message);
}

}  // namespace shampoo
