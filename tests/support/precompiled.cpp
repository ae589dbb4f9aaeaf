// SPDX-License-Identifier: Apache-2.0
// Compiled for the header that comes with it.
