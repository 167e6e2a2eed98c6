/* What client and server share: frames that leave in pieces, frames that come in pieces, time. */
#ifndef WIRE_H
#define WIRE_H

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#define HEAD 12 /* size, API key, version, correlation ID of a request; size and correlation ID of a response: 8 */
#define CHUNK (1 << 20)

/* A frame that is sent again and again, with another correlation ID each time. */
struct frame {
    char *bytes;
    size_t size;
    size_t correlation; /* where its correlation ID is: 8 in a request, 4 in a response */
};

/* One that is on its way out. */
struct outgoing {
    const struct frame *frame;
    char head[HEAD];
    size_t sent;
};

static void die(const char *what) {
    perror(what);
    exit(1);
}

static inline uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + t.tv_nsec;
}

static struct frame read_frame(const char *path, size_t correlation) {
    FILE *file = fopen(path, "rb");
    if (!file) die(path);
    fseek(file, 0, SEEK_END);
    struct frame frame = {.size = ftell(file), .correlation = correlation};
    rewind(file);
    frame.bytes = malloc(frame.size);
    if (frame.size < HEAD || fread(frame.bytes, 1, frame.size, file) != frame.size) die(path);
    fclose(file);
    return frame;
}

static void begin(struct outgoing *out, const struct frame *frame, uint32_t correlation_id) {
    uint32_t big_endian = htonl(correlation_id);
    out->frame = frame;
    out->sent = 0;
    memcpy(out->head, frame->bytes, HEAD);
    memcpy(out->head + frame->correlation, &big_endian, 4);
}

/* Send on as much as goes; return 1 if that was all, 0 if the socket is full, -1 if the other side is gone. */
static int flush(int fd, struct outgoing *out) {
    const struct frame *frame = out->frame;
    while (out->sent < frame->size) {
        struct iovec pieces[2];
        int count = 0;
        if (out->sent < HEAD) pieces[count++] = (struct iovec){out->head + out->sent, HEAD - out->sent};
        size_t from = out->sent < HEAD ? HEAD : out->sent;
        pieces[count++] = (struct iovec){frame->bytes + from, frame->size - from};
        ssize_t sent = writev(fd, pieces, count);
        if (sent < 0) return errno == EAGAIN ? 0 : -1;
        out->sent += sent;
    }
    return 1;
}

static void set_up(int fd) {
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    fcntl(fd, F_SETFL, O_NONBLOCK);
}

static struct sockaddr_in loopback(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

static void end_with_parent(void) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGPIPE, SIG_IGN);
}

#endif
