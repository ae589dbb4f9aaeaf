// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "distributor/caller.h"
#include "distributor/communicator.h"
#include "distributor/join/error_report.h"
#include "distributor/join/join.h"
#include "distributor/threads.h"
#include "kernels/cpu_backend.h"
#include "kernels/cuda_backend.h"
#include "kernels/error.h"
#include "shampoo/checkpoint.h"
#include "shampoo/optimizer.h"
#include "shampoo/recipes.h"
#include "shampoo/saver.h"
