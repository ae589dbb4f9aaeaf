// SPDX-License-Identifier: Apache-2.0
#include "shampoo/c/c_handles.h"

#include <cmath>
#include <new>
#include <stdexcept>
#include <string_view>
#include <system_error>

namespace shampoo::c {

namespace {

thread_local std::string last_error;
thread_local const char* last_error_text = "";

shampoo_status fail(shampoo_status status, const char* text) noexcept {
  try {
    last_error = text;
    last_error_text = last_error.c_str();
  } catch (...) {
    last_error_text = "out of memory";
  }
  return status;
}

}  // namespace

shampoo_status status_of_exception() noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return fail(SHAMPOO_OUT_OF_MEMORY, "out of memory");
  } catch (const DeviceError& error) {
    return fail(SHAMPOO_DEVICE_ERROR, error.what());
  } catch (const CommunicationError& error) {
    return fail(SHAMPOO_COMMUNICATION_ERROR, error.what());
  } catch (const NumericalError& error) {
    return fail(SHAMPOO_NUMERICAL_ERROR, error.what());
  } catch (const CheckpointError& error) {
    return fail(SHAMPOO_CHECKPOINT_ERROR, error.what());
  } catch (const std::system_error& error) {
    return fail(SHAMPOO_SYSTEM_ERROR, error.what());
  } catch (const std::invalid_argument& error) {
    return fail(SHAMPOO_INVALID_ARGUMENT, error.what());
  } catch (const std::out_of_range& error) {
    return fail(SHAMPOO_INVALID_ARGUMENT, error.what());
  } catch (const std::logic_error& error) {
    return fail(SHAMPOO_LOGIC_ERROR, error.what());
  } catch (const std::exception& error) {
    return fail(SHAMPOO_ERROR, error.what());
  } catch (...) {
    return fail(SHAMPOO_ERROR, "an exception of no known type");
  }
}

void require(const void* argument, const char* name) {
  if (!argument) throw std::invalid_argument(std::string(name) + ": must not be NULL");
}

Type type_of(shampoo_type type, const std::string& name) {
  static_assert(static_cast<int>(Type::float16) == SHAMPOO_FLOAT16);
  const int number = static_cast<int>(type);
  if (number < SHAMPOO_FLOAT64 || number > SHAMPOO_FLOAT16)
    throw std::invalid_argument(name +
                                ": must be SHAMPOO_FLOAT64, SHAMPOO_FLOAT32, SHAMPOO_BFLOAT16 or "
                                "SHAMPOO_FLOAT16, got " +
                                std::to_string(number));
  return static_cast<Type>(number);
}

std::vector<std::int64_t> shape_of(int sides, const std::int64_t* shape) {
  if (sides < 0) throw std::invalid_argument("sides: must be >= 0, got " + std::to_string(sides));
  if (sides > 0) require(shape, "shape");
  return {shape, shape + sides};
}

Tensor tensor_of(const shampoo_tensor& tensor, int sides, const std::string& name) {
  std::vector<std::int64_t> strides;
  if (tensor.strides) strides = shape_of(sides, tensor.strides);
  return {tensor.data, type_of(tensor.type, name + ".type"), std::move(strides)};
}

void set_rate(Rates& rates, const char* rate, double value) {
  require(rate, "rate");
  RateField(rate).set(rates, std::isnan(value) ? std::nullopt : std::optional(value));
}

}  // namespace shampoo::c

extern "C" const char* shampoo_last_error(void) { return shampoo::c::last_error_text; }
