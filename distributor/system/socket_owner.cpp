// SPDX-License-Identifier: Apache-2.0
#include "distributor/system/socket_owner.h"

#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstring>

#include "distributor/system/network_address.h"
#include "distributor/system/unique_fd.h"

namespace shampoo {

namespace {

struct Question {
  nlmsghdr header{};
  inet_diag_req_v2 request{};
};

struct Answer {
  nlmsghdr header{};
  inet_diag_msg socket{};
  char attributes[512];
};

void copy_end(const NetworkAddress& address, __be16& port, __be32* host) {
  if (address.family() == AF_INET6) {
    const auto& six = reinterpret_cast<const sockaddr_in6&>(address.bytes);
    port = six.sin6_port;
    std::memcpy(host, &six.sin6_addr, sizeof six.sin6_addr);
  } else {
    const auto& four = reinterpret_cast<const sockaddr_in&>(address.bytes);
    port = four.sin_port;
    std::memcpy(host, &four.sin_addr, sizeof four.sin_addr);
  }
}

/// What the kernel is asked about the socket from `client` to `server`.
Question question_about(const NetworkAddress& client, const NetworkAddress& server) {
  Question question;
  question.header.nlmsg_len = sizeof question;
  question.header.nlmsg_type = SOCK_DIAG_BY_FAMILY;
  question.header.nlmsg_flags = NLM_F_REQUEST;
  question.request.sdiag_family = static_cast<__u8>(client.family());
  question.request.sdiag_protocol = IPPROTO_TCP;
  question.request.idiag_states = ~0U;
  inet_diag_sockid& id = question.request.id;
  copy_end(client, id.idiag_sport, id.idiag_src);
  copy_end(server, id.idiag_dport, id.idiag_dst);
  id.idiag_cookie[0] = id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  return question;
}

}  // namespace

bool is_peer_same_user(int socket) {
  const NetworkAddress client = peer_address(socket), server = local_address(socket);
  if (client.size == 0 || client.family() != server.family()) return false;
  const UniqueFd kernel(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG));
  if (!kernel) return false;
  constexpr timeval longest{1, 0};
  ::setsockopt(kernel.get(), SOL_SOCKET, SO_RCVTIMEO, &longest, sizeof longest);
  const Question question = question_about(client, server);
  if (::send(kernel.get(), &question, sizeof question, 0) != sizeof question) return false;
  Answer answer;
  const ssize_t size = ::recv(kernel.get(), &answer, sizeof answer, 0);
  if (size < static_cast<ssize_t>(sizeof answer.header + sizeof answer.socket) ||
      answer.header.nlmsg_type != SOCK_DIAG_BY_FAMILY)
    return false;
  // A socket that its process has closed has no inode, and counts as root's.
  return answer.socket.idiag_inode != 0 && answer.socket.idiag_uid == ::geteuid();
}

}  // namespace shampoo
