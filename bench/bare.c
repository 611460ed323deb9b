/* A loop of send(2) and one of recv(2) with nothing around them: the most that a call a message moves on one connection.
 *
 *   bare PORT                         receives from the first that connects, 128 KiB a call
 *   bare PORT ADDRESS BYTES SECONDS   sends messages of so many bytes for so many seconds, and is ended by SIGALRM
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static char buffer[1 << 20];

int main(int count, char **words) {
  if (count != 2 && count != 5) {
    fputs("bare PORT [ADDRESS BYTES SECONDS]\n", stderr);
    return 2;
  }
  const int yes = 1, one = socket(AF_INET, SOCK_STREAM, 0);
  struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(words[1]))};
  if (count == 2) {
    setsockopt(one, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    if (bind(one, (void *)&at, sizeof at) || listen(one, 1)) return perror("bare"), 1;
    const int from = accept(one, NULL, NULL);
    while (recv(from, buffer, 128 << 10, 0) > 0);
    return 0;
  }
  const size_t bytes = strtoul(words[3], NULL, 10);
  if (bytes > sizeof buffer || !inet_aton(words[2], &at.sin_addr) || connect(one, (void *)&at, sizeof at))
    return perror("bare"), 1;
  alarm(atoi(words[4]));
  while (send(one, buffer, bytes, MSG_NOSIGNAL) > 0);
  return 0;
}
