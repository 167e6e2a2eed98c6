/* Asks the same again and again, and measures: client PORT HELLO FILE CONNECTIONS WINDOW SECONDS IDLE RATE

   Each connection begins with the request in the file HELLO. Then each of CONNECTIONS has up to WINDOW requests in
   flight, each of them the frame in FILE with a correlation ID of its own. IDLE more connections ask once and stay open. RATE bounds requests a second over all connections, 0 for no
   bound. Answers have to come in order. The first fifth of a second is not counted; a line tells when it is over.
   Prints JSON: requests, seconds, bytes in both directions, latencies in microseconds, the first bytes of the last
   answer; then connections stay open until its standard input ends. One thread, epoll. */
#include "wire.h"

#define MOST_IN_FLIGHT 64
#define WARM_UP_NS 200000000u

struct connection {
    int fd, writing;
    size_t have;
    uint32_t asked, answered;
    char head[8];
    uint64_t skip;
    uint64_t began[MOST_IN_FLIGHT];
    struct outgoing out;
};

static struct frame hello, request;
static char buffer[CHUNK], last[256];
static size_t last_size;
static unsigned window;
static uint64_t begin_ns, requests, received, *latencies;
static size_t room;
static double rate, credit;

static void note(uint64_t latency) {
    if (requests == room) {
        room = room ? 2 * room : 1 << 20;
        latencies = realloc(latencies, room * sizeof *latencies);
    }
    latencies[requests++] = latency;
}

static void gone(void) {
    fprintf(stderr, "the connection was closed\n");
    exit(1);
}

/* Ask as long as the window is open. */
static void ask(struct connection *c) {
    for (;;) {
        if (c->writing) {
            int done = flush(c->fd, &c->out);
            if (done < 0) gone();
            if (!done) return;
            c->writing = 0;
        }
        if (c->asked - c->answered >= window || (rate && credit < 1)) return;
        if (rate) credit -= 1;
        c->began[c->asked % MOST_IN_FLIGHT] = now_ns();
        begin(&c->out, &request, c->asked++);
        c->writing = 1;
    }
}

static void take(struct connection *c, const char *data, size_t size) {
    while (size) {
        if (c->skip) {
            size_t step = size < c->skip ? size : c->skip;
            size_t keep = step < sizeof last - last_size ? step : sizeof last - last_size;
            memcpy(last + last_size, data, keep);
            last_size += keep, data += step, size -= step, c->skip -= step;
        } else {
            size_t step = 8 - c->have < size ? 8 - c->have : size;
            memcpy(c->head + c->have, data, step);
            c->have += step, data += step, size -= step;
            if (c->have < 8) return;
            uint32_t length, correlation_id;
            memcpy(&length, c->head, 4), memcpy(&correlation_id, c->head + 4, 4);
            if (ntohl(correlation_id) != c->answered || c->answered == c->asked) {
                fprintf(stderr, "an answer to %u came, %u is due\n", ntohl(correlation_id), c->answered);
                exit(1);
            }
            c->skip = ntohl(length) - 4, c->have = 0;
            memcpy(last, c->head, 8), last_size = 8;
        }
        if (!c->skip && !c->have) {
            uint64_t began = c->began[c->answered++ % MOST_IN_FLIGHT];
            if (began >= begin_ns) note(now_ns() - began);
        }
    }
}

/* Ask once and wait for the answer. */
static void ask_once(int fd, const struct frame *frame) {
    struct outgoing out;
    uint32_t length;
    begin(&out, frame, 0);
    if (flush(fd, &out) != 1 || recv(fd, &length, 4, MSG_WAITALL) != 4) gone();
    for (size_t left = ntohl(length); left;) {
        ssize_t got = recv(fd, buffer, left < sizeof buffer ? left : sizeof buffer, 0);
        if (got <= 0) gone();
        left -= got;
    }
}

static int dial(int port) {
    struct sockaddr_in address = loopback(port);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(fd, (void *)&address, sizeof address)) die("connect");
    ask_once(fd, &hello);
    return fd;
}

static int by_size(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static double share(double part) {
    return requests ? latencies[(size_t)(part * (requests - 1))] / 1e3 : 0;
}

int main(int count, char **arguments) {
    if (count != 9) return 2;
    end_with_parent();
    int port = atoi(arguments[1]), connections = atoi(arguments[4]), idle = atoi(arguments[7]);
    hello = read_frame(arguments[2], 8), request = read_frame(arguments[3], 8);
    window = atoi(arguments[5]);
    double seconds = atof(arguments[6]);
    rate = atof(arguments[8]);
    alarm(seconds + 60); /* a proxy that stalls */
    for (int i = 0; i < idle; i++) ask_once(dial(port), &request);
    int poll = epoll_create1(0);
    struct connection *all = calloc(connections, sizeof *all);
    for (int i = 0; i < connections; i++) {
        all[i].fd = dial(port);
        set_up(all[i].fd);
        struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = &all[i]};
        epoll_ctl(poll, EPOLL_CTL_ADD, all[i].fd, &event);
    }
    struct epoll_event events[256];
    uint64_t before = now_ns(), now = before;
    begin_ns = before + WARM_UP_NS;
    uint64_t end_ns = begin_ns + (uint64_t)(seconds * 1e9);
    for (int counting = 0; now < end_ns;) {
        if (!counting && now >= begin_ns) {
            puts("counting");
            fflush(stdout);
            counting = 1;
        }
        int ready = epoll_wait(poll, events, 256, rate ? 1 : 1000);
        now = now_ns();
        if (rate) {
            credit += rate * (now - before) / 1e9, before = now;
            if (credit > rate / 100 + 1) credit = rate / 100 + 1; /* what could not be asked in time is not made up for */
        }
        for (int i = 0; i < ready; i++) {
            struct connection *c = events[i].data.ptr;
            for (;;) {
                ssize_t got = recv(c->fd, buffer, sizeof buffer, 0);
                if (got < 0 && errno == EAGAIN) break;
                if (got <= 0) gone();
                if (now >= begin_ns) received += got;
                take(c, buffer, got);
            }
            ask(c);
        }
        for (int i = 0; rate && i < connections && credit >= 1; i++) ask(&all[i]);
    }
    double took = (now - begin_ns) / 1e9;
    qsort(latencies, requests, sizeof *latencies, by_size);
    printf("{\"requests\": %lu, \"seconds\": %.6f, \"sent\": %lu, \"received\": %lu, ", requests, took,
           requests * request.size, received);
    printf("\"p50\": %.1f, \"p99\": %.1f, \"p999\": %.1f, \"last\": \"", share(.5), share(.99), share(.999));
    for (size_t i = 0; i < last_size; i++) printf("%02x", last[i] & 255);
    printf("\"}\n");
    fflush(stdout);
    getchar();
    _exit(0);
}
