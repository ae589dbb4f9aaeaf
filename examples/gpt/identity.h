// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "examples/gpt/training.h"
#include "examples/identity.h"

namespace gpt {

examples::Identity identity(const Text& text, const Task& task, const Attempt& attempt);

}  // namespace gpt
