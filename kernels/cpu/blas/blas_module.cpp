// SPDX-License-Identifier: Apache-2.0
// The module has no code of its own: it is what it is linked with.
static_assert(true);
