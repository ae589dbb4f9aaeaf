// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace shampoo {

/// True if the other end of a TCP connection is an open socket of this host that a process of this
/// one's user has made, as the kernel knows it. False also where it does not tell.
bool is_peer_same_user(int socket);

}  // namespace shampoo
